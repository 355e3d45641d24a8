"""The variance of a fan-out against the utility that it may lose: a stop rule each point (Kwiken 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.arrays import Bools, Floats, Ints
from kwiken.curves import lower_hull
from kwiken.partial.responders import Responders
from kwiken.partial.stop_rules import StopRule, apply_rule
from kwiken.partial.tuning import tune_stop_rules
from kwiken.profile import StageProfile
from kwiken.simulation import utility_shares

LOSSES = (1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
PARTS = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)  # of the largest loss of interest
MOST_CELLS = 1 << 21  # responders that rules are tuned on


@dataclass(frozen=True)
class FanOut:
    """A fan-out's recorded visits.

    Attributes:
        responders: of the visits, in the order of their requests.
        rows: (q,): which requests they belong to.
        requests: number of requests, those that skip the stage included.
        calls_ms: (n, width): the calls of all requests; NaN for none.
        shares: (n, width): each answer's share of its request's utility; None where all are worth the same.
    """

    responders: Responders
    rows: Ints
    requests: int
    calls_ms: Floats
    shares: Floats | None

    @classmethod
    def of(cls, stage: StageProfile, calls_ms: Floats | None = None) -> FanOut:
        """From a stage's profile.

        Args:
            stage: what was learned of it; with at least one visit.
            calls_ms: (n, width): when its shards answer, where that is not as recorded: after copies, or with
                cancelled calls filled in.
        """
        calls = stage.calls_ms if calls_ms is None else calls_ms
        shares = utility_shares(stage.calls_ms, stage.worth)
        rows = np.flatnonzero(~np.isnan(calls).all(axis=1))
        worth = None if shares is None else shares[rows]
        return cls(Responders.of(calls[rows], worth), rows, len(calls), calls, shares)

    @property
    def visits(self) -> float:
        """Share of the requests that visit the stage."""
        return len(self.rows) / self.requests

    @property
    def least_loss(self) -> float:
        """What losing the one answer of least worth costs, as a mean over all requests."""
        weights = self.responders.weights
        return float(weights[weights > 0].min(initial=1.0)) / self.requests

    def among(self, requests: Ints) -> Responders:
        """The visits of some of the requests.

        Args:
            requests: (m,) places of those requests, in any order.
        """
        wanted = np.zeros(self.requests, dtype=np.bool_)
        wanted[requests] = True
        kept: Bools = wanted[self.rows]
        return self.responders.rows(np.flatnonzero(kept))

    def thinned(self, responders: Responders) -> Responders:
        """At most about `MOST_CELLS` responders: every k-th visit."""
        step = -(-responders.latency_ms.size // MOST_CELLS)
        return responders if step <= 1 else responders.rows(np.arange(0, len(responders), step))

    def tuned(self, loss: float, among: Responders | None = None) -> StopRule | None:
        """The rule of least variance that loses no more; None where there is nothing to lose.

        Args:
            loss: share of the utility, mean over all requests.
            among: visits to tune on; all by default.
        """
        return self.tune((loss,), among)[0]

    def tune(self, losses: Sequence[float], among: Responders | None = None) -> list[StopRule | None]:
        """Rules for several losses; see `tuned`.

        Args:
            losses: shares of the utility, each a mean over all requests.
            among: visits to tune on; all by default.
        """
        responders = self.thinned(self.responders if among is None else among)
        if not len(responders):
            return [None] * len(losses)
        wanted = [min(1.0, loss / self.visits) for loss in losses]
        found = tune_stop_rules(responders, wanted)
        return [one.rule if one.loss > 0 and isinstance(one.rule, StopRule) else None for one in found]

    def play(self, rule: StopRule | None, among: Responders | None = None) -> tuple[Floats, Floats]:
        """(q,) latencies of visits in ms and (q,) the share of its utility that each loses.

        Args:
            rule: when they stop; None to wait for all.
            among: visits to play; all by default.
        """
        responders = self.responders if among is None else among
        if rule is None:
            return responders.last_ms, np.zeros(len(responders))
        return apply_rule(rule, responders)

    def moments(self, rule: StopRule | None) -> tuple[float, float]:
        """Mean loss and variance of the stage's latency (ms²), over all requests: a skipped visit takes 0."""
        latency, lost = self.play(rule)
        mean, square = float(latency.mean()), float((latency * latency).mean())
        share = self.visits
        return share * float(lost.mean()), max(0.0, share * square - (share * mean) ** 2)


@dataclass(frozen=True)
class LossCurve:
    """Variance of a fan-out's latency against the loss of its utility, as `sumvar` takes it.

    After Kwiken section 5.3.

    Attributes:
        fraction: (k,) ascending from 0: mean utility lost.
        variance: (k,): of the stage's latency then, ms².
        hull: (k,): lower convex, non-increasing hull of `variance`.
        rules: (k,): which stop rule does that; None for waiting for all.
    """

    fraction: Floats
    variance: Floats
    hull: Floats
    rules: tuple[StopRule | None, ...]


def loss_curve(fan_out: FanOut, *, most: float) -> LossCurve:
    """The curve of a fan-out up to a loss (Kwiken section 5.3).

    Args:
        fan_out: its recorded visits.
        most: the largest loss that matters, a share above 0.

    Returns:
        A curve whose points are losses as they are on the recorded visits, each with the rule of least
        variance. Losses that the visits cannot tell apart fall together.
    """
    losses = sorted({most * part for part in PARTS} | {loss for loss in LOSSES if loss < most})
    points: dict[float, tuple[float, StopRule | None]] = {0.0: (fan_out.moments(None)[1], None)}
    for rule in fan_out.tune(losses):
        if rule is not None:
            loss, spread = fan_out.moments(rule)
            points.setdefault(loss, (spread, rule))
    taken = sorted(points)
    fraction = np.array(taken)
    variance = np.array([points[loss][0] for loss in taken])
    rules = tuple(points[loss][1] for loss in taken)
    return LossCurve(fraction, variance, lower_hull(fraction, variance)[0], rules)
