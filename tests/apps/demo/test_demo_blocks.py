"""Blocks of the demo: order of plans, requests by block, and spend by plan."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from kwiken.apps.demo.setup.blocks import ARMS, Block, Schedule, orders
from kwiken.apps.demo.trial.spend import SpentCall, catch_up_spend, spend_by_stage, total_spend, worst_window


@given(turns=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_each_arm_has_each_position_as_often(turns: int, seed: int) -> None:
    rounds = orders(len(ARMS) * turns, seed)
    assert all(sorted(order) == sorted(ARMS) for order in rounds)
    for place in range(len(ARMS)):
        assert set(Counter(order[place] for order in rounds).values()) == {turns}


def test_the_seed_changes_the_order_and_repeats_it() -> None:
    assert orders(3, 1) == orders(3, 1)
    assert len({tuple(orders(3, seed)) for seed in range(40)}) > 5


BLOCKS = [
    Block("before", 0, 100.0, 105.0),
    Block("after", 0, 105.1, 110.0),
    Block("even", 0, 110.1, 115.0),
    Block("after", 1, 115.1, 120.0),
    Block("before", 1, 120.1, 125.0),
]


def test_a_request_belongs_to_the_block_in_which_it_was_due() -> None:
    schedule = Schedule(BLOCKS, 0.5)
    assert schedule.find(99.9) is None
    assert schedule.find(100.2) is None
    assert schedule.find(100.5) is BLOCKS[0]
    assert schedule.find(104.999) is BLOCKS[0]
    assert schedule.find(105.05) is None
    assert schedule.find(105.55) is None
    assert schedule.find(105.7) is BLOCKS[1]
    assert schedule.find(125.0) is None


def test_settling_counts_what_lies_between_the_first_and_the_last_block() -> None:
    schedule = Schedule(BLOCKS, 0.5)
    assert schedule.settling(100.2)
    assert schedule.settling(105.05)
    assert not schedule.settling(103.0)
    assert not schedule.settling(99.0)
    assert not schedule.settling(126.0)


def test_an_arms_own_clock_stands_still_in_other_blocks() -> None:
    schedule = Schedule(BLOCKS, 0.5)
    first, second = BLOCKS[1], BLOCKS[3]
    assert schedule.own_time(first, 105.6) == pytest.approx(0.0)
    assert schedule.own_time(first, 109.6) == pytest.approx(4.0)
    assert schedule.own_time(first, 111.0) == pytest.approx(4.4)
    assert schedule.own_time(second, 115.6) == pytest.approx(4.4)
    assert schedule.own_time(second, 120.0) == pytest.approx(8.8)
    assert schedule.seconds["after"] == pytest.approx(8.8)


def test_blocks_shorter_than_settling_hold_nothing() -> None:
    schedule = Schedule([Block("after", 0, 0.0, 0.3)], 0.5)
    assert schedule.find(0.29) is None
    assert schedule.seconds["after"] == 0.0


def calls(*rows: tuple[float, str, str, float]) -> list[SpentCall]:
    return [SpentCall(*row) for row in rows]


def test_spend_weighs_copies_by_cost_and_leaves_retries_out() -> None:
    sent = calls(
        (0, "a", "primary", 1.0), (1, "b", "primary", 3.0), (2, "a", "reissue", 1.0), (3, "b", "retry", 3.0)
    )
    assert total_spend(sent) == pytest.approx(0.25)
    assert spend_by_stage(sent) == {"a": pytest.approx(0.25)}
    assert total_spend([]) == 0.0


def test_copies_of_late_requests_are_an_account_of_their_own() -> None:
    sent = [
        SpentCall(0.0, "a", "primary", 1.0),
        SpentCall(0.5, "a", "primary", 3.0, late=True),  # it went ahead, which costs nothing
        SpentCall(1.0, "a", "reissue", 1.0),
        SpentCall(1.5, "b", "reissue", 2.0, late=True),
        SpentCall(2.0, "b", "retry", 2.0, late=True),
    ]
    assert total_spend(sent) == pytest.approx(1 / 4)
    assert spend_by_stage(sent) == {"a": pytest.approx(1 / 4)}
    assert catch_up_spend(sent) == pytest.approx(2 / 4)
    assert worst_window(sent, 30.0) == pytest.approx(1 / 3)
    assert catch_up_spend([]) == 0.0


def test_worst_window_finds_the_bunch() -> None:
    steady = [SpentCall(0.1 * i, "a", "primary", 1.0) for i in range(300)]
    bunch = [SpentCall(12.0 + 0.1 * i, "a", "reissue", 1.0) for i in range(5)]
    late = [SpentCall(29.9, "a", "reissue", 1.0)]
    sent = steady + bunch + late
    assert total_spend(sent) == pytest.approx(6 / 300)
    assert worst_window(sent, 30.0) == pytest.approx(5 / 100, rel=0.011)
    assert worst_window(sent, 8.0) == total_spend(sent)


def test_windows_lie_within_the_arm() -> None:
    sent = calls(
        (0.0, "a", "reissue", 1.0),
        (0.0, "a", "primary", 1.0),
        *[(t, "a", "primary", 1.0) for t in range(1, 20)],
    )
    assert worst_window(sent, 20.0) == pytest.approx(1 / 11)


def brute_force(sent: list[SpentCall], length: float) -> float:
    worst = 0.0
    starts = {
        0.0,
        *(c.at_s for c in sent if c.at_s + 10 <= length),
        *(c.at_s - 10 for c in sent if c.at_s >= 10),
    }
    for start in starts:
        inside = [c for c in sent if start - 1e-9 <= c.at_s <= start + 10 + 1e-9]
        worst = max(worst, total_spend(inside))
    return worst


ROW = st.tuples(
    st.integers(0, 300).map(lambda n: n / 10),
    st.just("a"),
    st.sampled_from(["primary", "primary", "reissue"]),
    st.sampled_from([0.5, 1.0, 2.0]),
)


@given(rows=st.lists(ROW, max_size=60))
def test_worst_window_is_the_worst_of_all(rows: list[tuple[float, str, str, float]]) -> None:
    sent = calls(*rows)
    assert worst_window(sent, 30.0) == pytest.approx(brute_force(sent, 30.0))
