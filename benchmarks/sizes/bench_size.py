"""Benchmark of sizing: replicas and reissues together beside each alone and one after the other.

Every row is verified in the queueing simulator, on requests that no search has seen. The target of a case is
the p99 that replicas alone reach at twice the cost of the cheapest sizes that can serve at all.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable

from benchmarks.harness import Row
from benchmarks.sizes.arms import Arm
from benchmarks.sizes.sized import LEAST_SAVING, percent_less, study_beside_replicas
from benchmarks.sizes.sized_profiles import DAG_RATE_PER_S, dag_profile, search_profile
from kwiken.allocator.capacity import SizeStudy
from kwiken.model.profile import Profile

SEARCH_RATE_PER_S = 400.0
SEEDS = 8
SEARCH_SEEDS = 1


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    searches, dags = (1, 1) if quick else (SEARCH_SEEDS, SEEDS)
    return [
        *_rows("generated DAG", dag_profile, DAG_RATE_PER_S, dags),
        *_rows("search service", search_profile, SEARCH_RATE_PER_S, searches),
    ]


def _rows(kind: str, profile_of: Callable[[int], Profile], rate_per_s: float, seeds: int) -> list[Row]:
    saved: dict[str, list[float]] = defaultdict(list)
    lower: dict[str, list[float]] = defaultdict(list)
    missed: dict[str, int] = defaultdict(int)
    for seed in range(seeds):
        profile = profile_of(seed)
        study, known, arms = study_beside_replicas(profile, rate_per_s, seed)
        together = arms[0].at_cost
        assert together is not None
        for arm in arms[1:]:
            costs_there = [] if arm.at_target is None else [arm.at_target.cost]
            if arm.name.startswith("replicas"):
                costs_there.append(known.cost)  # these ways know the sizes that the target is of
            if costs_there:
                saved[arm.name].append(percent_less(study.outcome.cost, min(costs_there)))
            else:
                missed[arm.name] += 1
            if arm.at_cost is not None:
                lower[arm.name].append(percent_less(together.p99_ms, arm.at_cost.p99_ms))
            print(f"  {kind} {seed}: {_described(study, arms, arm)}", flush=True)
    rows = []
    for name, p99 in lower.items():
        cost = saved.get(name, [])
        reached = f"{len(cost)} of {len(cost) + missed[name]} seeds"
        if cost:
            rows.append(_row(f"{kind}, cost saved at equal p99 beside {name} ({reached} reach it)", cost))
        rows.append(_row(f"{kind}, p99 lower at equal cost beside {name}", p99))
    return rows


def _described(study: SizeStudy, arms: list[Arm], arm: Arm) -> str:
    ours = f"together {study.outcome.cost:g} cores, {study.outcome.p99_ms:.4g} ms"
    same = arms[0].at_cost
    ours += "" if same is None else f" ({same.p99_ms:.4g} ms at best)"
    at_target = "target not reached" if arm.at_target is None else f"{arm.at_target.cost:g} cores"
    at_cost = "" if arm.at_cost is None else f", {arm.at_cost.p99_ms:.4g} ms at equal cost"
    return f"{ours}; {arm.name} {at_target}{at_cost}"


def _row(name: str, values: list[float]) -> Row:
    middle = statistics.median(values)
    alone = name.endswith(("replicas alone", "reach it)")) and "replicas alone" in name
    return Row(
        name=name,
        ours=middle,
        unit="%",
        target=LEAST_SAVING if alone else None,
        met=middle >= LEAST_SAVING if alone else None,
        spread=(min(values), max(values)),
    )
