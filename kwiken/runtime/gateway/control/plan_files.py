"""Files that state the plan in force: the file that an operator edits, and the one that gateways share."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import read_file
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.plan_store import PlanStore, stamp_of
from kwiken.runtime.gateway.control.steering import PERSON, Author

LOG = logging.getLogger("kwiken.gateway")
POLL_S: Final = 0.5  # interval of looks at a file
MAX_PLAN: Final = 16 << 20  # bytes


class PlanFile:
    """File whose plan is in force; read again whenever it changes.

    Attributes:
        seen: version of the file when it was last read: change time in nanoseconds, size, inode; None before.
        error: message about the last content if it was invalid; None otherwise.
    """

    def __init__(self, path: Path, control: Control) -> None:
        self._path = path
        self._control = control
        self.seen: tuple[int, int, int] | None = None
        self.error: str | None = None

    def load(self, *, first: bool = False) -> None:
        """Read the file and put its plan in force.

        Args:
            first: whether the gateway starts with it, so that a plan of any sibling is newer.

        Raises:
            InputError, DefinitionError: the plan is missing or invalid; names the file. The old plan stays.
        """
        self.seen = stamp_of(self._path)
        if self.seen is None:
            raise InputError("there is no such file", where=str(self._path))
        try:
            text = read_file(self._path, MAX_PLAN)
        except OSError as error:
            raise InputError(str(error.strerror), where=str(self._path)) from error
        self._control.apply(text, where=str(self._path), first=first)

    def resume(self, kept: PlanStore) -> None:
        """Continue with the plan of another gateway, or with the file's plan if the file has changed since.

        A gateway that takes over has to serve: an error in either plan is logged, and the other one is used.
        """
        note = kept.read()
        if note is not None:
            self._control.revision = note.revision
        if note is None or note.stamp != stamp_of(self._path):
            if self._load():
                return
        else:
            self.seen = note.stamp
        if note is not None:
            kept.restore(note, self._control.adopt)

    def _load(self) -> bool:
        """Read the file; returns whether it was valid. An invalid plan is logged, and the old one stays."""
        try:
            self.load()
        except KwikenError as error:
            self.error = str(error)
            LOG.error(  # noqa: TRY400 - an input error needs no traceback
                "bad plan, the old one stays: %s", error, extra=about(Event.PLAN_REFUSED)
            )
            return False
        self.error = None
        return True

    async def watch(self) -> None:
        """Follow the file until cancelled; an invalid plan is logged, and the old one stays."""
        while True:
            await asyncio.sleep(POLL_S)
            stamp = stamp_of(self._path)
            if stamp is None or stamp == self.seen:
                continue
            if self._load():
                LOG.warning("plan read again from %s", self._path, extra=about(Event.PLAN_READ))


class SharedPlan:
    """Plan that several gateways share by the file in which each saves it; a change by one reaches all.

    Args:
        kept: file of all gateways.
    """

    def __init__(self, kept: PlanStore, control: Control) -> None:
        self._kept = kept
        self._control = control

    async def watch(self) -> None:
        """Follow the file until cancelled. A file that is gone means that no plan could be saved: no plan."""
        seen = self._kept.stamp
        while True:
            await asyncio.sleep(POLL_S)
            stamp = self._kept.stamp
            if stamp == seen:
                continue
            seen = stamp
            note = self._kept.read()
            if note is not None:
                self._kept.trouble = None  # another gateway could save the plan of all
                self._kept.restore(note, self._control.adopt)
            elif stamp is None:
                # Who acted stays known: with the file only the plan is lost.
                author: Author | None = PERSON if self._control.author == PERSON else None
                where, revision = str(self._kept.path), self._control.revision
                self._control.adopt(b"null", where=where, author=author, revision=revision)
