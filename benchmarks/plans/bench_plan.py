"""Benchmark of planning at design 7's size, and of the apportionment inside it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.harness import Row, alone, side_by_side
from benchmarks.plans.profiles import REQUESTS, STAGES, synthetic_profile
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.tail.apportion.sum_of_variances import sumvar
from kwiken.tail.curves.curve import Curve, stage_curves
from kwiken.tail.planning.planner import make_plan

CREATED = "2026-01-01T00:00:00Z"
BUDGET = 0.05
RANDOM = 200
MAX_OF_READING = 3.0  # times the time of reading the profile's JSON


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    profile = synthetic_profile()
    curves = stage_curves(synthetic_profile(requests=1000))
    shares = dict.fromkeys(curves, 1 / STAGES)
    rng = np.random.default_rng(0)
    text = profile_to_json(profile)
    rounds = 2 if quick else 7
    return [
        side_by_side(
            f"plan for {STAGES} stages x {REQUESTS} requests",
            lambda: make_plan(profile, budgets=Budgets(reissue=BUDGET), created=CREATED),
            ("reading its profile from JSON", lambda: profile_from_json(text)),
            rounds=rounds,
            unit="s",
            scale=1.0,
            least=1 / MAX_OF_READING,
        ),
        side_by_side(
            f"SumVar over {STAGES} stages",
            lambda: sumvar(curves, shares, BUDGET),
            (f"best of {RANDOM} random splits", lambda: best_random(curves, rng)),
            rounds=rounds,
            unit="ms",
            scale=1e3,
        ),
        alone(
            f"read a profile of {STAGES} stages x {REQUESTS} requests from JSON",
            lambda: profile_from_json(text),
            rounds=rounds,
            unit="s",
            scale=1.0,
            target=1.0,
        ),
    ]


def best_random(curves: Mapping[str, Curve], rng: np.random.Generator) -> float:
    """The lowest sum of hulls that random splits of the budget find."""
    best = np.inf
    for _ in range(RANDOM):
        given = np.minimum(1.0, rng.dirichlet(np.ones(len(curves))) * BUDGET * len(curves))
        total = sum(curve.hull_at(float(r)) for curve, r in zip(curves.values(), given, strict=True))
        best = min(best, total)
    return float(best)
