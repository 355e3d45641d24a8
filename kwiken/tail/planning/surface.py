"""Variance surface of a fan-out over both of its levers: copies of late shards, then a stop rule.

The source leaves several levers at one stage open. Each point here races every call with its copy at one
share of reissues, and tunes the stop rule for one loss on the resulting calls: copies bring back shards that
a rule tuned without them would have left out, so the same loss allows an earlier stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.profile import Profile, StageProfile, rows_of
from kwiken.model.service import Reissue
from kwiken.tail.curves import Curve, copy_generator
from kwiken.tail.partial import FanOut
from kwiken.tail.simulation import StageReplay

# grid, as shares of the most that each lever may take
GRID_SHARES = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
MAX_VISITS = 3000  # visits that a surface is computed from
MAX_CALLS = 1 << 19  # calls that a surface is computed from


@dataclass(frozen=True)
class Surface:
    """Variance of a fan-out's latency by the use of its two levers.

    Attributes:
        reissue: (r,) ascending from 0: share of the shards' calls that get a copy.
        loss: (l,) ascending from 0: mean utility lost, as a share.
        variance: (r, l): variance of the stage's latency, ms²; falling along both axes.
    """

    reissue: Floats
    loss: Floats
    variance: Floats

    def fall(self, loss: float, low: float, high: float) -> float:
        """Fall of the variance between two shares of reissues at one loss, ms².

        Args:
            loss: mean utility lost, a value of the grid.
            low: the smaller share of calls that get a copy.
            high: the larger share.
        """
        column = self.variance[:, int(np.searchsorted(self.loss, loss))]
        before, after = np.interp((low, high), self.reissue, column).tolist()
        return float(before - after)


def surface(
    stage: StageProfile, curve: Curve | None, *, most_reissue: float, most_loss: float, seed: int = 0
) -> Surface:
    """The surface of a fan-out up to the most that either lever may take (Kwiken equation 5.4).

    Args:
        stage: profile of the fan-out.
        curve: its variance-response curve, with the policies and the correlation of copies; None where it may
            have no copies.
        most_reissue: largest share of calls that may get a copy.
        most_loss: largest mean loss of utility, a share.
        seed: seed of copies and of their probabilities, the same at every point.
    """
    some = _some(stage)
    rho = 0.0 if curve is None else curve.correlation
    stage_replay = StageReplay(some, 0.0, copy_generator(seed), copy_correlation=rho, predrawn=True)
    shares = np.unique([min(1.0, part * most_reissue) if curve is not None else 0.0 for part in GRID_SHARES])
    losses = np.unique([min(1.0, part * most_loss) for part in GRID_SHARES])
    variance = np.empty((len(shares), len(losses)))
    for i, share in enumerate(shares.tolist()):
        policy = None if curve is None else curve.policy(share)
        fan_out = FanOut.of(some, stage_replay.raced(policy))
        rules = [None, *fan_out.tune(losses[1:].tolist())]
        variance[i] = [fan_out.moments(rule)[1] for rule in rules]
    # A larger budget of a lever is never worse: a plan may leave a part of it unused.
    return Surface(shares, losses, np.minimum.accumulate(np.minimum.accumulate(variance, axis=0), axis=1))


def _some(stage: StageProfile) -> StageProfile:
    """Every k-th request, so that a surface takes at most about a second."""
    n, width = stage.calls_ms.shape
    wanted = max(1, min(MAX_VISITS, MAX_CALLS // width))
    return rows_of(stage, np.arange(0, n, max(1, n // wanted)))


def raced_calls(
    profile: Profile,
    policies: Mapping[str, Reissue],
    names: Collection[str],
    *,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Floats]:
    """Answer times of fan-outs' shards under reissue policies.

    Args:
        profile: recorded requests.
        policies: reissue policies by stage.
        names: names of the stages to return.
        seed: seed of copies and of their probabilities.
        copy_correlation: correlation of copies with their calls; None for the one that recorded pairs show.

    Returns:
        By stage: (n, width) milliseconds; NaN for no call.
    """
    found = {}
    for i, stage in enumerate(profile.stages):
        if stage.name in names:
            stage_replay = StageReplay(
                stage, 0.0, copy_generator(seed, i), copy_correlation=copy_correlation, predrawn=True
            )
            found[stage.name] = stage_replay.raced(policies.get(stage.name))
    return found
