"""Plan in force at a gateway: its author, its revision, where it is saved, and the file an operator edits."""

from __future__ import annotations

import asyncio
import codecs
import logging
import time
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import read_file
from kwiken.model.plan.plan import Plan
from kwiken.runtime.base.errors import PlanNotSavedError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.plan_revision import FIRST, PlanOffer, PlanRevision
from kwiken.runtime.gateway.control.plan_store import PlanStore, SavedPlan, stamp_of
from kwiken.runtime.gateway.control.steering import AUTOPILOT, PERSON, Author, SteeredSetting

LOG = logging.getLogger("kwiken.gateway")
POLL_S: Final = 0.5  # interval of looks at the plan file
MAX_PLAN: Final = 16 << 20  # bytes


class PlanInForce:
    """Plan of an executor, which a person, an autopilot or a sibling changes.

    Args:
        gateway: name of the gateway, for revisions.
        store: saves every plan that is put in force, for a gateway that takes over; None to save none.

    Attributes:
        author: who put the plan in force; None for nobody.
        revision: revision of the plan; an older one gives way.
    """

    def __init__(self, executor: Executor, gateway: str, store: PlanStore | None = None) -> None:
        self._executor = executor
        self._gateway = gateway
        self._store = store
        self._stamp: tuple[int, int, int] | None = None  # of the plan's source file when it was last read
        self._epoch = 0  # of the autopilot's lease
        self.author: Author | None = None
        self.revision = FIRST

    @property
    def text(self) -> bytes:
        """Plan as JSON; null for none."""
        return msgspec.json.encode(self._executor.plan)

    @property
    def unsaved_reason(self) -> str | None:
        """Reason why the plan is not saved; None if it is, or need not be."""
        return self._store.trouble if self._store is not None else None

    def apply(
        self,
        text: bytes,
        *,
        where: str,
        must: bool = False,
        first: bool = False,
        stamp: tuple[int, int, int] | None = None,
    ) -> None:
        """Put a person's plan in force, whole or not at all.

        Args:
            text: plan as JSON; null for no plan.
            must: whether to refuse a plan that cannot be saved.
            first: whether the gateway starts with it, so that a plan of any sibling is newer.
            stamp: version of the file that the plan was read from; None if it came otherwise.

        Raises:
            InputError: the text is not a plan, or a plan for another service.
            DefinitionError: the plan does not fit the service; names the stage.
            PlanNotSavedError: the plan must be saved and cannot be.
        """
        before = self._executor.plan, self.author, self.revision
        self._put(text, where, PERSON)
        self._stamp = stamp or self._stamp
        if not first:
            self.revision = self._next_revision(PERSON)
        try:
            self.save(must=must and self._executor.plan is not None)
        except PlanNotSavedError:
            self._executor.apply(before[0])  # no request has run in between
            _, self.author, self.revision = before
            raise

    def check(self, text: bytes, *, where: str) -> None:
        """Refuse a plan that `apply` would refuse for the service; changes nothing."""
        self._executor.check(_read(text, where))

    def saved(self) -> SavedPlan | None:
        """Plan that another process of this gateway saved; None without one."""
        return self._store.read() if self._store is not None else None

    def resume(self, saved: SavedPlan) -> None:
        """Continue with a saved plan; logs an error if it does not fit any more."""
        self._stamp, self.revision = saved.stamp, saved.revision
        try:
            self._put(bytes(saved.plan), "saved plan", saved.author)
        except KwikenError as error:
            LOG.error(  # noqa: TRY400 - an input error needs no traceback
                "the saved plan does not fit: %s", error, extra=about(Event.PLAN_REFUSED)
            )

    def save(self, *, must: bool = False) -> None:
        """Save the plan, if there is a store.

        Raises:
            PlanNotSavedError: the plan must be saved and cannot be.
        """
        if self._store is not None:
            self._store.save(self.text, self._stamp, author=self.author, revision=self.revision, must=must)

    # Siblings agree on the newest.

    def offer(self) -> PlanOffer:
        """Plan in force, for a sibling."""
        return PlanOffer(self.revision, self.author, msgspec.Raw(self.text))

    def take(self, offer: PlanOffer) -> None:
        """Put a sibling's plan in force, and save it, if it is newer; the same plan goes on as it is.

        Raises:
            KwikenError: the plan does not fit the service.
        """
        if offer.revision <= self.revision:
            return
        text = bytes(offer.plan)
        if text == self.text and AUTOPILOT in (offer.author, self.author):
            self._hand_to(offer.author)
        else:
            self._put(text, f"plan by {offer.revision.by}", offer.author)
        self.revision = offer.revision
        self.save()

    # An autopilot acts as long as no person does.

    def steer(self, setting: SteeredSetting) -> None:
        """Put a setting of an autopilot in force, whole or not at all.

        A setting that cannot be saved is in force all the same: the autopilot puts it again after a restart.

        Raises:
            InputError: a person put the plan in force, another leader's setting came later, or a plan does
                not fit.
            DefinitionError: a plan does not fit the service; names the stage.
        """
        if self.author == PERSON:
            raise InputError(
                "a person put the plan in force; kwiken autopilot --resume lets the loop go on",
                where="autopilot",
            )
        if setting.epoch < self._epoch:
            raise InputError(
                f"lease {self._epoch} has come after lease {setting.epoch}: another process leads now",
                where="autopilot",
            )
        self._executor.apply(
            setting.plan,
            trial=setting.trial,
            trial_share=setting.trial_share,
            control_share=setting.control_share,
        )
        self._epoch, self.author = setting.epoch, AUTOPILOT
        self.revision = self._next_revision(AUTOPILOT)
        self.save()

    def hand_to(self, author: Author) -> None:
        """Let a person or an autopilot go on from the plan in force; a person's act ends a trial."""
        self._hand_to(author)
        self.revision = self._next_revision(PERSON)
        self.save()

    def _hand_to(self, author: Author | None) -> None:
        if author == PERSON and self._executor.trial is not None:
            self._executor.apply(self._executor.plan)
        self.author = author

    def _put(self, text: bytes, where: str, author: Author | None) -> None:
        self._executor.apply(_read(text, where))
        self.author = author

    def _next_revision(self, author: Author) -> PlanRevision:
        return self.revision.after(author, self._gateway, time.time_ns() // 1_000_000)


def _read(text: bytes, where: str) -> Plan | None:
    text = text.removeprefix(codecs.BOM_UTF8)  # some editors write one
    return None if text.strip() == b"null" else Plan.from_json(text, where=where)


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
