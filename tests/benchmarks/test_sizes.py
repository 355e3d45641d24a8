"""Ways of sizing that the benchmark compares: each keeps the target or the cost that it is given."""

from __future__ import annotations

from benchmarks.sizes.arms import compared
from kwiken.allocator.capacity import SizeSettings, study_size
from kwiken.allocator.capacity.study import VERIFY_SEED
from tests.support.models.stragglers import straggling_profile

TARGET_MS = 90.0


def test_alternatives_are_judged_alike() -> None:
    settings = SizeSettings(target_p99_ms=TARGET_MS, rate_per_s=150.0, created="2026-01-01T00:00:00Z")
    study = study_size(straggling_profile(requests=1000), settings)
    arms = compared(study.search, study.given, study.outcome, TARGET_MS, seed=settings.seed + VERIFY_SEED)
    names = [arm.name for arm in arms]
    assert names[:2] == ["together", "replicas alone"]
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
