"""When a fan-out stops waiting: Kwiken's dynamic rule and the three simpler ones (Kwiken section 5.3).

Every rule answers at `min(stop, last responder)`. A rule is tuned on recorded queries so that the mean loss
of utility is as near to its budget as the data allow without passing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from kwiken._errors import InputError
from kwiken._profile import Floats
from kwiken.levers._responders import Responders

PROGRESS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998)
WAIT_FACTORS = (1.02, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, math.inf)
BISECTIONS = 26  # halves the span of the latencies to a 67-millionth


R = TypeVar("R", bound="Rule")


class Rule(Protocol):
    """What decides when a query stops."""

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): when each query stops waiting, milliseconds from the stage's start; may be infinite."""


@dataclass(frozen=True)
class StopRule:
    """Kwiken's dynamic rule: stop `wait_ms` after a share `progress` answered, or at `cutoff_ms`.

    Either condition suffices. Quick queries stop by progress, though not at once; the cut-off caps the slow.
    """

    cutoff_ms: float
    wait_ms: float
    progress: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `min(cutoff, t_(ceil(p n)) + wait)`."""
        reached = responders.order_statistic(responders.rank_at(self.progress))
        return np.minimum(self.cutoff_ms, reached + self.wait_ms)


@dataclass(frozen=True)
class WaitForFraction:
    """Stop when a share of the responders answered."""

    share: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `t_(ceil(b n))`."""
        return responders.order_statistic(responders.rank_at(self.share))


@dataclass(frozen=True)
class FixedTimeout:
    """Stop at one age, however many answered."""

    cutoff_ms: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): the same for all."""
        return np.full(len(responders), self.cutoff_ms)


@dataclass(frozen=True)
class TimeThenFraction:
    """Stop when an age was reached and a share of the responders answered: both must hold."""

    cutoff_ms: float
    share: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `max(T', t_(ceil(a n)))`."""
        reached = responders.order_statistic(responders.rank_at(self.share))
        return np.maximum(self.cutoff_ms, reached)


@dataclass(frozen=True)
class Tuned:
    """A rule with what it does to the queries that it was tuned on.

    Attributes:
        rule: the rule.
        loss: mean utility lost, a fraction.
        variance: of the stage's latency, ms².
    """

    rule: Rule
    loss: float
    variance: float


def apply_rule(rule: Rule, responders: Responders) -> tuple[Floats, Floats]:
    """(q,) latency in ms and (q,) utility lost, of queries under a rule."""
    latency = np.minimum(rule.stop_ms(responders), responders.last_ms)
    return latency, responders.loss(latency)


def tune_stop_rule(responders: Responders, *, loss: float) -> Tuned:
    """The dynamic rule of least variance within a loss budget.

    For each progress the shortest wait that keeps the budget without a cut-off is found; then longer
    waits, each with the cut-off that uses the budget up, to the limit of a plain fixed time-out. Fixed
    time-out and wait-for-fraction are candidates too, so neither is better on the queries tuned on.

    Args:
        responders: recorded queries.
        loss: mean utility that may be lost, from 0 to 1.

    Raises:
        InputError: for a loss that is no share.
    """
    _check_loss(loss)
    return min(
        (_judge(rule, responders) for rule in _candidates(responders, loss)), key=lambda tuned: tuned.variance
    )


def tune_wait_for_fraction(responders: Responders, *, loss: float) -> Tuned:
    """Wait for a share `1 - loss` of the responders, as the source sets it; there is nothing to solve."""
    _check_loss(loss)
    return _judge(WaitForFraction(1.0 - loss), responders)


def tune_fixed_timeout(responders: Responders, *, loss: float) -> Tuned:
    """The shortest fixed time-out within the loss budget."""
    _check_loss(loss)
    return _judge(_solve(responders, loss, FixedTimeout), responders)


def tune_time_then_fraction(
    responders: Responders, *, loss: float, shares: tuple[float, ...] = PROGRESS
) -> Tuned:
    """The share and time-out of least variance within the loss budget."""
    _check_loss(loss)
    rules = (
        _solve(responders, loss, lambda cutoff, share=share: TimeThenFraction(cutoff, share))  # type: ignore[misc]
        for share in shares
    )
    return min((_judge(rule, responders) for rule in rules), key=lambda tuned: tuned.variance)


def _check_loss(loss: float) -> None:
    if not 0 <= loss <= 1:
        raise InputError(f"a loss budget must be a share from 0 to 1, not {loss}")


def _judge(rule: Rule, responders: Responders) -> Tuned:
    latency, lost = apply_rule(rule, responders)
    return Tuned(rule, float(lost.mean()), float(latency.var()))


def _candidates(responders: Responders, loss: float) -> Iterator[StopRule]:
    most = int(responders.count.max())
    shares = sorted({*PROGRESS, round(1.0 - loss, 12)})
    for share in shares:
        if math.ceil(round(share * most, 9)) >= most or share <= 0:
            continue  # waiting for all: no wait is left to choose
        wait = _solve(responders, loss, lambda w, p=share: StopRule(math.inf, w, p)).wait_ms  # type: ignore[misc]
        yield StopRule(math.inf, wait, share)
        for factor in WAIT_FACTORS:
            longer = wait * factor if wait > 0 or factor < math.inf else math.inf
            yield _solve(responders, loss, lambda c, w=longer, p=share: StopRule(c, w, p))  # type: ignore[misc]
    cutoff = _solve(responders, loss, FixedTimeout).cutoff_ms
    yield StopRule(cutoff, math.inf, 1.0)


def _solve(responders: Responders, loss: float, make: Callable[[float], R]) -> R:
    """The rule of the smallest parameter whose mean loss stays within the budget; loss falls as it grows."""
    low, high = 0.0, float(responders.last_ms.max())
    if _loss(make(low), responders) <= loss:
        return make(low)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _loss(make(middle), responders) <= loss:
            high = middle
        else:
            low = middle
    return make(high)


def _loss(rule: Rule, responders: Responders) -> float:
    return float(responders.loss(rule.stop_ms(responders)).mean())
