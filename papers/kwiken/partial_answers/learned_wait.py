"""Learned wait: a stop rule fitted to each query's first answers, after Cedar (Kumar et al., EuroSys 2016).

Cedar's aggregators estimate the distribution of the remaining answers from the order statistics of those that
have arrived, query by query, and wait as long as that pays. Here the first share of the answers gives the
query's own location and scale (log-normal, by regression on normal scores; the scale shrunk towards the usual
one, because few answers determine it poorly), and the query waits until its own distribution has passed a
quantile. Where queries differ in speed or spread, one constant wait is too long for some and too short for
others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from kwiken.base.arrays import Floats
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.tuning import Solver, Tuned, check_loss, judge_rule, progress_grid

MIN_MS = 1e-3  # finest time that traces resolve; keeps logarithms finite
SCALE_WEIGHTS = (0.0, 3.0, 30.0, math.inf)  # weights of the usual scale, in answers, that are tried
MIN_ANSWERS = 3  # answers from which a query's own scale is estimated
ROUNDING_SLACK = 1e-9  # keeps rounding from losing a responder at the very threshold
LOWEST_SCORE = -50.0  # normal score below any answer: stop as soon as the share has answered


@dataclass(frozen=True)
class LearnedWait:
    """Stop at a quantile of the query's own distribution, learned from its first answers, or at a cut-off.

    After Cedar (Kumar et al. 2016).

    Attributes:
        progress: share of the responders from whose answers the distribution is learned, from 0 to 1.
        score: normal score of the quantile, without unit: 2.33 for 99% of the query's own distribution.
        cutoff_ms: age at which a query stops in any case, milliseconds; infinite for never.
        usual_scale: median over queries of the standard deviation of log answer times within a query.
        trust: weight of the usual scale, in number of answers, beside the query's own.
    """

    progress: float
    score: float
    cutoff_ms: float
    usual_scale: float
    trust: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `min(cutoff, exp(location + score x scale))`, never before the share has answered."""
        fit = _Sums.of(responders).fit(responders, self.progress, self.usual_scale, self.trust)
        return fit.stop_ms(self.score, self.cutoff_ms)


def tune_learned_wait(responders: Responders, *, loss: float) -> Tuned:
    """The learned wait of least variance within a loss budget (after Kumar et al. 2016).

    Args:
        loss: mean utility that may be lost, from 0 to 1.

    Raises:
        InputError: for a loss outside [0, 1].
    """
    check_loss(loss)
    best = LearnedWait(1.0, LOWEST_SCORE, Solver(responders, loss).cutoff_ms(loss), 1.0, math.inf)
    least = judge_rule(best, responders).variance
    for rule, variance in _candidates(responders, loss):
        if variance < least:
            best, least = rule, variance
    return judge_rule(best, responders)


def _candidates(responders: Responders, loss: float) -> Iterator[tuple[LearnedWait, float]]:
    """Rules that use the budget up, each with the variance that it leaves."""
    solver, sums = Solver(responders, loss), _Sums.of(responders)
    times = np.log(np.maximum(solver.latency_ms, MIN_MS))
    most = int(responders.count.max())
    for progress in progress_grid(responders, (loss,)):
        if math.ceil(progress * most) < MIN_ANSWERS:
            continue
        own = sums.fit(responders, progress, 1.0, 0.0).scale
        usual = float(np.median(own))
        for trust in SCALE_WEIGHTS:
            fit = sums.fit(responders, progress, usual, trust)
            query = solver.query
            score = (times - fit.location[query]) / np.maximum(fit.scale[query], MIN_MS)
            key = np.where(solver.latency_ms <= fit.learned_ms[query], -np.inf, score)
            for _, threshold, cutoff in solver.pairs(key, (loss,)):
                rule = LearnedWait(progress, max(LOWEST_SCORE, threshold), cutoff, usual, trust)
                stop = fit.stop_ms(rule.score, cutoff)
                latency = np.clip(stop, responders.first_ms, responders.last_ms)
                yield rule, float(latency.var())


@dataclass(frozen=True)
class _Fit:
    """Fitted log-normal location and scale of each query, and the time at which they are known; (q,) each."""

    location: Floats
    scale: Floats
    learned_ms: Floats

    def stop_ms(self, score: float, cutoff_ms: float) -> Floats:
        own = np.exp(self.location + score * np.maximum(self.scale, MIN_MS)) * (1 + ROUNDING_SLACK)
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
        """Running sums over answers in their order; scores at Blom's positions `(i - 3/8) / (n + 1/4)`."""
        times = np.nan_to_num(np.log(np.maximum(responders.latency_ms, MIN_MS)))
        places = np.arange(1, times.shape[1] + 1) - 0.375
        if (responders.count == responders.count[0]).all():
            scores = np.broadcast_to(ndtri(places / (responders.count[0] + 0.25)), times.shape)
        else:
            scores = ndtri(np.minimum(places / (responders.count[:, None] + 0.25), 1 - 1e-9))
        return cls(*(np.cumsum(part, axis=1) for part in (scores, scores * scores, times, scores * times)))

    def fit(self, responders: Responders, progress: float, usual_scale: float, trust: float) -> _Fit:
        """Regression of the logs of the first answers on their normal scores, query by query."""
        count = np.clip(responders.rank_at(progress), 1, responders.count)
        at = (np.arange(len(count)), count - 1)
        score, square, log, product = (
            part[at] / count for part in (self.score, self.square, self.log, self.product)
        )
        spread = square - score * score
        scale = np.divide(
            product - score * log, spread, out=np.full(len(count), usual_scale), where=spread > ROUNDING_SLACK
        )
        scale = np.maximum(scale, 0.0)
        if math.isinf(trust):
            scale = np.full(len(count), usual_scale)
        else:
            scale = (count * scale + trust * usual_scale) / (count + trust)
        return _Fit(log - scale * score, scale, responders.order_statistic(count))
