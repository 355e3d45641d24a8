"""Gateway made of counters, and plans by name, for tests of the autopilot: no sockets, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.tail.autopilot.arms import ArmCounts, bucket_of
from kwiken.tail.autopilot.autopilot import CONTROL_SHARE, Autopilot, Seen
from kwiken.tail.autopilot.proposal import PlanProposal

SERVICE = "shop"
MEDIAN_MS, SLOW_MS = 10.0, 500.0


def plan_named(name: str, *, budget: float = 0.05) -> Plan:
    """Plan with a digest of its own; the name is noted as its time of creation."""
    return Plan(
        version=1,
        service=SERVICE,
        created=name,
        profile="sha256:0",
        budgets=Budgets(reissue=budget),
        cost=Costs(model="calls", stages={"a": 1.0}),
        stages={"a": StagePlan(reissue=Reissue(after_ms=50.0, fraction=0.05))},
    )


def proposal_of(plan: Plan, *, gain: float = 0.5) -> PlanProposal:
    """Proposal whose judgement promises a cut of p99."""
    return PlanProposal(
        plan=plan,
        learned=2000,
        judged=1000,
        none_p99_ms=100.0,
        in_force_p99_ms=100.0,
        plan_p99_ms=100.0 * (1 - gain),
        surely=gain > 0,
        spent=0.04,
    )


@dataclass
class CountingGateway:
    """Gateway that knows nothing but how many requests are slow under each plan.

    Attributes:
        slow: share of slow requests by time of creation of the plan; "" for no plan.
    """

    slow: dict[str, float]
    seed: int = 0
    plan: Plan | None = None
    trial: Plan | None = None
    trial_share: float = 0.0
    author: str | None = None
    requests: int = 0
    at_s: float = 0.0
    arms: list[ArmCounts] = field(default_factory=lambda: [ArmCounts() for _ in range(3)])

    def __post_init__(self) -> None:
        """Begin the draws."""
        self._rng = np.random.default_rng(self.seed)

    def serve(self, requests: int) -> None:
        """Serve requests, each in an arm drawn at random."""
        levers = self.plan is not None or self.trial is not None
        control = CONTROL_SHARE if levers else 0.0
        shares = [control, 1 - control - self.trial_share, self.trial_share]
        counts = self._rng.multinomial(requests, shares)
        for number, plan in enumerate((None, self.plan, self.trial)):
            share = self.slow[plan.created if plan is not None else ""]
            slow = int(self._rng.binomial(counts[number], share))
            cells = {bucket_of(MEDIAN_MS): int(counts[number]) - slow, bucket_of(SLOW_MS): slow}
            self.arms[number] = self.arms[number].plus(ArmCounts(cells=cells))
        self.requests += requests
        self.at_s += requests / 50.0

    def seen(self) -> Seen:
        """What it tells."""
        control, planned, tried = self.arms
        return Seen(
            at_s=self.at_s,
            author=self.author,
            plan=self.plan,
            trial=self.trial.digest if self.trial is not None else None,
            trial_share=self.trial_share,
            requests=self.requests,
            control=control,
            planned=planned,
            tried=tried,
        )

    def follow(self, pilot: Autopilot) -> bool:
        """Put the record's setting in force, unless a person acts; returns whether it was another one."""
        record = pilot.record
        wanted = record.in_force, record.trial, record.trial_share
        if record.phase == "held" or wanted == (self.plan, self.trial, self.trial_share):
            return False
        self.plan, self.trial, self.trial_share = wanted
        self.author = "autopilot"
        self.arms = [ArmCounts() for _ in range(3)]
        return True

    def person_applies(self, plan: Plan | None) -> None:
        """A person puts a plan in force, or removes it."""
        self.plan, self.trial, self.trial_share, self.author = plan, None, 0.0, "person"
        self.arms = [ArmCounts() for _ in range(3)]

    def restart(self, *, keeps: bool) -> None:
        """Begin counting anew, with the plan that was saved or without."""
        self.requests, self.trial, self.trial_share = 0, None, 0.0
        self.arms = [ArmCounts() for _ in range(3)]
        if not keeps:
            self.plan, self.author = None, None
