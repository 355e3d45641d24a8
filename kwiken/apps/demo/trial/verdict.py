"""Verdict on the trial: what counts, what is refused, and what is written. Blocking; run in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kwiken.apps.demo.pace.attempt import InconclusiveRunError
from kwiken.apps.demo.pace.health import check_outcome, check_unrest
from kwiken.apps.demo.setup.blocks import ARMS, Schedule
from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.setup.load import Record
from kwiken.apps.demo.setup.settings import EDGE_S, SETTLE_S
from kwiken.apps.demo.trial.meanwhile import expect_meanwhile
from kwiken.apps.demo.trial.measure import ArmData, assign, attach
from kwiken.apps.demo.trial.output_folder import write_folder
from kwiken.apps.demo.trial.plans import even_for_the_same_p99
from kwiken.apps.demo.trial.trial_result import TrialData, arm_calls, result_of
from kwiken.apps.report.model.number_format import ms
from kwiken.apps.report.model.result import DemoResult
from kwiken.apps.report.model.statistics import ladder_of
from kwiken.base.errors import KwikenError
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.recorded_requests import requests_in


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
    calls = arm_calls(evidence.learned, spenders, whole)
    learned = evidence.learned
    meanwhile = expect_meanwhile(
        forest,
        arms["before"].records,
        learned.profile,
        learned.study.plan,
        seed=evidence.settings.seed,
    )
    same = even_for_the_same_p99(learned.profile, learned.study, seed=evidence.settings.seed)
    result = result_of(
        evidence,
        arms,
        calls,
        meanwhile=meanwhile,
        even_for_same=same,
        settling=settling,
        wall_s=wall_s(),
        lag=_lag(noted),
    )
    _refuse_overload(result)
    if not evidence.settings.calm:
        _refuse_unrest(arms["before"], result)
    write_folder(folder, evidence.learned, arms, result)
    return result


def _refuse_overload(result: DemoResult) -> None:
    """Refuse a result whose latencies are those of an overload.

    Raises:
        InconclusiveRunError: says which sign of an overload there is.
    """
    reason = check_outcome(
        {arm: getattr(result, arm).p99_ms for arm in ARMS},
        due=result.requests + result.dropped,
        failed=result.failed,
        dropped=result.dropped,
    )
    if reason is not None:
        raise InconclusiveRunError(f"at {result.settings.rate:g} requests a second {reason}")


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


def _lag(noted: Iterable[Record]) -> str:
    """Remark on the load generator's own delay, which latencies include."""
    lags = [record.start_lag_ms for record in noted if record.start_lag_ms is not None]
    late = ms(float(np.percentile(lags, 99)))
    return f"The load generator was itself {late} late at the 99th percentile; latency includes that."
