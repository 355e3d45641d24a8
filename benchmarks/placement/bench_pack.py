"""Benchmark of packing by use: nodes at the same measured risk, on days of recorded virtual machines.

Each file holds a day of processor use, one virtual machine a line. The first half of the day is packed on,
the second half is judged on; then the other way round. A node has the cores of four machines.
The rule was chosen on 2011-03-03 after comparisons on that day: other days are the test.
Every rule sees the same half day.

Rows of fewest nodes compare at the same measured risk: settled nodes of every number, and every sum of
percentiles, of those from 80 to 99, first fit and best fit. A count of nodes that are within a share of the
time is decided by a few samples, so the machines are drawn anew many times, nine tenths of them each time,
and nodes and shares are means over the draws. Both are read off between the neighbouring means, so that a
rule with few steps is not at a loss. Rows for all machines stand beside them, with levelled nodes without
swaps, and nodes packed by the joint use of the judged half itself, which nobody can know before.

A wish is compared with the sum of a percentile that the same half day chooses: each quarter day is packed on
and the other one judged, and the sum with the fewest nodes of those within the wished share is taken.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import Row
from kwiken.allocator.packing.later_moments import LaterUse, later_use
from kwiken.allocator.packing.margin import levelled, sums_of
from kwiken.allocator.packing.tasks.usage import UsageSeries, Use, lasting_variance, use_of
from kwiken.base.arrays import Floats, Ints
from papers.colocation.baselines import (
    by_later_use,
    by_percentile,
    joint_at_its_word,
)

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "fleet"
CAPACITY = 4.0
SHARES = (0.0002, 0.0005, 0.001, 0.002, 0.005)
PERCENTILES = range(80, 100)
KNOWN = (97, 98, 99, 99.5, 99.9, 100)  # percentiles of joint use in the judged half itself
NEARBY = 8  # nodes below the fewest of a sum of percentiles, from which ours are tried
ROOM = 1e-9  # rounding of sums
MIN_SHARE = 1e-7  # of the time; no share is 0, so that logarithms can be taken
SAVING = 0.05  # of the nodes: what is aimed at
DRAWS, QUICK_DRAWS = 12, 2  # of nine tenths of the machines
DRAWN = 0.9
DRAW_SEED = 2026
BESIDE = 18  # numbers of nodes that are tried in each draw, from a little below those of the least sum on
BELOW = 0.95  # of the nodes of the least sum, where they begin


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rows: list[Row] = []
    for path in sorted(DATA.glob("planetlab-*.csv.gz")):
        day = _day(path)
        half = day.shape[1] // 2
        name = path.name.removesuffix(".csv.gz")
        rows += _compared(f"{name}, second half by first", day[:, :half], day[:, half:], quick)
        if not quick:
            rows += _compared(f"{name}, first half by second", day[:, half:], day[:, :half], quick)
    return rows


def _day(path: Path) -> Floats:
    with gzip.open(path, "rt") as lines:
        cells = [[float(cell) for cell in line.rstrip(",\n").split(",") if cell] for line in lines]
    return np.array(cells, dtype=np.float64) / 100.0


def _learned(packed: Floats) -> tuple[Use, LaterUse]:
    times_s: Floats = np.arange(packed.shape[1], dtype=np.float64) * 300.0
    series = UsageSeries(times_s, packed, np.full(packed.shape, np.nan))
    use = use_of(series, np.ones(len(packed)), np.ones(len(packed)))
    to_come = later_use(series, use, np.array([CAPACITY]))
    if to_come is None:
        raise SystemExit("too few samples or machines to learn from")
    return use, to_come


def _sums(packed: Floats, later: Floats) -> dict[tuple[int, bool], tuple[int, float]]:
    """Nodes, and share of the time above the capacity, of every sum of percentiles."""
    return {
        (percentile, best): _outcome(by_percentile(packed, percentile, CAPACITY, best=best), later)
        for percentile in PERCENTILES
        for best in (False, True)
    }


def _compared(name: str, packed: Floats, later: Floats, quick: bool) -> list[Row]:  # noqa: FBT001 - as run
    use, to_come = _learned(packed)
    sums = _sums(packed, later)
    inner = {chosen: _inner_risk(packed, *chosen) for chosen in sums}
    least = min(count for count, _ in sums.values())

    @functools.cache
    def settled(nodes: int) -> tuple[Ints, float]:
        return by_later_use(use, to_come, CAPACITY, nodes)

    def ours(nodes: int) -> tuple[int, float]:
        return _outcome(settled(nodes)[0], later)

    joint, joint_risk = _outcome(joint_at_its_word(packed, 99, CAPACITY), later)
    rows = [
        Row(
            name=f"{name}: joint p99 at its word, time above, %",
            ours=100 * joint_risk,
            unit=f"% on {joint} nodes",
        )
    ]
    for share in SHARES:
        fewest = next(nodes for nodes in range(least - NEARBY, len(packed)) if settled(nodes)[1] <= share)
        nodes, risk = ours(fewest)
        within = [sums[chosen] for chosen in sums if inner[chosen] <= share]
        count, own = min(within, default=sums[max(PERCENTILES), False])
        rows.append(
            Row(
                name=f"{name}: wished {share:.2%}, measured {risk:.3%} of the time",
                ours=nodes,
                unit="nodes",
                alternative=f"sum of a percentile by the same half, {own:.3%}",
                theirs=count,
                ratio=count / nodes,
                target=None if risk > own else int((1 - SAVING) * count),  # at more risk it would say nothing
            )
        )
    half = packed.shape[1] // 2
    for told, seen, after in (
        ("halves of the day", packed, later),
        ("quarters of the packed half", packed[:, :half], packed[:, half:]),
    ):
        rows.append(
            Row(name=f"{name}: correlation of covariances, {told}", ours=_persistence(seen, after), unit="")
        )
    rows += _at_same_risk(name, packed, later, list(sums.values()), ours, least)
    return rows + _over_draws(name, packed, later, QUICK_DRAWS if quick else DRAWS)


def _at_same_risk(
    name: str,
    packed: Floats,
    later: Floats,
    sums: list[tuple[int, float]],
    ours: Callable[[int], tuple[int, float]],
    least: int,
) -> list[Row]:
    """Fewest nodes within each share: ours, by any sum of percentiles, levelled, and with all known.

    Args:
        sums: nodes and measured share of each sum of percentiles.
        ours: function of a number of nodes, to that number and the measured share.
        least: fewest nodes of a sum of percentiles, near which ours are tried.
    """
    start = int(packed.mean(axis=1).sum() / CAPACITY) + 1
    variance = lasting_variance(packed)
    levels = [
        _outcome(levelled(packed.mean(axis=1), variance, nodes), later)
        for nodes in range(start, len(packed) // int(CAPACITY))
    ]
    known = [_outcome(joint_at_its_word(later, percentile, CAPACITY), later) for percentile in KNOWN]
    rows = []
    for share in SHARES:
        theirs, level, knowing = (
            min((count for count, risk in found if risk <= share), default=len(packed))
            for found in (sums, levels, known)
        )
        fewest = next(nodes for nodes in range(least - NEARBY, len(packed)) if ours(nodes)[1] <= share)
        rows.append(
            Row(
                name=f"{name}: all machines, fewest nodes within {share:.2%} of the time, measured "
                f"(levelled {level}, knowing the judged half {knowing})",
                ours=fewest,
                unit="nodes",
                alternative="sum of any percentile",
                theirs=theirs,
                ratio=theirs / fewest,
            )
        )
    return rows


def _over_draws(name: str, packed: Floats, later: Floats, draws: int) -> list[Row]:
    """Fewest nodes within each share, as means over draws of the machines: ours, and by any sum."""
    rng = np.random.default_rng(DRAW_SEED)
    sums, ours = [], []
    for _ in range(draws):
        drawn = np.sort(rng.permutation(len(packed))[: round(DRAWN * len(packed))])
        use, to_come = _learned(packed[drawn])
        sums.append(list(_sums(packed[drawn], later[drawn]).values()))
        start = round(BELOW * min(count for count, _ in sums[0]))
        ours.append(
            [
                _outcome(by_later_use(use, to_come, CAPACITY, nodes)[0], later[drawn])
                for nodes in range(start, start + BESIDE)
            ]
        )
    rows, savings = [], []
    for share in SHARES:
        theirs, fewest = (_nodes_within(np.array(found).mean(axis=0), share) for found in (sums, ours))
        savings.append(1 - fewest / theirs)
        rows.append(
            Row(
                name=f"{name}: nodes within {share:.2%} of the time, measured, mean of {draws} draws",
                ours=fewest,
                unit="nodes",
                alternative="best sum of percentiles",
                theirs=theirs,
                ratio=theirs / fewest,
                target=(1 - SAVING) * theirs,
            )
        )
    mean = 100 * float(np.mean(savings))
    rows.append(
        Row(
            name=f"{name}: mean saving at the same measured risk, {sum(one >= SAVING for one in savings)} of "
            f"{len(savings)} at {SAVING:.0%} or more",
            ours=mean,
            unit="%",
            target=100 * SAVING,
            met=mean >= 100 * SAVING,
        )
    )
    return rows


def _nodes_within(points: Floats, share: float) -> float:
    """Nodes at a share of the time, read off the least shares of (n, 2) nodes and shares."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    logs = np.log(np.maximum(np.minimum.accumulate(ordered[:, 1]), MIN_SHARE))
    within = np.flatnonzero(logs <= np.log(share))
    if not within.size or within[0] == 0:
        raise SystemExit(f"no number of nodes on both sides of a share of {share:g}")
    at = int(within[0])
    part = (logs[at - 1] - np.log(share)) / (logs[at - 1] - logs[at])
    return float(ordered[at - 1, 0] + part * (ordered[at, 0] - ordered[at - 1, 0]))


def _persistence(seen: Floats, after: Floats) -> float:
    """Correlation of the tasks' covariances in two times: what of their common use comes again."""
    pairs = np.triu_indices(len(seen), 1)
    return float(np.corrcoef(np.cov(seen)[pairs], np.cov(after)[pairs])[0, 1])


def _inner_risk(packed: Floats, percentile: int, best: bool) -> float:  # noqa: FBT001 - a pair of a choice
    """Share of the time above the capacity where each half is packed on and the other one judged."""
    half = packed.shape[1] // 2
    parts = packed[:, :half], packed[:, half:]
    return float(
        np.mean(
            [
                _outcome(by_percentile(seen, percentile, CAPACITY, best=best), later)[1]
                for seen, later in (parts, parts[::-1])
            ]
        )
    )


def _outcome(node: Ints, later: Floats) -> tuple[int, float]:
    """Number of nodes, and share of their time above the capacity."""
    count = int(node.max()) + 1
    return count, float((sums_of(later, node, count) > CAPACITY + ROOM).mean())
