"""Jobs that verbs of batch jobs read: a document of `kwiken batch fit`, or logs in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from kwiken.apps.console.output import note, read_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB, open_regular
from kwiken.base.printable import printable
from kwiken.cli.batch.inputs.log_files import JobLog, logs_at, read_job_log

if TYPE_CHECKING:
    from kwiken.batch.jobs.job import BatchJob
    from kwiken.batch.jobs.logs.reading import LogFindings

MAX_JOBS_FILE: Final = 1024 * MIB  # of a document of jobs
HISTORY_SERVER: Final = "spark://"  # start of the address of one
HEAD: Final = 4096  # bytes by which a document of jobs is told from a log
MAX_NAMES_SHOWN: Final = 10
MAX_NAME_SHOWN: Final = 60  # characters


@dataclass
class LogJobs:
    """Jobs of several logs, and what was wrong with these.

    Attributes:
        remarks: what was wrong, one sentence each.
        skipped: files that are no logs.
    """

    jobs: list[BatchJob] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def take(self, log: JobLog, found: LogFindings | None, problems: list[str]) -> None:
        """Add what was found in a log: None where it is none, and what was wrong with its packing."""
        self.remarks += problems
        if found is None:
            self.skipped.append(log.where)
        else:
            self.jobs += found.jobs
            self.remarks += _remarks(log, found)

    def without_jobs(self, where: str, other: str = "") -> InputError:
        """Error that says why there is no job.

        Args:
            other: what else is read, as the end of a list; empty for nothing.
        """
        why = f"; {self.remarks[0]}" if self.remarks else ""
        return InputError(
            f"no job in it: no log of Spark or Hadoop, no recording of Dask, no table of SWIM{other}{why}",
            where=where,
        )


def _remarks(log: JobLog, found: LogFindings) -> list[str]:
    """What was wrong with a log, one sentence each."""
    remarks = [] if found.jobs else [f"{log.where}: a {found.kind} without a job"]
    if found.damaged:
        more = "" if found.damaged == 1 else f", and {found.damaged - 1} more,"
        at = f"{log.where}:{found.first_damaged}"
        what = f"this line{more} of {found.lines} cannot be read and is left out"
        remarks.append(f"{at}: {what}: {found.first_problem}")
    return remarks


@contextmanager
def opened_logs(paths: Iterable[str]) -> Iterator[list[JobLog]]:
    """Logs that several paths name; a file that is named twice, or by a link, is read once.

    What a history server sends is kept in a folder of its own, which is deleted at the end.

    Raises:
        InputError: names the path, and why no log is read from it.
    """
    found: dict[tuple[Path, ...], JobLog] = {}
    with ExitStack() as stack:
        for path in dict.fromkeys(paths):
            if path.startswith(HISTORY_SERVER):
                from kwiken.cli.batch.inputs.history_server import fetched_logs  # needs modules of HTTP

                folder = stack.enter_context(TemporaryDirectory(prefix="kwiken-"))
                logs = fetched_logs(path, Path(folder))
            else:
                logs = logs_at(path)
            for log in logs:
                found.setdefault(tuple(file.resolve() for file in log.files), log)
        yield list(found.values())


def jobs_of_logs(logs: Sequence[JobLog], each: Callable[[], None] = lambda: None) -> LogJobs:
    """Jobs of several logs. One of several that cannot be read is noted, and the others are read.

    Args:
        each: called after each log.

    Raises:
        InputError: the only log cannot be read.
    """
    read = LogJobs()
    for log in logs:
        try:
            found, problems = read_job_log(log)
        except InputError as error:
            if len(logs) == 1:
                raise
            read.remarks.append(str(error))
        else:
            read.take(log, found, problems)
        each()
    return read


def jobs_in(path: str) -> list[BatchJob]:
    """Jobs of a document of `kwiken batch fit`, or of the logs that a path names; `-` is a document on stdin.

    Raises:
        InputError: names the file, and what in it is wrong.
    """
    from kwiken.batch.jobs.job import BatchJobs

    if path == "-" or _is_document(path):
        return BatchJobs.from_json(read_text(path, MAX_JOBS_FILE), where=path).jobs
    with opened_logs([path]) as logs:
        found = jobs_of_logs(logs)
    if not found.jobs:
        raise found.without_jobs(path, ", no document of kwiken batch fit")
    note(*found.remarks)
    return found.jobs


def _is_document(path: str) -> bool:
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
    except (InputError, OSError, ValueError):
        return False  # the reader of logs says what is wrong
    return head.lstrip().startswith(b"{") and b'"jobs"' in head


def timed_jobs_in(path: str) -> list[BatchJob]:
    """Jobs with task times, as `jobs_in` reads them.

    Raises:
        InputError: as `jobs_in`, or no job has task times.
    """
    timed = [job for job in jobs_in(path) if job.executors and any(len(stage.tasks) for stage in job.stages)]
    if not timed:
        raise InputError("no job has task times; only those that logs are read from have", where=path)
    return timed


def unknown_job(name: str, jobs: Sequence[BatchJob]) -> InputError:
    """Error that says which jobs there are in place of the one that is asked for."""
    known = some_of(job.name for job in jobs)
    return InputError(f"no job of this name with task times; known: {known}", where=f"--job {name}")


def some_of(names: Iterable[str]) -> str:
    """The first of several names, each once, and how many more there are."""
    unique = list(dict.fromkeys(printable(name, most=MAX_NAME_SHOWN) for name in names))
    more = len(unique) - MAX_NAMES_SHOWN
    return ", ".join(unique[:MAX_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
