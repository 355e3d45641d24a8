"""Rows of ARQ that need no simulation: the cluster, busy times and chances in closed form (6.2)."""

from __future__ import annotations

from typing import Final

from kwiken.allocator.waiting.chances import stationary_chance
from kwiken.allocator.waiting.distributions import normal
from papers.figures.rows import Findings, Part, RowKind, percent, row
from papers.worlds.fleet.platforms import LOCAL

MEAN_S, DEVIATION_S = 2601.0, 390.0  # of a normal busy time with 60% below 2,700 s
TOP_POOL: Final = 42  # busy servers with which the source's two figures agree


def _rows(_: list[object]) -> Findings:
    busy = normal(MEAN_S, DEVIATION_S)
    chance = stationary_chance(busy, TOP_POOL, 56.0)
    note = "closed form: normal, mean 2601 s, deviation 390 s, which follow from the source's value"
    return Findings(
        (
            row(
                "Table 6.1",
                "nodes of the local cluster",
                sum(one.count for one in LOCAL),
                source="40",
                kind=RowKind.INPUT,
            ),
            row(
                "Table 6.1",
                "cores of the local cluster",
                sum(one.count * one.cores for one in LOCAL),
                source="178",
                kind=RowKind.INPUT,
            ),
            row(
                "Figure 6.2a",
                "servers of the top pool released within 2700 s, %",
                percent(busy.below(2700.0)),
                source="60",
                note=note,
                kind=RowKind.INPUT,
            ),
            row(
                "Figure 6.2b",
                "free server in the top pool within 56 s, %",
                percent(chance),
                source="60",
                note=f"{note}, {TOP_POOL} busy servers, which was chosen for this value",
                kind=RowKind.INPUT,
            ),
        )
    )


def tables() -> Part:
    """Table 6.1 and Figure 6.2."""
    return Part("closed forms", (), _rows, ("Table 6.1", "Figure 6.2a", "Figure 6.2b"))
