"""Runs of the lined fleet as plain figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from papers.worlds.waiting.ablations import changed_world
from papers.worlds.waiting.lines.distributions import fitted
from papers.worlds.waiting.managers import LINED_MANAGERS
from papers.worlds.waiting.outcome import LinedOutcome
from papers.worlds.waiting.rules import ABLATIONS
from papers.worlds.waiting.scenarios import LINED_SCENARIOS
from papers.worlds.waiting.simulation import LinedSimulation

KEPT: Final = "QoS kept, %"
LITTLE: Final = "loss below 10%, %"
MEAN: Final = "mean performance, %"
USED: Final = "cores used, %"
BUT_FOR_WAIT: Final = "QoS kept but for the added wait, %"
MIN_DEVIATION: Final = 1e-4  # below which a harmonic mean is undefined or nothing but that job
GROUPS: Final = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 1.0)  # shortest jobs by their ideal time
SHORT_OF_MEAN: Final = 2700 / 2601  # moment of Figure 6.2a, in the mean busy time of the source's pool
SERIES_POINTS: Final = 200

Figures = dict[str, float]


def lined_figures(
    scenario: str, managers: Sequence[str], changed: str | None, seed: int
) -> dict[str, Figures]:
    """Figures of one draw under some managers.

    Args:
        changed: name of an ablation; None for the rules of the fleet.
    """
    world = LINED_SCENARIOS[scenario].draw(seed)
    if changed is not None:
        world = changed_world(world, ABLATIONS[changed])
    found = {}
    for name in managers:
        outcome = LinedSimulation(world, scenario, LINED_MANAGERS[name]).run()
        found[name] = {**outcome.summary(), **_deviations(outcome), **_busy(outcome)}
    return found


def predicted_and_seen(scenario: str, manager: str, seed: int) -> list[tuple[int, list[float], list[float]]]:
    """By wait for a pool: number of the pool, chances that were predicted, and whether they came true.

    Points of time that a job did not wait for are left out.
    """
    world = LINED_SCENARIOS[scenario].draw(seed)
    samples = LinedSimulation(world, scenario, LINED_MANAGERS[manager]).run().samples
    return [
        (one.pool, list(one.predicted), [float(one.waited_s <= within_s) for within_s in one.within_s])
        for one in samples
    ]


def allocation_series(scenario: str, manager: str, seed: int) -> tuple[list[float], list[float], list[float]]:
    """Times in seconds, cores that open jobs require, and cores that are allocated."""
    outcome = LinedSimulation(LINED_SCENARIOS[scenario].draw(seed), scenario, LINED_MANAGERS[manager]).run()
    times = outcome.series[:, 0]
    chosen = np.linspace(0, len(times) - 1, min(SERIES_POINTS, len(times))).astype(int)
    ends = np.where(np.isfinite(outcome.finished_s), outcome.finished_s, outcome.arrival_s)
    required = [
        float(outcome.cores[(outcome.arrival_s <= at_s) & (ends > at_s)].sum()) for at_s in times[chosen]
    ]
    return times[chosen].tolist(), required, outcome.series[chosen, 1].tolist()


def _deviations(outcome: LinedOutcome) -> Figures:
    """Deviation from the ideal time, by groups of short jobs and by priority, in percent."""
    performance = outcome.performance()
    done = performance > 0
    deviation = np.maximum(1 / np.where(done, performance, 1.0) - 1, 0.0)
    order = np.argsort(np.where(done, outcome.alone_s, np.inf), kind="stable")
    found: Figures = {}
    for share in GROUPS:
        some = order[: max(1, round(share * int(done.sum())))]
        found |= _spread(f"shortest {100 * share:.0f}%", deviation[some])
    for name, members in (("high", outcome.high & done), ("low", ~outcome.high & done)):
        found |= _spread(f"{name} priority", deviation[members])
    return found


def _spread(name: str, values: Floats) -> Figures:
    if not values.size:
        return {}
    harmonic = len(values) / float((1 / np.maximum(values, MIN_DEVIATION)).sum())
    return {
        f"{name}: harmonic mean, %": 100 * harmonic,
        f"{name}: mean, %": 100 * float(values.mean()),
        f"{name}: standard deviation, %": 100 * float(values.std()),
        f"{name}: largest, %": 100 * float(values.max()),
    }


def _busy(outcome: LinedOutcome) -> Figures:
    times = np.array(outcome.busy_s)
    family = fitted(times.tolist()).family
    return {
        "busy times at most 1.038 of their mean, %": 100
        * float((times <= SHORT_OF_MEAN * times.mean()).mean()),
        f"family {family}": 1.0,
    }


def mean_error(predicted: Floats, seen: Floats, weights: Bools) -> float:
    """Mean over points of time of the distance between mean prediction and share that came true.

    Args:
        predicted: (n, t) predictions.
        seen: (n, t) 1 where they came true, else 0.
        weights: (n, t) whether the job waited for that point.
    """
    counts = np.maximum(weights.sum(axis=0), 1)
    gaps = np.abs((predicted * weights).sum(axis=0) - (seen * weights).sum(axis=0)) / counts
    return float(gaps[weights.any(axis=0)].mean())
