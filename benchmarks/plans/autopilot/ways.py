"""Ways through the day: none, plans that stay, plans in hindsight, and the autopilot."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.plans.autopilot.day import STAGES, Step
from benchmarks.plans.autopilot.gateway import Played, SimulatedLedger, play
from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan, SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.apportion.apportioner import INSURANCE
from kwiken.tail.autopilot.arms import ArmCounts, bucket_of
from kwiken.tail.autopilot.autopilot import CONTROL_SHARE, Autopilot, Decision, Seen
from kwiken.tail.autopilot.proposal import propose
from kwiken.tail.autopilot.record import AutopilotRecord
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

BUDGET: Final = 0.05
SERVICE: Final = "day"
WINDOW_S: Final = 1800.0  # of the requests that the autopilot learns from and judges on
KEPT_SHARE: Final = 0.1  # of the requests, whose calls are known, as a sampler of traces keeps them
MAX_PAIRS: Final = 5_000  # of a stage, the latest
CONTROL, PLANNED, TRIED = range(3)


@dataclass
class Part:
    """Kept requests of one step."""

    started_s: Floats
    latency_ms: Floats
    calls_ms: Mapping[str, Floats]
    censored: Mapping[str, Bools]
    pairs_ms: Mapping[str, Floats]
    pairs_cut: Mapping[str, Bools]


def kept_part(step: Step, played: Played, share: float, rng: np.random.Generator) -> Part:
    """A share of a step's requests, as traces of them would show them; pairs are kept by the same share."""
    rows = np.flatnonzero(rng.random(len(step.started_s)) < share)
    pairs = {name: rng.random(len(pair)) < share for name, pair in played.pairs_ms.items()}
    return Part(
        started_s=step.started_s[rows],
        latency_ms=played.latency_ms[rows],
        calls_ms={name: calls[rows] for name, calls in played.calls_ms.items()},
        censored={name: cut[rows] for name, cut in played.censored.items()},
        pairs_ms={name: pair[pairs[name]] for name, pair in played.pairs_ms.items()},
        pairs_cut={name: cut[pairs[name]] for name, cut in played.pairs_cut.items()},
    )


def profile_of(parts: Sequence[Part]) -> Profile:
    """Profile of kept requests, one or more."""
    stages = []
    for name, kind in STAGES.items():
        pairs = np.concatenate([part.pairs_ms[name] for part in parts])[-MAX_PAIRS:]
        cut = np.concatenate([part.pairs_cut[name] for part in parts])[-MAX_PAIRS:]
        stages.append(
            StageProfile(
                name=name,
                after=kind.after,
                match=SpanMatch(service=SERVICE, operation=name),
                calls_ms=np.concatenate([part.calls_ms[name] for part in parts])[:, None],
                censored=np.concatenate([part.censored[name] for part in parts])[:, None],
                pairs_ms=pairs if len(pairs) else None,
                pairs_cut=cut if len(pairs) else None,
            )
        )
    return Profile(
        service=SERVICE,
        stages=tuple(stages),
        latency_ms=np.concatenate([part.latency_ms for part in parts]),
        started_s=np.concatenate([part.started_s for part in parts]),
    )


def plan_of(profile: Profile, *, spread: str = "sumvar", insurance: float = INSURANCE) -> Plan:
    """Plan with the whole budget."""
    budgets = Budgets(reissue=BUDGET)
    return study_plan(
        profile,
        PlanSettings(budgets=budgets, created="", spread=spread, insurance=insurance, guarded=False),
    ).plan


