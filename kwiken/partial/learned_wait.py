"""A wait that each query learns from its first answers, in the spirit of Cedar (Kumar et al., EuroSys 2016).

Cedar's aggregators estimate the law of the answers still to come from the order statistics of those that are
in, query by query, and wait as long as that law says it pays. Here the first share of the answers gives the
query's own location and scale (log-normal, by regression on normal scores; the scale drawn towards the usual
one, as few answers tell little of it), and the query goes on until its own law has passed a quantile. Where
queries differ in speed or spread one constant wait is too long for some and too short for others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from kwiken.arrays import Floats
from kwiken.partial.responders import Responders
from kwiken.partial.tuning import Solver, Tuned, check_loss, judge_rule, progress_grid

LEAST_MS = 1e-3  # the finest time that traces tell apart; logarithms need one
TRUSTS = (0.0, 3.0, 30.0, math.inf)  # answers that the usual scale counts for
FEWEST = 3  # answers that a query is judged by
SLACK = 1e-9  # so that rounding loses no responder at the very threshold
NEVER = -50.0  # scores below any answer: stop as soon as the share is in


@dataclass(frozen=True)
class LearnedWait:
    """Stop when the query's own law, learned from its first answers, has passed a quantile, or at a cut-off.

    In the spirit of Cedar (Kumar et al. 2016).

    Attributes:
        progress: share of the responders whose answers the law is learned from.
        score: normal score of the quantile, without unit: 2.33 for 99% of the query's own law.
        cutoff_ms: age at which a query stops in any case; infinite for never.
        usual_scale: spread of the log of the answers' times within a query, in the usual one.
        trust: how many answers the usual scale counts for beside the query's own.
    """

    progress: float
    score: float
    cutoff_ms: float
    usual_scale: float
    trust: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `min(cutoff, exp(location + score x scale))`, never before the share is in."""
        law = _Sums.of(responders).law(responders, self.progress, self.usual_scale, self.trust)
        return law.stop_ms(self.score, self.cutoff_ms)


def tune_learned_wait(responders: Responders, *, loss: float) -> Tuned:
    """The learned wait of least variance within a loss budget (after Kumar et al. 2016).

    Args:
        responders: recorded queries.
        loss: mean utility that may be lost, from 0 to 1.

    Raises:
        InputError: for a loss that is no share.
    """
    check_loss(loss)
    best = LearnedWait(1.0, NEVER, Solver(responders, loss).cutoff_ms(loss), 1.0, math.inf)
    least = judge_rule(best, responders).variance
    for rule, variance in _candidates(responders, loss):
        if variance < least:
            best, least = rule, variance
    return judge_rule(best, responders)


def _candidates(responders: Responders, loss: float) -> Iterator[tuple[LearnedWait, float]]:
    """Rules that use the budget up, and the variance that each leaves."""
    solver, sums = Solver(responders, loss), _Sums.of(responders)
    times = np.log(np.maximum(solver.latency_ms, LEAST_MS))
    most = int(responders.count.max())
    for progress in progress_grid(responders, (loss,)):
        if math.ceil(progress * most) < FEWEST:
            continue
        own = sums.law(responders, progress, 1.0, 0.0).scale
        usual = float(np.median(own))
        for trust in TRUSTS:
            law = sums.law(responders, progress, usual, trust)
            query = solver.query
            score = (times - law.location[query]) / np.maximum(law.scale[query], LEAST_MS)
            key = np.where(solver.latency_ms <= law.learned_ms[query], -np.inf, score)
            for _, threshold, cutoff in solver.pairs(key, (loss,)):
                rule = LearnedWait(progress, max(NEVER, threshold), cutoff, usual, trust)
                stop = law.stop_ms(rule.score, cutoff)
                latency = np.clip(stop, responders.first_ms, responders.last_ms)
                yield rule, float(latency.var())


@dataclass(frozen=True)
class _Law:
    """What queries learned of themselves, (q,) each: log-normal location and scale, and when they knew."""

    location: Floats
    scale: Floats
    learned_ms: Floats

    def stop_ms(self, score: float, cutoff_ms: float) -> Floats:
        own = np.exp(self.location + score * np.maximum(self.scale, LEAST_MS)) * (1 + SLACK)
        return np.asarray(np.minimum(cutoff_ms, np.maximum(self.learned_ms, own)))


@dataclass(frozen=True)
class _Sums:
    """Sums over the first k answers of each query, (q, n) each: scores, their squares, logs, and products."""

    score: Floats
    square: Floats
    log: Floats
    product: Floats

    @classmethod
    def of(cls, responders: Responders) -> _Sums:
        """From answers in their order; scores by Blom's places `(i - 3/8) / (n + 1/4)`."""
        times = np.nan_to_num(np.log(np.maximum(responders.latency_ms, LEAST_MS)))
        places = np.arange(1, times.shape[1] + 1) - 0.375
        if (responders.count == responders.count[0]).all():
            scores = np.broadcast_to(ndtri(places / (responders.count[0] + 0.25)), times.shape)
        else:
            scores = ndtri(np.minimum(places / (responders.count[:, None] + 0.25), 1 - 1e-9))
        return cls(*(np.cumsum(part, axis=1) for part in (scores, scores * scores, times, scores * times)))

    def law(self, responders: Responders, progress: float, usual_scale: float, trust: float) -> _Law:
        """Regression of the logs of the first answers on their scores, query by query."""
        count = np.clip(responders.rank_at(progress), 1, responders.count)
        at = (np.arange(len(count)), count - 1)
        score, square, log, product = (
            part[at] / count for part in (self.score, self.square, self.log, self.product)
        )
        spread = square - score * score
        scale = np.divide(
            product - score * log, spread, out=np.full(len(count), usual_scale), where=spread > SLACK
        )
        scale = np.maximum(scale, 0.0)
        if math.isinf(trust):
            scale = np.full(len(count), usual_scale)
        else:
            scale = (count * scale + trust * usual_scale) / (count + trust)
        return _Law(log - scale * score, scale, responders.order_statistic(count))
