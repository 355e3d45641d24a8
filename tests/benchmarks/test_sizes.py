"""Ways of sizing that the benchmark compares: each keeps the target or the cost that it is given."""

from __future__ import annotations

import math

from benchmarks.sizes.arms import compared
from benchmarks.sizes.sized_profiles import DAG_RATE_PER_S, dag_profile
from kwiken.allocator.capacity.outcomes import start_with_given
from kwiken.allocator.capacity.search import Search
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.study import VERIFY_SEED, study_size
from kwiken.allocator.capacity.supply import Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.model.profile.cost_models import costs
from kwiken.tail.queueing.load.decompose import load_model
from tests.support.models.stragglers import straggling_profile

TARGET_MS = 90.0


def test_alternatives_are_judged_alike() -> None:
    settings = SizeSettings(target_p99_ms=TARGET_MS, rate_per_s=150.0, created="2026-01-01T00:00:00Z")
    study = study_size(straggling_profile(requests=1000), settings)
    arms = compared(study.search, study.given, study.outcome, TARGET_MS, seed=settings.seed + VERIFY_SEED)
    names = [arm.name for arm in arms]
    assert names[:2] == ["both orders", "replicas alone"]
    assert len(names) == 6
    for arm in arms:
        assert (arm.at_target is None) or (arm.nearest is None)
        if arm.at_target is not None:
            assert arm.at_target.p99_ms <= TARGET_MS
        if arm.at_cost is not None:
            assert arm.at_cost.cost <= study.outcome.cost + 1e-9
    together, alone = arms[:2]
    assert together.at_target == study.outcome
    assert together.at_cost is not None
    assert alone.at_cost is not None
    assert together.at_cost.p99_ms <= study.outcome.p99_ms
    assert all(size.level == 0 for size in alone.at_cost.sizes)
    assert alone.at_target is None or alone.at_target.cost >= study.outcome.cost


def test_a_start_with_planned_copies_serves_its_calls() -> None:
    profile = dag_profile(112)  # copies at its last stage but two would overload the fewest replicas
    supply = Supply([stage.name for stage in profile.stages], {}, None)
    trials = StageTrials(load_model(profile, seed=112), DAG_RATE_PER_S, supply, seed=112)
    search = Search(trials, costs(profile), 0.05)
    start = start_with_given(search)
    assert start is not None
    assert math.isfinite(search.p99_ms(start))
