"""Result of the trial: what the plan promised and what it achieved, and remarks for the report's reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kwiken.apps.console.notes import note_sentences
from kwiken.apps.demo.pace.rate_search import Pace
from kwiken.apps.demo.setup.blocks import ARMS, Schedule
from kwiken.apps.demo.setup.settings import SETTLE_S, DemoSettings, Timing
from kwiken.apps.demo.trial.arms import ArmTrial
from kwiken.apps.demo.trial.meanwhile import as_expectation
from kwiken.apps.demo.trial.measure import ArmData, calls_of, spent_of, under_another_plan
from kwiken.apps.demo.trial.plans import Learned
from kwiken.apps.demo.trial.spend import SpentCall, spend_by_stage
from kwiken.apps.report.model.result import (
    ArmCount,
    CutInterval,
    DemoResult,
    Disturbance,
    Expectation,
    Settings,
    Spent,
    StageShare,
)
from kwiken.apps.report.model.statistics import cut_with_interval, ladder_of
from kwiken.apps.report.sections.views import budget_shares
from kwiken.base.machine.reading import processors_given
from kwiken.model.latency import PERCENTILES
from kwiken.model.profile.cost_models import cost_of_one_call
from kwiken.tail.simulation.expectation import BlockBootstrap, interval


@dataclass(frozen=True)
class TrialData:
    """Data of the trial.

    Attributes:
        pace: rate of the load, and what the machine was measured to do.
        restarts: number of replicas that died and were replaced.
    """

    settings: DemoSettings
    pace: Pace
    timing: Timing
    learned: Learned
    trial: ArmTrial
    disturbance: Disturbance
    restarts: int


@dataclass(frozen=True)
class ArmCalls:
    """Calls of each arm, settling time included, and the lengths of the arms in seconds."""

    calls: Mapping[str, list[SpentCall]]
    seconds: Mapping[str, float]

    def spent(self, arm: str) -> Spent:
        """Spend of an arm."""
        return spent_of(self.calls[arm], self.seconds[arm])


def arm_calls(learned: Learned, arms: Mapping[str, ArmData], schedule: Schedule) -> ArmCalls:
    """Calls of each arm with their costs by the plan's cost model.

    Args:
        learned: profile and plan, from which the cost of one call of each stage follows.
        arms: measurements by arm, settling time included.
        schedule: blocks of the arms, without settling time left out.
    """
    costs = learned.study.plan.cost
    unit = {name: cost_of_one_call(learned.profile, costs, name) for name in costs.stages}
    calls = {arm: calls_of(data, schedule, unit) for arm, data in arms.items()}
    return ArmCalls(calls, schedule.seconds)


def result_of(
    evidence: TrialData,
    arms: Mapping[str, ArmData],
    calls: ArmCalls,
    *,
    meanwhile: Expectation | None,
    even_for_same: float | None,
    settling: int,
    wall_s: float,
    lag: str,
) -> DemoResult:
    """Put the result together from what was measured.

    Args:
        arms: measurements by arm, without settling time.
        calls: calls by arm, settling time included, for spend.
        meanwhile: expectation of the plan for the requests of the trial itself; None if there is none.
        even_for_same: budget that, spread evenly, is expected to reach the plan's p99; None if none does.
        settling: number of requests that were left out while the service settled.
        wall_s: seconds since the demo began.
        lag: remark on the load generator's own delay.
    """
    plan = evidence.learned.study.plan
    ladders = {arm: ladder_of(data.series()[1]) for arm, data in arms.items()}
    assert plan.expected is not None  # `study_plan` states it
    promise = as_expectation(plan.expected)
    return DemoResult(
        version=1,
        service=plan.service,
        created=plan.created,
        before=ladders["before"],
        after=ladders["after"],
        even=ladders["even"],
        p95=ladders["p95"],
        expected=promise.after,
        achieved=ladder_of(arms["after"].gateway_ms),
        achieved_p99_between=_p99_between(arms["after"], evidence.settings.seed),
        drift=_drift(arms["before"], promise),
        budgets={name: getattr(plan.budgets, name) for name in plan.budgets.__struct_fields__},
        peak=plan.ledger.peak(plan.budgets.reissue),
        spent=calls.spent("after"),
        spent_even=calls.spent("even"),
        spent_p95=calls.spent("p95"),
        even_for_same=even_for_same,
        requests=sum(len(data.sent) for data in arms.values()),
        failed=sum(data.failed for data in arms.values()),
        dropped=sum(data.dropped for data in arms.values()),
        settling=settling,
        cut_p99=_cuts(arms, evidence.settings.seed),
        arms={arm: _count(data, evidence.trial, arm) for arm, data in arms.items()},
        stages=_stages(evidence.learned, calls.calls),
        expectation=promise,
        meanwhile=meanwhile,
        disturbance=evidence.disturbance,
        settings=_settings(evidence, wall_s),
        remarks=[*_remarks(evidence, arms), lag],
    )


def _p99_between(data: ArmData, seed: int) -> tuple[float, float] | None:
    """Interval of an arm's p99 at the gateway, milliseconds; None where nothing was traced."""
    records = sorted(data.records, key=lambda record: record.start_ns)
    if not records:
        return None
    took = np.array([(record.end_ns - record.start_ns) / 1e6 for record in records])
    found = BlockBootstrap(len(took), seed=seed).percentiles(took)
    return interval(found[:, PERCENTILES.index(99.0)])


