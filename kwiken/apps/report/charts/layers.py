"""Layered layout of a DAG: layers by longest path, few crossings, long edges routed around the boxes.

After Sugiyama, Tagawa and Toda (1981): layers, dummy nodes on edges that pass a layer, barycentre sweeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Parents = Mapping[str, Sequence[str]]
SWEEPS = 6


@dataclass(frozen=True)
class DagLayout:
    """Layers from top to bottom, and the route of each edge.

    Attributes:
        layers: names in each layer from left to right; dummy nodes stand for edges that pass the layer.
        chains: for each edge (parent, child), the nodes from parent to child with the dummies between them.
    """

    layers: tuple[tuple[str, ...], ...]
    chains: dict[tuple[str, str], tuple[str, ...]]
    dummies: frozenset[str]


def lay_out(parents: Parents) -> DagLayout:
    """Lay out a DAG given by each node's parents; expects parents before children."""
    level: dict[str, int] = {}
    for name, above in parents.items():
        level[name] = 1 + max((level[parent] for parent in above), default=-1)
    layers: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name, depth in level.items():
        layers[depth].append(name)
    chains = _route(parents, level, layers)
    links = [pair for chain in chains.values() for pair in itertools.pairwise(chain)]
    _order(layers, links)
    dummies = frozenset(name for layer in layers for name in layer if name not in parents)
    return DagLayout(tuple(map(tuple, layers)), chains, dummies)


def _route(
    parents: Parents, level: dict[str, int], layers: list[list[str]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Add dummy nodes to the layers that an edge passes; returns the chain of each edge."""
    chains = {}
    for child, above in parents.items():
        for parent in above:
            between = []
            for depth in range(level[parent] + 1, level[child]):
                dummy = f"\0{parent}\0{child}\0{depth}"  # NUL: no stage has such a name
                layers[depth].append(dummy)
                between.append(dummy)
            chains[parent, child] = (parent, *between, child)
    return chains


def _order(layers: list[list[str]], links: list[tuple[str, str]]) -> None:
    """Sort each layer by the mean position of its neighbours above, then below, a few times."""
    up: dict[str, list[str]] = {}
    down: dict[str, list[str]] = {}
    for parent, child in links:
        up.setdefault(child, []).append(parent)
        down.setdefault(parent, []).append(child)
    for sweep in range(SWEEPS):
        neighbours, ways = (up, layers) if sweep % 2 == 0 else (down, layers[::-1])
        for fixed, moving in itertools.pairwise(ways):
            place = {name: index - (len(fixed) - 1) / 2 for index, name in enumerate(fixed)}
            here = {name: index - (len(moving) - 1) / 2 for index, name in enumerate(moving)}
            moving.sort(key=lambda name: _mean([place[n] for n in neighbours.get(name, ())], here[name]))


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
