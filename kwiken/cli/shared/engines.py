"""Engines: where the independent jobs of a large computation run, as `--engine` names them.

A job is a module-level function with plain arguments, so its result does not depend on where it runs. Results
come in the order of the jobs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.extras import needs
from kwiken.base.jobs import Job, Spread, one_by_one

if TYPE_CHECKING:
    from distributed import Client, Future

F = TypeVar("F", bound=Callable[..., Any])

LOCAL: Final = "local"
DASK: Final = "dask://"
MAX_JOBS: Final = 64  # processes of this machine at once
ANSWER_S: Final = 10.0  # within which a scheduler must answer
RETRIES: Final = 3  # of one job, whose worker died while it ran
NO_WORKER_S: Final = 30.0  # after the last worker is gone until the jobs end with an error
POLL_S: Final = 1.0  # between two looks at the workers
SAME: Final = ("kwiken", "numpy", "scipy")  # must be of one version everywhere for results to the last digit
_SMALL: Final = (bool, int, float, str, bytes, type(None))  # arguments that each job carries with it


def engine_options(*, processes: str = "one a core") -> Callable[[F], F]:
    """Options `--engine` and `--jobs`, for a verb that calls `spread` or `engine_at`.

    Args:
        processes: number of processes by default, in words.
    """

    def decorate(command: F) -> F:
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
            help=f"Processes of this machine at once; {processes} by default.",
        )(command)

    return decorate


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
    if engine == LOCAL and processes is None:
        from joblib import cpu_count

        processes = cpu_count()
    with engine_at(engine, processes) as run:
        results = one_by_one(jobs) if run is None else run(jobs)
        for result in results:
            done()
            yield result


@contextlib.contextmanager
def engine_at(engine: str, processes: int | None) -> Iterator[Spread | None]:
    """Engine that is kept for several computations: what these share is sent to its workers once.

    Args:
        engine: as `spread` takes it.
        processes: number of processes of the local engine; None for none beside this one.

    Returns:
        Function that runs jobs; None where they are to run in this process, one by one.

    Raises:
        InputError, KwikenError: as `spread`.
    """
    if engine == LOCAL:
        yield None if processes in {None, 1} else lambda jobs: _on_this_machine(jobs, processes)
    elif engine.startswith(DASK) and engine != DASK:
        if processes is not None:
            raise InputError(
                "says how many processes of this machine run; a Dask cluster has its own", where="--jobs"
            )
        with _dask_client(engine) as client:
            yield DaskEngine(client).run
    else:
        raise InputError(f"must be {LOCAL} or {DASK}HOST:PORT, not {engine[:80]!r}", where="--engine")


def _on_this_machine(jobs: Sequence[Job], processes: int | None) -> Generator[Any]:
    """Run jobs in worker processes; no worker outlives a call that fails."""
    import multiprocessing

    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=processes, return_as="generator")
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


@contextlib.contextmanager
def _dask_client(engine: str) -> Iterator[Client]:
    """Client of a Dask scheduler whose workers compute as this process does."""
    with needs(f"--engine {engine}", "batch"):
        import dask
        from distributed import Client

    address = f"tcp://{engine.removeprefix(DASK)}"
    # A recorded service is large, and is sent once; Dask would warn of it.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"}):
        try:
            client = Client(address, timeout=ANSWER_S, set_as_default=False, name="kwiken")
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {address}: {error}", where="--engine") from error
        with client:
            _check_workers(client)
            yield client


class DaskEngine:
    """Jobs on the workers of a Dask scheduler; a job whose worker dies runs again on another.

    Arguments that several jobs have are sent once, as tasks of their own: where the worker dies that holds
    one, the scheduler still has the task.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sent: dict[int, tuple[object, Future]] = {}

    def run(self, jobs: Sequence[Job]) -> Generator[Any]:
        """Run jobs, and yield their results in the order of the jobs.

        Raises:
            KwikenError: a job's worker died more often than jobs are tried, or no worker is left.
        """
        from distributed import KilledWorker

        counts = Counter(id(each) for _, arguments in jobs for each in arguments)
        futures = deque(
            self._client.submit(
                function,
                *(self._argument(each, shared=counts[id(each)] > 1) for each in arguments),
                pure=False,
                retries=RETRIES,
            )
            for function, arguments in jobs
        )
        try:
            while futures:
                result = self._result(futures[0])
                futures.popleft()  # the workers need not keep what has arrived
                yield result
        except KilledWorker as error:
            raise KwikenError(f"--engine: the workers of a job died: {error}") from error
        finally:
            self._client.cancel(list(futures))

    def _result(self, future: Future) -> Any:
        """Result of a job, for as long as there are workers."""
        seen_s = time.monotonic()
        while not future.done():
            with contextlib.suppress(TimeoutError):
                return future.result(timeout=POLL_S)
            if self._client.nthreads():
                seen_s = time.monotonic()
            elif time.monotonic() - seen_s >= NO_WORKER_S:
                raise KwikenError(
                    f"--engine: no worker of the Dask cluster is left, for {NO_WORKER_S:g} s now"
                )
        return future.result()

    def _argument(self, value: object, *, shared: bool) -> object:
        """The argument itself, or what stands for it where it is sent once."""
        if isinstance(value, _SMALL) or not (shared or id(value) in self._sent):
            return value
        if id(value) not in self._sent:
            # The value is kept as well, since another one could get its number otherwise.
            self._sent[id(value)] = value, self._client.submit(_itself, value, pure=False, retries=RETRIES)
        return self._sent[id(value)][1]


def _itself(value: object) -> object:
    """Task of an argument that several jobs share."""
    return value


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
