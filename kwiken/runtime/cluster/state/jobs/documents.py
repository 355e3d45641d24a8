"""Documents of batch jobs: orders, claims of runners, results, and the queue as shown."""

from __future__ import annotations

import math
import re
import signal
from enum import StrEnum
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.runtime.base.process_id import Identity

ORDER_VERSION: Final = 1
MAX_COMMAND: Final = 256  # words of a command
MAX_WORD: Final = 4096  # characters of one word
MAX_CORES: Final = 4096.0
MAX_MEMORY_GB: Final = 1e6
MAX_SECONDS: Final = 30 * 86_400.0  # that a job may take
MAX_PRIORITY: Final = 100
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}\Z")


class JobOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Order of one job, as its submitter wrote it.

    Attributes:
        name: name that no other order has, now or later.
        command: the program and its arguments, one word or more.
        folder: folder in which the command runs.
        cores: number of cores that it needs, above 0.
        memory_gb: memory that it needs, in units of GB, 0 or more.
        caused: pressure that it exerts on shared resources, a share from 0 to 1 by source.
        takes_s: expected time of its work, seconds; None if unknown.
        priority: a larger one goes first.
        submitted_at: moment of the order, seconds since 1970.
    """

    version: int
    name: str
    command: list[str]
    folder: str
    cores: float
    submitted_at: float
    memory_gb: float = 0.0
    caused: dict[str, float] = {}
    takes_s: float | None = None
    priority: int = 0

    def check(self, *, where: str) -> None:
        """Refuse what cannot be run.

        Args:
            where: option or file to name in errors.

        Raises:
            InputError: a field out of its range; names the field.
        """
        if self.version != ORDER_VERSION:
            raise InputError(f"version: must be {ORDER_VERSION}, not {self.version}", where=where)
        if not NAME.match(self.name):
            raise InputError(
                "name: starts with a letter and has at most 80 letters, digits, '_', '-', '.'", where=where
            )
        self._check_command(where)
        _within("cores", self.cores, 0.0, MAX_CORES, where, above=True)
        _within("memory_gb", self.memory_gb, 0.0, MAX_MEMORY_GB, where)
        _within("submitted_at", self.submitted_at, 0.0, math.inf, where)
        if self.takes_s is not None:
            _within("takes_s", self.takes_s, 0.0, MAX_SECONDS, where, above=True)
        _within("priority", self.priority, -MAX_PRIORITY, MAX_PRIORITY, where)
        for source, share in self.caused.items():
            _within(f"caused.{source}", share, 0.0, 1.0, where)

    def _check_command(self, where: str) -> None:
        if not 0 < len(self.command) <= MAX_COMMAND or not self.command[0]:
            raise InputError(f"command: must have 1 to {MAX_COMMAND} words", where=where)
        if any(len(word) > MAX_WORD or "\0" in word for word in self.command):
            raise InputError(
                f"command: a word has at most {MAX_WORD} characters, and no NUL among them", where=where
            )
        for text in (self.folder, *self.command):
            if text.encode("utf-8", "replace").decode("utf-8") != text:
                raise InputError(
                    f"command and folder must be text in UTF-8, unlike {text[:80]!r}", where=where
                )


def _within(name: str, value: float, low: float, high: float, where: str, *, above: bool = False) -> None:
    if not (low < value if above else low <= value) or not (value <= high and math.isfinite(value)):
        bounds = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
        raise InputError(f"{name}: must be {bounds}, not {value}", where=where)


class JobClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Claim of the process that runs a job; there is one at most, ever.

    Attributes:
        runner: process that runs the command and waits for its end.
        started_at: moment of the start, seconds since 1970.
    """

    runner: Identity
    node: str
    started_at: float


class JobResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Result of the command of a job.

    Attributes:
        code: exit code, or the negative number of the signal that ended it.
        ended_at: moment of the end, seconds since 1970.
    """

    code: int
    ended_at: float


def exit_words(code: int) -> str:
    """Exit code of a command in words: a negative one is the number of the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class EventKind(StrEnum):
    """Kind of an event in the life of a job.

    Attributes:
        ARRIVED: it waits.
        PLACED: a node was taken for it, and its start was begun.
        INTERRUPTED: the process that ran it is gone and left no result; it is not run again.
        CANCELLED: it was taken out of the queue.
    """

    ARRIVED = "arrived"
    PLACED = "placed"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more happens to the job."""
        return self in {EventKind.ENDED, EventKind.INTERRUPTED, EventKind.CANCELLED}


class JobEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One line of the journal.

    Attributes:
        at: moment of the event, seconds since 1970.
        node: node that was taken for it, or on which it ran.
        waited_s: time that it had waited, seconds.
        reason: why it ended, for a person to read.
        code: exit code of its command.
    """

    at: float
    job: str
    kind: EventKind
    node: str = ""
    waited_s: float = 0.0
    reason: str = ""
    code: int | None = None


class WaitingView(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits, as shown.

    Attributes:
        waited_s: time since its arrival, seconds.
        takes_s: time of its work as stated, seconds; None if unknown.
        too_large: whether it needs more than any node of the cluster has, even an empty one.
    """

    job: str
    cores: float
    waited_s: float
    takes_s: float | None = None
    priority: int = 0
    too_large: bool = False


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs, as shown.

    Attributes:
        cores: number of cores that it holds.
        ran_s: time since its start, seconds.
    """

    job: str
    node: str
    cores: float
    ran_s: float


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """The queue at one moment, written by the program that runs the jobs.

    Attributes:
        owner: process that runs the jobs.
        seen_at: moment of this view, seconds since 1970.
        waiting: jobs that wait, the next one first.
    """

    owner: Identity
    seen_at: float
    waiting: list[WaitingView]
    running: list[RunningJob]
