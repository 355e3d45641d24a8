"""Sweeps: spin-up, load by others, idle nodes, and the share of sensitive jobs (Figures 14 to 16)."""

from __future__ import annotations

from functools import partial
from typing import Final

from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    RowKind,
    order_row,
    over_seeds,
)
from papers.hcloud.runs import Figures, cloud_figures, level
from papers.worlds.cloud.settings import CloudSettings

NAMES: Final = ("SR", "OdF", "OdM", "HF", "HM")
TYPICAL_S: Final = 15.5
SPIN_UPS_S: Final = (0.0, 15.5, 120.0)
LOADS: Final = (0.0, 0.5, 1.0)
RETENTIONS: Final = (0.0, 10.0, 1000.0)
SHARES: Final = (0.0, 0.4, 0.8, 1.0)
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


def _rows(kind: str, results: list[list[list[Figures]]]) -> Findings:
    by_name = dict(zip(NAMES, results, strict=True))
    rows: list[FigureRow] = []
    plots = []
    for points in (POINTS[kind],):
        figure, label = LABELS[kind]
        for name in NAMES:
            seeds = by_name[name]
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
            PlotSeries(name, points, [one["p95 loss"] for one in by_name[name][0]]) for name in NAMES
        )
        plots.append(Plot(figure, f"loss by {label}", label, "95th percentile of the loss", lines))
    rows += _orders(kind, by_name)
    return Findings(tuple(rows), tuple(plots))


def _orders(kind: str, by_name: dict[str, list[list[Figures]]]) -> list[FigureRow]:
    def rise(name: str, key: str = "p95 loss") -> list[float]:
        return [one[-1][key] - one[0][key] for one in by_name[name]]

    def bends(name: str, start: int) -> list[bool]:
        """Whether a strategy loses more over the last step than over those before it."""
        loss = [[point["p95 loss"] for point in one] for one in by_name[name]]
        return [one[-1] - one[-2] > one[-2] - one[start] for one in loss]

    figure, _ = LABELS[kind]
    if kind == "retention":
        first = [one[0]["p95 loss"] > one[1]["p95 loss"] for one in by_name["OdM"]]
        costs = zip(rise("OdM", "hourly"), rise("HM", "hourly"), strict=True)
        return [
            order_row(figure, "high: no idle time costs OdM performance", first),
            order_row(figure, "high: long idle times cost OdM more than HM", [odm > hm for odm, hm in costs]),
        ]
    rows = []
    changed = {"spin-up": "spin-up", "load": "load by others", "share": "the share"}[kind]
    # Reserved nodes have no spin-up and no other load here, so that the row cannot fail for either.
    flat = RowKind.ORDER if kind == "share" else RowKind.INPUT
    held = [abs(up) <= FLAT for up in rise("SR")]
    rows.append(order_row(figure, f"high: SR does not change with {changed}", held, "flat", kind=flat))
    losses = list(zip(*(rise(name) for name in NAMES[1:]), strict=True))
    if kind == "spin-up":
        most = [min(odf, odm) > max(hf, hm) for odf, odm, hf, hm in losses]
        rows.append(order_row(figure, "high: OdF and OdM lose most by spin-up", most))
    elif kind == "load":
        most = [odm > max(odf, hf, hm) for odf, odm, hf, hm in losses]
        rows.append(order_row(figure, "high: OdM loses most by load of others", most))
        words = "high: HM loses more from half load on than up to it"
        rows.append(order_row(figure, words, bends("HM", 0), "bends near 50%"))
    else:
        words = "high: hybrids lose more from 80% on than up to it"
        rows.append(order_row(figure, words, bends("HM", 0), "bends at 80%"))
    return rows


def sweeps(seeds: int) -> tuple[Part, ...]:
    """Sweeps of every strategy."""
    return tuple(
        over_seeds(
            f"sweep of {kind}",
            swept,
            seeds,
            partial(_rows, kind),
            tuple((kind, name) for name in NAMES),
            figures=(figure,),
        )
        for kind, (figure, _) in LABELS.items()
    )
