"""Direct descent on a high percentile: chunks of budget change hands where that lowers p99.

The sum of variances is a stand-in for p99; where paths run in parallel or stages cost much it can be a poor
one. From SumVar's answer, chunks go from one stage to another while the risk of the whole falls, judged by
common random numbers. Chunks start large and stages may change their coin, since small ones see no slope: a
time-out beyond a stage's p99 leaves that p99 where it is. What the search finds is believed only as far as
later requests confirm it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.apportion.sum_of_variances import Allocation, allocation_of
from kwiken.curves import Curve
from kwiken.profile import Profile
from kwiken.simulation import TAIL, Arena, Choice, Risk

CHUNKS = (1 / 2, 1 / 4, 1 / 8, 1 / 16)  # of the budget, from large to small
MOST_STEPS = 12  # with one size of chunk
MOST_STAGES = 16  # that take part: those where reissues pay most
PAIRS = 4  # givers and takers that are tried together, each the best few alone
COINS = (0.7, 0.4)  # to try beside the curve's own and 1
WORTH = 1e-3  # least fall of the risk that a step is made for
SEARCHED = 2 / 3  # of the requests, the earlier ones; the rest confirm
CONFIRMED = 2e-3  # least fall on the confirming requests
LEAST_REQUESTS = 400  # of fewer, the confirming part holds no p99


@dataclass(frozen=True)
class _Seeker:
    """What a search needs beside the choices themselves."""

    arena: Arena
    curves: Mapping[str, Curve]
    costs: Mapping[str, float]
    risk: Risk

    def moved(self, choices: Mapping[str, Choice], name: str, amount: float) -> Iterator[dict[str, Choice]]:
        """The stage with so much more budget (less where negative), with each coin worth a try."""
        fraction, coin = choices.get(name, (0.0, 1.0))
        fraction = min(1.0, max(0.0, fraction + amount / self.costs[name]))
        if amount < 0:
            yield {name: (fraction, max(fraction, coin))}
            return
        for tried in dict.fromkeys((self.curves[name].coin_at(fraction), 1.0, *COINS)):
            yield {name: (fraction, max(fraction, tried))}

    def best(self, options: Iterator[dict[str, Choice]]) -> tuple[float, dict[str, Choice]]:
        """The option of least risk."""
        judged = ((self.risk(self.arena.changed(option), self.arena.requests), option) for option in options)
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
    """An allocation of the same spend with less risk, as far as later requests confirm it.

    Args:
        profile: what was learned; its requests are split in time.
        curves: by stage that may be reissued.
        costs: by stage: what reissuing all of its calls costs.
        start: an allocation; its coins, where given, are kept.
        risk: of the latencies of requests: less is better.
        seed: of copies and coins.

    Returns:
        The step of the search that is best on the requests that it did not see; `start` where none beats it
        there, or where there are too few requests to tell.
    """
    if not start.spent > 0 or profile.requests < LEAST_REQUESTS:
        return start
    order = np.argsort(profile.started_s, kind="stable")
    seen = int(SEARCHED * len(order))
    searched = Arena(profile, curves, order[:seen], seed=seed, tail=TAIL)
    kept = Arena(profile, curves, order[seen:], seed=seed + 1, tail=TAIL)
    first = choices_of(curves, start)
    steps = [first, *_search(_Seeker(searched, curves, costs, risk), first, start)]
    judged = [risk(kept.settle(step), kept.requests) for step in steps]
    best = int(np.argmin(judged))
    if judged[best] > (1 - CONFIRMED) * judged[0]:
        best = 0
    return _allocation(start, steps[best], curves, costs)


def choices_of(curves: Mapping[str, Curve], start: Allocation) -> dict[str, Choice]:
    """By stage that gets any: its share of calls, and its coin (the curve's where none is given)."""
    return {
        name: (fraction, start.coins.get(name) or curves[name].coin_at(fraction))
        for name, fraction in start.fractions.items()
        if fraction > 0
    }


def _search(
    seeker: _Seeker, first: Mapping[str, Choice], start: Allocation
) -> Iterator[Mapping[str, Choice]]:
    """Every step that lowers the risk on the searched requests."""
    choices = dict(first)
    least = seeker.risk(seeker.arena.settle(choices), seeker.arena.requests)
    names = _worth_trying(start)
    for size in CHUNKS:
        for _ in range(MOST_STEPS):
            found, change = _step(seeker, choices, names, size * start.spent)
            if not found < (1 - WORTH) * least:
                break
            choices = {**choices, **change}
            least = seeker.risk(seeker.arena.settle(choices), seeker.arena.requests)
            yield choices


def _worth_trying(start: Allocation) -> list[str]:
    """The stages with most to gain: by what they got and what the same again would bring."""
    promise = {
        name: start.gains.get(name, 0.0) + start.marginal.get(name, 0.0) * start.spent
        for name in start.fractions
    }
    return sorted(promise, key=lambda name: -promise[name])[:MOST_STAGES]


def _step(
    seeker: _Seeker, choices: Mapping[str, Choice], names: list[str], chunk: float
) -> tuple[float, dict[str, Choice]]:
    """The best of: a chunk from one stage to another, or another coin at one stage."""
    takers = sorted(
        ((*seeker.best(seeker.moved(choices, name, chunk)), name) for name in names), key=lambda t: t[0]
    )
    givers = sorted(
        (
            (*seeker.best(seeker.moved(choices, name, -amount)), name, amount)
            for name, amount in ((name, _held(seeker, choices, name, chunk)) for name in names)
            if amount > 0
        ),
        key=lambda g: g[0],
    )
    trials = [
        {**given, **taken}
        for _, given, giver, amount in givers[:PAIRS]
        for _, _, taker in takers[:PAIRS]
        if giver != taker
        for taken in seeker.moved(choices, taker, amount)
    ]
    trials += [
        {name: (choices[name][0], max(choices[name][0], coin))}
        for name in names
        if name in choices
        for coin in (1.0, *COINS)
    ]
    return seeker.best(iter(trials))


def _held(seeker: _Seeker, choices: Mapping[str, Choice], name: str, chunk: float) -> float:
    """How much of a chunk a stage has to give."""
    return min(chunk, choices.get(name, (0.0, 1.0))[0] * seeker.costs[name])


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
