"""Budget of one call: what its answer earns, and which account pays for its copies, retries and threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

import msgspec

from kwiken.model.plan.accounts import CALL
from kwiken.runtime.decisions.race import COPY, LATE, RETRY
from kwiken.runtime.engine.hedged_call.catch_up import LateCall
from kwiken.runtime.engine.hedged_call.context import Attempt, CallSite


class CallBudget(msgspec.Struct, eq=False):
    """Earnings and spends of one call.

    Attributes:
        levels: priority levels that the attempts gain, 0 or more.
        late: catch-up measures of a call that started late; None for a call that did not.
        drawn: random decision of whether the call may have copies; None before it is drawn.
        copies: number of copies that were granted.
        charged: what they were charged, in micro-units of a request's cost.
    """

    site: CallSite
    levels: int = 0
    late: LateCall | None = None
    drawn: bool | None = None
    copies: int = 0
    charged: int = 0

    def catch_up(self, now: float) -> tuple[float, int]:
        """Moment at which a late request's call gets its copy, and its threads if it starts late.

        Args:
            now: present moment, seconds.
        """
        site = self.site
        rule = site.stage.catch_up
        late_at, threads = site.request.started + rule.after, 1
        if now >= late_at:
            self.late = late = LateCall(site.shared, site.request, site.stage, now)
            self.levels, threads = late.levels, late.threads
        return late_at if rule.copies else inf, threads

    def draws_copy(self) -> bool:
        """Whether the call may have copies; drawn once, for all its copies."""
        if self.drawn is None:
            self.drawn = self.site.shared.rng.random() < self.site.stage.reissue.probability
        return self.drawn

    def grants(self, step: int, now: float, denials: int) -> bool:
        """Charge a copy or retry to the account that pays for its kind; False if it cannot pay.

        There are three cases:
        1. A retry is paid from the stage's retry account.
        2. A copy because the request is late is paid from the catch-up account.
        3. Any other copy is paid from the accounts of the request, the stage and the service.

        Args:
            step: COPY, LATE or RETRY.
            now: present moment, seconds.
            denials: number of times a copy of this call was denied.
        """
        shared, request, stage = self.site.shared, self.site.request, self.site.stage
        state = stage.state
        if step == RETRY:
            return state.retries.charge()
        spare, work = shared.admission.spare_capacity(now), state.work
        even = request.program.even_cost if step == COPY else 0
        cost = shared.ledger.observed.copy_cost(work, stage.cost, even, request.program.observable)
        if step == LATE:
            if not shared.ledger.charge_late(request.budget, cost, now, spare=spare):
                return False
            self.copies, self.charged = self.copies + 1, self.charged + cost
            state.counts.late_copies += 1
            self.levels = stage.catch_up.levels
            return True
        if not shared.ledger.charge(
            request.budget,
            state.account,
            cost,
            now,
            denied=denials,
            spare=spare,
            arm=request.arm,
            name=stage.name,
        ):
            return False
        assert step == COPY
        self.copies, self.charged = self.copies + 1, self.charged + cost
        state.counts.copies += 1
        return True

    def threads_to_resend(self, now: float) -> int:
        """Threads of an attempt that follows a refused one; a refused attempt has given its own back."""
        if self.late is None:
            return 1
        self.late.take(now)
        return self.late.threads

    def refused(self, attempt: Attempt) -> None:
        """Refund the threads of an attempt that did not run."""
        if attempt.threads > 1 and self.late is not None:
            self.late.refused()

    def earn(self, took: float, now: float) -> None:
        """Earn by the call's answer: retries, copies, and catch-up where a stage of the program has it.

        Args:
            took: latency of the call, seconds.
            now: present moment, seconds.
        """
        stage, request, ledger = self.site.stage, self.site.request, self.site.shared.ledger
        state = stage.state
        state.retries.earn()
        rule = stage.reissue
        refill = rule.refill if rule.followed is None else rule.follow(took)
        state.account.earn(CALL, now, refill=took < refill)
        ledger.service.earn(stage.cost, now)
        if (arm := request.arm) is not None:
            arm.stages[stage.name].earn(CALL, now, refill=took < refill)
            arm.service.earn(stage.cost, now)
        prompt = request.program.prompt
        if prompt < inf:
            earn = (
                ledger.catch_up.earn_prompt if now - request.started < prompt else ledger.catch_up.earn_late
            )
            earn(stage.cost, now)

    def observe(self, won: Attempt, attempts: Sequence[Attempt]) -> None:
        """Learn the work of a call that was answered, and charge what its copies cost beyond their charge.

        A loser that was cancelled or lost is taken to have worked since it was sent, and no longer than the
        winner. Where its replica says later that it worked longer, the rest is charged then.

        Args:
            won: attempt that answered first.
            attempts: every attempt of the call, those that lost or failed too.
        """
        work_ms = won.busy_ms
        stage, request, ledger = self.site.stage, self.site.request, self.site.shared.ledger
        state, observed = stage.state, ledger.observed
        if work_ms is None:
            state.work.is_unknown = not state.work.answered.count
            return
        observed.answered(state.work.answered, work_ms)
        if not self.copies:
            return
        extra_ms = 0.0
        for each in attempts:
            if each is won:
                continue
            taken_ms = each.busy_ms
            if taken_ms is None:
                taken_ms = min(work_ms, 1e3 * (each.ended - each.started))
                if each.call is not None:
                    each.call.note_work = partial(self._worked, each, taken_ms)
            extra_ms += taken_ms
        observed.copied(state.work.copied, extra_ms, self.copies)
        self._spend(observed.cost(extra_ms, request.program.observable) - self.charged)

    def observe_rest(self, won: Attempt, whole_ms: float | None) -> None:
        """Learn the work of a stream after its first item; no copy repeats that, so none is charged for it.

        Args:
            whole_ms: work of the whole call, milliseconds; None where unknown.
        """
        if whole_ms is not None and won.busy_ms is not None and whole_ms > won.busy_ms:
            rest_ms, won.busy_ms = whole_ms - won.busy_ms, whole_ms
            self.site.stage.state.counts.busy_ms += rest_ms
            self.site.shared.ledger.observed.add_rest(rest_ms)

    def _worked(self, loser: Attempt, taken_ms: float, busy_ms: float) -> None:
        """Charge what a cancelled attempt worked longer than was charged; its replica may say anything."""
        observed = self.site.shared.ledger.observed
        more_ms = min(busy_ms, 1e3 * (self.site.shared.now() - loser.started)) - taken_ms
        if more_ms > 0:
            observed.extra_ms += more_ms
            self._spend(observed.cost(more_ms, self.site.request.program.observable))

    def _spend(self, cost: int) -> None:
        ledger = self.site.shared.ledger
        if cost > 0:
            account = ledger.service if ledger.service.fraction else ledger.catch_up
            account.spend(cost, self.site.shared.now())

    def meter(self, attempt: Attempt, busy_ms: float | None, now: float) -> None:
        """Charge the extra work of threads, or learn the usual work from a call without extra threads."""
        if attempt.threads > 1:
            assert self.late is not None
            self.late.answered(busy_ms, now)
        elif busy_ms is not None:
            self.site.stage.state.work.learn_busy(busy_ms)
