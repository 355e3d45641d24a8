"""All parts of the reproduction of LSH, and what is not reproduced."""

from __future__ import annotations

from typing import Final

from papers.figures.rows import Part, RequiredRow, unreproduced
from papers.lsh.accuracy import accuracy
from papers.lsh.placement import placements

MISSING: Final = (
    RequiredRow(
        number="5",
        figure="Figure 5",
        metric="time of a prediction by size of the training set",
        source="flat to 100; 13 ms at 150",
        reason="a reproduction reads no clock; `python -m benchmarks --only neighbours` times the hashed "
        "index, the k-d tree and a scan, at 150 and at 10,000 workloads",
    ),
    RequiredRow(
        number="IV",
        figure="Table 4",
        metric="time of profiling by what was profiled",
        source="about 60 s",
        reason="there are no servers of ten configurations to profile on; `kwiken probe stage` takes about a "
        "minute for one stage on this machine",
    ),
    RequiredRow(
        number="3",
        figure="Figure 3b, 3c",
        metric="maps of the processor's utilisation by server over time",
        source="drawn only",
        reason="the simulated data centre keeps the share of taken cores, and not a map",
    ),
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction, each independent.

    Args:
        seeds: number of synthetic populations.
    """
    return (*accuracy(seeds), placements(seeds), unreproduced(MISSING))
