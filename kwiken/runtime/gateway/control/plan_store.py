"""Plan store: saves the plan in force, so that a gateway that takes over continues with the same plan."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_own, read_file, replace_own
from kwiken.runtime.base.errors import PlanNotSavedError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.gateway.control.plan_revision import FIRST, PlanRevision
from kwiken.runtime.gateway.control.steering import Author

LOG = logging.getLogger("kwiken.gateway")
MAX_FILE: Final = 17 << 20  # bytes; the longest plan with some room to spare


class SavedPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file.

    Attributes:
        stamp: version of the plan's source file when it was last read; None without a source file.
        plan: plan as JSON; null for none.
        author: who put it in force; None for nobody.
        revision: revision of the plan.
    """

    stamp: tuple[int, int, int] | None
    plan: msgspec.Raw
    author: Author | None = None
    revision: PlanRevision = FIRST


class PlanStore:
    """File that holds the plan in force, whatever its source.

    Attributes:
        trouble: reason why the plan in force is not saved; None if it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None

    def save(
        self,
        plan: bytes,
        stamp: tuple[int, int, int] | None,
        *,
        author: Author | None = None,
        revision: PlanRevision = FIRST,
        must: bool = False,
    ) -> None:
        """Save a plan; logs a warning if that fails.

        After a failure no older plan stays in the file: a gateway that takes over should rather start without
        a plan than with one that was withdrawn.

        Args:
            author: who put the plan in force; None for nobody.
            revision: revision of the plan.
            must: whether to raise on a failure, and to leave the older plan in the file.

        Raises:
            PlanNotSavedError: the plan must be saved and cannot be; names the file and the reason.
        """
        text = msgspec.json.encode(SavedPlan(stamp, msgspec.Raw(plan), author, revision))
        try:
            self._write(text)
        except OSError as error:
            reason = error.strerror or str(error)
            if must:
                raise PlanNotSavedError(
                    f"{self.path}: the plan cannot be saved there ({reason}), so another gateway would start "
                    "without it; it was not put in force, and the previous one stays"
                ) from error
            self.trouble = None if self._overwritten(text) else reason
        else:
            self.trouble = None
        if self.trouble is not None:
            LOG.warning(
                "%s: the plan cannot be saved (%s), so another gateway would start without it",
                self.path,
                self.trouble,
                extra=about(Event.PLAN_NOT_SAVED),
            )
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _write(self, text: bytes) -> None:
        """Write to a second file and move it over the first; does nothing if the content is the same."""
        with contextlib.suppress(OSError, InputError):
            if read_file(self.path, MAX_FILE) == text:
                return  # a gateway that took over needs no disk space for the plan that it has just read
        replace_own(self.path, text)

    def _overwritten(self, text: bytes) -> bool:
        """Overwrite an older file of at least the same length, which needs no space on a full disk."""
        try:
            with os.fdopen(open_own(self.path, os.O_RDWR), "r+b") as file:
                if os.fstat(file.fileno()).st_size < len(text):
                    return False
                file.write(text)
                file.truncate()
        except (OSError, InputError):
            return False
        return True

    def read(self) -> SavedPlan | None:
        """Read the file; None if it is missing or invalid."""
        try:
            return msgspec.json.decode(read_file(self.path, MAX_FILE), type=SavedPlan)
        except FileNotFoundError:
            return None
        except (OSError, InputError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            LOG.warning(
                "the saved plan cannot be read: %s: %s",
                self.path,
                error,
                extra=about(Event.SAVED_PLAN_UNREADABLE),
            )
            return None


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Version of a file: change time in nanoseconds, size, inode; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - runs twice a second
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
