"""Sweeps: spin-up, load by others, idle nodes, and the share of sensitive jobs (Figures 14 to 16)."""

from __future__ import annotations

from typing import Final

from papers.hcloud.runs import Figures, cloud_figures, level
from papers.rows import (
    Findings,
    Part,
    Plot,
    PlotSeries,
    ReproducedRow,
    order_row,
    over_seeds,
)
from papers.worlds.cloud.settings import CloudSettings

NAMES: Final = ("SR", "OdF", "OdM", "HF", "HM")
TYPICAL_S: Final = 15.5
SPIN_UPS_S: Final = (0.0, 15.5, 120.0)
LOADS: Final = (0.0, 0.5, 1.0)
RETENTIONS: Final = (0.0, 10.0, 1000.0)
SHARES: Final = (0.0, 0.4, 0.8, 1.0)
CASES: Final = tuple((kind, name) for kind in ("spin-up", "load", "retention", "share") for name in NAMES)
POINTS: Final = {"spin-up": SPIN_UPS_S, "load": LOADS, "retention": RETENTIONS, "share": SHARES}
LABELS: Final = {
    "spin-up": ("Figure 14a", "spin-up, s"),
    "load": ("Figure 14b", "load by others, share"),
    "retention": ("Figure 15", "idle time, spin-ups"),
    "share": ("Figure 16", "share of latency-critical jobs"),
}
FLAT: Final = 0.02  # change of a loss that counts as none


def swept(kind: str, name: str, seed: int) -> list[Figures]:
    """Figures of one strategy at each point of a sweep, high variability."""
    if kind == "spin-up":
        every = [CloudSettings(spin_up_factor=point / TYPICAL_S) for point in SPIN_UPS_S]
    elif kind == "load":
        every = [CloudSettings(outside_load=point) for point in LOADS]
    elif kind == "retention":
        every = [CloudSettings(retention=point) for point in RETENTIONS]
    else:
        return [cloud_figures("high", name, CloudSettings(), seed, share) for share in SHARES]
    return [cloud_figures("high", name, settings, seed) for settings in every]


def _rows(results: list[list[list[Figures]]]) -> Findings:
    by_case = dict(zip(CASES, results, strict=True))
    rows: list[ReproducedRow] = []
    plots = []
    for kind, points in POINTS.items():
        figure, label = LABELS[kind]
        for name in NAMES:
            seeds = by_case[kind, name]
            for place, point in enumerate(points):
                values = [one[place]["p95 loss"] for one in seeds]
                rows.append(
                    level(
                        figure,
                        f"high: {name}, {label} {point:g}, 95th percentile of the loss",
                        values,
                        "drawn only",
                    )
                )
                if kind in {"retention", "share"}:
                    costs = [one[place]["hourly"] for one in seeds]
                    demand = f"M {seeds[0][place]['mean demand']:.0f} cores"
                    rows.append(
                        level(
                            figure,
                            f"high: {name}, {label} {point:g}, hourly cost; {demand}",
                            costs,
                            "drawn only",
                        )
                    )
        lines = tuple(
            PlotSeries(name, points, [one["p95 loss"] for one in by_case[kind, name][0]]) for name in NAMES
        )
        plots.append(Plot(figure, f"loss by {label}", label, "95th percentile of the loss", lines))
    rows += _orders(by_case)
    return Findings(tuple(rows), tuple(plots))


def _orders(by_case: dict[tuple[str, str], list[list[Figures]]]) -> list[ReproducedRow]:
    def rise(kind: str, name: str, key: str = "p95 loss") -> list[float]:
        return [one[-1][key] - one[0][key] for one in by_case[kind, name]]

    return [
        order_row(
            "Figure 14a",
            "high: SR does not change with spin-up",
            [abs(up) <= FLAT for up in rise("spin-up", "SR")],
            "flat",
        ),
        order_row(
            "Figure 14a",
            "high: OdF and OdM lose most by spin-up",
            [
                min(odf, odm) > max(hf, hm)
                for odf, odm, hf, hm in zip(*(rise("spin-up", name) for name in NAMES[1:]), strict=True)
            ],
        ),
        order_row(
            "Figure 14b",
            "high: SR does not change with load by others",
            [abs(up) <= FLAT for up in rise("load", "SR")],
            "flat",
        ),
        order_row(
            "Figure 14b",
            "high: OdM loses most by load of others",
            [
                odm > max(odf, hf, hm)
                for odf, odm, hf, hm in zip(*(rise("load", name) for name in NAMES[1:]), strict=True)
            ],
        ),
        order_row(
            "Figure 14b",
            "high: HM loses more from half load on than up to it",
            [
                one[2]["p95 loss"] - one[1]["p95 loss"] > one[1]["p95 loss"] - one[0]["p95 loss"]
                for one in by_case["load", "HM"]
            ],
            "bends near 50%",
        ),
        order_row(
            "Figure 15",
            "high: no idle time costs OdM performance",
            [one[0]["p95 loss"] > one[1]["p95 loss"] for one in by_case["retention", "OdM"]],
        ),
        order_row(
            "Figure 15",
            "high: long idle times cost OdM more than HM",
            [
                odm > hm
                for odm, hm in zip(
                    rise("retention", "OdM", "hourly"), rise("retention", "HM", "hourly"), strict=True
                )
            ],
        ),
        order_row(
            "Figure 16",
            "high: SR does not change with the share",
            [abs(up) <= FLAT for up in rise("share", "SR")],
            "flat",
        ),
        order_row(
            "Figure 16",
            "high: hybrids lose more from 80% on than up to it",
            [
                one[3]["p95 loss"] - one[2]["p95 loss"] > one[2]["p95 loss"] - one[0]["p95 loss"]
                for one in by_case["share", "HM"]
            ],
            "bends at 80%",
        ),
    ]


def sweeps(seeds: int) -> tuple[Part, ...]:
    """Sweeps of every strategy."""
    return (over_seeds("sweeps", swept, seeds, _rows, CASES),)
