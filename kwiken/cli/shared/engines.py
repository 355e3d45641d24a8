"""Engines: where the independent jobs of a large computation run, as `--engine` names them.

A job is a module-level function with plain arguments, so its result does not depend on where it runs. Results
come in the order of the jobs.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

import click

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.extras import needs

Job = tuple[Callable[..., Any], tuple[Any, ...]]
F = TypeVar("F", bound=Callable[..., Any])

LOCAL: Final = "local"
DASK: Final = "dask://"
MAX_JOBS: Final = 64  # processes of this machine at once
ANSWER_S: Final = 10.0  # within which a scheduler must answer
RETRIES: Final = 3  # of one job, whose worker died while it ran
SAME: Final = ("kwiken", "numpy", "scipy")  # must be of one version everywhere for results to the last digit


def engine_options(command: F) -> F:
    """Options `--engine` and `--jobs`, for a verb that calls `spread`."""
    command = click.option(
        "--engine",
        metavar="ENGINE",
        default=LOCAL,
        show_default=True,
        help="Where jobs run: local, in processes of this machine, or dask://HOST:PORT, on the workers "
        "of a Dask scheduler, which need this kwiken.",
    )(command)
    return click.option(
        "--jobs",
        type=click.IntRange(1, MAX_JOBS),
        help="Processes of this machine at once; one a core by default.",
    )(command)


def spread(
    jobs: Sequence[Job], engine: str, processes: int | None, done: Callable[[], object]
) -> Generator[Any]:
    """Run jobs on an engine, and yield their results in the order of the jobs.

    Args:
        engine: where the jobs run, `local` or `dask://HOST:PORT`.
        processes: number of processes of the local engine; None for one a core.
        done: is called after each job.

    Raises:
        InputError: the engine does not exist, or does not answer; or its workers lack this version.
        KwikenError: a job's worker died more often than jobs are tried.
    """
    if engine == LOCAL:
        results = _on_this_machine(jobs, processes)
    elif engine.startswith(DASK) and engine != DASK:
        if processes is not None:
            raise InputError(
                "says how many processes of this machine run; a Dask cluster has its own", where="--jobs"
            )
        results = _on_dask(jobs, engine)
    else:
        raise InputError(f"must be {LOCAL} or {DASK}HOST:PORT, not {engine[:80]!r}", where="--engine")
    with contextlib.closing(results):
        for result in results:
            done()
            yield result


def _on_this_machine(jobs: Sequence[Job], processes: int | None) -> Generator[Any]:
    """Run jobs in worker processes; no worker outlives the call."""
    import multiprocessing

    from joblib import Parallel, cpu_count, delayed

    parallel = Parallel(n_jobs=processes or cpu_count(), return_as="generator")
    try:
        yield from parallel(delayed(function)(*arguments) for function, arguments in jobs)
    except BaseException as error:
        for worker in multiprocessing.active_children():
            if worker.pid is not None:  # a worker that is being started has none yet
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
        # An interrupt while the pool starts makes its clean-up fail, and that error would hide the interrupt.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def _on_dask(jobs: Sequence[Job], engine: str) -> Generator[Any]:
    """Run jobs on the workers of a Dask scheduler; a job whose worker dies runs again on another."""
    with needs(f"--engine {engine}", "batch"):
        from distributed import Client, KilledWorker

    address = f"tcp://{engine.removeprefix(DASK)}"
    try:
        client = Client(address, timeout=ANSWER_S, set_as_default=False, name="kwiken")
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: {error}", where="--engine") from error
    with client:
        _check_workers(client)
        futures = [
            client.submit(function, *arguments, pure=False, retries=RETRIES) for function, arguments in jobs
        ]
        try:
            for future in futures:
                yield future.result()
        except KilledWorker as error:
            raise KwikenError(f"--engine: the workers of a job died: {error}") from error
        finally:
            client.cancel(futures)


def _check_workers(client: Any) -> None:
    """Refuse a cluster that has no worker, or one whose worker computes by other versions."""
    try:
        found = client.run(versions)
    except ModuleNotFoundError as error:
        raise InputError(f"a worker of the Dask cluster has no {error.name}", where="--engine") from error
    if not found:
        raise InputError("the Dask cluster has no workers", where="--engine")
    ours = versions()
    for worker, theirs in found.items():
        for name, version in ours.items():
            if theirs[name] != version:
                raise InputError(
                    f"worker {worker} has {name} {theirs[name]}, and here is {version}; results could differ",
                    where="--engine",
                )


def versions() -> dict[str, str]:
    """Versions of what computes, by name."""
    from importlib.metadata import version

    return {name: version(name) for name in SAME}
