"""Expectation of a plan for the requests that ran without one in the same minutes as those with it.

The expectation that a plan states is for the time in which it was learned. Where the machine is busier or
idler by the time of the trial, the two disagree without any fault of the plan or of its model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from kwiken.cli.report.model import Expectation
from kwiken.otel.fit import fit_profile
from kwiken.otel.write import RequestRecord
from kwiken.plan import Expected, Plan
from kwiken.profile import Profile, part_of
from kwiken.simulation import expect

MIN_REQUESTS = 100  # of which one lies beyond p99


def expect_meanwhile(
    traces: Path, before: Collection[RequestRecord], learned: Profile, plan: Plan, *, seed: int
) -> Expectation | None:
    """Replay a plan on the requests that ran without it.

    Nothing is used of the requests that ran with a plan: what is known of copies is what the plan's own
    profile says.

    Args:
        traces: folder of the spans of all requests.
        before: the requests without a plan.
        learned: profile that the plan was made from.
        plan: the plan.
        seed: seed of the draws.

    Returns:
        The expectation; None for fewer than 100 requests.
    """
    if len(before) < MIN_REQUESTS:
        return None
    starts = {record.start_ns for record in before}
    first_s, last_s = min(starts) / 1e9, max(starts) / 1e9
    # A microsecond more on either side: a time in seconds since 1970 is only so exact.
    seen = fit_profile([traces], since_s=first_s - 1e-6, until_s=last_s + 1e-6)
    own = np.isin(_microseconds(seen.started_s * 1e9), _microseconds(np.array(sorted(starts), dtype=float)))
    alone = part_of(seen, np.flatnonzero(own))
    known = {stage.name: stage for stage in learned.stages}
    stages = tuple(
        replace(
            stage,
            pairs_ms=known[stage.name].pairs_ms,
            pairs_cut=known[stage.name].pairs_cut,
            guesses_ms=known[stage.name].guesses_ms,
        )
        for stage in alone.stages
        if stage.name in known
    )
    _, expected = expect(replace(alone, stages=stages), plan, ledger=plan.ledger, seed=seed)
    return as_expectation(expected)


def _microseconds(nanoseconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray:
    return np.round(nanoseconds / 1e3).astype(np.int64)


def as_expectation(expected: Expected) -> Expectation:
    """What a plan expects, as a result states it."""
    return Expectation(
        before=expected.before,
        after=expected.after,
        bounds=expected.bounds.after,
        spent=expected.spent.reissue,
        coverage=expected.interval,
    )
