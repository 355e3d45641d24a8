"""What to say of a plan whose budget buys no p99: that it is so, and which budget would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kwiken.apportion import apportion, choices_of
from kwiken.curves import Curve
from kwiken.plan import Expected, Plan
from kwiken.profile import Profile
from kwiken.simulation import ROWS, Arena

IN_VAIN = "this budget buys no p99 here"
NOTHING = 0.01  # of p99: less is none
WORTH = 0.05  # of p99, for a larger budget to be named
STEP = 2.0  # from one budget that is tried to the next


def in_vain(budget: float, expected: Expected) -> list[str]:
    """That a reissue budget was given and p99 is expected to stay where it is; nothing where it falls.

    Args:
        budget: for reissues, as a share of the cost.
        expected: of the plan.
    """
    before, after = expected.before.p99_ms, expected.after.p99_ms
    if budget <= 0 or _cut(before, after) >= NOTHING:
        return []
    return [f"{IN_VAIN}: {before:.4g} ms without the plan, {after:.4g} ms expected with it"]


def in_vain_notes(profile: Profile, plan: Plan, curves: Mapping[str, Curve], *, seed: int = 0) -> list[str]:
    """A note where a reissue budget was given and p99 is expected to stay where it is.

    Args:
        profile: what was learned.
        plan: with its expectation.
        curves: by stage that may be reissued.
        seed: of the copies and coins by which larger budgets are tried.
    """
    budget, expected = plan.budgets.reissue, plan.expected
    found = [] if expected is None else in_vain(budget, expected)
    if not found:
        return []
    told = found[0]
    if not curves:
        return [f"{told}; no stage may be reissued"]
    for larger, cut in _larger(profile, plan, curves, budget, seed):
        if cut >= WORTH:
            return [f"{told}; a reissue budget of {larger:.3g} should cut it by {cut:.0%}"]
    return [f"{told}; nor would more copies cut it by {WORTH:.0%}"]


def _larger(
    profile: Profile, plan: Plan, curves: Mapping[str, Curve], budget: float, seed: int
) -> Iterator[tuple[float, float]]:
    """Larger budgets, and by which share each would cut p99."""
    prices = {name: plan.cost.stages[name] for name in curves}
    rows = np.repeat(np.arange(profile.requests), max(1, ROWS // profile.requests))
    arena = Arena(profile, curves, rows, seed=seed)
    base = _p99(arena, {})
    while budget < 1:
        budget = min(1.0, STEP * budget)
        found = apportion(profile, curves, prices, budget, objective="tail", seed=seed)
        yield budget, _cut(base, _p99(arena, choices_of(curves, found)))


def _p99(arena: Arena, choices: Mapping[str, tuple[float, float]]) -> float:
    return float(np.percentile(arena.settle(choices), 99))


def _cut(before: float, after: float) -> float:
    return 1.0 - after / before if before > 0 else 0.0