def _drift(before: ArmData, promise: Expectation) -> float:
    """Relative change of the median without a plan since the plan was learned, at the gateway."""
    learned, now = promise.before.p50_ms, ladder_of(before.gateway_ms).p50_ms
    return now / learned - 1 if learned > 0 and now > 0 else 0.0


def _cuts(arms: Mapping[str, ArmData], seed: int) -> dict[str, CutInterval]:
    pairs = {
        "after": ("before", "after"),
        "even": ("before", "even"),
        "after_even": ("even", "after"),
        "after_p95": ("p95", "after"),
    }
    return {
        name: CutInterval(
            **cut_with_interval(base=arms[base].series(), other=arms[other].series(), seed=seed)
        )
        for name, (base, other) in pairs.items()
    }


def _count(data: ArmData, trial: ArmTrial, arm: str) -> ArmCount:
    busy = trial.busy_s.get(arm)
    share = (
        busy / trial.block_s[arm] / processors_given()
        if busy is not None and trial.block_s.get(arm)
        else None
    )
    return ArmCount(requests=len(data.sent), failed=data.failed, seconds=data.seconds, replica_cpu=share)


def _stages(learned: Learned, calls: Mapping[str, list[SpentCall]]) -> list[StageShare]:
    plan = learned.study.plan
    shares = budget_shares(plan)
    used, used_even = spend_by_stage(calls["after"]), spend_by_stage(calls["even"])
    found = []
    for name, stage in plan.stages.items():
        own, other = stage.reissue, learned.even.stages[name].reissue
        found.append(
            StageShare(
                name=name,
                cost=plan.cost.stages.get(name, 0.0),
                fraction=own.fraction if own is not None else 0.0,
                after_ms=own.after_ms if own is not None else None,
                budget=shares.get(name, 0.0),
                used=used.get(name, 0.0),
                even_fraction=other.fraction if other is not None else 0.0,
                even_after_ms=other.after_ms if other is not None else None,
                even_used=used_even.get(name, 0.0),
            )
        )
    return found


def _settings(evidence: TrialData, wall_s: float) -> Settings:
    settings, timing, pace = evidence.settings, evidence.timing, evidence.pace
    return Settings(
        seconds=timing.total_s,
        rate=pace.rate,
        seed=settings.seed,
        learn_s=timing.learn_s,
        rounds=timing.rounds,
        block_s=timing.block_s,
        settle_s=SETTLE_S,
        order=[", ".join(order) for order in evidence.trial.order],
        processors=math.ceil(processors_given()),
        wall_s=wall_s,
        pace=pace.line,
        repeated=len(evidence.trial.repeated),
    )


def _remarks(evidence: TrialData, arms: Mapping[str, ArmData]) -> list[str]:
    """Remarks on this run for the reader of the report."""
    learned = evidence.learned
    plans = {"after": learned.study.plan, "even": learned.even, "p95": learned.everywhere}
    digests = {arm: plan.digest for arm, plan in plans.items()}
    strays = sum(under_another_plan(arms[arm], digests.get(arm)) for arm in ARMS)
    untraced = sum(len(data.sent) - len(data.records) for data in arms.values())
    found = note_sentences(learned.study.notes)
    if strays:
        found.append(f"{strays} requests ran under another plan than that of their block.")
    if untraced:
        found.append(f"{untraced} requests left no trace; spend is counted from the others.")
    if evidence.trial.repeated:
        reasons = "; ".join(dict.fromkeys(finding.words for finding in evidence.trial.repeated))
        found.append(f"{len(evidence.trial.repeated)} blocks told nothing and were repeated: {reasons}.")
    if evidence.restarts:
        found.append(f"{evidence.restarts} replicas died and were replaced.")
    return found
