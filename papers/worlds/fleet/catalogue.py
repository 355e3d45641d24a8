"""Catalogue of scenarios: those of Paragon and of Quasar that a simulated cluster can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from papers.worlds.fleet.application_world import applications
from papers.worlds.fleet.platforms import LOCAL, cloud, some_of_cloud
from papers.worlds.fleet.targets import targets
from papers.worlds.fleet.world import World

LOCAL_JOBS: Final = 178
KNOWN_LOCAL, KNOWN_CLOUD = 20, 50  # applications that were measured everywhere (Paragon section 3.1)
MEDIAN_S: Final = 330.0  # duration alone on the local cluster, in seconds
LOW_MEDIAN_S: Final = 180.0


@dataclass(frozen=True)
class Entry:
    """A scenario that can be drawn.

    Attributes:
        draw: function from a seed to the world.
    """

    title: str
    draw: Callable[[int], World]


def _regular(count: int, gap_s: float) -> Floats:
    return np.arange(count, dtype=float) * gap_s


def _local_low(seed: int) -> World:
    arrivals_s = _regular(LOCAL_JOBS, 10.0)
    return applications("local-low", seed, LOCAL, arrivals_s, known=KNOWN_LOCAL, median_s=LOW_MEDIAN_S)


def _local_medium(seed: int) -> World:
    gaps_s = np.random.default_rng([seed, 1]).normal(10.0, 1.0, LOCAL_JOBS)
    arrivals_s = np.cumsum(gaps_s)
    return applications("local-medium", seed, LOCAL, arrivals_s, known=KNOWN_LOCAL, median_s=MEDIAN_S)


def _local_phases(seed: int) -> World:
    arrivals_s = _regular(LOCAL_JOBS, 10.0)
    return applications(
        "local-phases", seed, LOCAL, arrivals_s, known=KNOWN_LOCAL, median_s=MEDIAN_S, phases=3
    )


def _local_full(seed: int) -> World:
    arrivals_s = _regular(LOCAL_JOBS, 1.0)
    return applications("local-full", seed, LOCAL, arrivals_s, known=KNOWN_LOCAL, median_s=MEDIAN_S)


def _cloud_low(seed: int) -> World:
    arrivals_s = _regular(2500, 1.0)
    return applications("cloud-low", seed, cloud(1000), arrivals_s, known=KNOWN_CLOUD, load=0.4)


def _cloud_high(seed: int) -> World:
    arrivals_s = _regular(5000, 1.0)
    return applications("cloud-high", seed, cloud(1000), arrivals_s, known=KNOWN_CLOUD, load=0.85)


def _cloud_full(seed: int) -> World:
    """7,500 applications one a second, and 1,000 more at once after the first half (Paragon section 5.4)."""
    burst_s = 3750.0 + np.arange(1, 1001) * 0.05
    arrivals_s = np.sort(np.concatenate((_regular(7500, 1.0), burst_s)))
    return applications("cloud-full", seed, cloud(1000), arrivals_s, known=KNOWN_CLOUD, load=0.95)


def _cloud_failures(seed: int) -> World:
    arrivals_s = _regular(2500, 1.0)
    return applications(
        "cloud-failures", seed, cloud(1000), arrivals_s, known=KNOWN_CLOUD, load=0.4, outages=50
    )


def _azure(seed: int) -> World:
    """Eight types from the smallest to the largest, 500 servers; the source names neither types nor load."""
    platforms = some_of_cloud((0, 2, 4, 6, 8, 10, 12, 13), 504)
    return applications("azure", seed, platforms, _regular(2500, 1.0), known=KNOWN_CLOUD, load=0.85)


def _gce(seed: int) -> World:
    """Four types, 100 servers; the source names neither types nor load."""
    platforms = some_of_cloud((3, 6, 9, 11), 100)
    return applications("gce", seed, platforms, _regular(500, 1.0), known=KNOWN_CLOUD, load=0.85)


def _cloud_unlike(seed: int) -> World:
    """As cloud-low, with needs up to the 0.9 quantile of what platforms offer: few are near the best."""
    return applications(
        "cloud-low-unlike",
        seed,
        cloud(1000),
        _regular(2500, 1.0),
        known=KNOWN_CLOUD,
        load=0.4,
        most_needed=0.9,
    )


def _targets(seed: int) -> World:
    return targets("targets", seed, cloud(200), 1200, load=0.9)


def _targets_swings(seed: int) -> World:
    return targets("targets-swings", seed, cloud(200), 1200, load=0.6, swings=True, outages=10)


SCENARIOS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "local-low": Entry("178 applications, one each 10 s, on 40 nodes", _local_low),
        "local-medium": Entry("as local-low, with longer applications at uneven gaps", _local_medium),
        "local-phases": Entry("as local-medium; each workload is three applications in a row", _local_phases),
        "local-full": Entry("178 applications, one a second, on 40 nodes: most have to wait", _local_full),
        "cloud-low": Entry("2,500 applications, one a second, on 1,000 servers; 40% load", _cloud_low),
        "cloud-high": Entry("5,000 applications, one a second, on 1,000 servers; 85% load", _cloud_high),
        "cloud-full": Entry("8,500 applications with a burst of 1,000, on 1,000 servers", _cloud_full),
        "cloud-failures": Entry("as cloud-low; 50 servers fail", _cloud_failures),
        "cloud-low-unlike": Entry("as cloud-low, on platforms that are less alike", _cloud_unlike),
        "azure": Entry("2,500 applications, one a second, on 504 servers of 8 types; 85% load", _azure),
        "gce": Entry("500 applications, one a second, on 100 servers of 4 types; 85% load", _gce),
        "targets": Entry("1,200 workloads with targets, one a second, on 200 servers; 90% load", _targets),
        "targets-swings": Entry(
            "as targets, with 60% load that rises and falls; 10 servers fail", _targets_swings
        ),
    }
)
