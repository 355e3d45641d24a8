"""Priced choices that look at kinds of nodes are those of every node alone, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, strategies as st

from kwiken.allocator.placement import (
    Caution,
    DrawKind,
    NodeLedger,
    PlacementRequest,
    Sizing,
    contention_on,
)
from kwiken.allocator.schedulers.priced_choice import PRICES, _prices, priced_choices
from kwiken.allocator.workloads import SOURCES, Spread
from kwiken.model.nodes import Cluster
from tests.support.allocation import plain_choices
from tests.support.runtime.clusters import cluster, known, profile, requested

SPEEDS = {"top": 1.0, "even": 1.0, "low": 0.6}


def drawn(rng: np.random.Generator, nodes: Cluster, name: str) -> PlacementRequest:
    """Workload with random curves and scores; some sizes draw less than worse ones, some cost the same."""
    about = profile(
        {1: 3e3, 2: 5.5e3 if rng.random() < 0.7 else 6e3, 4: 10e3, 3: float(rng.uniform(5e3, 11e3))},
        SPEEDS,
        name=name,
        efficiency=[1 / (1 + 0.05 * rng.random() * n) for n in range(int(rng.integers(3, 14)))],
        tolerated=known(rng.uniform(0.3, 1.2, len(SOURCES))),
        caused=known(rng.uniform(0, 0.2, len(SOURCES))),
    )
    caution = Caution(later_loss=float(rng.choice([0.0, 0.02, 0.05, 0.2])))
    spread = list(Spread)[int(rng.integers(3))]
    request = requested(float(rng.uniform(2e3, 60e3)), about, nodes, caution=caution, spread=spread)
    return replace(request, shares={DrawKind.REISSUES: 0.1}) if rng.random() < 0.2 else request


@given(st.integers(0, 2**32 - 1))
def test_choices_are_those_of_the_long_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = cluster({"top": 9, "even": 4, "low": 12}, zones=6)
    ledger = NodeLedger(nodes)
    for number in range(5):
        resident = Sizing(drawn(rng, nodes, f"r{number}"), ledger)
        for node in np.flatnonzero(rng.random(25) < 0.4).tolist():
            size = int(rng.integers(len(resident.request.cores)))
            if resident.takes(node, size) and ledger.bears(node, resident.request.all_caused):
                resident.add(node, size)
    sizing = Sizing(drawn(rng, nodes, "placed"), ledger)
    for node in rng.choice(25, int(rng.integers(3)), replace=False).tolist():
        if sizing.takes(node, 0) and sizing.open_nodes()[node]:
            sizing.add(node, 0)
    contention = contention_on(sizing.request, ledger)
    for dearer in (None, np.exp(0.3 * rng.standard_normal(25)), np.ones(25)):
        expected = plain_choices.priced_choices(sizing, contention, dearer)
        assert priced_choices(sizing, contention, dearer) == expected


@given(st.floats(1e-9, 1e9), st.floats(1.0, 1e9))
def test_prices_are_evenly_spaced_in_their_logarithm(low: float, ratio: float) -> None:
    assert _prices(low, low * ratio).tolist() == np.geomspace(low, low * ratio, PRICES).tolist()
