"""Mapping policies P1 to P8, the soft limit and the estimated waits (Figures 6, 7 and 9, Section 5.2)."""

from __future__ import annotations

from typing import Final

from papers.figures.rows import FigureRow, Findings, Part, order_row, over_seeds
from papers.hcloud.runs import Figures, cloud_figures, level
from papers.worlds.cloud.mapping import POLICIES
from papers.worlds.cloud.settings import CloudSettings

HYBRIDS: Final = ("HF", "HM")
FIGURE: Final = {"HF": "Figure 6", "HM": "Figure 7"}
CASES: Final = tuple((name,) for name in HYBRIDS)


def mapped(hybrid: str, seed: int) -> dict[str, Figures]:
    """Figures of every policy under one hybrid, high variability."""
    return {policy: cloud_figures("high", hybrid, CloudSettings(policy=policy), seed) for policy in POLICIES}


def _dominated(of: dict[str, Figures]) -> bool:
    """Whether some other policy is at least as good as P8 in all three figures, and better in one."""
    best = of["P8"]

    def signs(one: Figures) -> list[float]:
        return [
            one["reserved performance"] - best["reserved performance"],
            one["on-demand performance"] - best["on-demand performance"],
            best["hourly"] - one["hourly"],
        ]

    others = [signs(one) for name, one in of.items() if name != "P8"]
    return any(min(each) >= 0 and max(each) > 0 for each in others)


def _rows(results: list[list[dict[str, Figures]]]) -> Findings:
    rows = []
    for hybrid, seeds in zip(HYBRIDS, results, strict=True):
        figure = FIGURE[hybrid]
        demand = f"M {seeds[0]['P8']['mean demand']:.0f} cores"
        for policy in POLICIES:
            values = [one[policy] for one in seeds]
            for metric, key, source in (
                ("performance on reserved", "reserved performance", "drawn only"),
                ("performance on demand", "on-demand performance", "drawn only"),
                ("reserved cores allocated, share", "utilisation", "0.80" if policy == "P8" else ""),
                (f"hourly cost, on-demand cores; {demand}", "hourly", "drawn only"),
            ):
                rows.append(
                    level(figure, f"high: {hybrid} {policy}, {metric}", [one[key] for one in values], source)
                )
        rows.append(
            order_row(
                figure,
                f"high: {hybrid}, P8 is not dominated by P1 to P7",
                [not _dominated(one) for one in seeds],
                "P8 has the best of both sides",
            )
        )
        for first, second, key, words in (
            ("P4", "P2", "on-demand performance", "on-demand jobs are better under P4 than under P2"),
            ("P2", "P4", "reserved performance", "reserved jobs are better under P2 than under P4"),
            ("P7", "P5", "utilisation", "P7 fills the reserved nodes more than P5"),
            ("P7", "P8", "utilisation", "P7 fills the reserved nodes more than P8"),
        ):
            rows.append(
                order_row(
                    figure, f"high: {hybrid}, {words}", [one[first][key] > one[second][key] for one in seeds]
                )
            )
    rows += _limits(results)
    return Findings(tuple(rows))


def _limits(results: list[list[dict[str, Figures]]]) -> list[FigureRow]:
    rows = []
    for hybrid, seeds in zip(HYBRIDS, results, strict=True):
        values = [one["P8"] for one in seeds]
        for metric, key, source in (
            ("least soft limit", "soft low", "starts at 0.60 to 0.65"),
            ("largest soft limit", "soft high", ""),
            ("longest queue, jobs", "queue", ""),
        ):
            rows.append(level("Figure 9a", f"high: {hybrid}, {metric}", [one[key] for one in values], source))
        for size in (4, 8, 16):
            errors = [one[f"wait error {size}"] for one in values]
            rows.append(
                level(
                    "Figure 9b", f"high: {hybrid}, mean error of the wait, {size} cores, s", errors, "minimal"
                )
            )
    return rows


def policies(seeds: int) -> tuple[Part, ...]:
    """Policies under both hybrids."""
    return (
        over_seeds(
            "policies", mapped, seeds, _rows, CASES, figures=(*FIGURE.values(), "Figure 9a", "Figure 9b")
        ),
    )
