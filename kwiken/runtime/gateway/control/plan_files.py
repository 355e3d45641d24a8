"""Plan file: an operator edits it, and its plan is in force."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import read_file
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.plan_store import stamp_of

LOG = logging.getLogger("kwiken.gateway")
POLL_S: Final = 0.5  # interval of looks at a file
MAX_PLAN: Final = 16 << 20  # bytes


class PlanFile:
    """File whose plan is in force; read again whenever it changes.

    Attributes:
        seen: version of the file when it was last read: change time in nanoseconds, size, inode; None before.
        error: message about the last content if it was invalid; None otherwise.
    """

    def __init__(self, path: Path, plans: PlanInForce) -> None:
        self._path = path
        self._plans = plans
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
        self._plans.apply(text, where=str(self._path), first=first, stamp=self.seen)

    def resume(self) -> None:
        """Continue with the plan of another gateway, or with the file's plan if the file has changed since.

        A gateway that takes over has to serve: an error in either plan is logged, and the other one is used.
        """
        note = self._plans.saved()
        if note is not None:
            self._plans.revision = note.revision
        if note is None or note.stamp != stamp_of(self._path):
            if self._load():
                return
        else:
            self.seen = note.stamp
        if note is not None:
            self._plans.resume(note)

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
