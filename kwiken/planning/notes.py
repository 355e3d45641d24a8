"""What a reader of a plan should know, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwiken.apportion import Verdict
from kwiken.curves import MIN_CALLS_FOR_CURVE, Curve
from kwiken.profile import Profile, told_contradiction

FEW_REQUESTS = 1000  # below, p99 rests on ten requests or less
WORTH_SAYING = 0.01
ALL = 0.995  # rounds to the whole budget
SAID = 0.05  # correlation from which a reader should know of it


def verdict_notes(verdict: Verdict) -> list[str]:
    """Notes on which objective was chosen, and why."""
    if not verdict.cuts:
        return []
    told = ", ".join(f"{name} {cut:.1%}" for name, cut in verdict.cuts.items())
    return [f"objective {verdict.objective}: p99 cut on later requests than those planned on was {told}"]


def reissue_notes(profile: Profile, curves: Mapping[str, Curve], margin: float, refused: float) -> list[str]:
    """Notes on what limits a plan's reissues: too few requests or calls, the margin, the ledger's refusals."""
    notes = []
    if profile.requests < FEW_REQUESTS:
        notes.append(
            f"only {profile.requests} requests: high percentiles rest on a few of them, so intervals are "
            "wide and the plan spends less than it may"
        )
    if (told := told_contradiction(profile)) is not None:
        notes.append(f"{told}; a plan goes by the stages, and so does what it expects")
    if margin < ALL:
        notes.append(
            f"{margin:.0%} of the reissue budget was apportioned; the rest is kept for later requests that "
            "differ from the earlier ones"
        )
    if refused > WORTH_SAYING:
        notes.append(
            f"late calls come in bursts: the ledger should refuse {refused:.0%} of the planned spend because "
            "its window is spent, and the expectation counts with that"
        )
    cut = sum(int(stage.censored.sum()) for stage in profile.stages)
    if cut:
        notes.append(
            f"{cut} calls were cancelled before they ended; their latency is estimated (Kaplan-Meier), and "
            "beyond the longest call seen it is taken as that"
        )
    linked = [f"{name} {curve.correlation:.2f}" for name, curve in curves.items() if curve.correlation > SAID]
    if linked:
        notes.append(f"copies are slow with their calls; correlation planned with: {', '.join(linked)}")
    left = [s for s in profile.stages if s.reissuable and s.name not in curves]
    rare = [s.name for s in left if (~np.isnan(s.calls_ms)).sum() < MIN_CALLS_FOR_CURVE]
    hopeless = [s.name for s in left if s.name not in rare]
    if hopeless:
        notes.append(f"a copy would be as slow as its call, so none are sent: {', '.join(hopeless)}")
    if rare:
        notes.append(f"too few calls to plan for: {', '.join(rare)}")
    return notes
