"""Exchange between the gateways of a service: one budget, one plan, and accounts that survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import read_own, replace_own
from kwiken.model.plan.accounts import AccountHistory
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger
from kwiken.runtime.decisions.ledger.shared_budget import BudgetAnswer, BudgetAsk, SharedBudget
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.plan_revision import FIRST, PlanOffer, PlanRevision
from kwiken.runtime.gateway.control.siblings import NO_SIBLINGS, SiblingAnswers, Siblings

LOG = logging.getLogger("kwiken.gateway")
EXCHANGE_PATH: Final = "/v1/exchange"
ROUND_S: Final = 1.0  # between two rounds of up to eight gateways; of more in proportion
MAX_ROUND_S: Final = 4.0
FEW: Final = 8
ALONE_S: Final = 10.0  # without the address of any sibling, after which there is none
GOODBYE_S: Final = 1.0
MAX_FILE: Final = 1 << 20  # bytes


class SiblingAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Question of a gateway to a sibling.

    Attributes:
        revision: revision of the plan in force at the gateway that asks.
        offer: that plan, right after it was put in force.
    """

    budget: BudgetAsk
    revision: PlanRevision
    offer: PlanOffer | None = None


class SiblingAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to a question.

    Attributes:
        offer: plan in force, if it is newer than that of the gateway that asked.
    """

    budget: BudgetAnswer
    offer: PlanOffer | None = None


_READ_ASK: Final = msgspec.json.Decoder(SiblingAsk)
_READ_ANSWER: Final = msgspec.json.Decoder(SiblingAnswer)


class SavedAccounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file of a gateway's accounts.

    Attributes:
        at_s: moment at which it was written, seconds since 1970.
        up_s: the same by the monotonic clock, which begins anew with the machine, seconds.
        histories: of reissues, catch-up and lost utility.
    """

    at_s: float
    up_s: float
    histories: list[AccountHistory]


class Exchange:
    """One gateway's side: a round every second or few.

    Args:
        plans: plan in force at this gateway, which siblings may replace by a newer one.
        budget: budget that the gateways share.
        file: file of the accounts, for the next process of this gateway; None for none.
    """

    def __init__(
        self,
        plans: PlanInForce,
        siblings: Siblings,
        budget: SharedBudget,
        ledger: Ledger,
        file: Path | None = None,
    ) -> None:
        self.plans = plans
        self.siblings = siblings
        self._budget = budget
        self._ledger = ledger
        self._file = file
        self._work = [0 for _ in ledger.accounts]  # when the accounts were last saved
        self._saved: list[AccountHistory] = []
        self._refused = FIRST  # last plan of a sibling that does not fit

    @classmethod
    def of_one(cls, executor: Executor, name: str) -> Exchange:
        """Exchange of a gateway without siblings, which has the whole budget and saves nothing."""
        budget = SharedBudget(executor.ledger, name, time.monotonic(), least=1, first=True)
        return cls(PlanInForce(executor, name), NO_SIBLINGS, budget, executor.ledger)

    async def run(self) -> None:
        """Take rounds until cancelled."""
        started = time.monotonic()
        while True:
            if self.siblings.any:
                await self.round()
            elif time.monotonic() > started + ALONE_S:
                self._budget.complete(time.monotonic())
            if self.plans.unsaved_reason is not None:
                self.plans.save()
            self.save()
            await asyncio.sleep(min(MAX_ROUND_S, ROUND_S * max(1.0, self._budget.members / FEW)))

    async def share_plan(self) -> None:
        """Offer the plan in force to all siblings at once."""
        if self.siblings.any:
            await self.round(self.plans.offer())

    async def round(self, offer: PlanOffer | None = None) -> None:
        """Ask every sibling once, and take what its answer says."""
        ask = SiblingAsk(self._budget.ask(time.monotonic()), self.plans.revision, offer)
        answers = await self._ask(ask)
        known = not answers.silent
        for body in answers.bodies:
            try:
                answer = _READ_ANSWER.decode(body)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                known = False  # of another version, or of another kind
                continue
            self._budget.accept(answer.budget, time.monotonic())
            self._take(answer.offer)
        if known:
            self._budget.complete(time.monotonic())

    async def _ask(self, ask: SiblingAsk) -> SiblingAnswers:
        body = msgspec.json.encode(ask)
        return await self.siblings.ask(EXCHANGE_PATH, method="PUT", body=body)

    async def answer(self, request: web.BaseRequest) -> SiblingAnswer:
        """PUT a sibling's question; what is lent is saved before it is sent."""
        try:
            ask = _READ_ASK.decode(await request.read())
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputError(str(error), where="question of a sibling") from error
        answer = self._budget.answer(ask.budget, time.monotonic())
        if any(answer.loan.credits):
            self.save()
        self._take(ask.offer)
        return SiblingAnswer(answer, self.plans.offer() if ask.revision < self.plans.revision else None)

    def _take(self, offer: PlanOffer | None) -> None:
        """Put a sibling's newer plan in force; one that does not fit is logged once, and changes nothing."""
        if offer is None or offer.revision == self._refused:
            return
        try:
            self.plans.take(offer)
        except KwikenError as error:
            self._refused = offer.revision
            LOG.error("a sibling's plan does not fit: %s", error, extra=about(Event.PLAN_REFUSED))  # noqa: TRY400

    async def leave(self) -> None:
        """Give up the own part, and tell the siblings."""
        ask = SiblingAsk(self._budget.leave(time.monotonic()), self.plans.revision)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_S):
                await self._ask(ask)

    # The accounts of a horizon survive a restart.

    def restore(self) -> None:
        """Continue from the accounts of this gateway's last process, if it left any."""
        if self._file is None:
            return
        try:
            saved = msgspec.json.decode(read_own(self._file, MAX_FILE), type=SavedAccounts)
        except (OSError, InputError, msgspec.MsgspecError, ValueError, RecursionError):
            return
        now = time.monotonic()
        ages_s = [time.time() - saved.at_s, now - saved.up_s]  # of clocks that jump, and that begin anew
        age_s = max(0.0, min(ages_s) if ages_s[1] >= 0 else ages_s[0])
        for account, history in zip(self._ledger.accounts, saved.histories, strict=False):
            account.restore(history, now, age_s=age_s)
        self._work = [account.work for account in self._ledger.accounts]
        self._ledger.floor.drain()

    def save(self, *, last: bool = False) -> None:
        """Save the accounts, if possible; what the next seconds may spend counts as spent, but at the end.

        Nothing is saved before the first request, so that a start that fails leaves no file.
        """
        if self._file is None or not any(account.work for account in self._ledger.accounts):
            return
        histories = []
        for number, account in enumerate(self._ledger.accounts):
            history, bounds = account.history(), account.bounds
            if bounds.fraction and not last:
                ahead = int(bounds.peak * (account.work - self._work[number]))
                work, spent, earned = history.buckets[-1]
                history.buckets[-1] = work, spent + ahead, earned
            self._work[number] = account.work
            histories.append(history)
        if histories == self._saved:
            return
        self._saved = histories
        with contextlib.suppress(OSError):
            replace_own(
                self._file, msgspec.json.encode(SavedAccounts(time.time(), time.monotonic(), histories))
            )
