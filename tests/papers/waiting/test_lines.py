"""Waiting lines: who starts where and in which order, changes of line, budgets, and fuzzed replays."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from papers.worlds.waiting.lines.lines import WaitingLines
from papers.worlds.waiting.lines.quality_classes import equal_classes
from papers.worlds.waiting.lines.settings import (
    BudgetClock,
    LineOrder,
    LineSettings,
    LineStart,
    MoveReason,
    SlotOffer,
    SwitchRule,
    WaitingJob,
)
from tests.support.allocation.waiting.fleets import LinedNodes


def job(name: str, quality: float, budget_s: float = 100.0, **more: float) -> WaitingJob:
    return WaitingJob(
        name, quality, budget_s, work_s=more.get("work_s", 0.0), priority=int(more.get("priority", 0))
    )


def two_pools(rule: SwitchRule = SwitchRule.NEVER, **more: object) -> LinedNodes:
    """One good and one poor node with one slot each, in two classes."""
    chosen = LineSettings(rule=rule, **more)  # type: ignore[arg-type]
    return LinedNodes(
        WaitingLines(equal_classes(2), chosen), {"good": 1, "poor": 1}, {"good": 90.0, "poor": 40.0}
    )


def test_a_demanding_job_at_the_head_does_not_hold_up_an_undemanding_one() -> None:
    fleet = two_pools()
    fleet.open(0.0)
    fleet.submit(job("first", 90), 0.0)
    fleet.step(0.0)
    fleet.submit(job("second", 90, math.inf), 1.0)
    fleet.submit(job("light", 10), 1.0)
    starts = fleet.step(1.0)
    assert [(start.job, start.unit) for start in starts] == [("light", "poor")]
    assert fleet.lines.waiting == 1


def test_a_job_goes_up_only_where_nobody_waits() -> None:
    fleet = two_pools()
    fleet.open(0.0)
    fleet.submit(job("light 1", 10), 0.0)
    fleet.submit(job("light 2", 10), 0.0)
    starts = fleet.step(0.0)
    assert [(start.job, start.unit) for start in starts] == [("light 1", "poor"), ("light 2", "good")]
    assert starts[1].moves[0].reason is MoveReason.ROOM_ABOVE

    blocked = two_pools()
    blocked.open(0.0)
    blocked.submit(job("light 1", 10), 0.0)
    blocked.submit(job("light 2", 10), 0.0)
    blocked.submit(job("demanding", 90), 0.0)
    assert [start.job for start in blocked.step(0.0)] == ["demanding", "light 1"]


def test_a_spent_budget_takes_any_node_and_is_told() -> None:
    fleet = two_pools(clock=BudgetClock.ARRIVAL)
    fleet.open(0.0)
    fleet.submit(job("first", 90), 0.0)
    fleet.step(0.0)
    fleet.submit(job("second", 90, 10.0), 0.0)
    assert not fleet.step(9.0)
    assert fleet.lines.next_test_s() == 10.0
    (start,) = fleet.step(10.0)
    assert (start.unit, start.late, start.moves[-1].reason) == ("poor", True, MoveReason.SPENT)


def test_a_job_without_a_budget_starts_at_once() -> None:
    fleet = two_pools()
    fleet.open(0.0)
    fleet.submit(job("first", 90), 0.0)
    fleet.submit(job("short", 90, -5.0), 0.0)
    (start,) = fleet.step(0.0)
    assert (start.job, start.late) == ("short", True)


def test_the_clock_starts_when_some_node_has_room() -> None:
    fleet = two_pools()
    fleet.open(0.0)
    for name, quality in (("a", 90), ("b", 10)):
        fleet.submit(job(name, quality), 0.0)
    fleet.step(0.0)
    fleet.submit(job("c", 90, 10.0), 0.0)
    assert not fleet.step(50.0)  # no node has room, and nothing is charged
    fleet.end("b", 60.0)
    assert not fleet.step(60.0)
    (start,) = fleet.step(70.0)
    assert (start.waited_s, start.charged_s) == (70.0, 10.0)


def test_one_line_is_first_come_first_served() -> None:
    lines = WaitingLines(equal_classes(1), LineSettings(look_ahead=1))
    fleet = LinedNodes(lines, {"n1": 2, "n2": 1}, {"n1": 90.0, "n2": 20.0})
    fleet.open(0.0)
    rng = random.Random(3)
    now_s = 0.0
    for number in range(60):
        now_s += rng.random()
        fleet.submit(job(f"j{number}", rng.uniform(0, 100)), now_s)
        fleet.step(now_s)
        if fleet.on and rng.random() < 0.8:
            fleet.end(rng.choice(sorted(fleet.on)), now_s)
            fleet.step(now_s)
    assert [start.job for start in fleet.started] == [f"j{number}" for number in range(len(fleet.started))]


def test_the_shortest_goes_first_and_a_priority_before() -> None:
    lines = WaitingLines(equal_classes(1), LineSettings(order=LineOrder.SHORTEST))
    fleet = LinedNodes(lines, {"n": 1}, {"n": 90.0})
    fleet.open(0.0)
    fleet.submit(job("long", 10, work_s=9.0), 0.0)
    fleet.submit(job("short", 10, work_s=1.0), 0.0)
    fleet.submit(job("first", 10, work_s=5.0, priority=1), 0.0)
    order = []
    for at in range(3):
        (start,) = fleet.step(float(at))
        order.append(start.job)
        fleet.end(start.job, at + 0.5)
    assert order == ["first", "short", "long"]


def learned(rule: SwitchRule, busy_good_s: float, busy_poor_s: float) -> LinedNodes:
    """Two pools that have each seen many jobs of one length."""
    fleet = two_pools(rule, clock=BudgetClock.ARRIVAL)
    fleet.open(0.0)
    now_s = 0.0
    for number in range(40):
        for kind, quality, busy_s in (("good", 90, busy_good_s), ("poor", 10, busy_poor_s)):
            name = f"{kind} {number}"
            fleet.submit(job(name, quality), now_s)
            fleet.step(now_s)
            now_s += busy_s * (1 + 0.01 * (number % 7))
            fleet.end(name, now_s)
    return fleet


@pytest.mark.parametrize("rule", [SwitchRule.PUBLISHED, SwitchRule.OPTIMAL])
def test_a_job_leaves_for_a_line_that_promises_more_within_its_budget(rule: SwitchRule) -> None:
    fleet = learned(rule, busy_good_s=500.0, busy_poor_s=10.0)
    now_s = fleet.started[-1].at_s + 20.0
    fleet.submit(job("holder", 90), now_s)
    fleet.step(now_s)
    fleet.submit(job("other", 10), now_s)
    fleet.step(now_s)
    fleet.submit(job("demanding", 90, 30.0), now_s)
    for second in range(12):
        fleet.step(now_s + second)
    assert fleet.lines.line_of("demanding") == 1
    assert fleet.lines.moves_of("demanding")[0].reason is MoveReason.BETTER_CHANCE


def test_equal_chances_keep_a_job_in_its_line() -> None:
    fleet = learned(SwitchRule.OPTIMAL, busy_good_s=20.0, busy_poor_s=20.0)
    now_s = fleet.started[-1].at_s + 50.0
    for name, quality in (("holder", 90), ("other", 10)):
        fleet.submit(job(name, quality), now_s)
    fleet.step(now_s)
    fleet.submit(job("demanding", 90, 60.0), now_s)
    fleet.step(now_s)
    assert fleet.lines.line_of("demanding") == 0


actions = st.lists(
    st.tuples(st.sampled_from("ssseeat"), st.integers(0, 1000), st.floats(0, 30)), min_size=1, max_size=120
)


def act(fleet: LinedNodes, kind: str, value: int, now_s: float, number: Iterator[int]) -> None:
    """One step of a script: submit, end or withdraw a job, or only let time pass."""
    running = sorted(fleet.on)
    waiting = sorted(name for state in fleet.lines.state() for name in state.waiting)
    if kind == "s":
        named = f"{next(number)}-{value % 2}"
        budget_s = -1.0 if value % 9 == 0 else math.inf if value % 7 == 0 else value / 10
        fleet.submit(job(named, value % 101, budget_s, work_s=value, priority=value % 2), now_s)
    elif kind == "e" and running:
        fleet.end(running[value % len(running)], now_s)
    elif kind == "a" and waiting:
        fleet.lines.withdraw(waiting[value % len(waiting)])
        fleet.submitted.discard(waiting[value % len(waiting)])


@settings(max_examples=40, deadline=None)
@given(
    actions,
    st.sampled_from(SwitchRule),
    st.sampled_from(LineOrder),
    st.sampled_from(BudgetClock),
    st.integers(1, 6),
)
def test_no_job_is_lost_or_started_twice(
    script: list[tuple[str, int, float]], rule: SwitchRule, order: LineOrder, clock: BudgetClock, count: int
) -> None:
    def play() -> list[LineStart]:
        lines = WaitingLines(equal_classes(count), LineSettings(rule=rule, order=order, clock=clock))
        fleet = LinedNodes(lines, {"a": 1, "b": 2, "c": 3}, {"a": 95.0, "b": 60.0, "c": 30.0})
        fleet.open(0.0)
        now_s, number = 0.0, itertools.count()
        for kind, value, more_s in script:
            now_s += more_s
            act(fleet, kind, value, now_s, number)
            fleet.step(now_s)
            late = [start for start in fleet.started if start.late]
            assert all(start.moves[-1].reason is MoveReason.SPENT for start in late)
            assert lines.next_test_s() > now_s  # whoever waits until then waits no longer than it takes
        fleet.finish(now_s)
        return fleet.started

    first = play()
    assert first == play()  # the same calls lead to the same decisions
    if order is LineOrder.ARRIVAL:  # natives of one priority start in the order of their arrival
        for line, priority in itertools.product(range(count), "01"):
            ranks = [
                int(start.job.partition("-")[0])
                for start in first
                if start.line == line and start.job.endswith(priority) and not start.moves
            ]
            assert ranks == sorted(ranks)


def test_bad_input_is_refused() -> None:
    fleet = two_pools()
    fleet.open(0.0)
    lines = fleet.lines
    fleet.submit(job("a", 90), 1.0)
    with pytest.raises(InputError, match="waits or runs already"):
        lines.arrive(job("a", 10), 1.0)
    with pytest.raises(InputError, match="time goes back"):
        lines.arrive(job("b", 10), 0.5)
    with pytest.raises(InputError, match="finite"):
        lines.advance(math.nan, fleet.find)
    with pytest.raises(InputError, match="does not run"):
        lines.ended("a", 1.0, quality=1, free=1)
    with pytest.raises(InputError, match="does not wait"):
        lines.withdraw("nobody")
    with pytest.raises(InputError, match="from 0 to 100"):
        lines.unit("x", 101, 1, 1.0)
    with pytest.raises(InputError, match="not a node of pool"):
        lines.advance(1.0, lambda _, __: SlotOffer("elsewhere", 1, 1))
    for bad in (
        {"name": ""},
        {"quality": -1.0},
        {"quality": math.nan},
        {"budget_s": math.nan},
        {"work_s": math.inf},
        {"slack_s": math.nan},
    ):
        with pytest.raises(InputError):
            WaitingJob(**{"name": "x", "quality": 1.0, **bad})  # type: ignore[arg-type]
    for wrong in ({"look_ahead": 0}, {"test_s": 0.0}, {"sure": 1.0}, {"patience_s": math.inf}):
        with pytest.raises(InputError):
            LineSettings(**wrong)
