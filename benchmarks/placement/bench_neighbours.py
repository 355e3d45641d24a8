"""Benchmark of neighbours: the hashed index beside an exact tree and a scan, and a search of servers."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.harness import Row, in_turn
from kwiken.base.arrays import Floats
from papers.worlds.schedulers.hashed_index import HashedIndex, HashFamily

KNOWN = (150, 1000, 10_000)  # workloads; the source has 150
DIMENSIONS = 4  # both scores of two sources
RADIUS = 0.4
COUNT = 5
QUERIES = 200


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rng = np.random.default_rng(43)
    rows: list[Row] = []
    for known in KNOWN:
        points, queries = rng.random((known, DIMENSIONS)), rng.random((QUERIES, DIMENSIONS))
        index = HashedIndex(HashFamily(DIMENSIONS, RADIUS))
        for name, point in enumerate(points):
            index.add(name, point)
        tree = cKDTree(points)
        place = iter(range(10**9))

        def query() -> Floats:
            return np.asarray(queries[next(place) % QUERIES])  # noqa: B023 - called within this turn of the loop

        def scan() -> object:
            apart = ((points - query()) ** 2).sum(axis=1)  # noqa: B023 - as above
            return np.argpartition(apart, COUNT)[:COUNT]

        rows += in_turn(
            f"{COUNT} neighbours of one workload among {known}",
            lambda: tree.query(query(), COUNT),  # noqa: B023 - as above
            [("hashed index", lambda: index.query(query())[:COUNT]), ("scan", scan)],  # noqa: B023 - as above
            rounds=3 if quick else 15,
            unit="ms",
            scale=1e3,
            target=1.0,
        )
        rows.append(
            _recall(
                f"points within {RADIUS} that the hashed index finds, {known} known", index, tree, queries
            )
        )
    return rows


def _recall(name: str, index: HashedIndex, tree: cKDTree, queries: np.ndarray) -> Row:
    found = sum(len(index.query(each)) for each in queries)
    there = sum(len(each) for each in tree.query_ball_point(queries, RADIUS))
    share = 100 * found / there
    return Row(name=name, ours=share, unit="%", target=95.0, met=share >= 95.0)
