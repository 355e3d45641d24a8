"""Notes on a plan for its reader: limits of the data and refused spend, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwiken.apportion import Verdict
from kwiken.curves import MIN_CALLS_FOR_CURVE, Curve
from kwiken.profile import Profile, told_contradiction

MIN_REQUESTS_FOR_P99 = 1000  # number of requests below which p99 rests on ten of them or fewer
MIN_REFUSED_NOTED = 0.01  # share of the planned spend refused from which a note is given
MIN_CORRELATION_NOTED = 0.05  # correlation of copies from which a note is given


def verdict_notes(verdict: Verdict) -> list[str]:
    """Note on the objective that was chosen, with the results of those tried."""
    if not verdict.cuts:
        return []
    told = ", ".join(f"{name} {cut:.1%}" for name, cut in verdict.cuts.items())
    return [f"objective {verdict.objective}: p99 cut on later requests than those planned on was {told}"]


def reissue_notes(profile: Profile, curves: Mapping[str, Curve], refused: float) -> list[str]:
    """Notes on limits of a plan's reissues: too few requests or calls, the ledger's refusals."""
    notes = []
    if profile.requests < MIN_REQUESTS_FOR_P99:
        notes.append(
            f"only {profile.requests} requests: high percentiles rest on a few of them, so intervals are wide"
        )
    if (told := told_contradiction(profile)) is not None:
        notes.append(f"{told}; a plan and its expectation follow the stages")
    if refused > MIN_REFUSED_NOTED:
        notes.append(
            f"late calls come in bursts: the ledger should refuse {refused:.0%} of the planned spend because "
            "its window is spent, and the expectation accounts for that"
        )
    cut = sum(int(stage.censored.sum()) for stage in profile.stages)
    if cut:
        notes.append(
            f"{cut} calls were cancelled before they ended; their latency is estimated (Kaplan-Meier), and "
            "no estimate exceeds the longest call seen"
        )
    linked = [
        f"{name} {curve.correlation:.2f}"
        for name, curve in curves.items()
        if curve.correlation > MIN_CORRELATION_NOTED
    ]
    if linked:
        notes.append(f"copies are slow together with their calls; correlations used: {', '.join(linked)}")
    left = [s for s in profile.stages if s.reissuable and s.name not in curves]
    rare = [s.name for s in left if (~np.isnan(s.calls_ms)).sum() < MIN_CALLS_FOR_CURVE]
    hopeless = [s.name for s in left if s.name not in rare]
    if hopeless:
        notes.append(f"a copy would be as slow as its call, so none are sent: {', '.join(hopeless)}")
    if rare:
        notes.append(f"too few calls to plan for: {', '.join(rare)}")
    return notes
