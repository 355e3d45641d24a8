"""Costs: by the hour and committed, by ratio of prices and weeks (Figures 5, 11 to 13, 17)."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.allocator.provisioning.pricing import Commitment
from papers.figures.rows import FigureRow, Findings, Plot, PlotSeries, order_row
from papers.hcloud.runs import RATIO, Figures, level
from papers.worlds.cloud.scenarios import CLOUD_SCENARIOS

NAMES: Final = ("SR", "OdF", "OdM", "HF", "HM")
RATIOS: Final = (0.01, *(round(0.05 * step, 2) for step in range(1, 81)))
WEEKS: Final = tuple(range(1, 61))
YEAR_DAYS: Final = 365
SHORT_WEEKS: Final = (2 / 168, 1, 4, 17, 52)

Costs = dict[str, dict[str, Figures]]  # by scenario and strategy
WEEKS_PER_YEAR: Final = 8760.0 / 168.0
# Increments of price for each quarter of a month that a type is used, as shares of the base price.
SUSTAINED_TIERS: Final = (1.0, 0.8, 0.6, 0.4)


def break_even_weeks(ratio: float, cores: float, cores_on_demand: float) -> float:
    """Weeks of use after which reserving cores for a year pays (HCloud section 5).

    Args:
        ratio: price on demand over the reserved one, as a factor.
        cores: number of cores that one strategy reserves and the other does not.
        cores_on_demand: mean number of cores on demand that this saves.
    """
    return WEEKS_PER_YEAR / ratio * cores / cores_on_demand


def sustained_use_factor(share: float) -> float:
    """Net price of a node used for a share of the month, as a factor of the base price.

    The usage of all nodes of a type is pooled: two for half a month cost as much as one for a whole one.

    Args:
        share: used share of the month, 0 to 1.
    """
    if share <= 0:
        return SUSTAINED_TIERS[0]
    left, paid = share, 0.0
    for price in SUSTAINED_TIERS:
        part = min(left, 1 / len(SUSTAINED_TIERS))
        paid += price * part
        left -= part
    return paid / share


def _hourly(figures: Figures, ratio: float = RATIO) -> float:
    return figures["reserved cores"] / ratio + figures["rented cores"]


def _commitment(figures: Figures, ratio: float = RATIO) -> Commitment:
    return Commitment(figures["reserved cores"] / ratio, figures["rented cores"], YEAR_DAYS)


def _m(results: list[Costs], scenario: str) -> str:
    return f"M {np.median([one[scenario]['SR']['mean demand'] for one in results]):.0f} cores"


def cost_findings(results: list[Costs]) -> Findings:
    """Rows and plots of costs.

    Args:
        results: figures of every strategy on every scenario, by seed.
    """
    rows: list[FigureRow] = []
    base = [_hourly(one["static"]["SR"]) for one in results]
    for scenario in CLOUD_SCENARIOS:
        demand = _m(results, scenario)
        for name in NAMES:
            values = [_hourly(one[scenario][name]) / of for one, of in zip(results, base, strict=True)]
            figure = "Figure 11" if name in {"HF", "HM"} else "Figure 5"
            rows.append(
                level(
                    figure, f"{scenario}: {name}, hourly cost over SR static; {demand}", values, "drawn only"
                )
            )
            year = [
                _commitment(one[scenario][name]).committed(52)
                / _commitment(one["static"]["SR"]).committed(52)
                for one in results
            ]
            rows.append(
                level(figure, f"{scenario}: {name}, committed for 52 weeks over SR static; {demand}", year)
            )
        saved = [
            1 - min(_hourly(one[scenario][name]) for name in ("HF", "HM")) / _hourly(one[scenario]["SR"])
            for one in results
        ]
        rows.append(
            level(
                "Figure 11",
                f"{scenario}: hourly saving of the better hybrid on SR, share; {demand}",
                saved,
                "0.46",
            )
        )
    rows += _short_use(results)
    rows += _cost_orders(results)
    rows += _ratios(results)
    rows += _weeks(results)
    rows += _models(results)
    return Findings(tuple(rows), _plots(results[0]))


def _short_use(results: list[Costs]) -> list[FigureRow]:
    rows = []
    for weeks in SHORT_WEEKS:
        values = [
            _commitment(one["high"]["SR"]).committed(weeks) / _commitment(one["high"]["OdM"]).committed(weeks)
            for one in results
        ]
        label = "2 h" if weeks < 1 else f"{weeks:g} weeks"
        rows.append(
            level(
                "Figure 5",
                f"high: SR over OdM, committed, {label}; {_m(results, 'high')}",
                values,
                "2.5, without a horizon",
            )
        )
    return rows


def _cost_orders(results: list[Costs]) -> list[FigureRow]:
    rows = []
    for first, second in (("OdM", "OdF"), ("HM", "HF"), ("HM", "OdF"), ("HF", "SR"), ("HM", "SR")):
        rows.append(
            order_row(
                "Figure 11",
                f"high: hourly cost, {first} below {second}",
                [_hourly(one["high"][first]) < _hourly(one["high"][second]) for one in results],
            )
        )
    rows.append(
        order_row(
            "Figure 11",
            "static: SR is the cheapest by the hour",
            [
                all(_hourly(one["static"]["SR"]) < _hourly(one["static"][name]) for name in NAMES[1:])
                for one in results
            ],
        )
    )
    return rows


def _crossing(costs: dict[str, Figures]) -> float:
    """Ratio of prices from which on SR costs no more than HM."""
    return (costs["SR"]["reserved cores"] - costs["HM"]["reserved cores"]) / costs["HM"]["rented cores"]


def _ratios(results: list[Costs]) -> list[FigureRow]:
    rows = [
        level(
            "Figure 12",
            f"{scenario}: ratio of prices at which SR costs as much as HM, hourly; {_m(results, scenario)}",
            [_crossing(one[scenario]) for one in results],
            "3" if scenario == "high" else "rises with variability",
        )
        for scenario in CLOUD_SCENARIOS
    ]
    rows.append(
        order_row(
            "Figure 12",
            "the crossing rises from static to low to high",
            [_crossing(one["static"]) < _crossing(one["low"]) < _crossing(one["high"]) for one in results],
        )
    )
    return rows


def _weeks(results: list[Costs]) -> list[FigureRow]:
    rows = []
    for scenario in CLOUD_SCENARIOS:
        costs = [one[scenario] for one in results]
        cheaper = [_first_week(one, "HM", "OdM") for one in costs]
        reserved = [_first_week(one, "SR", "HM") for one in costs]
        sources = {"static": ("20", "25"), "high": ("18", "never")}.get(
            scenario, ("drawn only", "drawn only")
        )
        label = f"committed; {_m(results, scenario)}; 61 for none within 60 weeks"
        rows.append(
            level(
                "Figure 13",
                f"{scenario}: week from which HM costs less than OdM, {label}",
                cheaper,
                sources[0],
            )
        )
        rows.append(
            level(
                "Figure 13",
                f"{scenario}: week from which SR costs less than HM, {label}",
                reserved,
                sources[1],
            )
        )
        algebra = [
            break_even_weeks(
                RATIO,
                one["HM"]["reserved cores"],
                max(1e-9, one["OdM"]["rented cores"] - one["HM"]["rented cores"]),
            )
            for one in costs
        ]
        rows.append(level("Figure 13", f"{scenario}: the first of these by the formula, weeks", algebra))
    rows.append(
        order_row(
            "Figure 13",
            "static: OdM, then HM, then SR is the cheapest",
            [
                _first_week(one["static"], "HM", "OdM") < _first_week(one["static"], "SR", "HM") < len(WEEKS)
                for one in results
            ],
        )
    )
    rows.append(
        order_row(
            "Figure 13",
            "high: SR is never the cheapest within 52 weeks",
            [_first_week(one["high"], "SR", "HM") > 52 for one in results],  # noqa: PLR2004 - the term
        )
    )
    return rows


def _first_week(costs: dict[str, Figures], cheaper: str, other: str) -> float:
    for week in WEEKS:
        if _commitment(costs[cheaper]).committed(week) < _commitment(costs[other]).committed(week):
            return float(week)
    return float(len(WEEKS) + 1)


def _models(results: list[Costs]) -> list[FigureRow]:
    """HM beside OdF under other pricing: without reservations, and with discounts for sustained use."""
    rows = []
    demand = _m(results, "high")

    def only(figures: Figures) -> float:
        return figures["reserved cores"] + figures["rented cores"]

    def sustained(figures: Figures) -> float:
        kept = figures["reserved cores"] * sustained_use_factor(1.0)
        share = figures["rented cores"] / max(1.0, figures["peak cores"])
        return kept + figures["rented cores"] * sustained_use_factor(min(1.0, share))

    for label, cost, source in (
        ("on demand only", only, "-0.32"),
        ("sustained use", sustained, "-0.30"),
        ("reserved and on demand", _hourly, ""),
    ):
        values = [cost(one["high"]["HM"]) / cost(one["high"]["OdF"]) - 1 for one in results]
        rows.append(level("Figure 17", f"high: HM to OdF, hourly, {label}; {demand}", values, source))
    return rows


def _plots(costs: Costs) -> tuple[Plot, ...]:
    plots = []
    for scenario, of in costs.items():
        by_ratio = tuple(
            PlotSeries(name, RATIOS, [_hourly(of[name], ratio) for ratio in RATIOS]) for name in NAMES
        )
        plots.append(
            Plot(
                "Figure 12",
                f"hourly cost, {scenario}",
                "on demand over reserved",
                "on-demand cores",
                by_ratio,
                log_y=True,
            )
        )
        by_week = tuple(
            PlotSeries(name, WEEKS, [_commitment(of[name]).committed(week) for week in WEEKS])
            for name in NAMES
        )
        plots.append(
            Plot("Figure 13", f"committed cost, {scenario}", "weeks", "core hours on demand", by_week)
        )
    return tuple(plots)
