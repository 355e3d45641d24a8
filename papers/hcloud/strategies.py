"""Strategies beside one another: performance, completion, nodes rented (Figures 4, 10, 18 to 21)."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from papers.figures.rows import FigureRow, Findings, Part, RowKind, order_row, over_seeds
from papers.hcloud.costs import cost_findings
from papers.hcloud.runs import Figures, cloud_figures, level
from papers.worlds.cloud.scenarios import CLOUD_SCENARIOS, draw_jobs
from papers.worlds.cloud.settings import CloudSettings

NAMES: Final = ("SR", "OdF", "OdM", "HF", "HM")
TABLE: Final = {
    "static": ("854 with 10% swing", "1.1", "4.2 in jobs, 1.4 in cores", "126"),
    "low": ("605 to 900", "1.5", "3.6 in jobs, 1.4 in cores", "120"),
    "high": ("210 to 1226", "6.2", "4.1 in jobs, 1.5 in cores", "120"),
}
WARM: Final = 60  # samples of ten seconds before the load has filled up


def drawn(scenario: str, seed: int) -> Figures:
    """Figures of the draw of a scenario."""
    jobs = draw_jobs(scenario, seed)
    cores = jobs.ideal_cores()[WARM:]
    work = jobs.cores * jobs.length_s
    return {
        "lowest": float(cores.min()),
        "highest": float(cores.max()),
        "mean": float(cores.mean()),
        "jobs ratio": float((~jobs.latency).sum() / jobs.latency.sum()),
        "cores ratio": float(work[~jobs.latency].sum() / work[jobs.latency].sum()),
        "arrivals": float(len(jobs.cores)),
        "length": float(jobs.length_s.mean()) / 60,
        "end": float(np.quantile(jobs.arrival_s + jobs.length_s, 0.99)) / 60,
        "demanding": float((jobs.quality > 0.8).mean()),  # noqa: PLR2004 - policy P2
    }


def _drawn_rows(scenarios: tuple[str, ...], results: list[list[Figures]]) -> Findings:
    rows: list[FigureRow] = []
    for scenario, seeds in zip(scenarios, results, strict=True):
        cores, ratio, mix, end = TABLE[scenario]
        for metric, name, source in (
            ("cores, lowest", "lowest", cores),
            ("cores, highest", "highest", cores),
            ("cores, mean demand M", "mean", ""),
            ("batch to latency-critical, jobs", "jobs ratio", mix),
            ("batch to latency-critical, core time", "cores ratio", mix),
            ("arrivals", "arrivals", "7200, one a second"),
            ("mean length, min", "length", "8.1 in high variability"),
            ("ideal end, min (99% of the jobs)", "end", end),
            ("share of jobs with a quality above 0.8", "demanding", ""),
        ):
            values = [one[name] for one in seeds]
            rows.append(level("Table 2", f"{scenario}: {metric}", values, source, kind=RowKind.INPUT))
        peaks = [one["highest"] / one["lowest"] for one in seeds]
        rows.append(level("Table 2", f"{scenario}: highest over lowest", peaks, ratio, kind=RowKind.INPUT))
    return Findings(tuple(rows))


def played(scenario: str, profiles: bool, seed: int) -> dict[str, Figures]:  # noqa: FBT001 - an argument of a job
    """Figures of every strategy on one scenario."""
    settings = CloudSettings(profiles=profiles)
    return {name: cloud_figures(scenario, name, settings, seed) for name in NAMES}


Cases = tuple[tuple[str, bool], ...]
CASES: Final[Cases] = tuple((scenario, known) for scenario in CLOUD_SCENARIOS for known in (True, False))


def _compared_rows(results: list[list[dict[str, Figures]]]) -> Findings:
    by_case = dict(zip(CASES, results, strict=True))
    rows: list[FigureRow] = []
    for scenario in CLOUD_SCENARIOS:
        known, unknown = by_case[scenario, True], by_case[scenario, False]
        rows += _performance(scenario, known, unknown)
        rows += _gains(scenario, known, unknown)
    return Findings((*rows, *_orders(by_case["high", True])))


def _high_rows(results: list[list[dict[str, Figures]]]) -> Findings:
    return Findings(tuple(_high(results[0])))


def _cost_rows(results: list[list[dict[str, Figures]]]) -> Findings:
    return cost_findings([dict(zip(CLOUD_SCENARIOS, one, strict=True)) for one in zip(*results, strict=True)])


def _performance(scenario: str, known: list[Any], unknown: list[Any]) -> list[FigureRow]:
    rows = []
    for label, seeds in (("with profiles", known), ("without", unknown)):
        for name in NAMES:
            figure = "Figure 4" if name in {"SR", "OdF", "OdM"} else "Figure 10"
            for kind in ("batch", "latency"):
                values = [one[name] for one in seeds]
                head = f"{scenario}: {name} {label}, {kind} performance"
                rows.append(level(figure, f"{head}, mean", [one[kind] for one in values], "drawn only"))
                for percent in (5, 25, 75, 95):
                    column = [one[f"{kind} {percent}%"] for one in values]
                    rows.append(level(figure, f"{head}, {percent}th percentile", column, "drawn only"))
    sources = {"low": "24", "high": "42"}
    losses = [one["OdM"]["latency loss"] for one in known]
    rows.append(
        level(
            "Figure 4", f"{scenario}: OdM, p99 as a factor of that alone", losses, sources.get(scenario, "")
        )
    )
    return rows


def _gains(scenario: str, known: list[Any], unknown: list[Any]) -> list[FigureRow]:
    rows = []
    for name, source in (("SR", "2.4"), ("OdF", ""), ("OdM", ""), ("HF", "2.4"), ("HM", "2.77")):
        figure = "Figure 10" if name in {"HF", "HM"} else "Figure 4"
        gains = [
            one[name]["performance"] / other[name]["performance"]
            for one, other in zip(known, unknown, strict=True)
        ]
        rows.append(level(figure, f"{scenario}: {name}, gain by profiles, factor", gains, source))
        costs = [
            other[name]["hourly"] / one[name]["hourly"] for one, other in zip(known, unknown, strict=True)
        ]
        rows.append(
            level(
                "Figure 8.21",
                f"{scenario}: {name}, hourly cost without profiles over that with them; "
                f"M {known[0][name]['mean demand']:.0f} cores",
                costs,
                "much higher for SR and on demand",
            )
        )
    rows.append(
        order_row(
            "Figure 4",
            f"{scenario}: profiles help every strategy",
            [
                all(one[name]["performance"] > other[name]["performance"] for name in NAMES)
                for one, other in zip(known, unknown, strict=True)
            ],
        )
    )
    ratios = [one["SR"]["performance"] / one["OdM"]["performance"] for one in known]
    rows.append(level("Figure 4", f"{scenario}: SR over OdM, performance, factor", ratios, "2.2"))
    return rows


def _orders(known: list[dict[str, Figures]]) -> list[FigureRow]:
    """Order of the strategies in high variability, and how far the hybrids are behind."""
    rows = []
    chain = ("SR", "HF", "HM", "OdF", "OdM")
    for better, worse in itertools.pairwise(chain):
        rows.append(
            order_row(
                "Figure 10",
                f"high: performance, {better} before {worse}",
                [one[better]["performance"] > one[worse]["performance"] for one in known],
                "SR >= HF >= HM > OdF > OdM",
            )
        )
    within = [
        1 - min(one["HF"]["performance"], one["HM"]["performance"]) / one["SR"]["performance"]
        for one in known
    ]
    return [*rows, level("Figure 10", "high: hybrids behind SR, share", within, "within 0.08")]


def _high(known: list[dict[str, Figures]]) -> list[FigureRow]:
    rows = []
    for name, source in (("SR", "120"), ("OdF", "132"), ("OdM", "178"), ("HF", "123"), ("HM", "123")):
        rows.append(
            level("Figure 18", f"high: end, min, {name}", [one[name]["end"] for one in known], source)
        )
    obtained = {"HF": "72", "OdF": "about 89"}
    active = {"HF": "34"}
    once = {"OdM": "0.43", "HM": "0.11"}
    for name in ("OdF", "OdM", "HF", "HM"):
        seeds = [one[name] for one in known]
        for metric, key, source in (
            ("nodes obtained", "obtained", obtained.get(name, "")),
            ("nodes active, mean", "active", active.get(name, "")),
            ("share given back at once", "at once", once.get(name, "")),
            ("time lost by moving, share", "moved", {"OdM": "0.061"}.get(name, "rare")),
        ):
            rows.append(level("Figure 19", f"high: {name}, {metric}", [one[key] for one in seeds], source))
    for name in ("HF", "HM"):
        for when in ("before", "after"):
            rows.append(  # noqa: PERF401 - rows of two kinds
                level(
                    "Figure 21",
                    f"high: {name}, share of reserved cores for latency-critical jobs, {when} limit",
                    [one[name][f"latency {when}"] for one in known],
                    "rises",
                )
            )
        rows.append(
            level(
                "Section 5.2",
                f"high: {name}, reserved cores allocated, share",
                [one[name]["utilisation"] for one in known],
                "0.80",
            )
        )
    return rows


HIGH_FIGURES: Final = ("Figure 18", "Figure 19", "Figure 21", "Section 5.2")


def strategies(seeds: int) -> tuple[Part, ...]:
    """Draws of the scenarios, and every strategy on them with and without profiles."""
    scenarios = tuple((name,) for name in CLOUD_SCENARIOS)
    return (
        over_seeds("draws", drawn, seeds, _drawn_of_all, scenarios, figures=("Table 2",)),
        over_seeds(
            "strategies",
            played,
            seeds,
            _compared_rows,
            CASES,
            figures=("Figure 4", "Figure 10", "Figure 8.21"),
        ),
        # The parts that follow share their runs with the comparison of strategies.
        over_seeds("high variability", played, seeds, _high_rows, (("high", True),), figures=HIGH_FIGURES),
        over_seeds(
            "costs",
            played,
            seeds,
            _cost_rows,
            tuple((scenario, True) for scenario in CLOUD_SCENARIOS),
            figures=("Figure 5", "Figure 11", "Figure 12", "Figure 13", "Figure 17"),
        ),
    )


def _drawn_of_all(results: list[list[Figures]]) -> Findings:
    return _drawn_rows(tuple(CLOUD_SCENARIOS), results)
