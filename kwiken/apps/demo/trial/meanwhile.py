"""Expectation of a plan for the requests that ran without a plan in the same minutes.

The expectation that a plan states is for the time in which it was learned. Where the machine is busier or
idler by the time of the trial, the two disagree without any fault of the plan or of its model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from msgspec import structs

from kwiken.apps.report.model.result import Expectation
from kwiken.model.plan.plan import Expected, Plan
from kwiken.model.plan.rounding import rounded
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.otel.fit.fit import fit_forest
from kwiken.otel.trace.forest import Forest
from kwiken.otel.write.records import RequestRecord
from kwiken.tail.judging.tried_plan import corrected_expectation
from kwiken.tail.simulation.expectation import expect
from kwiken.tail.simulation.run_range import run_range

MIN_REQUESTS = 100  # of which one lies beyond p99


def expect_meanwhile(
    traces: Forest, before: Collection[RequestRecord], learned: Profile, plan: Plan, *, seed: int
) -> Expectation | None:
    """Replay a plan on the requests that ran without it.

    Nothing is used of the requests that ran with this plan: what is known of copies is what the plan's own
    profile says, and the expectation is corrected as the plan's own.

    Args:
        traces: traces of all requests.
        before: the requests without a plan.
        learned: profile that the plan was made from.

    Returns:
        The expectation; None for fewer than 100 requests.
    """
    if len(before) < MIN_REQUESTS:
        return None
    starts = np.array(sorted({record.start_ns for record in before}), dtype=np.int64)
    # A microsecond more on either side: a time in seconds since 1970 is only so exact.
    since_s, until_s = float(starts[0] / 1e9) - 1e-6, float(starts[-1] / 1e9) + 1e-6
    seen = fit_forest(traces, since_s=since_s, until_s=until_s)
    alone = part_of(seen, np.flatnonzero(np.isin(seen.started_s, starts / 1e9)))
    known = {stage.name: stage for stage in learned.stages}
    stages = tuple(_with_copies_of(stage, known.get(stage.name, stage)) for stage in alone.stages)
    simulation, expected = expect(replace(alone, stages=stages), plan, ledger=plan.ledger, seed=seed)
    if plan.expected is not None and plan.expected.correction is not None:
        expected = corrected_expectation(expected, plan.expected.correction)
    requests = len(before)
    run_ms = run_range(simulation.after_ms, expected, requests, recorded=alone.requests, seed=seed)
    return as_expectation(rounded(structs.replace(expected, run_ms=run_ms)))


def _with_copies_of(stage: StageProfile, other: StageProfile) -> StageProfile:
    return replace(stage, pairs_ms=other.pairs_ms, pairs_cut=other.pairs_cut, guesses_ms=other.guesses_ms)


def as_expectation(expected: Expected) -> Expectation:
    """What a plan expects, as a result states it: of p99 the range that a run of the size of an arm shows."""
    return Expectation(
        before=expected.before,
        after=expected.after,
        bounds=expected.bounds.after | ({"p99_ms": expected.run_ms} if expected.run_ms is not None else {}),
        spent=expected.spent.reissue,
        coverage=expected.interval,
    )
