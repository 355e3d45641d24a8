"""Ledger that all stages of a hedger share, and the rules of its plan; safe to use from several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import CALL, REQUEST, Account, Floor
from kwiken.model.plan.ledger_terms import RESERVE_SHARE
from kwiken.model.plan.plan import Plan
from kwiken.runtime.base.event_loop import whole_ticks
from kwiken.runtime.decisions.compiled_stage import ReissueRule
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger, RequestBudget


class HedgeCounts(msgspec.Struct):
    """Calls of one stage so far.

    Attributes:
        failed: calls that no attempt answered; calls that the caller cancelled are not counted.
        denied: times that the ledger denied a copy.
    """

    answered: int = 0
    failed: int = 0
    copies: int = 0
    won: int = 0
    denied: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class StageRule:
    """One stage under one plan; a call keeps the rule with which it started.

    Attributes:
        first_timer_s: fixed delay of the timer for a call's first copy, seconds, as event loops round it.
        copies: largest number of copies of one call.
        cost: cost of one call, in micro-units of a request's cost.
        account: account of its copies, which outlives plans.
        counts: its calls so far, which outlive plans.
    """

    name: str
    reissue: ReissueRule
    first_timer_s: float
    copies: int
    cost: int
    account: Account
    counts: HedgeCounts


class SharedLedger:
    """One budget over the stages of a plan. A lock makes every change whole, whichever thread makes it.

    Args:
        clock: monotonic clock, seconds.
        draw: source of random numbers from 0 to 1.

    Attributes:
        draw: the source of random numbers.

    Raises:
        InputError: the plan needs a gateway, as in `apply`.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float], draw: Callable[[], float]) -> None:
        self.now = clock
        self.draw = draw
        self._lock = threading.Lock()
        self._floor = Floor()
        self._ledger = Ledger(floor=self._floor)
        self._rules: dict[str, StageRule] = {}
        self.apply(plan)

    def apply(self, plan: Plan) -> None:
        """Put another plan in force; the arguments and errors are those of `Hedger.apply`."""
        for name, entry in plan.stages.items():
            if entry.partial is not None or entry.catch_up is not None:
                raise InputError(
                    "has partial answers or catch-up, which need kwiken's gateway", where=f"stage {name!r}"
                )
        rules = {}
        policies = {name: entry.reissue for name, entry in plan.stages.items()}
        for name in plan.stages | plan.cost.stages:
            policy = policies.get(name)
            old, reissue = self._rules.get(name), ReissueRule.of(policy)
            rules[name] = StageRule(
                name=name,
                reissue=reissue,
                first_timer_s=whole_ticks(reissue.after) if policy is not None else inf,
                copies=policy.copies if policy is not None else 0,
                cost=round(plan.cost.stages.get(name, 0.0) * REQUEST),
                account=old.account if old is not None else Account(),
                counts=old.counts if old is not None else HedgeCounts(),
            )
        terms, budget = plan.ledger, plan.budgets.reissue * (1 - RESERVE_SHARE)
        dearest = max((rule.cost for rule in rules.values() if rule.copies), default=0)
        with self._lock:
            self._floor.retune(terms.floor_per_s, self.now())
            self._ledger.service.retune(terms.service_bounds(budget if dearest else 0.0, least_burst=dearest))
            for name, rule in rules.items():
                rule.account.retune(terms.stage_bounds(policies.get(name)))
            self._rules, self.plan = rules, plan

    def rule(self, stage: str) -> StageRule:
        """Rule of a stage.

        Raises:
            InputError: the plan has no such stage; names those it has.
        """
        rule = self._rules.get(stage)
        if rule is None:
            known = ", ".join(sorted(self._rules)) or "none"
            raise InputError(f"is not in the plan; its stages are {known}", where=f"stage {stage!r}")
        return rule

    @property
    def counts(self) -> dict[str, HedgeCounts]:
        """Calls so far by stage, as a copy."""
        with self._lock:
            return {name: msgspec.structs.replace(rule.counts) for name, rule in self._rules.items()}

    @property
    def delays_ms(self) -> dict[str, float]:
        """By stage with copies: present age of a call at which it gets its copy, milliseconds."""
        return {name: rule.reissue.present * 1000 for name, rule in self._rules.items() if rule.copies}

    def pays(self, rule: StageRule, denials: int) -> bool:
        """Charge a copy to the accounts of its stage and of the service, if both can pay.

        Args:
            denials: number of times that a copy of this call was denied.
        """
        with self._lock:
            own = RequestBudget(rule.cost)
            paid = self._ledger.charge(own, rule.account, rule.cost, self.now(), denied=denials)
            rule.counts.copies += paid
            rule.counts.denied += not paid
        return paid

    def earn(self, rule: StageRule, took: float, now: float, *, by_copy: bool) -> None:
        """Fill the accounts by an answered call: only successes do, never the clock.

        Args:
            took: latency of the call, seconds.
            now: present moment, seconds.
        """
        with self._lock:
            rule.account.earn(CALL, now, refill=took < rule.reissue.follow(took))
            self._ledger.service.earn(rule.cost, now)
            rule.counts.answered += 1
            rule.counts.won += by_copy

    def failed(self, rule: StageRule) -> None:
        """Count a call that no attempt answered."""
        with self._lock:
            rule.counts.failed += 1
