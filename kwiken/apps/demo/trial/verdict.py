"""Result of the trial: percentiles, cuts and spend, written to the folder. Blocking; run in a thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from kwiken.apps.console import note_sentences
from kwiken.apps.demo.pace import InconclusiveRunError, Pace, check_outcome, check_unrest
from kwiken.apps.demo.setup import ARMS, EDGE_S, SETTLE_S, DemoSettings, Folder, Record, Schedule, Timing
from kwiken.apps.demo.trial.arms import ArmTrial
from kwiken.apps.demo.trial.meanwhile import as_expectation, expect_meanwhile
from kwiken.apps.demo.trial.measure import ArmData, assign, attach, calls_of, spent_of, under_another_plan
from kwiken.apps.demo.trial.plans import Learned
from kwiken.apps.demo.trial.spend import SpentCall, spend_by_stage
from kwiken.apps.report import build_page, made_line
from kwiken.apps.report.charts import pauses_of, pick_requests
from kwiken.apps.report.model import (
    ArmCount,
    CutInterval,
    DemoResult,
    Disturbance,
    Expectation,
    Settings,
    Spent,
    StageShare,
    cut_with_interval,
    ladder_of,
    ms,
    render,
)
from kwiken.apps.report.sections import Material, budget_shares, curve_views
from kwiken.base.errors import KwikenError
from kwiken.base.machine import processors_given
from kwiken.model.latency import PERCENTILES
from kwiken.model.profile import cost_of_one_call, profile_to_json
from kwiken.otel.trace import read_forest, requests_in
from kwiken.tail.simulation import BlockBootstrap, interval


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


class NothingMeasuredError(KwikenError):
    """An arm has no request to judge by."""


def judge(
    evidence: TrialData, noted: Iterable[Record], *, folder: Folder, wall_s: Callable[[], float]
) -> DemoResult:
    """Judge the trial and write the folder.

    Args:
        noted: records of the load generator, one per request.
        folder: output folder, with complete traces.
        wall_s: returns the seconds since the demo began.

    Raises:
        NothingMeasuredError: when an arm has no request.
        InconclusiveRunError: when the latencies are those of an overload, or of the machine's own unrest;
            nothing is written then.
    """
    noted = list(noted)
    arms, settling = assign(noted, Schedule(evidence.trial.blocks, SETTLE_S, EDGE_S))
    empty = [arm for arm, data in arms.items() if not data.sent]
    if empty:
        raise NothingMeasuredError(f"nothing was measured in: {', '.join(empty)}; raise --rate or --seconds")
    # Latency needs to settle after a switch. Spend does not: it counts from the first moment of a plan.
    whole = Schedule(evidence.trial.blocks, 0.0)
    spenders, _ = assign(noted, whole)
    wanted = {int(row.trace_id, 16) for data in spenders.values() for row in data.sent}
    forest = read_forest([folder.traces])
    requests = list(requests_in(forest, wanted=wanted.__contains__))
    for group in (arms, spenders):
        attach(group, requests)
    ledger = _ledger(evidence.learned, spenders, whole)
    learned = evidence.learned
    meanwhile = expect_meanwhile(
        forest,
        arms["before"].records,
        learned.profile,
        learned.study.plan,
        seed=evidence.settings.seed,
    )
    result = _result(
        evidence, arms, ledger, meanwhile=meanwhile, settling=settling, wall_s=wall_s, lag=_lag(noted)
    )
    _refuse_overload(result)
    if not evidence.settings.calm:
        _refuse_unrest(arms["before"], result)
    _write(folder, evidence.learned, arms, result)
    return result


def _refuse_overload(result: DemoResult) -> None:
    """Refuse a result whose latencies are those of an overload.

    Raises:
        InconclusiveRunError: says which sign of an overload there is.
    """
    reason = check_outcome(
        {"before": result.before.p99_ms, "after": result.after.p99_ms, "even": result.even.p99_ms},
        due=result.requests + result.dropped,
        failed=result.failed,
        dropped=result.dropped,
    )
    if reason is not None:
        raise InconclusiveRunError(f"at {result.settings.rate:g} requests a second {reason}")


@dataclass(frozen=True)
class ArmCalls:
    """Calls of each arm, settling time included, and the lengths of the arms in seconds."""

    calls: Mapping[str, list[SpentCall]]
    seconds: Mapping[str, float]

    def spent(self, arm: str) -> Spent:
        """Spend of an arm."""
        return spent_of(self.calls[arm], self.seconds[arm])


def _ledger(learned: Learned, arms: Mapping[str, ArmData], schedule: Schedule) -> ArmCalls:
    costs = learned.study.plan.cost
    unit = {name: cost_of_one_call(learned.profile, costs, name) for name in costs.stages}
    calls = {arm: calls_of(data, schedule, unit) for arm, data in arms.items()}
    return ArmCalls(calls, schedule.seconds)


def _result(
    evidence: TrialData,
    arms: Mapping[str, ArmData],
    ledger: ArmCalls,
    *,
    meanwhile: Expectation | None,
    settling: int,
    wall_s: Callable[[], float],
    lag: str,
) -> DemoResult:
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
        expected=promise.after,
        achieved=ladder_of(arms["after"].gateway_ms),
        achieved_p99_between=_p99_between(arms["after"], evidence.settings.seed),
        drift=_drift(arms["before"], promise),
        budgets={name: getattr(plan.budgets, name) for name in plan.budgets.__struct_fields__},
        peak=plan.ledger.peak(plan.budgets.reissue),
        spent=ledger.spent("after"),
        spent_even=ledger.spent("even"),
        requests=sum(len(data.sent) for data in arms.values()),
        failed=sum(data.failed for data in arms.values()),
        dropped=sum(data.dropped for data in arms.values()),
        settling=settling,
        cut_p99=_cuts(arms, evidence.settings.seed),
        arms={arm: _count(data, evidence.trial, arm) for arm, data in arms.items()},
        stages=_stages(evidence.learned, ledger.calls),
        expectation=promise,
        meanwhile=meanwhile,
        disturbance=evidence.disturbance,
        settings=_settings(evidence, wall_s()),
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


def _refuse_unrest(before: ArmData, result: DemoResult) -> None:
    """Refuse a result if the machine's own tail hides that of the pauses.

    Only the arm without a plan is looked at, so what a plan did has no say.

    Raises:
        InconclusiveRunError: says what p99 was without the pauses.
    """
    pauses: dict[str, list[tuple[float, float]]] = {}
    for stage in result.disturbance.stages.values():
        for replica, start_s, end_s in stage.pauses:
            pauses.setdefault(replica, []).append((start_s, end_s))
    reason = check_unrest(
        ladder_of(before.gateway_ms).p99_ms,
        ladder_of(before.undisturbed_ms(pauses)).p99_ms,
        requests=len(before.records),
    )
    if reason is not None:
        raise InconclusiveRunError(f"at {result.settings.rate:g} requests a second {reason}")


def _drift(before: ArmData, promise: Expectation) -> float:
    """Relative change of the median without a plan since the plan was learned, at the gateway."""
    learned, now = promise.before.p50_ms, ladder_of(before.gateway_ms).p50_ms
    return now / learned - 1 if learned > 0 and now > 0 else 0.0


def _cuts(arms: Mapping[str, ArmData], seed: int) -> dict[str, CutInterval]:
    pairs = {"after": ("before", "after"), "even": ("before", "even"), "after_even": ("even", "after")}
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
    plans = {"before": None, "after": learned.study.plan.digest, "even": learned.even.digest}
    strays = sum(under_another_plan(arms[arm], plans[arm]) for arm in ARMS)
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


def _lag(noted: Iterable[Record]) -> str:
    """Remark on the load generator's own delay, which latencies include."""
    lags = [record.start_lag_ms for record in noted if record.start_lag_ms is not None]
    late = ms(float(np.percentile(lags, 99)))
    return f"The load generator was itself {late} late at the 99th percentile; latency includes that."


def _write(folder: Folder, learned: Learned, arms: Mapping[str, ArmData], result: DemoResult) -> None:
    plan = learned.study.plan
    folder.write("profile.json", profile_to_json(learned.profile) + "\n")
    folder.write("plan-first.json", learned.first.to_json() + "\n")
    folder.write("plan.json", plan.to_json() + "\n")
    folder.write("plan-even.json", learned.even.to_json() + "\n")
    folder.write_rows(row for data in arms.values() for row in data.rows)
    folder.write("demo.json", msgspec.json.format(msgspec.json.encode(result), indent=1).decode() + "\n")
    material = Material(
        profile=learned.profile,
        plan=plan,
        even=learned.even,
        result=result,
        arms={arm: data.series()[1] for arm, data in arms.items()},
        requests=pick_requests({arm: data.records for arm, data in arms.items()}, pauses_of(result)),
        curves=curve_views(learned.study.curves, plan, learned.even),
        notes=(f"kwiken report {folder.path} draws this page again.",),
    )
    folder.write("report.html", render(build_page(material, made=made_line(result))))
