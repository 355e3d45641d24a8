"""What a plan aims at: the sum of variances, p99 or CVaR directly, or whichever holds on later requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken._arena import RISKS, ROWS, Arena, Rows
from kwiken._curve import Curve
from kwiken._descent import choices_of, descend
from kwiken._profile import Profile, StageProfile
from kwiken._spend import SPLITS
from kwiken._sumvar import Allocation, sumvar

OBJECTIVES = ("variance", *RISKS, "auto")
CANDIDATES = ("variance", "p99")
WORTH = 0.002  # by how much of p99 the direct objective must be ahead on later requests
LEAST_REQUESTS = 800  # of fewer, a quarter holds no p99 to judge by

Curves = Callable[[Profile], Mapping[str, Curve]]


@dataclass(frozen=True)
class Verdict:
    """Which objective was taken, and why.

    Attributes:
        objective: `variance`, `p99` or `cvar`.
        cuts: by objective that was tried: mean p99 cut on requests later than those it was planned on.
    """

    objective: str
    cuts: Mapping[str, float]


def apportion(
    profile: Profile,
    curves: Mapping[str, Curve],
    prices: Mapping[str, float],
    budget: float,
    *,
    objective: str,
    seed: int = 0,
) -> Allocation:
    """A budget apportioned for an objective.

    Args:
        profile: what was learned.
        curves: by stage that may be reissued.
        prices: by stage: what reissuing all of its calls costs.
        budget: the most that may be spent.
        objective: `variance`, or a key of `RISKS`: descent from variance's answer (see `_descent`).
        seed: of the descent's copies and coins.
    """
    start = with_coins(sumvar(curves, prices, budget), curves)
    if objective == "variance":
        return start
    return descend(profile, curves, prices, start, risk=RISKS[objective], seed=seed)


def with_coins(allocation: Allocation, curves: Mapping[str, Curve]) -> Allocation:
    """The same allocation with the coin of each stage's best policy."""
    coins = {name: curves[name].coin_at(share) for name, share in allocation.fractions.items() if share > 0}
    return replace(allocation, coins=coins)


def scaled(allocation: Allocation, factor: float) -> Allocation:
    """The same shape of allocation with less spend; coins stay, so ages move outwards."""
    fractions = {name: factor * share for name, share in allocation.fractions.items()}
    return replace(allocation, fractions=fractions, spent=factor * allocation.spent)


def cross_validated(
    profile: Profile,
    prices: Mapping[str, float],
    budget: float,
    *,
    curves_of: Curves,
    seed: int = 0,
) -> Verdict:
    """The objective whose plans, made on earlier requests, did best on later ones.

    Args:
        profile: what was learned.
        prices: by stage: what reissuing all of its calls costs.
        budget: the most that may be spent.
        curves_of: makes the curves of a part of the profile.
        seed: of copies and coins.

    Returns:
        The verdict: `variance` unless p99 is ahead by `WORTH`, or where there are too few requests.
    """
    if profile.requests < LEAST_REQUESTS or budget <= 0:
        return Verdict("variance", {})
    whole = curves_of(profile)
    order = np.argsort(profile.started_s, kind="stable")
    folds = list(_folds(order))
    cuts = {
        objective: float(
            np.mean(
                [
                    _held_out_cut(profile, whole, (early, late), prices, budget, curves_of, objective, seed)
                    for early, late in folds
                ]
            )
        )
        for objective in CANDIDATES
    }
    ahead = cuts["p99"] > cuts["variance"] + WORTH
    return Verdict("p99" if ahead else "variance", cuts)


def _folds(order: Rows) -> Iterator[tuple[Rows, Rows]]:
    for learned, judged in SPLITS:
        yield order[: int(learned * len(order))], order[int(learned * len(order)) : int(judged * len(order))]


def _held_out_cut(
    profile: Profile,
    whole: Mapping[str, Curve],
    fold: tuple[Rows, Rows],
    prices: Mapping[str, float],
    budget: float,
    curves_of: Curves,
    objective: str,
    seed: int,
) -> float:
    """By which share p99 of the later requests falls under a plan of the earlier ones."""
    early, late = fold
    before = part_of(profile, early)
    curves = {name: curve for name, curve in curves_of(before).items() if name in whole}
    own = {name: prices[name] for name in curves}
    allocation = apportion(before, curves, own, budget, objective=objective, seed=seed)
    rows = np.repeat(late, max(1, ROWS // len(late)))
    arena = Arena(profile, whole, rows, learned=curves, seed=seed + 2)
    alone, raced = (arena.settle(choices) for choices in ({}, choices_of(curves, allocation)))
    p99 = float(np.percentile(alone, 99))
    return 1.0 - float(np.percentile(raced, 99)) / p99 if p99 > 0 else 0.0


def part_of(profile: Profile, rows: Rows) -> Profile:
    """The profile of some of its requests, in the order given."""
    return replace(
        profile,
        stages=tuple(rows_of(stage, rows) for stage in profile.stages),
        latency_ms=profile.latency_ms[rows],
        started_s=profile.started_s[rows],
    )


def rows_of(stage: StageProfile, rows: Rows) -> StageProfile:
    """The profile of a stage in some requests, in the order given; pairs stay as they are."""
    worth = stage.worth[rows] if stage.worth is not None else None
    return replace(stage, calls_ms=stage.calls_ms[rows], censored=stage.censored[rows], worth=worth)
