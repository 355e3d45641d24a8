"""Cuts of p99 by stage: what the copies of each stage add to those of the others, and what more would add."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwiken.model.profile import Profile
from kwiken.tail.apportion import choices_of
from kwiken.tail.planning.study import PlanStudy
from kwiken.tail.simulation import ROWS, PairedSimulation, smooth_p99

MORE = 0.01  # of all work, that a stage is given beyond its share


class P99Cut(NamedTuple):
    """Cut of p99 by one stage, milliseconds.

    Attributes:
        cut_ms: by how much p99 would rise without the copies of the stage; 0 where it gets none.
        next_ms: by how much it would fall if the stage were given 1% of all work more.
    """

    cut_ms: float
    next_ms: float


def p99_cuts(profile: Profile, study: PlanStudy, *, seed: int = 0) -> dict[str, P99Cut]:
    """Cuts of p99 of the requests as recorded, by stage that may be reissued.

    All are compared on the same requests, copies and coins. p99 is the mean from 98.5 to 99.5%, as small
    steps do not move a single percentile.

    Args:
        profile: requests, as recorded, of the plan.
        study: plan for them, with its findings.
    """
    if not study.curves or not profile.requests:
        return {}
    choices = choices_of(study.curves, study.allocation)
    rows = np.repeat(np.arange(profile.requests), max(1, ROWS // profile.requests))
    paired = PairedSimulation(profile, study.curves, rows, seed=seed)
    whole = smooth_p99(paired.set_choices(choices))
    found = {}
    for name, curve in study.curves.items():
        share, coin = choices.get(name, (0.0, 1.0))
        more = min(1.0, share + MORE / max(MORE, study.plan.cost.stages[name]))
        after = smooth_p99(paired.with_choices({name: (more, coin if share else curve.coin_at(more))}))
        without = smooth_p99(paired.with_choices({name: (0.0, 1.0)})) if share else whole
        found[name] = P99Cut(without - whole, max(0.0, whole - after))
    return found
