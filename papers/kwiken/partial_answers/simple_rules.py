"""Three simple stop rules of fan-outs, and their tuning: share, fixed time-out, both (Kwiken section 5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.tuning import PROGRESS_GRID, Solver, Tuned, check_loss, first_kept, judge_rule


@dataclass(frozen=True)
class WaitForFraction:
    """Stop when a share of the responders answered (Kwiken section 5.3).

    Attributes:
        share: share of the responders to wait for, from 0 to 1.
    """

    share: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `t_(ceil(share n))`."""
        return responders.order_statistic(responders.rank_at(self.share))


@dataclass(frozen=True)
class FixedTimeout:
    """Stop at a fixed age, whatever the number of answers (Kwiken section 5.3).

    Attributes:
        cutoff_ms: age of the stage at the stop, milliseconds.
    """

    cutoff_ms: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): the same age for all queries."""
        return np.full(len(responders), self.cutoff_ms)


@dataclass(frozen=True)
class TimeThenFraction:
    """Stop when an age was reached and a share of the responders answered: both must hold.

    After Kwiken section 5.3.

    Attributes:
        cutoff_ms: smallest age of the stage at the stop, milliseconds.
        share: smallest share of the responders that must have answered, from 0 to 1.
    """

    cutoff_ms: float
    share: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `max(cutoff, t_(ceil(share n)))`."""
        reached = responders.order_statistic(responders.rank_at(self.share))
        return np.maximum(self.cutoff_ms, reached)


def tune_wait_for_fraction(responders: Responders, *, loss: float) -> Tuned:
    """Wait for a share `1 - loss` of the responders, as the source sets it, without any search.

    After Kwiken section 5.3.

    Args:
        loss: mean utility that may be lost, from 0 to 1.
    """
    check_loss(loss)
    return judge_rule(WaitForFraction(1.0 - loss), responders)


def tune_fixed_timeout(responders: Responders, *, loss: float) -> Tuned:
    """The shortest fixed time-out within the loss budget (Kwiken section 5.3).

    Args:
        loss: mean utility that may be lost, from 0 to 1.
    """
    check_loss(loss)
    return judge_rule(FixedTimeout(Solver(responders, loss).cutoff_ms(loss)), responders)


def tune_time_then_fraction(
    responders: Responders, *, loss: float, shares: tuple[float, ...] = PROGRESS_GRID
) -> Tuned:
    """The share and time-out of least variance within the loss budget (Kwiken section 5.3).

    Args:
        loss: mean utility that may be lost, from 0 to 1.
        shares: shares of responders to try, each from 0 to 1.
    """
    check_loss(loss)
    weights = responders.weights
    tuned = []
    for share in shares:
        reached = responders.order_statistic(responders.rank_at(share))
        beyond = responders.latency_ms > reached[:, None]
        cutoff = _threshold(responders.latency_ms[beyond], weights[beyond], loss * len(responders))
        tuned.append(judge_rule(TimeThenFraction(max(0.0, cutoff), share), responders))
    return min(tuned, key=_variance)


def _variance(tuned: Tuned) -> float:
    return tuned.variance


def _threshold(key: Floats, weight: Floats, budget: float) -> float:
    """Least threshold beyond which responders weigh at most the budget; -inf for no bound."""
    order = np.argsort(-key, kind="stable")
    return first_kept(key[order], np.cumsum(weight[order]), budget)
