"""The plan in force, noted so that a gateway that takes over from a dead one goes on with the very same."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kwiken.errors import InputError, KwikenError
from kwiken.runtime.errors import PlanNotSavedError
from kwiken.runtime.files import read_file

LOG = logging.getLogger("kwiken.gateway")
MAX_NOTE: Final = 17 << 20
PRIVATE: Final = 0o600


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is noted.

    Attributes:
        stamp: of the plan's file when it was last read; None where none is followed.
        plan: as JSON; null for none.
    """

    stamp: tuple[int, int, int] | None
    plan: msgspec.Raw


class PlanStore:
    """A file that holds the plan in force, wherever it came from.

    Args:
        path: of it.

    Attributes:
        trouble: why the plan in force is not noted; None where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None

    def keep(self, plan: bytes, stamp: tuple[int, int, int] | None, *, must: bool = False) -> None:
        """Note a plan; where that cannot be done, a warning is logged.

        An older note does not stay then: a gateway that takes over had better start without a plan than with
        one that was taken back.

        Args:
            plan: as JSON.
            stamp: of the plan's file.
            must: raise where it cannot be noted, and let the older note stay.

        Raises:
            PlanNotSavedError: it must be noted and cannot be; names the file and why.
        """
        text = msgspec.json.encode(Note(stamp, msgspec.Raw(plan)))
        try:
            self._write(text)
        except OSError as error:
            reason = error.strerror or str(error)
            if must:
                raise PlanNotSavedError(
                    f"{self.path}: the plan cannot be noted there ({reason}), so another gateway would start "
                    "without it; it was not put in force, and the one before stays"
                ) from error
            self.trouble = None if self._overwritten(text) else reason
        else:
            self.trouble = None
        if self.trouble is not None:
            LOG.warning(
                "%s: the plan cannot be noted (%s), so another gateway would start without it",
                self.path,
                self.trouble,
            )
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _write(self, text: bytes) -> None:
        """Write beside the note, then move over it; nothing at all where it says that already."""
        with contextlib.suppress(OSError, InputError):
            if read_file(self.path, MAX_NOTE) == text:
                return  # a gateway that took over need not find room for what it has just read
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(text)
            fresh.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise

    def _overwritten(self, text: bytes) -> bool:
        """Write over an older note that is no shorter: a full disk has its room still, for "none" say."""
        try:
            with self.path.open("r+b") as file:
                if os.fstat(file.fileno()).st_size < len(text):
                    return False
                file.write(text)
                file.truncate()
        except OSError:
            return False
        return True

    def read(self) -> Note | None:
        """What was noted; None where nothing was, or nothing that can be read."""
        try:
            return msgspec.json.decode(read_file(self.path, MAX_NOTE), type=Note)
        except FileNotFoundError:
            return None
        except (OSError, InputError, msgspec.MsgspecError, RecursionError) as error:
            LOG.warning("the plan that was in force cannot be read: %s: %s", self.path, error)
            return None

    def restore(self, note: Note, apply: Callable[..., None]) -> None:
        """Put what was noted in force again; what does not fit any more is logged.

        Args:
            note: as it was read.
            apply: puts a plan in force; takes its text and, as `where`, what to name in errors.
        """
        try:
            apply(bytes(note.plan), where=str(self.path))
        except KwikenError as error:
            LOG.error("the plan that was in force does not fit: %s", error)  # noqa: TRY400 - an input's fault has no trace
