"""Ablations: one property of the drawn applications changed, for what is true and what managers measure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kwiken.base.arrays import Floats
from papers.worlds.fleet.behaviour import Behaviour
from papers.worlds.fleet.world import World
from papers.worlds.waiting.rules import LinedRules


def changed_world(world: World, rules: LinedRules) -> World:
    """A world with the same jobs, arrivals and nodes, whose applications differ as the rules say."""
    return World(
        world.scenario,
        _changed(world.truth, rules),
        _changed(world.known, rules),
        world.rows,
        world.sizes,
        world.seed,
    )


def _changed(behaviour: Behaviour, rules: LinedRules) -> Behaviour:
    tolerated = behaviour.tolerated
    if rules.together:
        tolerated = np.column_stack(
            [_opposed(tolerated[:, at], behaviour.caused[:, at]) for at in range(tolerated.shape[1])]
        )
    return replace(
        behaviour,
        het=behaviour.het if rules.platforms else np.zeros_like(behaviour.het),
        tolerated=tolerated,
        caused=rules.contention * behaviour.caused,
    )


def _opposed(tolerated: Floats, caused: Floats) -> Floats:
    """The same values, so that the application that causes most tolerates least."""
    found = np.empty_like(tolerated)
    found[np.argsort(-caused, kind="stable")] = np.sort(tolerated)
    return found
