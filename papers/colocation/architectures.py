"""Tables I and III of the source: machine types, and the scores of six services on two of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from papers.colocation.sensitivity import DIMENSIONS, NodeArchitecture, carried
from papers.figures.tables import exact

_TABLE_I: Final = {
    "Haswell10": ("I", 48, 32, 75.6, 5, 1.63),
    "Haswell12": ("II", 48, 256, 120, 5, 1.79),
    "Skylake14": ("I", 36, 64, 76, 25, 1.29),
    "Skylake16": ("II", 80, 256, 170, 12.5, 2.52),
    "Broadwell18": ("I", 32, 32, 42, 25, 1.00),
    "Broadwell20": ("II", 56, 256, 153, 12.5, 1.98),
}
ARCHITECTURES: Final = tuple(
    NodeArchitecture(
        name=name, cores=cores, memory_gb=memory, memory_gbps=bandwidth, network_gbps=network, speed=speed
    )
    for name, (_, cores, memory, bandwidth, network, speed) in _TABLE_I.items()
)
LARGE: Final = np.array([kind == "II" for kind, *_ in _TABLE_I.values()])
NAMES: Final = tuple(_TABLE_I)
# Scores of processors, memory bandwidth and network bandwidth on Haswell10 and on Broadwell20.
TABLE_III: Final = {
    "Log1": ((0.83, 0.92, 1.32), (0.68, 0.60, 0.60)),
    "KeyVal1": ((0.77, 0.63, 1.32), (0.63, 0.41, 0.61)),
    "NN1": ((0.77, 0.79, 0.80), (0.63, 0.53, 0.36)),
    "KeyVal2": ((0.75, 0.92, 1.12), (0.64, 0.45, 0.51)),
    "KeyVal3": ((0.99, 1.15, 1.98), (0.81, 0.76, 0.90)),
    "Rank2": ((1.13, 1.31, 1.98), (0.93, 0.86, 0.96)),
}
CARRIED_NOTE: Final = (
    "equation 1 with Table I; its ratio of memory bandwidth for each core is 0.576, and the published scores "
    "have ratios of 0.49 to 0.67, so they cannot all come from it"
)


def architecture(name: str) -> NodeArchitecture:
    """Machine type of a name in Table I."""
    return ARCHITECTURES[NAMES.index(name)]


def carried_scores() -> dict[str, dict[str, float]]:
    """Scores on Broadwell20 by equation 1, by service and dimension, to three digits."""
    types = architecture("Haswell10"), architecture("Broadwell20")
    found = {name: carried(np.array(own), *types).round(3).tolist() for name, (own, _) in TABLE_III.items()}
    return {name: dict(zip(DIMENSIONS, scores, strict=True)) for name, scores in found.items()}


CARRIED: Final = tuple(
    exact("Table III", f"{service} on Broadwell20, {dimension}", (service, dimension), f"{published:g}")
    for service, (_, second) in TABLE_III.items()
    for dimension, published in zip(DIMENSIONS, second, strict=True)
)
