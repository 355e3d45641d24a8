"""What a plan aims at: variances, mean and spread, p99 or CVaR, or whichever holds on later requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.apportion.descent import choices_of, descend
from kwiken.apportion.margin import SPLITS
from kwiken.apportion.mean_variance import MeanAndSpread
from kwiken.apportion.sum_of_variances import Allocation, sumvar
from kwiken.curves import Curve
from kwiken.profile import Profile, part_of
from kwiken.simulation import RISKS, ROWS, Arena, Rows

OBJECTIVES = ("tail", "variance", *RISKS, "auto")
CANDIDATES = ("tail", "p99")
WORTH = 0.002  # by how much of p99 the direct objective must be ahead on later requests
LEAST_REQUESTS = 800  # of fewer, a quarter holds no p99 to judge by

Curves = Callable[[Profile], Mapping[str, Curve]]


@dataclass(frozen=True)
class Verdict:
    """Which objective was taken, and why.

    Attributes:
        objective: `variance`, `tail`, `p99` or `cvar`.
        cuts: by objective that was tried: the share by which p99 fell, in the mean, on requests later than
            those it was planned on.
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
        objective: `variance`; `tail`, mean and spread (see `_tail`); or a key of `RISKS`: descent from the
            latter's answer (see `_descent`).
        seed: of the descent's copies and coins.
    """
    if objective == "variance":
        return with_coins(sumvar(curves, prices, budget), curves)
    start = with_coins(MeanAndSpread(profile, curves)(prices, budget), curves)
    if objective == "tail":
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
    curves: Mapping[str, Curve] | None = None,
    seed: int = 0,
) -> Verdict:
    """The objective whose plans, made on earlier requests, did best on later ones.

    Args:
        profile: what was learned.
        prices: by stage: what reissuing all of its calls costs.
        budget: the most that may be spent.
        curves_of: makes the curves of a part of the profile.
        curves: those of the whole profile, where they are known already.
        seed: of copies and coins.

    Returns:
        The verdict: `tail` unless p99 is ahead by `WORTH`, or where there are too few requests.
    """
    if profile.requests < LEAST_REQUESTS or budget <= 0:
        return Verdict("tail", {})
    whole = curves_of(profile) if curves is None else curves
    order = np.argsort(profile.started_s, kind="stable")
    folds = [_Fold.of(profile, whole, rows, curves_of, seed) for rows in _folds(order)]
    cuts = {
        objective: float(np.mean([fold.cut(prices, budget, objective) for fold in folds]))
        for objective in CANDIDATES
    }
    ahead = cuts["p99"] > cuts["tail"] + WORTH
    return Verdict("p99" if ahead else "tail", cuts)


def _folds(order: Rows) -> Iterator[tuple[Rows, Rows]]:
    for learned, judged in SPLITS:
        yield order[: int(learned * len(order))], order[int(learned * len(order)) : int(judged * len(order))]


@dataclass(frozen=True)
class _Fold:
    """Earlier requests to plan on, and later ones, in an arena, to judge by."""

    earlier: Profile
    curves: Mapping[str, Curve]
    later: Arena
    seed: int

    @classmethod
    def of(
        cls,
        profile: Profile,
        whole: Mapping[str, Curve],
        rows: tuple[Rows, Rows],
        curves_of: Curves,
        seed: int,
    ) -> _Fold:
        early, late = rows
        earlier = part_of(profile, early)
        curves = {name: curve for name, curve in curves_of(earlier).items() if name in whole}
        judged = np.repeat(late, max(1, ROWS // len(late)))
        return cls(earlier, curves, Arena(profile, whole, judged, learned=curves, seed=seed + 2), seed)

    def cut(self, prices: Mapping[str, float], budget: float, objective: str) -> float:
        """By which share p99 of the later requests falls under a plan of the earlier ones."""
        own = {name: prices[name] for name in self.curves}
        allocation = apportion(self.earlier, self.curves, own, budget, objective=objective, seed=self.seed)
        choices = choices_of(self.curves, allocation)
        alone, raced = (float(np.percentile(self.later.settle(given), 99)) for given in ({}, choices))
        return 1.0 - raced / alone if alone > 0 else 0.0
