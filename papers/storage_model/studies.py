"""Studies of caches and contiguous files for ten applications, by their models."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.storage.model.document import StorageModel
from kwiken.storage.model.generator import tree_of
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace
from papers.worlds.disks.applications import APPLICATIONS, drawn_trace, fragmented_trace
from papers.worlds.disks.devices import DiskModel, cached_share

CACHE_BYTES: Final = 8 << 30  # of one cache
CACHES: Final = 4
LINE: Final = 64 << 10
IOS: Final = 15_000
DISK: Final = DiskModel()


def caches_of(number: int, seed: int) -> dict[str, float]:
    """Speedup of an application with each number of caches: its model, fewer levels, no locality."""
    rng = np.random.default_rng([seed, 31, number])
    trace = drawn_trace(APPLICATIONS[number], IOS, rng)
    found = {}
    for name, model in (
        ("model", train(trace)),
        ("one level", train(trace, levels=1)),
        ("two levels", train(trace, levels=2)),
        ("three levels", train(trace, levels=3)),
    ):
        for count in range(CACHES + 1):
            found[f"{name} {count}"] = speedup(trace, model, count)
    for count in range(CACHES + 1):
        found[f"none {count}"] = speedup(trace, None, count)
    found["defragmented"] = defragmented(number, seed)["speedup"]
    one = train(trace, levels=1)
    counts = np.sum([stream.occupancy for stream in one.streams], axis=0)
    found |= {f"state {state}": 100 * float(counts[state] / counts.sum()) for state in range(4)}
    return found


def speedup(trace: BlockTrace, model: StorageModel | None, count: int) -> float:
    """Time of a trace's I/Os on a disk over that with caches in front of it.

    Args:
        model: model that says where accesses are; None for a generator without locality.
        count: number of caches of 8 GB.
    """
    span = float(trace.end.max() - trace.start.min())
    if model is None:
        weight, lines = np.ones(1), np.array([span / LINE])
    else:
        tree = tree_of(model.volumes[0])
        counts = np.sum([stream.occupancy for stream in model.streams], axis=0).astype(np.float64)
        weight, lines = counts / counts.sum(), np.diff(tree.edges) / LINE
    hit = cached_share(weight, lines, count * CACHE_BYTES / LINE)
    disk = DISK.service_ms(trace)
    cached = DISK.cached_ms(trace.read)
    mixed = np.where(trace.sequential, disk, hit * cached + (1 - hit) * disk)
    return float(disk.sum() / mixed.sum())


def defragmented(number: int, seed: int) -> dict[str, float]:
    """Sequential share and time of an application before and after files are laid out contiguously."""
    rng = np.random.default_rng([seed, 32, number])
    before, after = fragmented_trace(APPLICATIONS[number], IOS, rng)
    return {
        "before": 100 * float(before.sequential.mean()),
        "after": 100 * float(after.sequential.mean()),
        "speedup": 100 * float(DISK.service_ms(before).sum() / DISK.service_ms(after).sum() - 1),
    }
