"""Choice among allocations of a reissue budget: the least spend that cuts p99 nearly as far as any.

A budget is the most that may be spent. All candidates are forecast on the same requests, copies and coins as
the expectation of the plan: at every budget of the `LADDER` the search and its steps on the way there, an
even spread, a uniform one, and the best stage alone. Of those within a share of the best cut the cheapest is
taken; then stages without which p99 stays where it is lose their own budget, and the insurance is added.

The candidates are the same for every budget, which only says how far up their order a plan goes. So with a
larger budget the expected p99 is no higher, and the spend no lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from kwiken.model.latency import percentile
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.apportioner import SPREADS, Apportioner, insured
from kwiken.tail.apportion.sum_of_variances import Allocation, allocation_of, choices_of, with_coins
from kwiken.tail.curves.curve import Curve
from kwiken.tail.simulation.common_random_numbers import Choice, PairedSimulation, smooth_p99
from kwiken.tail.simulation.expectation import expected_rows

LADDER: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)  # budgets whose candidates are tried
EXCESS: Final = 1e-9  # relative, of a sum of shares beyond its budget by rounding
STEPS: Final = (0.1, 0.2, 0.4, 0.6, 0.8)  # shares of a budget at which the search's way there is a candidate
MIN_GAIN: Final = 0.01  # of all stages' gains, from which a stage counts as one that has stalled
WITHIN: Final = 0.02  # of the best cut, that may be given up to spend less
TAIL: Final = 0.985  # quantile from which latencies count beside p99
SHOWN_MS: Final = 0.005  # cut of p99 below which two digits show none


@dataclass(frozen=True)
class LeastSpend:
    """Allocation of a reissue budget, and what other spends are expected to buy, larger ones too.

    Attributes:
        by_spend: spend, as a share of all work, and the p99 expected for it, milliseconds: each point is
            lower than all cheaper ones. The first is that without copies; insurance is left out.
        insured: stages whose copies only insure against stalls that have not come yet.
    """

    allocation: Allocation
    by_spend: tuple[tuple[float, float], ...] = ()
    insured: tuple[str, ...] = ()


def least_spend(
    profile: Profile,
    curves: Mapping[str, Curve],
    prices: Mapping[str, float],
    apportion: Apportioner,
    budget: float,
    *,
    within: float = WITHIN,
    seed: int,
) -> LeastSpend:
    """Least spend of a budget whose forecast cut of p99 is within a share of the best one.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        apportion: search for an allocation; one that ignores the objective is taken as it is.
        budget: the most that may be spent, as a share of all work.
        within: share of the best cut that may be given up, 0 to 1; none is where only variance counts.
        seed: seed of the draws behind the expectation.
    """
    if not curves or not budget > 0 or not apportion.searches:
        return LeastSpend(apportion(budget))
    paired = PairedSimulation(profile, curves, expected_rows(profile), seed=seed)
    search = _Search(curves, prices, apportion, within, paired)
    useful = _useful_shares(profile, curves)
    # By variance alone the source's search is for the budget itself, or for less.
    upto = (*(smaller for smaller in LADDER if smaller < budget), budget) if apportion.by_variance else LADDER
    for most in upto:
        for candidate in _candidates(curves, prices, apportion, most):
            search.try_out(_within_use(candidate, curves, prices, useful))
    own = search.best(budget)
    whole = search.insured(own, budget)
    idle = tuple(name for name, share in whole.fractions.items() if share > 0 and not own.fractions[name])
    return LeastSpend(whole, search.front(), idle)


class _Tried(NamedTuple):
    """Allocation that was tried, with its p99 and the mean beyond `TAIL`, milliseconds."""

    spent: float
    p99_ms: float
    tail_ms: float
    allocation: Allocation


class _Search:
    """Allocations that were tried, each with its spend and the tail expected for it.

    Args:
        within: share of the best cut that may be given up, 0 to 1.
        paired: simulation that forecasts all of them.
    """

    def __init__(
        self,
        curves: Mapping[str, Curve],
        prices: Mapping[str, float],
        apportion: Apportioner,
        within: float,
        paired: PairedSimulation,
    ) -> None:
        self._curves, self._prices, self._apportion = curves, prices, apportion
        self._within, self._paired = within, paired
        self._known: dict[tuple[tuple[str, Choice], ...], tuple[float, float]] = {}
        self.tried: list[_Tried] = []
        self.try_out(allocation_of(curves, prices, {}))

    def tail_of(self, allocation: Allocation) -> tuple[float, float]:
        """p99 expected for an allocation, and the mean beyond `TAIL`, milliseconds."""
        choices = choices_of(self._curves, allocation)
        key = tuple(choices.items())
        if key not in self._known:
            latency_ms = self._paired.set_choices(choices)
            first = min(int(TAIL * len(latency_ms)), len(latency_ms) - 1)
            tail_ms = float(np.partition(latency_ms, first)[first:].mean())
            self._known[key] = percentile(latency_ms, 99), tail_ms
        return self._known[key]

    def try_out(self, allocation: Allocation) -> None:
        """Forecast an allocation, without insurance."""
        self.tried.append(_Tried(self._spent(allocation), *self.tail_of(allocation), allocation))

    def _spent(self, allocation: Allocation) -> float:
        """Spend of an allocation's copies: where calls tie, a share may be more than its policy sends."""
        policies = (
            (name, self._curves[name].policy(share, coin=coin))
            for name, (share, coin) in choices_of(self._curves, allocation).items()
        )
        return math.fsum(self._prices[name] * each.fraction for name, each in policies if each is not None)

    def best(self, budget: float) -> Allocation:
        """Allocation for a budget, without insurance; one for more budget spends no less and is no slower.

        What the insurance spends depends on the budget and moves p99 too. So a budget's choice is taken once
        it is no slower than the one before with the insurance of both: where its copies use up the budget,
        and where they leave the whole insurance.
        """
        if self._apportion.by_variance:  # the best that spends most
            return min(self.tried, key=lambda each: (each.p99_ms, -each.spent)).allocation
        own, whole = self.tried[0].allocation, 1 / max(EXCESS, 1 - self._apportion.insurance)
        steps = [(spent * by, each) for spent, each in self._choices() for by in (1, whole)]
        for most, choice in sorted(steps, key=lambda step: step[0]):
            if most > budget * (1 + EXCESS):
                break
            if choice is own:
                continue
            before, after = self.insured(own, most), self.insured(choice, most)
            dearer = self._spent(after) >= self._spent(before)
            if dearer and self.tail_of(after)[0] <= self.tail_of(before)[0]:
                own = choice
        return own

    def _choices(self) -> list[tuple[float, Allocation]]:
        """Each spend that was tried, largest first, with the cheapest choice for that much or more."""
        found: list[tuple[float, Allocation]] = []
        lean: dict[int, Allocation] = {}
        for spent in sorted({each.spent for each in self.tried}, reverse=True):
            choice = self._chosen(spent)
            if id(choice) not in lean:
                lean[id(choice)] = self._without_idle_shares(choice)
            cheapest = lean[id(choice)]
            if found and self._spent(found[-1][1]) <= self._spent(cheapest):
                cheapest = found[-1][1]
            found.append((spent, cheapest))
        return found

    def _chosen(self, most: float) -> Allocation:
        """The cheapest that is within a share of the best cut, of p99 and of the mean beyond.

        A p99 alone would be content with copies for all but a hundredth of the requests: a few more stalls
        than were recorded would then be the whole p99.

        Args:
            most: spend beyond which none is considered.
        """
        base = self.tried[0]
        near = [each for each in self.tried if each.spent <= most]
        measures: tuple[Callable[[_Tried], float], ...] = (lambda one: one.p99_ms, lambda one: one.tail_ms)
        for measure in measures:
            best_ms = min(map(measure, near))
            goal_ms = best_ms + self._within * (measure(base) - best_ms)
            near = [each for each in near if measure(each) <= goal_ms]
        return min(near, key=lambda each: each[:3]).allocation

    def insured(self, allocation: Allocation, budget: float) -> Allocation:
        """An allocation with the insurance that a budget has room for."""
        premium = min(self._apportion.insurance * budget, budget - self._spent(allocation))
        return insured(allocation, self._curves, self._prices, max(0.0, premium))

    def _without_idle_shares(self, own: Allocation) -> Allocation:
        """The allocation without the budget of stages that cut nothing of p99, as far as two digits show.

        Several stages may cut the same requests, so that none of them seems to matter. So each one is tried
        without those that were left out before.
        """
        latency_ms = self._paired.set_choices(choices_of(self._curves, own))
        p99_ms, whole_ms = percentile(latency_ms, 99), smooth_p99(latency_ms)
        left_out: dict[str, tuple[float, float]] = {}
        for name in sorted(own.fractions, key=lambda each: (own.gains[each], each)):
            if own.fractions[name] > 0:
                without_ms = self._paired.with_choices({**left_out, name: (0.0, 1.0)})
                if percentile(without_ms, 99) <= p99_ms and smooth_p99(without_ms) < whole_ms + SHOWN_MS:
                    left_out[name] = (0.0, 1.0)
        shares = {name: share for name, share in own.fractions.items() if name not in left_out}
        coins = {name: coin for name, coin in own.coins.items() if name not in left_out}
        return replace(allocation_of(self._curves, self._prices, shares), coins=coins)

    def front(self) -> tuple[tuple[float, float], ...]:
        """Spend and p99 of those tried that are quicker than all cheaper ones, cheapest first."""
        found: list[tuple[float, float]] = []
        for each in sorted(self.tried, key=lambda each: each[:2]):
            if not found or each.p99_ms < found[-1][1]:
                found.append((each.spent, each.p99_ms))
        return tuple(found)


