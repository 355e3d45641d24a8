"""The queue of jobs: room, lines, and whether the chances that are told come true."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.upkeep.jobs.job_queue import JobQueue
from tests.support.allocation.jobs import FixedRoom, order

CASES = 200
WITHIN_S = (5.0, 150.0)  # drawn for each case, so that chances are of all heights
TOLERANCE = 0.10


def test_a_job_starts_where_its_quality_is_and_its_room_comes_back() -> None:
    room = FixedRoom({"good": (95.0, 1.0), "poor": (20.0, 1.0)})
    queue = JobQueue(room)
    queue.arrive(order("light", quality=10.0), 0.0)
    queue.arrive(order("heavy", quality=91.0), 0.0)
    starts, _ = queue.advance(0.0)
    assert {start.job: start.unit for start in starts} == {"heavy": "good", "light": "poor"}
    assert room.free == {"good": 0.0, "poor": 0.0}
    queue.ended("heavy", 5.0)
    assert room.free["good"] == 1.0
    with pytest.raises(InputError, match="waits or runs already"):
        queue.arrive(order("light"), 6.0)


def test_a_job_takes_any_node_once_its_wait_is_spent() -> None:
    room = FixedRoom({"good": (95.0, 1.0), "poor": (20.0, 1.0)})
    queue = JobQueue(room)
    queue.arrive(order("first", quality=91.0), 0.0)
    queue.advance(0.0)
    queue.arrive(order("second", quality=91.0, wait_s=30.0), 1.0)
    assert queue.advance(2.0)[0] == []
    (start,), moves = queue.advance(31.0)
    assert (start.job, start.unit, start.late) == ("second", "poor", True)
    assert [move.reason.value for move in moves] == ["budget spent"]


def test_a_small_job_is_not_held_up_by_one_that_does_not_fit() -> None:
    queue = JobQueue(FixedRoom({"one": (50.0, 2.0)}))
    queue.arrive(order("wide", cores=3.0, quality=45.0), 0.0)
    queue.arrive(order("narrow", cores=1.0, quality=5.0), 0.0)
    queue.arrive(order("beside", cores=1.0, quality=45.0), 0.0)
    starts, _ = queue.advance(0.0)
    assert {start.job for start in starts} == {"beside"}
    assert {start.job for start in queue.advance(3601.0)[0]} == {"narrow"}  # its patience is spent


def simulated(seed: int, *, widths: tuple[float, ...], load: float) -> list[tuple[float, bool]]:
    """Chance told to jobs that have to wait, and whether it came true.

    There are four nodes of two qualities, and jobs that need one or the other. The times of the jobs are drawn
    from a distribution that the queue does not know.
    """
    chance = random.Random(seed)
    nodes = {"good-0": (95.0, 3.0), "good-1": (95.0, 2.0), "poor-0": (35.0, 3.0), "poor-1": (35.0, 2.0)}
    room = FixedRoom(nodes)
    queue = JobQueue(room)
    mean_s, cores = 100.0, sum(widths) / len(widths)
    gap_s = mean_s * cores / (10.0 * load)
    events: list[tuple[float, int, str]] = [(chance.expovariate(1 / gap_s), 0, "")]
    told: dict[str, tuple[float, float]] = {}  # chance, and moment until which it holds
    found: list[tuple[float, bool]] = []
    number = 0
    while len(found) < CASES:
        now_s, _, ended = heapq.heappop(events)
        if ended:
            queue.ended(ended, now_s)
        else:
            number += 1
            name = f"job-{number}"
            queue.arrive(
                order(
                    name, cores=chance.choice(widths), quality=chance.choice([93.0, 33.0]), submitted_at=now_s
                ),
                now_s,
            )
            heapq.heappush(events, (now_s + chance.expovariate(1 / gap_s), number, ""))
        starts, _ = queue.advance(now_s)
        for start in starts:
            heapq.heappush(events, (now_s + chance.gammavariate(4.0, mean_s / 4.0), number, start.job))
            if start.job in told:
                said, until_s = told.pop(start.job)
                found.append((said, now_s <= until_s))
        if number > 150 and not ended and (name := f"job-{number}") in queue.waiting:
            within_s = chance.uniform(*WITHIN_S)
            said_now = queue.chance(name, within_s, queue.rest_s(name, now_s, now_s))
            assert said_now is not None
            told[name] = said_now, now_s + within_s
    return found


@pytest.mark.slow
@pytest.mark.parametrize("widths", [(1.0,), (1.0, 2.0)])
@pytest.mark.parametrize("load", [0.7, 0.8])
def test_the_chance_of_a_node_comes_true_as_often_as_it_says(widths: tuple[float, ...], load: float) -> None:
    cases = simulated(38, widths=widths, load=load)
    said = sum(chance for chance, _ in cases) / len(cases)
    true = sum(came for _, came in cases) / len(cases)
    assert abs(said - true) <= TOLERANCE
    doubtful = [case for case in cases if 0.2 < case[0] < 0.8]  # else all might be sure
    assert len(doubtful) >= CASES / 10


@given(st.lists(st.tuples(st.sampled_from(["arrive", "end", "pass"]), st.integers(0, 99)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_jobs_are_kept_whatever_happens(steps: list[tuple[str, int]]) -> None:
    """Every job that arrived waits, runs or has ended; cores are neither lost nor given twice."""
    room = FixedRoom({"good": (95.0, 3.0), "poor": (35.0, 2.0)})
    queue = JobQueue(room)
    arrived, ended, now_s = 0, 0, 0.0
    for kind, value in steps:
        now_s += value
        if kind == "arrive":
            cores = 1.0 + value % 2
            queue.arrive(order(f"job-{arrived}", cores=cores, quality=float(value), wait_s=50.0), now_s)
            arrived += 1
        elif kind == "end" and queue.running:
            queue.ended(sorted(queue.running)[value % len(queue.running)], now_s)
            ended += 1
        queue.advance(now_s)
        assert len(queue.waiting) + len(queue.running) + ended == arrived
        assert sum(room.free.values()) + sum(cores for _, cores in room.held.values()) == 5.0
        assert set(room.held) == set(queue.running)
        assert queue.lines.waiting == len(queue.waiting)
