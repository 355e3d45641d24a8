"""Objectives of a plan: variance, tail (mean and variance), p99, CVaR, and the choice by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.model.profile import Profile, part_of
from kwiken.tail.apportion.descent import choices_of, descend
from kwiken.tail.apportion.margin import SPLITS
from kwiken.tail.apportion.mean_variance import MeanVarianceApportioner
from kwiken.tail.apportion.sum_of_variances import Allocation, sumvar
from kwiken.tail.curves import Curve
from kwiken.tail.simulation import RISKS, ROWS, PairedSimulation, Rows

OBJECTIVES = ("tail", "variance", *RISKS, "auto")
CANDIDATES = ("tail", "p99")
MIN_LEAD = 0.002  # share of p99 by which `p99` must beat `tail` on later requests to be chosen
MIN_REQUESTS_TO_COMPARE = 800  # with fewer a quarter of the requests is too small for a p99

Curves = Callable[[Profile], Mapping[str, Curve]]


@dataclass(frozen=True)
class Verdict:
    """Objective chosen by cross-validation, with the evidence.

    Attributes:
        objective: `variance`, `tail`, `p99` or `cvar`.
        cuts: by objective tried: mean share by which p99 fell on requests later than those planned on.
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
    """Apportion a budget for an objective.

    There are three cases:
    1. `variance`: SumVar on the curves.
    2. `tail`: SumVar on mean and variance together (`kwiken.tail.apportion.mean_variance`).
    3. A key of `RISKS`: local search from the allocation of `tail` (`kwiken.tail.apportion.descent`).

    Args:
        profile: profile of the service.
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        budget: the most that may be spent, 0 or more.
        objective: `variance`, `tail`, or a key of `RISKS`.
        seed: seed of the search's copies and coins.
    """
    if objective == "variance":
        return with_coins(sumvar(curves, prices, budget), curves)
    start = with_coins(MeanVarianceApportioner(profile, curves)(prices, budget), curves)
    if objective == "tail":
        return start
    return descend(profile, curves, prices, start, risk=RISKS[objective], seed=seed)


def with_coins(allocation: Allocation, curves: Mapping[str, Curve]) -> Allocation:
    """The same allocation with the coin of each stage's best policy.

    Args:
        allocation: budget of each stage.
        curves: curve of each stage that may be reissued, by its name.
    """
    coins = {name: curves[name].coin_at(share) for name, share in allocation.fractions.items() if share > 0}
    return replace(allocation, coins=coins)


def cross_validated(
    profile: Profile,
    prices: Mapping[str, float],
    budget: float,
    *,
    curves_of: Curves,
    curves: Mapping[str, Curve] | None = None,
    seed: int = 0,
) -> Verdict:
    """Choose the objective whose plans, made on earlier requests, do best on later ones.

    Args:
        profile: profile of the service.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        budget: the most that may be spent, 0 or more.
        curves_of: function that computes the curves of a part of the profile.
        curves: curves of the whole profile; None to compute them.
        seed: seed of the copies and coins.

    Returns:
        The verdict: `p99` where it leads by `MIN_LEAD`, else `tail`; `tail` too where there are too few
        requests.
    """
    if profile.requests < MIN_REQUESTS_TO_COMPARE or budget <= 0:
        return Verdict("tail", {})
    whole = curves_of(profile) if curves is None else curves
    order = np.argsort(profile.started_s, kind="stable")
    folds = [_Fold.of(profile, whole, rows, curves_of, seed) for rows in _folds(order)]
    cuts = {
        objective: float(np.mean([fold.cut(prices, budget, objective) for fold in folds]))
        for objective in CANDIDATES
    }
    ahead = cuts["p99"] > cuts["tail"] + MIN_LEAD
    return Verdict("p99" if ahead else "tail", cuts)


def _folds(order: Rows) -> Iterator[tuple[Rows, Rows]]:
    for learned, judged in SPLITS:
        yield order[: int(learned * len(order))], order[int(learned * len(order)) : int(judged * len(order))]


@dataclass(frozen=True)
class _Fold:
    """One split of the requests: earlier ones to plan on, later ones to judge the plan by."""

    earlier: Profile
    curves: Mapping[str, Curve]
    later: PairedSimulation
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
        return cls(
            earlier, curves, PairedSimulation(profile, whole, judged, learned=curves, seed=seed + 2), seed
        )

    def cut(self, prices: Mapping[str, float], budget: float, objective: str) -> float:
        """Share by which p99 of the later requests falls under a plan of the earlier ones."""
        own = {name: prices[name] for name in self.curves}
        allocation = apportion(self.earlier, self.curves, own, budget, objective=objective, seed=self.seed)
        choices = choices_of(self.curves, allocation)
        alone, raced = (float(np.percentile(self.later.set_choices(given), 99)) for given in ({}, choices))
        return 1.0 - raced / alone if alone > 0 else 0.0
