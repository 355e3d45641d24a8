"""A fan-out's variance against both of its levers: first copies of late shards, then a stop rule.

The source leaves several levers at one stage open. Each point here races every call with its copy at one
share of reissues, and tunes the stop rule of one loss on what then comes in: copies bring back shards that a
rule tuned without them would have left out, so the same loss buys an earlier stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from kwiken.arrays import Floats
from kwiken.curves import Curve, dealer
from kwiken.partial import FanOut
from kwiken.profile import Profile, StageProfile, rows_of
from kwiken.service import Reissue
from kwiken.simulation import StageReplay

PARTS = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # of the most that each lever may take
MOST_VISITS = 3000
MOST_CELLS = 1 << 19


@dataclass(frozen=True)
class Surface:
    """Variance of a fan-out's latency by what its levers take.

    Attributes:
        reissue: (r,) ascending from 0: share of the shards' calls that get a copy.
        loss: (l,) ascending from 0: mean utility that may be lost.
        variance: (r, l): of the stage's latency then, ms²; falling along both.
    """

    reissue: Floats
    loss: Floats
    variance: Floats

    def fall(self, loss: float, low: float, high: float) -> float:
        """By how much variance falls between two shares of reissues at one loss, ms².

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
        stage: what was learned of it.
        curve: its variance against reissues, whose policies and correlation of copies count; None where it
            may have no copies.
        most_reissue: largest share of calls that may get a copy.
        most_loss: largest mean loss of utility.
        seed: of copies and coins, the same at every point.
    """
    some = _some(stage)
    rho = 0.0 if curve is None else curve.correlation
    player = StageReplay(some, 0.0, dealer(seed), copy_correlation=rho, dealt=True)
    shares = np.unique([min(1.0, part * most_reissue) if curve is not None else 0.0 for part in PARTS])
    losses = np.unique([min(1.0, part * most_loss) for part in PARTS])
    variance = np.empty((len(shares), len(losses)))
    for i, share in enumerate(shares.tolist()):
        policy = None if curve is None else curve.policy(share)
        fan_out = FanOut.of(some, player.raced(policy))
        rules = [None, *fan_out.tune(losses[1:].tolist())]
        variance[i] = [fan_out.moments(rule)[1] for rule in rules]
    # More of either lever is never worse: less of it is always among what may be done.
    return Surface(shares, losses, np.minimum.accumulate(np.minimum.accumulate(variance, axis=0), axis=1))


def _some(stage: StageProfile) -> StageProfile:
    """Every k-th request, so that a surface takes a second at most."""
    n, width = stage.calls_ms.shape
    wanted = max(1, min(MOST_VISITS, MOST_CELLS // width))
    return rows_of(stage, np.arange(0, n, max(1, n // wanted)))


def raced_calls(
    profile: Profile,
    policies: Mapping[str, Reissue],
    names: Collection[str],
    *,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Floats]:
    """When fan-outs' shards answer under reissue policies.

    Args:
        profile: what was learned.
        policies: by stage that reissues.
        names: stages of interest.
        seed: of copies and coins.
        copy_correlation: of copies with their calls; None for what pairs say.

    Returns:
        By stage of interest: (n, width) milliseconds; NaN for no call.
    """
    found = {}
    for i, stage in enumerate(profile.stages):
        if stage.name in names:
            player = StageReplay(stage, 0.0, dealer(seed, i), copy_correlation=copy_correlation, dealt=True)
            found[stage.name] = player.raced(policies.get(stage.name))
    return found