def _candidates(
    curves: Mapping[str, Curve], prices: Mapping[str, float], apportion: Apportioner, budget: float
) -> Iterator[Allocation]:
    """Allocations of one budget: the search and its way there, an even spread, a uniform one, the best stage.

    The steps of a search go to the steepest curve first, so what it had given by a smaller spend is good too.
    """
    found = apportion(budget)
    yield found
    if apportion.by_variance:  # the source's objective is a comparison: only its own search
        return
    for step in STEPS:
        shares = {name: share for name, share, spent in found.path if spent <= step * found.spent}
        yield replace(allocation_of(curves, prices, shares), coins=found.coins)
    alone = {name: min(1.0, (1 - apportion.insurance) * budget / price) for name, price in prices.items()}
    gain = {name: curve.hull_at(0.0) - curve.hull_at(alone[name]) for name, curve in curves.items()}
    stalled = [name for name in curves if gain[name] >= MIN_GAIN * sum(gain.values())]
    for spread in ("equal", "uniform"):
        evenly = SPREADS[spread](curves, prices, budget)
        # A coin was chosen by the stalls of the past: stages without any get a copy for every late call.
        coins = {name: curves[name].coin_at(evenly.fractions[name]) for name in stalled}
        yield replace(evenly, coins=dict.fromkeys(curves, 1.0) | coins)
    name = max(alone, key=lambda each: gain[each])
    yield with_coins(allocation_of(curves, prices, {name: alone[name]}), curves)


