"""Costs: by the hour and committed, by ratio of prices and weeks (Figures 5, 11 to 13, 17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from kwiken.allocator.provisioning.pricing import Commitment
from papers.figures.tables import PlotLine, PlotOf, StatedRow, above, level, order, ratio
from papers.hcloud.runs import NAMES, RATIO, Figures
from papers.worlds.cloud.scenarios import CLOUD_SCENARIOS

RATIOS: Final = (0.01, *(round(0.05 * step, 2) for step in range(1, 81)))
WEEKS: Final = tuple(range(1, 61))
YEAR_DAYS: Final = 365
TERM_WEEKS: Final = 52
SHORT_WEEKS: Final = (2 / 168, 1, 4, 17, 52)

Costs = Mapping[tuple[str, bool], Mapping[str, Figures]]  # of one seed: by scenario with profiles, strategy
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


def _metric(words: str, scenario: str) -> Callable[[list[Costs]], str]:
    """A metric that ends with the mean demand, which costs depend on: the median over the seeds."""
    return lambda seeds: (
        f"{words}; M {np.median([by[scenario, True]['SR']['mean demand'] for by in seeds]):.0f} cores"
    )


def _cost(scenario: str, name: str, by: Costs, ratio: float = RATIO) -> float:
    return _hourly(by[scenario, True][name], ratio)


def _committed(scenario: str, name: str, weeks: float, by: Costs) -> float:
    return _commitment(by[scenario, True][name]).committed(weeks)


def _saving(scenario: str, by: Costs) -> float:
    return 1 - min(_cost(scenario, name, by) for name in ("HF", "HM")) / _cost(scenario, "SR", by)


def cost_rows() -> Iterator[StatedRow]:
    """Rows of costs, from the figures of every strategy on every scenario."""
    for one in CLOUD_SCENARIOS:
        for name in NAMES:
            figure = "Figure 11" if name in {"HF", "HM"} else "Figure 5"
            metric = _metric(f"{one}: {name}, hourly cost over SR static", one)
            yield level(figure, metric, ratio(partial(_cost, one, name), SR_STATIC), "drawn only")
            metric = _metric(f"{one}: {name}, committed for 52 weeks over SR static", one)
            year = partial(_committed, "static", "SR", 52)
            yield level(figure, metric, ratio(partial(_committed, one, name, 52), year))
        metric = _metric(f"{one}: hourly saving of the better hybrid on SR, share", one)
        yield level("Figure 11", metric, partial(_saving, one), "0.46")
    for weeks in SHORT_WEEKS:
        label = "2 h" if weeks < 1 else f"{weeks:g} weeks"
        metric = _metric(f"high: SR over OdM, committed, {label}", "high")
        costs = (partial(_committed, "high", name, weeks) for name in ("SR", "OdM"))
        yield level("Figure 5", metric, ratio(*costs), "2.5, without a horizon")
    for first, second in (("OdM", "OdF"), ("HM", "HF"), ("HM", "OdF"), ("HF", "SR"), ("HM", "SR")):
        words = f"high: hourly cost, {first} below {second}"
        cheaper = above(partial(_cost, "high", second), partial(_cost, "high", first))
        yield order("Figure 11", words, cheaper, note="")
    yield order(
        "Figure 11",
        "static: SR is the cheapest by the hour",
        lambda by: all(SR_STATIC(by) < _cost("static", name, by) for name in NAMES[1:]),
        note="",
    )
    yield from _ratios()
    yield from _weeks()
    for label, cost, source in (
        ("on demand only", _on_demand, "-0.32"),
        ("sustained use", _sustained, "-0.30"),
        ("reserved and on demand", _hourly, ""),
    ):
        metric = _metric(f"high: HM to OdF, hourly, {label}", "high")
        yield level("Figure 17", metric, partial(_beside_full, cost), source)


SR_STATIC: Final = partial(_cost, "static", "SR")


def _crossing(scenario: str, by: Costs) -> float:
    """Ratio of prices from which on SR costs no more than HM."""
    reserved, hybrid = by[scenario, True]["SR"], by[scenario, True]["HM"]
    return (reserved["reserved cores"] - hybrid["reserved cores"]) / hybrid["rented cores"]


def _ratios() -> Iterator[StatedRow]:
    for one in CLOUD_SCENARIOS:
        metric = _metric(f"{one}: ratio of prices at which SR costs as much as HM, hourly", one)
        source = "3" if one == "high" else "rises with variability"
        yield level("Figure 12", metric, partial(_crossing, one), source)
    yield order(
        "Figure 12",
        "the crossing rises from static to low to high",
        lambda by: _crossing("static", by) < _crossing("low", by) < _crossing("high", by),
        note="",
    )


def _weeks() -> Iterator[StatedRow]:
    figure, sources = "Figure 13", {"static": ("20", "25"), "high": ("18", "never")}
    for one in CLOUD_SCENARIOS:
        first, second = sources.get(one, ("drawn only", "drawn only"))
        for cheaper, other, source in (("HM", "OdM", first), ("SR", "HM", second)):
            words = f"{one}: week from which {cheaper} costs less than {other}, committed"
            metric = _within_60(_metric(words, one))
            yield level(figure, metric, partial(_first_week, one, cheaper, other), source)
        words = f"{one}: the first of these by the formula, weeks"
        yield level(figure, words, partial(_by_formula, one))
    yield order(
        figure,
        "static: OdM, then HM, then SR is the cheapest",
        lambda by: (
            _first_week("static", "HM", "OdM", by) < _first_week("static", "SR", "HM", by) < len(WEEKS)
        ),
        note="",
    )
    words = "high: SR is never the cheapest within 52 weeks"
    yield order(figure, words, lambda by: _first_week("high", "SR", "HM", by) > TERM_WEEKS, note="")


def _within_60(metric: Callable[[list[Costs]], str]) -> Callable[[list[Costs]], str]:
    return lambda seeds: f"{metric(seeds)}; 61 for none within 60 weeks"


def _first_week(scenario: str, cheaper: str, other: str, by: Costs) -> float:
    for week in WEEKS:
        if _committed(scenario, cheaper, week, by) < _committed(scenario, other, week, by):
            return float(week)
    return float(len(WEEKS) + 1)


def _by_formula(scenario: str, by: Costs) -> float:
    hybrid, mixed = by[scenario, True]["HM"], by[scenario, True]["OdM"]
    saved = max(1e-9, mixed["rented cores"] - hybrid["rented cores"])
    return break_even_weeks(RATIO, hybrid["reserved cores"], saved)


def _beside_full(cost: Callable[[Figures], float], by: Costs) -> float:
    """Cost of HM relative to OdF under one way of pricing."""
    return cost(by["high", True]["HM"]) / cost(by["high", True]["OdF"]) - 1


def _on_demand(figures: Figures) -> float:
    return figures["reserved cores"] + figures["rented cores"]


def _sustained(figures: Figures) -> float:
    kept = figures["reserved cores"] * sustained_use_factor(1.0)
    share = figures["rented cores"] / max(1.0, figures["peak cores"])
    return kept + figures["rented cores"] * sustained_use_factor(min(1.0, share))


def cost_plots() -> Iterator[PlotOf]:
    """Costs by ratio of prices and by week."""
    for one in CLOUD_SCENARIOS:
        lines = [
            PlotLine(name, RATIOS, [partial(_cost, one, name, ratio=at) for at in RATIOS]) for name in NAMES
        ]
        axes = "on demand over reserved", "on-demand cores"
        yield PlotOf("Figure 12", f"hourly cost, {one}", *axes, lines, log_y=True)
        lines = [
            PlotLine(name, WEEKS, [partial(_committed, one, name, at) for at in WEEKS]) for name in NAMES
        ]
        yield PlotOf("Figure 13", f"committed cost, {one}", "weeks", "core hours on demand", lines)
