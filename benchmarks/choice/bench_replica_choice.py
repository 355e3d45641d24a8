"""Benchmark of rules of replica choice in a simulated world: latency, fairness and herding.

Rules, scenes, loads and seeds were committed before the first run on these seeds; the runtime's rule was
tried out on seeds 0 to 4 alone. A ratio is of geometric means over scenes or loads, one for each seed. A rule
is ahead of another where the ratio is on its side of 1 in all seeds but one; else the two are tied.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import cache
from math import exp, log

import numpy as np

from benchmarks.choice.replica_world import SCENES, ChoiceRun, Scene, play
from benchmarks.choice.rival_rules import (
    C3,
    FormerRule,
    LeastInFlight,
    LeastLatency,
    Prequal,
    SampledChoice,
    TwoChoices,
    UniformChoice,
)
from benchmarks.harness import Row
from kwiken.runtime.decisions.choice.rules import ChoiceRule, LeastBySpeed

SEEDS = (200, 201, 202, 203, 204, 205, 206, 207)
QUICK_SEED = 0
LOADS = (0.3, 0.5, 0.8)
CALLS = 6000
OURS = "least in flight by speed"
RULES: dict[str, Callable[[int], ChoiceRule]] = {
    OURS: lambda _: LeastBySpeed(),
    "former rule": lambda _: FormerRule(),
    "random": lambda _: UniformChoice(),
    "two choices": lambda _: TwoChoices(),
    "least in flight": lambda _: LeastInFlight(),
    "least latency times queue": lambda _: LeastLatency(),
    "C3": C3,
    "Prequal": lambda _: Prequal(),
    "sampled by guarantee": lambda _: SampledChoice(),
}
WINDOW_S = 1.0  # in which the share of one replica is counted
MIN_IN_WINDOW = 50  # calls a replica's share must come to, so that chance alone does not double it


@cache
def played(scene: Scene, load: float, rule: str, seed: int, calls: int) -> ChoiceRun:
    """One run; every rule gets the same arrivals, work and disturbances."""
    return play(scene, load, [RULES[rule](scene.gateways) for _ in range(scene.gateways)], calls, seed)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    seeds, calls = ((QUICK_SEED,), 1500) if quick else (SEEDS, CALLS)
    rivals = [rule for rule in RULES if rule != OURS]
    rows = []
    for name, scenes, loads in _groups():
        for quantile in (0.99, 0.5) if name == "all scenes and loads" else (0.99,):
            rows += [
                _compared(f"p{quantile * 100:g}, {name}", rival, scenes, loads, seeds, calls, quantile)
                for rival in rivals
            ]
    alike = [scene for scene in SCENES if scene.name == "12 alike"]
    four = [scene for scene in SCENES if scene.gateways > 1 and not scene.stalling]
    for rule in RULES:
        rows.append(_shares(f"fairness, 12 alike: {rule}", rule, alike, seeds, calls, _busiest))
        rows.append(
            _shares(f"herding, four gateways: {rule}", rule, four, seeds, calls, _largest_in_a_second)
        )
    return rows


def _groups() -> list[tuple[str, Sequence[Scene], Sequence[float]]]:
    everything: list[tuple[str, Sequence[Scene], Sequence[float]]] = [("all scenes and loads", SCENES, LOADS)]
    everything += [(f"load {load:.0%}", SCENES, (load,)) for load in LOADS]
    return everything + [(scene.name, (scene,), LOADS) for scene in SCENES]


def _compared(
    name: str,
    rival: str,
    scenes: Sequence[Scene],
    loads: Sequence[float],
    seeds: Sequence[int],
    calls: int,
    quantile: float,
) -> Row:
    """Ours beside a rival: geometric means of a quantile, by seed."""

    def mean_ms(rule: str, seed: int) -> float:
        logs = [
            log(float(np.quantile(played(scene, load, rule, seed, calls).latency_s, quantile)))
            for scene in scenes
            for load in loads
        ]
        return exp(statistics.fmean(logs)) * 1e3

    pairs = [(mean_ms(OURS, seed), mean_ms(rival, seed)) for seed in seeds]
    ratios = [theirs / ours for ours, theirs in pairs]
    above = sum(ratio > 1 for ratio in ratios)
    most = len(ratios) - 1
    order = "ahead of" if above >= most else "behind" if len(ratios) - above >= most else "tied with"
    return Row(
        name=name,
        ours=statistics.median(ours for ours, _ in pairs),
        unit="ms",
        alternative=f"{order} {rival}" if len(seeds) > 1 else rival,
        theirs=statistics.median(theirs for _, theirs in pairs),
        ratio=statistics.median(ratios),
        spread=(min(ratios), max(ratios)),
    )


def _shares(
    name: str,
    rule: str,
    scenes: Sequence[Scene],
    seeds: Sequence[int],
    calls: int,
    measure: Callable[[ChoiceRun, int], float],
) -> Row:
    """Largest share of one replica as a multiple of its equal share, over the loads."""
    found = [
        max(measure(played(scene, load, rule, seed, calls), scene.replicas) for load in LOADS)
        for scene in scenes
        for seed in seeds
    ]
    return Row(
        name=name, ours=statistics.median(found), unit="times its share", spread=(min(found), max(found))
    )


def _busiest(found: ChoiceRun, replicas: int) -> float:
    """Calls of the busiest replica over those of the mean one."""
    counts = np.bincount(found.replica, minlength=replicas)
    return float(counts.max() / counts.mean())


def _largest_in_a_second(found: ChoiceRun, replicas: int) -> float:
    """Largest share of one replica in any second, as a multiple of its equal share."""
    seconds = ((found.chosen_at - found.chosen_at[0]) / WINDOW_S).astype(np.int64)
    largest = 0.0
    for second in range(int(seconds[-1]) + 1):
        counts = np.bincount(found.replica[seconds == second], minlength=replicas)
        if counts.mean() >= MIN_IN_WINDOW:
            largest = max(largest, float(counts.max() / counts.mean()))
    return largest
