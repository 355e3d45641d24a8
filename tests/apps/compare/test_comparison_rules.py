"""Rules of a comparison on a running service: the rival of a plan, the looks, and the figures."""

from __future__ import annotations

import random

import pytest

from kwiken.apps.compare.looks import NONE, PLAN, RIVAL, ComparisonLooks
from kwiken.apps.compare.result import arms_of
from kwiken.apps.compare.rival import one_percentile
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Following, Reissue
from kwiken.tail.autopilot.arms import ArmCounts, bucket_of


def plan_of(budget: float, costs: dict[str, float], *, once: tuple[str, ...] = ()) -> Plan:
    first = next(name for name in costs if name not in once)
    reissue = Reissue(after_ms=20.0, fraction=budget / costs[first] if costs[first] else 0.0)
    return Plan(
        version=1,
        service="shop",
        created="2024-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=budget),
        cost=Costs(model="calls", stages=costs),
        stages={
            name: StagePlan(reissue=reissue if name == first else None, once=name in once) for name in costs
        },
    )


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.1, 1 / 30])
@pytest.mark.parametrize("costs", [{"a": 0.2, "b": 0.3, "c": 0.5}, {"a": 1 / 3, "b": 2 / 3}, {"a": 1.0}])
def test_the_rival_copies_one_share_everywhere_for_the_same_spend(
    budget: float, costs: dict[str, float]
) -> None:
    rival = one_percentile(plan_of(budget, costs))
    policies = [stage.reissue for stage in rival.stages.values()]
    assert len({policy.fraction for policy in policies if policy is not None}) == 1
    assert sum(
        costs[name] * stage.reissue.fraction for name, stage in rival.stages.items() if stage.reissue
    ) == pytest.approx(budget)
    for policy in policies:
        assert policy is not None
        assert isinstance(policy.follow, Following)
        assert policy.follow.quantile == pytest.approx(1 - policy.fraction)
    service = Service("shop")
    for name in costs:

        async def work(request: str) -> str:
            return request

        service.stage(name=name, after=[] if name == "a" else ["a"], idempotent=True)(work)
    rival.check(service)


def test_a_stage_that_must_not_be_copied_is_left_alone() -> None:
    rival = one_percentile(plan_of(0.05, {"pay": 0.5, "find": 0.5}, once=("pay",)))
    assert rival.stages["pay"].reissue is None
    assert rival.stages["find"].reissue is not None
    assert rival.stages["find"].reissue.fraction == pytest.approx(0.1)


def test_a_plan_without_copies_has_no_rival() -> None:
    with pytest.raises(InputError, match="sends no copies"):
        one_percentile(plan_of(0.0, {"a": 1.0}))


def drawn(rng: random.Random, requests: int, slow: float) -> ArmCounts:
    """Requests of 10 ms, a share of which took 400 ms."""
    number = sum(rng.random() < slow for _ in range(requests))
    return ArmCounts(cells={bucket_of(10.0): requests - number, bucket_of(400.0): number})


def looked(
    rng: random.Random, plan: float, none: float, rival: float, *, rounds: int = 60
) -> ComparisonLooks:
    looks = ComparisonLooks()
    arms = dict.fromkeys((PLAN, NONE, RIVAL), ArmCounts())
    for _ in range(rounds):
        for arm, slow in ((PLAN, plan), (NONE, none), (RIVAL, rival)):
            arms[arm] = arms[arm].plus(drawn(rng, 100, slow))
        looks.look(arms)
        if looks.decided:
            break
    return looks


def test_without_any_difference_a_verdict_is_rarer_than_the_error() -> None:
    wrong = sum(bool(looked(random.Random(seed), 0.02, 0.02, 0.02).verdicts) for seed in range(60))
    assert wrong <= 6  # of 60: each of the two verdicts is wrong with a chance of 5% at most


def test_a_plan_that_cuts_the_tail_is_better_than_none_and_than_its_rival() -> None:
    looks = looked(random.Random(3), 0.002, 0.04, 0.02)
    assert looks.decided
    assert {other: found.verdict for other, found in looks.verdicts.items()} == {
        NONE: "better",
        RIVAL: "better",
    }
    worse = looked(random.Random(4), 0.04, 0.002, 0.02)
    assert worse.verdicts[NONE].verdict == "worse"


def test_there_is_no_look_before_its_number_of_requests() -> None:
    looks = ComparisonLooks()
    few = ArmCounts(cells={bucket_of(10.0): 99})
    assert not looks.look({PLAN: few, NONE: few, RIVAL: few})
    more = ArmCounts(cells={bucket_of(10.0): 100})
    assert looks.look({PLAN: more, NONE: more, RIVAL: more})
    assert not looks.look({PLAN: more, NONE: more, RIVAL: more})
    assert (looks.looks, looks.next_at) == (1, 450)


def test_figures_have_intervals_around_the_cut() -> None:
    rng = random.Random(5)
    seconds = [
        {PLAN: drawn(rng, 50, 0.001), NONE: drawn(rng, 50, 0.05), RIVAL: drawn(rng, 50, 0.05)}
        for _ in range(40)
    ]
    found = arms_of(seconds, ComparisonLooks(), seed=1)
    assert {arm: each.requests for arm, each in found.items()} == {PLAN: 2000, NONE: 2000, RIVAL: 2000}
    cut = found[NONE].cut_by_plan
    assert cut is not None
    assert 0.5 < cut.low <= cut.cut <= cut.high < 1.0
    assert found[NONE].latency.p99_ms == pytest.approx(400, rel=0.05)
    assert (found[PLAN].cut_by_plan, found[PLAN].verdict, found[NONE].verdict) == (None, None, "open")
    empty = arms_of([], ComparisonLooks(), seed=1)
    assert empty[PLAN].requests == 0
