"""Runs of the simulated cloud as plain figures: strategies, mapping policies and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from papers.worlds.cloud.mapping import POLICIES
from papers.worlds.cloud.scenarios import draw_jobs
from papers.worlds.cloud.settings import CloudSettings, CloudStrategy
from papers.worlds.cloud.simulation import run_cloud

RATIO: Final = 2.74  # price on demand over the reserved one, in the source
NAMES: Final = ("SR", "OdF", "OdM", "HF", "HM")
WARM: Final = 60  # samples of ten seconds before the load has filled up
TYPICAL_S: Final = 15.5
SPIN_UPS_S: Final = (0.0, 15.5, 120.0)
LOADS: Final = (0.0, 0.5, 1.0)
RETENTIONS: Final = (0.0, 10.0, 1000.0)
SHARES: Final = (0.0, 0.4, 0.8, 1.0)

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


def played(scenario: str, profiles: bool, seed: int) -> dict[str, Figures]:  # noqa: FBT001 - an argument of a job
    """Figures of every strategy on one scenario."""
    settings = CloudSettings(profiles=profiles)
    return {name: cloud_figures(scenario, name, settings, seed) for name in NAMES}


def mapped(hybrid: str, seed: int) -> dict[str, Figures]:
    """Figures of every policy under one hybrid, high variability."""
    return {policy: cloud_figures("high", hybrid, CloudSettings(policy=policy), seed) for policy in POLICIES}


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
