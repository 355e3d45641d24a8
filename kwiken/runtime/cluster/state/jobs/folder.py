"""Folder of batch jobs: `NAME.job`, `.claim`, `.result` and `.log` of each job, `queue.json`, `jobs.lock`.

A job survives a kill of any program at any moment by the order of the files. The order is complete as soon as
it has its name. The claim is made by a hard link, which only one process can make. The result comes before
the end of the process that claimed the job. So a job without a claim was never run, a job with a claim is
never run again, and a claim whose process is gone without a result says that the process was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import READABLE, open_own, own_folder, read_own, replace_own
from kwiken.runtime.cluster.state.jobs.documents import (
    NAME,
    JobClaim,
    JobOrder,
    JobResult,
    QueueView,
)

FOLDER: Final = "jobs"  # in the folder of the state
MAX_ORDER: Final = 4 << 20  # bytes
MAX_VIEW: Final = 64 << 20  # bytes
MAX_JOBS: Final = 10_000  # that wait or run
ORDER, CLAIM, RESULT, LOG, CANCEL = ".job", ".claim", ".result", ".log", ".cancel"
T = TypeVar("T")


class JobFolder:
    """Files of the jobs of one folder of state.

    Args:
        state: folder of the state; the folder of the jobs is made in it when something is written.
    """

    def __init__(self, state: Path) -> None:
        self.folder = state / FOLDER
        self.journal = self.folder / "journal.jsonl"
        self._view = self.folder / "queue.json"
        self._lock: IO[bytes] | None = None

    def path(self, job: str, suffix: str) -> Path:
        """Path of a file of a job."""
        return self.folder / f"{job}{suffix}"

    def log(self, job: str) -> Path:
        """Path of what the command writes."""
        return self.path(job, LOG)

    def lock(self) -> bool:
        """Hold the jobs for this process until it ends; returns whether no other process holds them.

        Raises:
            InputError: the folder cannot be used.
        """
        try:
            own_folder(self.folder)
            self._lock = os.fdopen(open_own(self.folder / "jobs.lock", os.O_RDWR | os.O_CREAT), "r+b")
        except OSError as error:
            raise InputError(f"cannot be used: {error.strerror}", where=str(self.folder)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            return False
        return True

    def unlock(self) -> None:
        """Let another process hold the jobs."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def submit(self, order: JobOrder) -> None:
        """Add an order; it is there as a whole or not at all.

        Raises:
            InputError: there are too many, or the folder cannot be used.
        """
        own_folder(self.folder)
        if sum(1 for _ in self.names()) >= MAX_JOBS:
            raise InputError(f"has {MAX_JOBS} jobs already; wait for some to end", where=str(self.folder))
        fresh = self.folder / f".{order.name}.new"
        replace_own(fresh, msgspec.json.encode(order))
        try:
            os.link(fresh, self.path(order.name, ORDER))
        except FileExistsError as error:
            raise InputError(f"job {order.name!r} is there already", where=str(self.folder)) from error
        finally:
            fresh.unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        """Names of the jobs that have not ended."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(ORDER)
                if name != entry.name and NAME.match(name):
                    yield name

    def order(self, job: str) -> JobOrder | None:
        """Order of a job; None if it is gone.

        Raises:
            InputError: the file is not an order; names the file.
        """
        path = self.path(job, ORDER)
        order = _read(path, JobOrder, MAX_ORDER)
        if order is not None:
            order.check(where=str(path))
            if order.name != job:
                raise InputError(f"name: must be {job!r} as the file's, not {order.name!r}", where=str(path))
        return order

    def claim(self, job: str) -> JobClaim | None:
        """Claim on a job; None if no process has claimed it."""
        return _read(self.path(job, CLAIM), JobClaim, MAX_ORDER)

    def result(self, job: str) -> JobResult | None:
        """Result of a job; None if there is none yet."""
        return _read(self.path(job, RESULT), JobResult, MAX_ORDER)

    def has_result(self, job: str) -> bool:
        """Whether a job has a result, even one that cannot be read."""
        return self.path(job, RESULT).exists()

    def ask_to_cancel(self, job: str) -> None:
        """Ask the program that runs the jobs to take one out of its line, or to end the job."""
        replace_own(self.path(job, CANCEL), b"")

    def cancel_is_asked(self, job: str) -> bool:
        """Whether somebody asked to cancel a job."""
        return self.path(job, CANCEL).exists()

    def forget(self, job: str) -> None:
        """Remove the files of a job whose end is in the journal; what it wrote stays."""
        for suffix in (ORDER, CANCEL, RESULT, CLAIM):  # the order first: without it nothing is run
            self.path(job, suffix).unlink(missing_ok=True)

    def show(self, view: QueueView) -> None:
        """Replace the queue as it is shown."""
        replace_own(self._view, msgspec.json.encode(view), READABLE)

    def view(self) -> QueueView | None:
        """The queue as last shown; None if there never was one."""
        return _read(self._view, QueueView, MAX_VIEW)


def _read(path: Path, kind: type[T], most: int) -> T | None:
    try:
        return msgspec.json.decode(read_own(path, most, of_others=True), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not what it should be: {error}", where=str(path)) from error
    except OSError as error:
        raise InputError(str(error.strerror), where=str(path)) from error
