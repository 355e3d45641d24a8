"""Runs of the simulated cloud as plain figures, and rows of medians and orders over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from papers.figures.rows import FigureRow, RowKind, median_row
from papers.worlds.cloud.scenarios import draw_jobs
from papers.worlds.cloud.settings import CloudSettings, CloudStrategy
from papers.worlds.cloud.simulation import run_cloud

RATIO: Final = 2.74  # price on demand over the reserved one, in the source
LEVEL_NOTE: Final = (
    "simulated cloud with fixed laws (docs/allocate/provision.md); median over the seeds, with the lowest "
    "and the highest"
)

Figures = dict[str, float]


def cloud_figures(
    scenario: str, strategy: str, settings: CloudSettings, seed: int, latency_share: float | None = None
) -> Figures:
    """Figures of one run.

    Args:
        latency_share: share of latency-critical jobs; None for that of the scenario.
    """
    jobs = (
        draw_jobs(scenario, seed)
        if latency_share is None
        else draw_jobs(scenario, seed, latency_share=latency_share)
    )
    out = run_cloud(jobs, CloudStrategy(strategy), settings, seed)
    batch, latency = ~out.latency, out.latency
    on_demand = ~out.on_reserved
    limits = [limit for _, limit, _ in out.limits]
    reached = next((at for at, share in out.utilisation if share >= 0.62), 1e9)  # noqa: PLR2004 - the soft limit
    found = {
        "performance": out.mean(),
        "batch": out.mean(batch),
        "latency": out.mean(latency),
        "latency loss": float((1 / out.performance[latency]).mean()) if latency.any() else 1.0,
        "reserved performance": out.mean(out.on_reserved),
        "on-demand performance": out.mean(on_demand),
        "p95 loss": out.p95_loss(),
        "end": out.end_min,
        "reserved cores": out.reserved_cores,
        "rented cores": out.rented_cores,
        "spot cores": out.spot_cores,
        "hourly": out.hourly(RATIO),
        "mean demand": out.mean_demand,
        "obtained": float(out.obtained),
        "active": out.active,
        "peak cores": out.peak_cores,
        "at once": out.at_once / max(1, out.releases),
        "moved": out.moved_s / float(jobs.length_s.sum()),
        "utilisation": out.steady_utilisation(),
        "soft low": min(limits),
        "soft high": max(limits),
        "queue": float(max(queue for _, _, queue in out.limits)),
        "latency before": _mean([share for at, share in out.latency_cores if at < reached]),
        "latency after": _mean([share for at, share in out.latency_cores if at >= reached]),
    }
    for percent in (5, 25, 75, 95):
        for name, which in (("batch", batch), ("latency", latency)):
            values = out.performance[which]
            found[f"{name} {percent}%"] = float(np.quantile(values, percent / 100)) if len(values) else 1.0
    for size in (4, 8, 16):
        found[f"wait error {size}"] = _mean([error for of, error in out.wait_errors if of == size])
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def level(
    figure: str,
    metric: str,
    values: Sequence[float],
    source: str = "",
    note: str = LEVEL_NOTE,
    *,
    kind: RowKind | None = None,
) -> FigureRow:
    """Row of a median over the seeds."""
    return median_row(figure, metric, values, source, note, kind=kind)


def of(results: Sequence[Figures], value: Callable[[Figures], float]) -> list[float]:
    """One value of each seed's figures."""
    return [value(each) for each in results]
