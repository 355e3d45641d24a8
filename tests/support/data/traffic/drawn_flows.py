"""Flows drawn from a known map."""

from __future__ import annotations

import numpy as np

from kwiken.traffic.flows import Flows, TrafficEndpoint, TrafficUnit


def endpoints(services: int, instances: int = 1) -> tuple[TrafficEndpoint, ...]:
    """Endpoints `s0-0`, `s0-1` and so on, instance `k` in zone `z{k % 3}`."""
    return tuple(
        TrafficEndpoint(name=f"s{s}-{k}", service=f"s{s}", node=f"n{s}-{k}", zone=f"z{k % 3}")
        for s in range(services)
        for k in range(instances)
    )


def drawn(
    rates: np.ndarray, seconds: float, seed: int, ends: tuple[TrafficEndpoint, ...], start_s: float = 0.0
) -> Flows:
    """Calls of independent Poisson processes.

    Args:
        rates: (n, n) calls a second by sender and receiver.
    """
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rates * seconds)
    source, target = (np.repeat(each.ravel(), counts.ravel()) for each in np.indices(rates.shape))
    at = start_s + rng.random(len(source)) * seconds
    return Flows(ends, TrafficUnit.CALLS, at, source, target, np.ones(len(source)))
