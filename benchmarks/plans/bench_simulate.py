"""Benchmark of the replay through a DAG: all requests at once against one request after another."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.harness import Row, paired, timed
from benchmarks.plans.profiles import STAGES, synthetic_profile
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.planner import make_plan
from kwiken.tail.simulation.trace_driven import simulate

REQUESTS = 20_000
LOOPED = 200  # requests that the loop gets, scaled up: all of them would take minutes
MIN_SPEEDUP = 150.0  # times as quick as one request after another
CREATED = "2026-01-01T00:00:00Z"


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    profile = synthetic_profile()
    plan = make_plan(profile, budgets=Budgets(reissue=0.05), created=CREATED)
    rounds = 3 if quick else 15
    rng = np.random.default_rng(0)
    rows = []
    for label, independent in (("joint rows", False), ("independent stages", True)):
        work = partial(simulate, profile, plan, requests=REQUESTS, independent=independent)
        timed(work)
        pairs = []
        for _ in range(rounds):
            looped = timed(lambda: one_by_one(profile, plan, LOOPED, rng)) * REQUESTS / LOOPED
            pairs.append((timed(work), looped))
        rows.append(
            paired(
                f"simulate {REQUESTS} requests x {STAGES} stages, both arms, {label}",
                "one request after another",
                pairs,
                unit="s",
                least=MIN_SPEEDUP,
            )
        )
    return rows


def one_by_one(profile: Profile, plan: Plan, requests: int, rng: np.random.Generator) -> list[float]:
    """Latencies of the same model from a plain loop, milliseconds."""
    latencies = []
    for _ in range(requests):
        ends: dict[str, float] = {}
        for stage in profile.stages:
            calls = stage.calls_ms[:, 0]
            latency = float(calls[rng.integers(len(calls))])
            policy = plan.stages[stage.name].reissue
            if policy is not None and latency > policy.after_ms:
                latency = min(latency, policy.after_ms + float(calls[rng.integers(len(calls))]))
            ends[stage.name] = latency + max((ends[parent] for parent in stage.after), default=0.0)
        latencies.append(max(ends.values()))
    return latencies
