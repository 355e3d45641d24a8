"""The plan in force, noted so that a gateway that takes over from a dead one goes on with the very same."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kwiken import InputError, KwikenError
from runtime._files import read_file

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


class KeptPlan:
    """A file that holds the plan in force, wherever it came from.

    Args:
        path: of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, plan: bytes, stamp: tuple[int, int, int] | None) -> None:
        """Note a plan; where that cannot be done the plan is in force all the same, and a warning is logged.

        An older note does not stay then: a gateway that takes over had better start without a plan than with
        one that was taken back.

        Args:
            plan: as JSON.
            stamp: of the plan's file.
        """
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(msgspec.json.encode(Note(stamp, msgspec.Raw(plan))))
            fresh.replace(self.path)
        except OSError as error:
            LOG.warning("the plan cannot be noted, so another gateway would start without it: %s", error)
            for stale in (fresh, self.path):
                with contextlib.suppress(OSError):
                    stale.unlink(missing_ok=True)

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