def _useful_shares(profile: Profile, curves: Mapping[str, Curve]) -> dict[str, float]:
    """By stage: share of its calls beyond which copies take more work than they save waiting, 0 to 1.

    Where replicas share processors, the work of a copy delays others by as much. So the last copy has to
    shorten its stage by at least the work of a call. Stages whose work was not measured have no entry.
    """
    found = {}
    for stage in profile.stages:
        if stage.name not in curves or stage.busy_ms is None:
            continue
        curve = curves[stage.name]
        copies = np.diff(curve.fraction) * stage.calls_per_request / (stage.visit_share or 1.0)
        worth = np.flatnonzero(-np.diff(curve.mean_ms) >= stage.busy_ms * copies)
        found[stage.name] = float(curve.fraction[worth[-1] + 1]) if len(worth) else 0.0
    return found


def _within_use(
    allocation: Allocation,
    curves: Mapping[str, Curve],
    prices: Mapping[str, float],
    useful: Mapping[str, float],
) -> Allocation:
    """The allocation with no stage beyond its useful share."""
    shares = {name: min(share, useful.get(name, 1.0)) for name, share in allocation.fractions.items()}
    if shares == allocation.fractions:
        return allocation
    return replace(allocation_of(curves, prices, shares), path=allocation.path, coins=allocation.coins)
