"""Tuning of stop rules on recorded queries: least variance within a budget of lost utility.

A rule's loss is known exactly: it loses the responders whose *key* lies beyond its threshold, where the key
is the latency for a fixed time-out, and the time since a share of the others answered for the dynamic rule.
So the threshold that uses a budget up is found by sorting, not by bisection, and only among the few
responders that can be lost at all. Budgets are kept on the queries tuned on; on others losses are some 5%
larger (Kwiken section 5.3), which a planner for live traffic must allow for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import Rule, StopRule, apply_rule

# shares of responders that are tried
PROGRESS_GRID = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998)
MAX_COUNTED_RESPONDERS = 16  # number of responders up to which every share of them is tried
# Shares of the loss given to the wait; the cut-off gets the rest. At 1 there is no cut-off.
WAIT_SHARES = (1.0, 0.97, 0.93, 0.87, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.12, 0.06, 0.02)
SLACK_MS = 1e-6  # keeps the rounding of a sum from losing a responder that the difference keeps

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Tuned:
    """A rule with its results on the queries that it was tuned on.

    Attributes:
        loss: mean utility lost, a fraction.
        variance: variance of the stage's latency, ms².
    """

    rule: Rule
    loss: float
    variance: float


def judge_rule(rule: Rule, responders: Responders) -> Tuned:
    """Loss and variance of queries under a rule."""
    latency, lost = apply_rule(rule, responders)
    return Tuned(rule, float(lost.mean()), float(latency.var()))


def tune_stop_rule(responders: Responders, *, loss: float) -> Tuned:
    """The dynamic rule of least variance within a loss budget (Kwiken section 5.3).

    For each progress the waits that use up parts of the budget are found, each with the cut-off that uses up
    the rest. Fixed time-out and wait-for-fraction are the ends of that range, so neither is better on the
    queries tuned on.

    Args:
        loss: mean utility that may be lost, from 0 to 1.

    Raises:
        InputError: for a loss outside [0, 1].
    """
    return tune_stop_rules(responders, (loss,))[0]


def tune_stop_rules(responders: Responders, losses: Sequence[float]) -> list[Tuned]:
    """The dynamic rules of least variance within several loss budgets; see `tune_stop_rule`.

    After Kwiken section 5.3.

    Args:
        losses: mean utilities that may be lost, each from 0 to 1.
    """
    for loss in losses:
        check_loss(loss)
    solver = Solver(responders, max(losses, default=0.0))
    first, last = responders.first_ms, responders.last_ms
    best = [StopRule(solver.cutoff_ms(loss), math.inf, 1.0) for loss in losses]
    least = [float(np.clip(rule.cutoff_ms, first, last).var()) for rule in best]
    for progress in progress_grid(responders, losses):
        reached = responders.order_statistic(responders.rank_at(progress))
        since = solver.latency_ms - reached[solver.query]
        for at, wait, cutoff in solver.pairs(since, losses):
            rule = StopRule(cutoff, max(0.0, wait) + SLACK_MS, progress)
            stop = np.minimum(cutoff, reached + rule.wait_ms)
            variance = float(np.clip(stop, first, last).var())
            if variance < least[at]:
                best[at], least[at] = rule, variance
    return [judge_rule(rule, responders) for rule in best]


def progress_grid(responders: Responders, losses: Sequence[float]) -> list[float]:
    """Shares of responders to try: those that leave at least one responder to wait for.

    Args:
        losses: loss budgets, shares from 0 to 1, whose complements are tried too.
    """
    most = int(responders.count.max())
    tried = {*PROGRESS_GRID, *(round(1.0 - loss, 12) for loss in losses)}
    if most <= MAX_COUNTED_RESPONDERS:
        tried = {k / most for k in range(1, most)}
    return sorted(share for share in tried if share > 0 and math.ceil(round(share * most, 9)) < most)


def check_loss(loss: float) -> None:
    """Refuse a loss budget outside [0, 1].

    Args:
        loss: mean utility that may be lost, a share.

    Raises:
        InputError: names the budget.
    """
    if not 0 <= loss <= 1:
        raise InputError(f"a loss budget must be a share from 0 to 1, not {loss}")


def first_kept(key: Floats, weight: Floats, budget: float) -> float:
    """Key of the first responder that cannot be lost; -inf for none.

    Args:
        key: (c,) value of each responder, without unit, descending.
        weight: (c,) running sums of the utility that is lost with the responders.
        budget: utility that may be lost, summed over all queries.
    """
    at = int(np.searchsorted(weight, budget * (1 + 1e-12) + 1e-15, side="right"))
    return float(key[at]) if at < len(key) else -math.inf


class Solver:
    """Responders that can be lost at all, and thresholds on a rule's key.

    Args:
        loss: largest loss budget that will be asked for, from 0 to 1.

    Attributes:
        latency_ms: (c,): answer time of each responder, milliseconds.
        query: (c,): index of its query.
        weight: (c,): utility lost with it, a share of its query's, above 0.
    """

    def __init__(self, responders: Responders, loss: float) -> None:
        weights = responders.weights
        self.query, place = np.nonzero(weights > 0)
        self.latency_ms = responders.latency_ms[self.query, place]
        self.weight = weights[self.query, place]
        self._queries = len(responders)
        self._enough = int(loss * self._queries / float(self.weight.min(initial=1.0))) + 2
        self._slowest = self.largest(self.latency_ms)
        self._sums = np.cumsum(self.weight[self._slowest])

    def largest(self, key: Floats) -> Places:
        """Indices of the responders with the largest keys, descending: what a budget can lose, and one.

        Args:
            key: (c,) value of each responder, without unit.
        """
        top = np.arange(len(key))
        if self._enough < len(key):
            top = np.argpartition(-key, self._enough)[: self._enough]
        return np.asarray(top[np.argsort(-key[top], kind="stable")])

    def cutoff_ms(self, loss: float) -> float:
        """Shortest fixed time-out within a loss, milliseconds."""
        return max(0.0, first_kept(self.latency_ms[self._slowest], self._sums, loss * self._queries))

    def pairs(self, key: Floats, losses: Sequence[float]) -> Iterator[tuple[int, float, float]]:
        """Thresholds on a key, each with the cut-off that spends the rest of the budget.

        Args:
            key: (c,) value, without unit, beyond whose threshold responders are lost.
            losses: loss budgets, from 0 to 1.

        Yields:
            Index of the budget, threshold, and cut-off in ms (infinite for none).
        """
        top = self.largest(key)
        keys, sums = key[top], np.cumsum(self.weight[top])
        for at, loss in enumerate(losses):
            allowed, floor = loss * self._queries, self.cutoff_ms(loss)
            # A cut-off below the plain time-out's exceeds the budget, so only slower responders matter.
            reach = self._slowest[self.latency_ms[self._slowest] > floor]
            for share in WAIT_SHARES:
                threshold = first_kept(keys, sums, allowed * share)
                if share == 1.0:
                    yield at, threshold, math.inf
                    continue
                beyond = int(np.searchsorted(-keys, -threshold, side="left"))
                left = allowed - (float(sums[beyond - 1]) if beyond else 0.0)
                kept = reach[key[reach] <= threshold]
                cutoff = first_kept(self.latency_ms[kept], np.cumsum(self.weight[kept]), left)
                yield at, threshold, max(floor, cutoff)
