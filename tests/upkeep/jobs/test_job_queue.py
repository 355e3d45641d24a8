"""The queue of jobs: who goes first, on which node, and that neither jobs nor cores are lost."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.upkeep.jobs.job_queue import JobQueue
from tests.support.allocation.jobs import FixedRoom, order


def test_a_job_starts_on_the_fastest_node_and_its_room_comes_back() -> None:
    room = FixedRoom({"slow": (0.5, 1.0), "fast": (1.0, 1.0)})
    queue = JobQueue(room)
    queue.arrive(order("one"), 0.0)
    queue.arrive(order("two"), 0.0)
    queue.arrive(order("three"), 2.0)
    assert [(start.job, start.node) for start in queue.advance(3.0)] == [("one", "fast"), ("two", "slow")]
    assert room.free == {"slow": 0.0, "fast": 0.0}
    assert queue.advance(4.0) == []
    queue.ended("one")
    (start,) = queue.advance(5.0)
    assert (start.job, start.node, start.waited_s) == ("three", "fast", 3.0)
    with pytest.raises(InputError, match="waits or runs already"):
        queue.arrive(order("two"), 6.0)


def test_priority_goes_before_length_and_length_before_arrival() -> None:
    queue = JobQueue(FixedRoom({"one": (1.0, 1.0)}))
    queue.arrive(order("unstated"), 0.0)
    queue.arrive(order("long", takes_s=600.0), 1.0)
    queue.arrive(order("short", takes_s=5.0), 2.0)
    queue.arrive(order("urgent", takes_s=9000.0, priority=1), 3.0)
    assert [one.name for one in queue.in_turn()] == ["urgent", "short", "long", "unstated"]
    queue.cancel("short")
    started = []
    for now_s in range(4, 10):
        for start in queue.advance(float(now_s)):
            started.append(start.job)
            queue.ended(start.job)
    assert started == ["urgent", "long", "unstated"]


def test_a_long_job_is_passed_only_by_those_that_arrive_within_its_length() -> None:
    queue = JobQueue(FixedRoom({"one": (1.0, 1.0)}))
    queue.arrive(order("long", takes_s=60.0), 0.0)
    queue.arrive(order("early", takes_s=1.0), 58.0)
    queue.arrive(order("late", takes_s=1.0), 60.0)
    assert [one.name for one in queue.in_turn()] == ["early", "long", "late"]


def test_a_small_job_is_not_held_up_by_one_that_does_not_fit() -> None:
    room = FixedRoom({"one": (1.0, 2.0)})
    queue = JobQueue(room)
    queue.arrive(order("wide", cores=3.0), 0.0)
    assert queue.advance(0.0) == []
    queue.arrive(order("narrow"), 1.0)
    assert [start.job for start in queue.advance(1.0)] == ["narrow"]
    assert list(queue.waiting) == ["wide"]


def test_a_node_that_comes_back_is_used() -> None:
    room = FixedRoom({"one": (1.0, 0.0)})
    queue = JobQueue(room)
    queue.arrive(order("one"), 0.0)
    assert queue.advance(0.0) == []
    room.free["one"] = 1.0  # as when a replica leaves
    assert [start.job for start in queue.advance(1.0)] == ["one"]


def mean_wait_s(seed: int, *, states: bool) -> float:
    """Mean wait of 400 jobs on two nodes that are busy for 85% of the time; lengths vary tenfold and more."""
    draw = random.Random(seed)
    queue = JobQueue(FixedRoom({"one": (1.0, 1.0), "two": (1.0, 1.0)}))
    events: list[tuple[float, int, str]] = []
    takes_s, at_s = {}, 0.0
    for number in range(400):
        at_s += draw.expovariate(2 * 0.85 / 100.0)
        takes_s[f"job-{number}"] = draw.lognormvariate(0.0, 1.2) * 100.0 / 2.054
        events.append((at_s, number, ""))
    waits = []
    while events:
        now_s, number, ended = heapq.heappop(events)
        if ended:
            queue.ended(ended)
        else:
            name = f"job-{number}"
            queue.arrive(order(name, takes_s=takes_s[name] if states else None), now_s)
        for start in queue.advance(now_s):
            waits.append(start.waited_s)
            heapq.heappush(events, (now_s + takes_s[start.job], number, start.job))
    assert len(waits) == len(takes_s)
    return sum(waits) / len(waits)


def test_stated_lengths_shorten_the_mean_wait() -> None:
    for seed in (1, 2, 3):
        assert mean_wait_s(seed, states=True) < 0.85 * mean_wait_s(seed, states=False)


@given(st.lists(st.tuples(st.sampled_from(["arrive", "end", "pass"]), st.integers(0, 99)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_jobs_are_kept_whatever_happens(steps: list[tuple[str, int]]) -> None:
    """Every job that arrived waits, runs or has ended; cores are neither lost nor given twice."""
    room = FixedRoom({"good": (1.0, 3.0), "poor": (0.5, 2.0)})
    queue = JobQueue(room)
    arrived, ended, now_s = 0, 0, 0.0
    for kind, value in steps:
        now_s += value
        if kind == "arrive":
            takes_s = None if value % 3 else 1.0 + value
            queue.arrive(order(f"job-{arrived}", cores=1.0 + value % 2, takes_s=takes_s), now_s)
            arrived += 1
        elif kind == "end" and queue.running:
            queue.ended(sorted(queue.running)[value % len(queue.running)])
            ended += 1
        queue.advance(now_s)
        assert len(queue.waiting) + len(queue.running) + ended == arrived
        assert sum(room.free.values()) + sum(cores for _, cores in room.held.values()) == 5.0
        assert set(room.held) == set(queue.running)
        assert {one.name for one in queue.in_turn()} == set(queue.waiting)
        idle = max(room.free.values())
        assert all(one.cores > idle for one in queue.waiting.values())
