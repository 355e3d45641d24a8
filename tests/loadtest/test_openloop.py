"""Open-loop generator with a fake clock and fake threads: no sleeping, exact latencies."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable

import greenlet  # type: ignore[import-untyped]  # locust's gevent brings it
import pytest
from hypothesis import given, strategies as st

from kwiken.loadtest.generator.open_loop import OpenLoop, plan
from kwiken.loadtest.inputs.arrivals import Arrivals
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.results.outcome import RequestOutcome, SentRequest


class World:
    """A clock that jumps and threads that run on it: the schedule is the main one, each request one of its own.

    Args:
        serve: end of a request that is sent at the moment given.
    """

    def __init__(self, serve: Callable[[float], float]) -> None:
        self.now = 100.0
        self.serve = serve
        self.in_service = 0
        self.most = 0
        self.ways = 0
        self._main = greenlet.getcurrent()
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []

    def clock(self) -> float:
        return self.now

    def _at(self, moment: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._due, (moment, next(self._numbers), action))

    def send(self, _query: int, _parent: str) -> SentRequest:
        self.in_service += 1
        self.most = max(self.most, self.in_service)
        self._at(self.serve(self.now), greenlet.getcurrent().switch)
        self._main.switch()
        self.in_service -= 1
        return SentRequest(200, None, 1)

    def spawn(self, work: Callable[..., None], *args: object) -> None:
        self._at(self.now, lambda: greenlet.greenlet(work).switch(*args))

    def sleep_until(self, moment: float) -> None:
        while self._due and self._due[0][0] <= moment:
            at, _, action = heapq.heappop(self._due)
            self.now = max(self.now, at)
            action()
        self.now = max(self.now, moment)

    def give_way(self) -> None:
        self.ways += 1
        self.sleep_until(self.now)


def run(world: World, starts: list[float], *, most: int = 10_000, drain: float = 1e4) -> list[RequestOutcome]:
    outcomes: list[RequestOutcome] = []
    loop = OpenLoop(
        [(start, 0) for start in starts],
        send=world.send,
        sink=outcomes.append,
        threads=world,
        max_in_flight=most,
        clock=world.clock,
    )
    loop.run()
    loop.drain(drain)
    assert loop.in_flight == world.in_service
    return sorted(outcomes, key=lambda outcome: outcome.intended_s)


def test_a_stall_delays_every_request_due_during_it() -> None:
    # Answers take 5 ms, but none is given from 1.0 s to 1.5 s of the run.
    origin = 100.05

    def serve(now: float) -> float:
        end = now + 0.005
        return max(end, origin + 1.5) if end >= origin + 1.0 else end

    starts = [index / 200 for index in range(600)]
    outcomes = run(World(serve), starts)
    assert len(outcomes) == 600
    for outcome in outcomes:
        at = outcome.intended_s
        expected = max(5.0, (1.5 - at) * 1e3) if at > 0.9949 else 5.0
        assert outcome.latency_ms == pytest.approx(expected, abs=0.001)
        assert outcome.start_lag_ms == pytest.approx(0, abs=0.001)
    # A closed loop of one user would have sent a single request into the stall; the schedule sent 100.
    assert sum(outcome.latency_ms > 10 for outcome in outcomes) == 100


@given(
    gaps=st.lists(st.floats(0, 0.2), min_size=1, max_size=60),
    service=st.lists(st.floats(0.001, 2), min_size=1, max_size=10),
    most=st.integers(1, 8),
)
def test_every_request_has_one_outcome_and_in_flight_is_bounded(
    gaps: list[float], service: list[float], most: int
) -> None:
    starts = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    turn = iter(range(10**6))
    world = World(lambda now: now + service[next(turn) % len(service)])
    outcomes = run(world, starts, most=most)
    assert [outcome.intended_s for outcome in outcomes] == starts
    assert world.most <= most
    dropped = [outcome for outcome in outcomes if outcome.dropped]
    assert all(outcome.trace_id == "" and outcome.status == 0 for outcome in dropped)
    assert len(outcomes) - len(dropped) == next(turn)
    assert world.most > 0


def test_beyond_the_bound_requests_are_dropped_not_delayed() -> None:
    world = World(lambda now: now + 1.0)
    outcomes = run(world, [0.0, 0.1, 0.2, 0.3, 1.05], most=2)
    assert [outcome.dropped for outcome in outcomes] == [False, False, True, True, False]
    assert outcomes[4].latency_ms == pytest.approx(1000)


def test_a_generator_that_is_behind_still_lets_its_requests_out() -> None:
    world = World(lambda now: now + 0.001)
    outcomes = run(world, [0.0] * 1000)
    assert world.ways == (1000 - 1) // 32
    assert len(outcomes) == 1000


def test_draining_is_bounded() -> None:
    world = World(lambda now: now + 3600)
    assert run(world, [0.0, 0.1], drain=2.0) == []
    assert world.in_service == 2
    assert world.now == pytest.approx(100.05 + 0.1 + 2.0, abs=0.01)


def test_lag_is_how_late_the_sending_began_and_is_part_of_the_latency() -> None:
    class Slow(World):
        """Wakes 4 ms late."""

        def sleep_until(self, moment: float) -> None:
            super().sleep_until(moment)
            self.now += 0.004

    outcomes = run(Slow(lambda now: now + 0.010), [0.1, 0.2])
    for outcome in outcomes:
        assert outcome.start_lag_ms == pytest.approx(4, abs=1e-6)
        assert outcome.latency_ms == pytest.approx(14, abs=1e-6)


def test_each_request_carries_a_trace_of_its_own() -> None:
    parents: list[str] = []
    outcomes: list[RequestOutcome] = []

    def send(_: int, parent: str) -> SentRequest:
        parents.append(parent)
        return SentRequest(200, None, 1)

    world = World(lambda now: now)
    loop = OpenLoop(
        [(index / 100, 0) for index in range(500)],
        send=send,
        sink=outcomes.append,
        threads=world,
        max_in_flight=10,
        clock=world.clock,
    )
    loop.run()
    loop.drain(1)
    assert len(set(parents)) == 500
    for parent, outcome in zip(parents, outcomes, strict=True):
        match = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-00", parent)
        assert match is not None
        assert match[1] == outcome.trace_id
        assert int(match[1], 16)
        assert int(match[2], 16)


def test_a_killed_request_counts_as_interrupted() -> None:
    outcomes: list[RequestOutcome] = []

    def send(_: int, __: str) -> SentRequest:
        raise KeyboardInterrupt

    world = World(lambda now: now)
    loop = OpenLoop(
        [(0.0, 0)], send=send, sink=outcomes.append, threads=world, max_in_flight=1, clock=world.clock
    )
    loop.run()
    with pytest.raises(KeyboardInterrupt):
        loop.drain(1)
    assert [outcome.error for outcome in outcomes] == ["interrupted"]
    assert loop.in_flight == 0


def test_arrivals_depend_on_the_seed_and_not_on_the_queries() -> None:
    arrivals = Arrivals(rates=(300.0,), poisson=True, duration_s=10.0)
    queries = Queries(tuple(b"%d" % index for index in range(50)))
    first, second = (list(plan(arrivals, queries, 5)) for _ in range(2))
    assert first == second
    other = list(plan(arrivals, Queries((b"{}",)), 5))
    assert [at for at, _ in other] == [at for at, _ in first]
    assert list(plan(arrivals, queries, 6)) != first
