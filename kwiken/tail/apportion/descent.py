"""Local search on a high percentile: moves chunks of budget between stages while the percentile falls.

The sum of variances approximates p99, poorly where paths run in parallel or stages are expensive. The search
starts from SumVar's allocation and moves chunks of budget from one stage to another while the risk of whole
requests falls, compared by common random numbers. Chunks start large and stages may change their coin, since
small changes show no slope: a time-out beyond a stage's p99 does not move that p99. A step is kept only if
later requests
    confirm
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.model.profile import Profile
from kwiken.tail.apportion.sum_of_variances import Allocation, allocation_of
from kwiken.tail.curves import Curve
from kwiken.tail.simulation import TAIL, Choice, PairedSimulation, Risk

CHUNK_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)  # of the budget spent, from large to small
MAX_STEPS_PER_CHUNK = 12
MAX_STAGES = 16  # in the search: those where reissues gain most
MAX_GIVERS = MAX_TAKERS = 4  # tried in pairs: the best of each on their own
COINS = (0.7, 0.4)  # probabilities to try beside the curve's own and 1
MIN_RISK_FALL = 1e-3  # share of the risk below which no step is made
SEARCH_SHARE = 2 / 3  # of the requests, the earlier ones; the rest confirm
MIN_CONFIRMED_FALL = 2e-3  # share of the risk on the confirming requests
MIN_REQUESTS_TO_DESCEND = 400  # with fewer the confirming part is too small for a p99


@dataclass(frozen=True)
class _Search:
    """Context of a search: the simulated requests, and the curves, costs and risk to compare choices by."""

    paired: PairedSimulation
    curves: Mapping[str, Curve]
    costs: Mapping[str, float]
    risk: Risk

    def moved(self, choices: Mapping[str, Choice], name: str, amount: float) -> Iterator[dict[str, Choice]]:
        """Choices of a stage with a budget changed by `amount` (negative: less), one for each coin to try."""
        fraction, coin = choices.get(name, (0.0, 1.0))
        fraction = min(1.0, max(0.0, fraction + amount / self.costs[name]))
        if amount < 0:
            yield {name: (fraction, max(fraction, coin))}
            return
        for tried in dict.fromkeys((self.curves[name].coin_at(fraction), 1.0, *COINS)):
            yield {name: (fraction, max(fraction, tried))}

    def best(self, options: Iterator[dict[str, Choice]]) -> tuple[float, dict[str, Choice]]:
        """Option of least risk, with that risk."""
        judged = (
            (self.risk(self.paired.with_choices(option), self.paired.requests), option) for option in options
        )
        return min(judged, key=lambda pair: pair[0], default=(np.inf, {}))


def descend(
    profile: Profile,
    curves: Mapping[str, Curve],
    costs: Mapping[str, float],
    start: Allocation,
    *,
    risk: Risk,
    seed: int = 0,
) -> Allocation:
    """Search for an allocation of the same spend with less risk, confirmed on later requests.

    Args:
        profile: profile of the service; its requests are split in time.
        curves: curve of each stage that may be reissued, by its name.
        costs: by stage: cost of reissuing all of its calls, in the unit of the budget.
        start: allocation to start from; its coins, where given, are kept.
        risk: function from latencies to the risk to minimise, milliseconds.
        seed: seed of the copies and coins.

    Returns:
        The step of the search with the least risk on the requests that it did not use; `start` where none is
        better there, or where there are too few requests.
    """
    if not start.spent > 0 or profile.requests < MIN_REQUESTS_TO_DESCEND:
        return start
    order = np.argsort(profile.started_s, kind="stable")
    seen = int(SEARCH_SHARE * len(order))
    searched = PairedSimulation(profile, curves, order[:seen], seed=seed, tail=TAIL)
    kept = PairedSimulation(profile, curves, order[seen:], seed=seed + 1, tail=TAIL)
    first = choices_of(curves, start)
    steps = [first, *_descent_steps(_Search(searched, curves, costs, risk), first, start)]
    judged = [risk(kept.set_choices(step), kept.requests) for step in steps]
    best = int(np.argmin(judged))
    if judged[best] > (1 - MIN_CONFIRMED_FALL) * judged[0]:
        best = 0
    return _allocation(start, steps[best], curves, costs)


def choices_of(curves: Mapping[str, Curve], start: Allocation) -> dict[str, Choice]:
    """Choices of an allocation: share of calls and coin of each stage that gets any budget.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        start: allocation; a stage without a coin takes that of its curve.
    """
    return {
        name: (fraction, start.coins.get(name) or curves[name].coin_at(fraction))
        for name, fraction in start.fractions.items()
        if fraction > 0
    }


def _descent_steps(
    search: _Search, first: Mapping[str, Choice], start: Allocation
) -> Iterator[Mapping[str, Choice]]:
    """Choices after each step that lowers the risk on the search's requests."""
    choices = dict(first)
    least = search.risk(search.paired.set_choices(choices), search.paired.requests)
    names = _worth_trying(start)
    for size in CHUNK_SHARES:
        for _ in range(MAX_STEPS_PER_CHUNK):
            found, change = _step(search, choices, names, size * start.spent)
            if not found < (1 - MIN_RISK_FALL) * least:
                break
            choices = {**choices, **change}
            least = search.risk(search.paired.set_choices(choices), search.paired.requests)
            yield choices


def _worth_trying(start: Allocation) -> list[str]:
    """Names of the stages with most to gain: gain plus marginal gain over the same spend again."""
    promise = {
        name: start.gains.get(name, 0.0) + start.marginal.get(name, 0.0) * start.spent
        for name in start.fractions
    }
    return sorted(promise, key=lambda name: -promise[name])[:MAX_STAGES]


def _step(
    search: _Search, choices: Mapping[str, Choice], names: list[str], chunk: float
) -> tuple[float, dict[str, Choice]]:
    """Best single step, with its risk: a chunk moved between two stages, or another coin at one stage."""
    takers = sorted(
        ((*search.best(search.moved(choices, name, chunk)), name) for name in names), key=lambda t: t[0]
    )
    givers = sorted(
        (
            (*search.best(search.moved(choices, name, -amount)), name, amount)
            for name, amount in ((name, _held(search, choices, name, chunk)) for name in names)
            if amount > 0
        ),
        key=lambda g: g[0],
    )
    trials = [
        {**given, **taken}
        for _, given, giver, amount in givers[:MAX_GIVERS]
        for _, _, taker in takers[:MAX_TAKERS]
        if giver != taker
        for taken in search.moved(choices, taker, amount)
    ]
    trials += [
        {name: (choices[name][0], max(choices[name][0], coin))}
        for name in names
        if name in choices
        for coin in (1.0, *COINS)
    ]
    return search.best(iter(trials))


def _held(search: _Search, choices: Mapping[str, Choice], name: str, chunk: float) -> float:
    """Part of a chunk of budget that a stage holds and can give."""
    return min(chunk, choices.get(name, (0.0, 1.0))[0] * search.costs[name])


def _allocation(
    start: Allocation,
    choices: Mapping[str, Choice],
    curves: Mapping[str, Curve],
    costs: Mapping[str, float],
) -> Allocation:
    fractions = {name: choices.get(name, (0.0, 1.0))[0] for name in start.fractions}
    coins = {name: coin for name, (fraction, coin) in choices.items() if fraction > 0}
    prices = {name: costs[name] for name in curves}
    return replace(allocation_of(curves, prices, fractions), coins=coins)
