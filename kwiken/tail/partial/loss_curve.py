"""Loss curve of a fan-out: variance against lost utility, with a stop rule at each point (Kwiken 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.profile.profile import StageProfile
from kwiken.tail.curves.curve import lower_hull
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import StopRule, apply_rule
from kwiken.tail.partial.tuning import tune_stop_rules
from kwiken.tail.simulation.stage_replay import utility_shares

LOSS_GRID = (1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # grid of losses
# further ones, as shares of the largest of interest
LOSS_PARTS = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
MAX_TUNED_RESPONDERS = 1 << 21  # responders that rules are tuned on


@dataclass(frozen=True)
class FanOutVisits:
    """Recorded visits of a fan-out.

    Attributes:
        responders: answers of each visit, in the order of the requests.
        rows: (q,): index of the request of each visit.
        requests: number of requests, including those that skip the stage.
        calls_ms: (n, width): latencies of the calls of all requests, milliseconds; NaN for no call.
        shares: (n, width): share of each answer in its request's utility; None where all are equal.
    """

    responders: Responders
    rows: Ints
    requests: int
    calls_ms: Floats
    shares: Floats | None

    @classmethod
    def of(cls, stage: StageProfile, calls_ms: Floats | None = None) -> FanOutVisits:
        """Build it from a stage's profile.

        Args:
            stage: profile of the stage, with at least one visit.
            calls_ms: (n, width): latencies that replace the recorded ones: with copies, or with estimates for
                cancelled calls; milliseconds.
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
        """Loss by the single answer of least utility, as a mean over all requests."""
        weights = self.responders.weights
        return float(weights[weights > 0].min(initial=1.0)) / self.requests

    def among(self, requests: Ints) -> Responders:
        """Visits of a subset of the requests.

        Args:
            requests: (m,) indices of the requests, in any order.
        """
        wanted = np.zeros(self.requests, dtype=np.bool_)
        wanted[requests] = True
        kept: Bools = wanted[self.rows]
        return self.responders.rows(np.flatnonzero(kept))

    def thinned(self, responders: Responders) -> Responders:
        """About `MAX_TUNED_RESPONDERS` responders at most: every k-th visit."""
        step = -(-responders.latency_ms.size // MAX_TUNED_RESPONDERS)
        return responders if step <= 1 else responders.rows(np.arange(0, len(responders), step))

    def tuned(self, loss: float, among: Responders | None = None) -> StopRule | None:
        """The stop rule of least variance within a loss; None where no answer can be lost.

        Args:
            loss: share of the utility, mean over all requests.
            among: visits to tune on; all by default.
        """
        return self.tune((loss,), among)[0]

    def tune(self, losses: Sequence[float], among: Responders | None = None) -> list[StopRule | None]:
        """Stop rules for several losses; see `tuned`.

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
        """(q,) latencies of visits, ms, and (q,) the share of its utility that each loses.

        Args:
            rule: stop rule; None to wait for all responders.
            among: visits to simulate; all by default.
        """
        responders = self.responders if among is None else among
        if rule is None:
            return responders.last_ms, np.zeros(len(responders))
        return apply_rule(rule, responders)

    def moments(self, rule: StopRule | None) -> tuple[float, float]:
        """Mean loss and variance of the stage's latency, ms², over all requests: 0 for a skipped visit."""
        latency, lost = self.play(rule)
        mean, square = float(latency.mean()), float((latency * latency).mean())
        share = self.visits
        return share * float(lost.mean()), max(0.0, share * square - (share * mean) ** 2)


@dataclass(frozen=True)
class LossCurve:
    """Variance of a fan-out's latency against the loss of its utility, as `sumvar` takes it.

    After Kwiken section 5.3.

    Attributes:
        fraction: (k,) ascending from 0: mean utility lost, a share.
        variance: (k,): variance of the stage's latency at that loss, ms².
        hull: (k,): lower convex, non-increasing hull of `variance`.
        rules: (k,): stop rule of each point; None for waiting for all responders.
    """

    fraction: Floats
    variance: Floats
    hull: Floats
    rules: tuple[StopRule | None, ...]


def loss_curve(fan_out: FanOutVisits, *, most: float) -> LossCurve:
    """The curve of a fan-out up to a loss (Kwiken section 5.3).

    Args:
        most: largest loss of interest, a share above 0.

    Returns:
        A curve whose losses are those measured on the recorded visits, each with the rule of least variance.
        Losses that the visits cannot distinguish coincide.
    """
    losses = sorted({most * part for part in LOSS_PARTS} | {loss for loss in LOSS_GRID if loss < most})
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