@dataclass
class PlannedWay:
    """A way whose plan in each phase is known from the start.

    Attributes:
        plans: plan of each phase; one for all phases, or None for no plan.
        latency_ms: latencies so far, (n,) of each step, milliseconds.
    """

    plans: Sequence[Plan | None]
    ledger: SimulatedLedger = field(default_factory=SimulatedLedger)
    latency_ms: list[Floats] = field(default_factory=list)
    in_force: Plan | None = None

    def take(self, step: Step, rng: np.random.Generator) -> Played:
        """Play one step."""
        plan = self.plans[step.phase % len(self.plans)]
        if plan is not self.in_force:
            self.ledger.retune(plan, float(step.started_s[0]))
            self.in_force = plan
        played = play(step, [plan], np.zeros(len(step.started_s), dtype=np.int64), self.ledger, rng)
        self.latency_ms.append(played.latency_ms)
        return played


class AutopilotWay:
    """The autopilot in front of the simulated gateway.

    Attributes:
        decisions: moment in seconds and decision, for all but those to wait.
    """

    def __init__(self) -> None:
        self.pilot = Autopilot(AutopilotRecord(service=SERVICE, budget=BUDGET))
        self.ledger = SimulatedLedger()
        self.latency_ms: list[Floats] = []
        self.decisions: list[tuple[float, Decision]] = []
        self._window: deque[Part] = deque()
        self._counts = [ArmCounts() for _ in range(3)]
        self._requests = 0
        self._set: tuple[Plan | None, Plan | None, float] = (None, None, 0.0)

    def take(self, step: Step, rng: np.random.Generator) -> None:
        """Play one step, then let the autopilot look."""
        plan, trial, share = self._set
        draws = rng.random(len(step.started_s))
        control = CONTROL_SHARE if plan is not None or trial is not None else 0.0
        arm = np.where(draws < control, CONTROL, np.where(draws < control + share, TRIED, PLANNED))
        played = play(step, [None, plan, trial], arm, self.ledger, rng)
        self.latency_ms.append(played.latency_ms)
        for number in range(3):
            counts = _counted(played.latency_ms[arm == number])
            self._counts[number] = self._counts[number].plus(counts)
        self._requests += len(arm)
        now_s = float(step.started_s[-1])
        self._window.append(kept_part(step, played, KEPT_SHARE, rng))
        while now_s - self._window[0].started_s[0] > WINDOW_S:
            self._window.popleft()
        seen = self._seen(now_s)
        decision = self.pilot.observe(seen)
        if decision.wants_proposal:
            decision = self._proposed(seen)
        if decision.action != "wait":
            self.decisions.append((now_s, decision))
        self._follow(now_s)

    def _seen(self, now_s: float) -> Seen:
        plan, trial, share = self._set
        return Seen(
            at_s=now_s,
            author="autopilot" if plan is not None or trial is not None else None,
            plan=plan,
            trial=trial.digest if trial is not None else None,
            trial_share=share,
            requests=self._requests,
            control=self._counts[CONTROL],
            planned=self._counts[PLANNED],
            tried=self._counts[TRIED],
        )

    def _proposed(self, seen: Seen) -> Decision:
        try:
            found = propose(
                profile_of(self._window), seen.plan, budget=BUDGET, created="", sampled=KEPT_SHARE
            )
        except InputError as error:
            return Decision(action="wait", reason=str(error))
        return self.pilot.consider(found, seen)

    def _follow(self, now_s: float) -> None:
        record = self.pilot.record
        wanted = record.in_force, record.trial, record.trial_share
        if wanted == self._set:
            return
        self._set = wanted
        self._counts = [ArmCounts() for _ in range(3)]
        self.ledger.retune(record.trial or record.in_force, now_s)
        if record.trial is not None:
            share = record.trial_share
            others = 1.0 - CONTROL_SHARE - share
            self.ledger.split({PLANNED: (record.in_force, others), TRIED: (record.trial, share)}, now_s)


def _counted(latency_ms: Floats) -> ArmCounts:
    cells: dict[int, int] = {}
    for value in latency_ms.tolist():
        bucket = bucket_of(value)
        cells[bucket] = cells.get(bucket, 0) + 1
    return ArmCounts(cells=cells)
