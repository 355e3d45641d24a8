"""Drawn traces whose blocks come back in ways that a model may mistake; written before any model was run on them."""

from __future__ import annotations

import numpy as np

from kwiken.storage.trace.block_trace import BlockTrace, trace_of

KIB = 1024


def _trace(rows: list[tuple[int, int, bool]], rng: np.random.Generator, name: str) -> BlockTrace:
    start, size, read = (np.array(column) for column in zip(*rows, strict=True))
    t_s = np.cumsum(rng.exponential(0.002, len(rows)))
    return trace_of(
        t_s, np.zeros(len(rows), dtype=np.int64), start, size, read.astype(bool), None, where=name
    )


def index_and_body(ios: int = 16_000, seed: int = 101) -> BlockTrace:
    """A header of 4 KiB is read, then 64 KiB that begin with it; records are taken by popularity."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, 4001) ** 0.7
    record = rng.permutation(4000)[rng.choice(4000, ios // 2, p=weight / weight.sum())]
    rows = [(int(one) * 256 * KIB, size * KIB, True) for one in record for size in (4, 64)]
    return _trace(rows, rng, "index-and-body")


def circular_journal(ios: int = 16_000, seed: int = 102) -> BlockTrace:
    """A journal of 12 MiB is written round and round, and pages of 8 KiB are written back, some soon again."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, bool]] = []
    at, recent = 0, [0]
    while len(rows) < ios:
        if rng.random() < 0.5:
            size = 4 * KIB * int(rng.integers(1, 5))
            rows.append((at, size, False))
            at = (at + size) % (12 << 20)
            continue
        again = rng.random() < 0.4
        page = (
            recent[-int(rng.integers(1, min(len(recent), 300) + 1))] if again else int(rng.integers(1 << 16))
        )
        recent.append(page)
        rows.append(((1 << 30) + page * 8 * KIB, 8 * KIB, bool(rng.random() < 0.3)))
    return _trace(rows, rng, "circular-journal")


def shuffled_scans(ios: int = 16_000, seed: int = 103) -> BlockTrace:
    """Every chunk of 128 KiB of a table is read once in a pass, each pass in an order of its own, beside hot pages."""
    rng = np.random.default_rng(seed)
    order: list[int] = []
    rows: list[tuple[int, int, bool]] = []
    while len(rows) < ios:
        if rng.random() < 0.35:
            page = int(rng.zipf(1.4)) % 3000
            rows.append(((4 << 30) + page * 7919 % 3000 * 4 * KIB, 4 * KIB, True))
            continue
        order = order or rng.permutation(2500).tolist()
        rows.append((order.pop() * 160 * KIB, 128 * KIB, True))
    return _trace(rows, rng, "shuffled-scans")
