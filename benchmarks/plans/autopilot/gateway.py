"""Simulated gateway: plays the requests of a step under plans, with the runtime's ledger in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

import numpy as np

from benchmarks.plans.autopilot.day import STAGES, Step
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.plan.accounts import BY_FLOOR, REQUEST, Account, Floor, LedgerBounds, grant
from kwiken.model.plan.arm_accounts import ArmAccounts, grant_in_arm
from kwiken.model.plan.ledger_terms import RESERVE_SHARE
from kwiken.model.plan.plan import Plan
from kwiken.model.service.stage import Reissue

QUARTER_S: Final = 0.25  # width of the ledger's buckets


@dataclass(frozen=True, kw_only=True)
class Played:
    """Outcome of the requests of a step.

    Attributes:
        latency_ms: (n,) latency of each request, milliseconds.
        calls_ms: by stage: (n,) what is known of each primary call, milliseconds.
        censored: by stage: (n,) whether the primary was cancelled because its copy had won.
        pairs_ms: by stage: (m, 2) latency of calls with a copy, and of the copy, milliseconds.
        pairs_cut: by stage: (m, 2) which of these were cancelled.
    """

    latency_ms: Floats
    calls_ms: Mapping[str, Floats]
    censored: Mapping[str, Bools]
    pairs_ms: Mapping[str, Floats]
    pairs_cut: Mapping[str, Bools]


@dataclass
class SimulatedLedger:
    """Account of the service over the whole day; a change of plans buys no second burst.

    Attributes:
        arms: accounts of the arms of a trial, by the arm's number; empty without a trial.
    """

    account: Account = field(default_factory=Account)
    floor: Floor = field(default_factory=Floor)
    arms: Mapping[int, ArmAccounts] = field(default_factory=dict)

    def retune(self, plan: Plan | None, now: float) -> None:
        """Set the bounds of a plan, which has all requests; without one nothing may be spent.

        Args:
            now: present time, seconds.
        """
        self.arms = {}
        if plan is None:
            return
        self.floor.retune(plan.ledger.floor_per_s, now)
        self.account.retune(_bounds(plan))

    def split(self, plans: Mapping[int, tuple[Plan | None, float]], now: float) -> None:
        """Give the arms of a trial accounts of their own.

        Args:
            plans: plan of each arm, None for none, and the arm's share of the requests.
            now: present time, seconds.
        """
        left = self.account.left(now)
        self.arms = {
            number: ArmAccounts(
                _bounds(plan), {}, share=share, floor_per_s=plan.ledger.floor_per_s, left=left, now=now
            )
            for number, (plan, share) in plans.items()
            if plan is not None
        }

    def granted(self, wanted: Floats, started_s: Floats, arm: Ints) -> Bools:
        """(n,): whether each request gets its copies: all of them or none, in order of time.

        Args:
            wanted: (n,) cost of each request's copies, as a share of an average request's cost.
            started_s: (n,) starts of the requests, seconds, ascending.
            arm: (n,) number of the arm of each request.
        """
        found = np.ones(len(wanted), dtype=np.bool_)
        costs = np.rint(wanted * REQUEST).astype(np.int64)
        buckets = np.floor(started_s / QUARTER_S)
        ends = np.flatnonzero((costs > 0) | (np.diff(buckets, append=np.inf) > 0))
        counts = np.diff(ends, prepend=-1)
        by_arm = {number: np.diff(np.cumsum(arm == number)[ends], prepend=0).tolist() for number in self.arms}
        rows = zip(
            ends.tolist(), counts.tolist(), started_s[ends].tolist(), costs[ends].tolist(), strict=True
        )
        for place, (row, count, now, cost) in enumerate(rows):
            self.account.earn(count * REQUEST, now)
            for number, own in self.arms.items():
                own.service.earn(by_arm[number][place] * REQUEST, now)
            if cost:
                found[row] = self._grant(int(arm[row]), cost, now) <= BY_FLOOR
        return found

    def _grant(self, number: int, cost: int, now: float) -> int:
        own = self.arms.get(number)
        if own is None:
            return grant(self.account, cost, now, floor=self.floor)
        return grant_in_arm(own, self.account, cost, now, floor=self.floor)


def _bounds(plan: Plan) -> LedgerBounds:
    return plan.ledger.service_bounds(plan.budgets.reissue * (1 - RESERVE_SHARE))


def play(
    step: Step, plans: Sequence[Plan | None], arm: Ints, ledger: SimulatedLedger, rng: np.random.Generator
) -> Played:
    """Play a step.

    Args:
        plans: plan of each arm; None for none.
        arm: (n,) number of the arm of each request.
        ledger: account that pays for all copies.
        rng: source of the draws by which calls with a probability get a copy.
    """
    count = len(step.started_s)
    after = {name: np.full(count, inf) for name in STAGES}
    cost = {name: np.zeros(count) for name in STAGES}
    for number, plan in enumerate(plans):
        mine = arm == number
        for name in STAGES:
            policy = _policy(plan, name)
            if plan is not None and policy is not None:
                coins = rng.random(int(mine.sum()))
                after[name][mine] = np.where(coins < policy.probability, policy.after_ms, inf)
                cost[name][mine] = plan.cost.stages[name]
    wanted = sum((step.calls_ms[name] > after[name]) * cost[name] for name in STAGES)
    granted = ledger.granted(np.asarray(wanted), step.started_s, arm)
    ends: dict[str, Floats] = {}
    calls, censored, pairs, cut = {}, {}, {}, {}
    for name, kind in STAGES.items():
        primary, copy = step.calls_ms[name], step.copies_ms[name]
        copied = granted & (primary > after[name])
        by_copy = np.where(copied, after[name] + copy, inf)
        took = np.minimum(primary, by_copy)
        start = np.max([ends[parent] for parent in kind.after], axis=0) if kind.after else np.zeros(count)
        ends[name] = start + took
        censored[name] = by_copy < primary
        calls[name] = took
        lost = censored[name][copied]
        until_end = took[copied] - after[name][copied]
        pairs[name] = np.column_stack((took[copied], np.minimum(copy[copied], until_end)))
        cut[name] = np.column_stack((lost, ~lost))
    return Played(latency_ms=ends["page"], calls_ms=calls, censored=censored, pairs_ms=pairs, pairs_cut=cut)


def _policy(plan: Plan | None, name: str) -> Reissue | None:
    stage = plan.stages.get(name) if plan is not None else None
    return stage.reissue if stage is not None else None
