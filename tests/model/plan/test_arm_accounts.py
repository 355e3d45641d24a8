"""Accounts of the arms of a trial: neither takes from the other, and together they stay within the service's."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.model.plan.accounts import BY_FLOOR, CALL, REQUEST, Account, Floor, LedgerBounds
from kwiken.model.plan.arm_accounts import ArmAccounts, grant_in_arm
from kwiken.model.plan.ledger_terms import LedgerTerms

BUDGET = 0.05
BOUNDS = LedgerTerms().service_bounds(BUDGET)
STAGE = LedgerBounds(fraction=0.2, burst=16 * CALL, peak=0.5)
COST = REQUEST // 4


def arm_of(share: float, service: Account, *, floor_per_s: float = 0.0, now: float = 0.0) -> ArmAccounts:
    return ArmAccounts(
        BOUNDS, {"a": STAGE}, share=share, floor_per_s=floor_per_s, left=service.left(now), now=now
    )


def spends_of_thrifty(greedy_wants: bool) -> float:
    """Share of its work that an arm spends, which wants a copy in every eighth request, beside another one."""
    service = Account(BOUNDS)
    greedy, thrifty = arm_of(0.5, service), arm_of(0.5, service)
    for number in range(40_000):
        now = number / 100
        own = (greedy, thrifty)[number % 2]
        service.earn(REQUEST, now)
        own.service.earn(REQUEST, now)
        if greedy_wants if own is greedy else number % 16 == 1:
            grant_in_arm(own, service, COST, now)
    assert service.spent <= BUDGET * service.work + BOUNDS.burst
    return thrifty.service.spent / thrifty.service.work


def test_an_arm_that_wants_more_takes_nothing_from_the_other() -> None:
    alone, beside = spends_of_thrifty(greedy_wants=False), spends_of_thrifty(greedy_wants=True)
    assert alone == pytest.approx(COST / REQUEST / 8, rel=0.01)
    assert beside == pytest.approx(alone, rel=0.01)


def test_arms_begin_with_their_shares_of_what_is_left() -> None:
    service = Account(BOUNDS)
    service.earn(100 * REQUEST, 1.0)
    left = service.left(1.0)
    assert left == pytest.approx(BOUNDS.burst + 5 * REQUEST)
    assert arm_of(0.25, service, now=1.0).service.left(1.0) == pytest.approx(left / 4, abs=2)
    service.force(20 * REQUEST, 1.0)  # into debt
    assert arm_of(0.5, service, now=1.0).service.left(1.0) == pytest.approx(service.left(1.0) / 2, abs=2)


def test_what_the_service_denies_is_given_back_to_the_arm() -> None:
    service = Account(LedgerBounds())
    arm = arm_of(0.5, Account(BOUNDS))
    stage = Account(STAGE)
    arm.service.earn(REQUEST * 1000, 1.0)
    arm.stages["a"].earn(CALL * 1000, 1.0)
    assert grant_in_arm(arm, service, COST, 1.0, stage=stage, name="a") > BY_FLOOR
    assert (arm.service.spent, arm.stages["a"].spent, service.spent, stage.spent) == (0, 0, 0, 0)


def test_the_floor_is_split() -> None:
    service, floor = Account(BOUNDS), Floor(4.0)
    first, second = (arm_of(0.5, service, floor_per_s=4.0) for _ in range(2))
    granted = {first: 0, second: 0}
    for number in range(4000):  # nothing is earned, so that only the floor grants after the burst
        asks = (first, first, first, second)[number % 4]
        granted[asks] += grant_in_arm(asks, service, COST, number / 100, floor=floor) <= BY_FLOOR
    assert granted[second] == pytest.approx(granted[first], rel=0.1)
    assert granted[first] + granted[second] > 140


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, REQUEST), st.floats(0, 30)),
        max_size=200,
    ),
    share=st.floats(0.05, 0.9),
)
def test_the_arms_never_spend_more_than_the_service_may(
    steps: list[tuple[int, int, int, float]], share: float
) -> None:
    service, stage = Account(BOUNDS), Account(STAGE)
    arms = [arm_of(share, service), arm_of(1 - share, service)]
    now = 0.0
    for number, requests, cost, later in steps:
        now += later
        service.earn(requests * REQUEST, now)
        stage.earn(requests * CALL, now)
        if number == 2:  # requests of no arm
            continue
        own = arms[number]
        own.service.earn(requests * REQUEST, now)
        own.stages["a"].earn(requests * CALL, now)
        before = service.left(now)
        if grant_in_arm(own, service, cost, now, stage=stage, name="a") <= BY_FLOOR:
            assert cost <= before
    assert sum(arm.service.spent for arm in arms) == service.spent
    assert service.spent <= BUDGET * service.work + BOUNDS.burst
    assert sum(arm.stages["a"].spent for arm in arms) == stage.spent
