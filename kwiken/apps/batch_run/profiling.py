"""One run of a job on one worker of a Dask of its own, recorded."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kwiken.apps.batch_run.dask_jobs import DaskJobs
from kwiken.apps.batch_run.recorder import Write, record
from kwiken.base.errors import InputError
from kwiken.base.extras import needs
from kwiken.base.printable import printable

HOST: Final = "127.0.0.1"
WORKER_S: Final = 60.0  # for the worker to come
MAX_FILES: Final = 1_000_000  # of a sample
MAX_DEPTH: Final = 32  # folders of a sample below the one that is named


async def profile_job(jobs: DaskJobs, name: str, sample: str | None, slots: int, write: Write) -> int:
    """Run a job once on one worker, and record its tasks; the number of tasks.

    Args:
        sample: path of the data to run it on, for the function of its data, or of the job where it has no
            data; None for functions that take none.
        slots: number of tasks that the worker runs at once, 1 or more.
        write: takes one line of the recording without its end.

    Raises:
        InputError: no such job, a sample that no function takes or that is not there, or a job that fails.
    """
    function = jobs.job(name)
    if function is None:
        raise InputError(f"no job of this name; known: {', '.join(sorted(jobs.jobs))}", where=printable(name))
    of_data = jobs.data_of(name)
    _check_sample(of_data or function, name, sample)
    read = None if sample is None else sample_bytes(sample)
    with needs("batch profile", "batch"):
        from distributed import Client, LocalCluster

    cluster = await LocalCluster(
        n_workers=1,
        threads_per_worker=slots,
        processes=True,
        host=HOST,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,  # of a task that fails; the error says why
        asynchronous=True,
    )
    try:
        client = await Client(cluster, asynchronous=True, timeout=WORKER_S)
        try:
            await client.wait_for_workers(1, timeout=WORKER_S)
            return await _recorded(client, function, of_data, name, sample, read, write)
        finally:
            await client.close()
    finally:
        await cluster.close()


async def _recorded(
    client: Any,
    function: Callable[..., Any],
    of_data: Callable[..., Any] | None,
    name: str,
    sample: str | None,
    read: int | None,
    write: Write,
) -> int:
    stop, began = asyncio.Event(), asyncio.Event()

    def take(line: str) -> None:
        write(line)
        if '"worker"' in line:
            began.set()

    recording = asyncio.create_task(
        record(client.scheduler.address.removeprefix("tcp://"), name, take, stop, input_bytes=read)
    )
    try:
        await asyncio.wait_for(began.wait(), WORKER_S)
        words = () if sample is None else (sample,)
        try:
            if of_data is None:
                collection = function(*words)
            else:
                data = client.persist(of_data(*words))
                collection = function(data)
            await _ended(client.compute(collection), name)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code
            told = printable(f"{type(error).__name__}: {error}")
            raise InputError(f"the job has failed: {told}", where=name) from error
    finally:
        stop.set()
        with contextlib.suppress(OSError, TimeoutError):
            await recording
    return recording.result()


async def _ended(futures: Any, name: str) -> None:
    """Wait for the results of a job, which stay on the worker; raises what a task has raised."""
    from distributed import futures_of, wait

    found = futures_of(futures)
    if not found:
        raise InputError("its function has returned no collection of Dask", where=name)
    await wait(found)
    for future in found:
        if future.status == "error":
            raise await future.exception()


def _check_sample(function: Callable[..., Any], name: str, sample: str | None) -> None:
    """Check that a function takes a path exactly where there is one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return  # a builtin: the call says what is wrong
    if sample is not None and not parameters:
        raise InputError("its function takes no path, so leave --sample out", where=name)
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if sample is None and any(one.default is one.empty and one.kind in positional for one in parameters):
        raise InputError("its function takes the path of its data; name one by --sample", where=name)


def sample_bytes(path: str) -> int:
    """Bytes of a file, or of all files of a folder.

    Raises:
        InputError: there is no such path, it holds nothing, too many files, or folders too deep.
    """
    start = Path(path)
    try:
        if not start.exists():
            raise InputError("no such file or folder", where=path)
        total = start.stat().st_size if start.is_file() else _folder_bytes(start, path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=path) from error
    if not total:
        raise InputError("holds no bytes", where=path)
    return total


def _folder_bytes(start: Path, path: str) -> int:
    total = files = 0
    folders = [(start, 0)]
    while folders:
        folder, depth = folders.pop()
        if depth > MAX_DEPTH:
            raise InputError(f"has folders more than {MAX_DEPTH} deep", where=path)
        for entry in folder.iterdir():
            if entry.is_symlink():
                continue
            if entry.is_dir():
                folders.append((entry, depth + 1))
            elif entry.is_file():
                total, files = total + entry.stat().st_size, files + 1
                if files > MAX_FILES:
                    raise InputError(f"holds more than {MAX_FILES} files", where=path)
    return total
