"""Lines of requests: order, conservation, and the learned number of requests at once."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.model.service.request_kinds import OTHER
from kwiken.runtime.decisions.lines.concurrency import ConcurrencyLearner
from kwiken.runtime.decisions.lines.request_lines import MAX_KINDS, WAIT_SHARE, RequestLines, Ticket

LIGHT_S, HEAVY_S = 0.01, 0.1


def arrive(lines: RequestLines, kind: str, now_s: float, priority: int = 0) -> Ticket:
    return lines.arrive(kind, now_s, allowed_s=10.0, priority=priority)


def learned(limit: int) -> RequestLines:
    """Lines that know both kinds and run a number of requests at once."""
    lines = RequestLines()
    lines.learner.service_s.update(light=LIGHT_S, heavy=HEAVY_S)
    lines.learner.limit = limit
    return lines


def test_nobody_waits_before_the_limit_is_known() -> None:
    lines = RequestLines()
    for number in range(200):
        arrive(lines, "any", float(number))
        assert lines.start_next(float(number)) is not None
    assert (lines.running, lines.waiting, lines.learner.limit) == (200, 0, inf)


def test_a_light_request_passes_a_heavy_one_that_came_shortly_before() -> None:
    lines = learned(1)
    first = arrive(lines, "heavy", 0.0)
    assert lines.start_next(0.0) is first
    heavy = arrive(lines, "heavy", 0.01)
    light = arrive(lines, "light", 0.05)
    lines.lines["heavy"].mean_wait_s = 0.1
    assert lines.start_next(0.06) is None
    lines.end(first, 0.1, served=True)
    assert lines.start_next(0.1) is light
    lines.end(light, 0.11, served=True)
    assert lines.start_next(0.11) is heavy


def test_a_light_request_does_not_pass_a_heavy_one_that_has_waited_long() -> None:
    lines = learned(1)
    first = arrive(lines, "heavy", 0.0)
    lines.start_next(0.0)
    heavy = arrive(lines, "heavy", 0.01)
    lines.lines["heavy"].mean_wait_s = 0.1
    arrive(lines, "light", 0.5)
    lines.end(first, 0.6, served=True)
    assert lines.start_next(0.6) is heavy


def test_priority_counts_as_earlier_arrival() -> None:
    lines = learned(1)
    first = arrive(lines, "light", 0.0)
    lines.start_next(0.0)
    arrive(lines, "light", 0.1)
    urgent = arrive(lines, "light", 0.9, priority=1)
    late = arrive(lines, "light", 2.5, priority=2)
    lines.end(first, 3.0, served=True)
    assert lines.start_next(3.0) is urgent
    lines.end(urgent, 3.1, served=True)
    assert lines.start_next(3.1) is not late


def test_a_request_that_left_is_not_started() -> None:
    lines = learned(1)
    first = arrive(lines, "light", 0.0)
    lines.start_next(0.0)
    for too_long in (True, False):
        lines.give_up(arrive(lines, "light", 0.1), too_long=too_long)
    last = arrive(lines, "light", 0.2)
    lines.end(first, 0.3, served=True)
    assert lines.start_next(0.3) is last
    line = lines.lines["light"]
    assert (line.turned_away, line.left, line.started, line.waiting, lines.waiting) == (1, 1, 2, 0, 0)
    assert last.budget_s == WAIT_SHARE * 10.0


def test_kinds_are_bounded() -> None:
    lines = RequestLines()
    for number in range(3 * MAX_KINDS):
        arrive(lines, f"kind-{number}", 0.0)
    assert len(lines.lines) == MAX_KINDS
    assert lines.lines[OTHER].waiting == 2 * MAX_KINDS + 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["arrive", "end", "leave"]), st.sampled_from("abc"), st.floats(0, 0.1)),
        max_size=80,
    ),
    st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_no_request_is_lost_and_nobody_waits_while_one_may_run(
    steps: list[tuple[str, str, float]], limit: int
) -> None:
    lines = learned(limit)
    waiting: list[Ticket] = []
    running: list[Ticket] = []
    arrived, done, now_s = 0, 0, 0.0
    for what, kind, pause_s in steps:
        now_s += pause_s
        if what == "arrive":
            waiting.append(arrive(lines, kind, now_s))
            arrived += 1
        elif what == "end" and running:
            lines.end(running.pop(0), now_s, served=False)
            done += 1
        elif what == "leave" and waiting:
            lines.give_up(waiting.pop(0), too_long=False)
            done += 1
        while (ticket := lines.start_next(now_s)) is not None:
            waiting.remove(ticket)
            running.append(ticket)
        assert len(waiting) + len(running) + done == arrived
        assert (lines.waiting, lines.running) == (len(waiting), len(running))
        assert len(running) <= limit
        assert not waiting or len(running) == limit


@dataclass
class Simulated:
    """Replicas that work on one request at a time, and a generator of two kinds of requests."""

    replicas: int
    load: float
    seed: int = 38
    gap_s: float = 0.0005
    lines: RequestLines = field(default_factory=RequestLines)

    def run(
        self, requests: int, *, lined: bool = True, change: tuple[int, int] | None = None
    ) -> dict[str, list[float]]:
        """Latencies by kind; at a number of requests the replicas become others in number, if asked for."""
        chance = random.Random(self.seed)
        rate = self.load * self.replicas / ((LIGHT_S + HEAVY_S) / 2)
        events: list[tuple[float, int, int, int]] = []
        kinds, due, now_s = [], [], 0.0
        for number in range(requests):
            now_s += chance.expovariate(rate)
            kinds.append(chance.choice(("light", "heavy")))
            due.append(now_s)
            events.append((now_s, 0, number, -1))
        heapq.heapify(events)
        held, free_at = [0] * self.replicas, [0.0] * self.replicas
        tickets: dict[int, Ticket] = {}
        numbers: dict[Ticket, int] = {}
        took: dict[str, list[float]] = {"light": [], "heavy": []}
        while events:
            now_s, what, number, replica = heapq.heappop(events)
            if what == 0:
                if change is not None and number == change[0]:
                    held, free_at = held[: change[1]], free_at[: change[1]]
                tickets[number] = ticket = arrive(self.lines, kinds[number], now_s)
                numbers[ticket] = number
            else:
                if replica < len(held):
                    held[replica] -= 1
                self.lines.end(tickets[number], now_s, served=True)
                if not lined:
                    self.lines.learner.limit = inf
                took[kinds[number]].append(now_s - due[number])
            while (started := self.lines.start_next(now_s)) is not None:
                place = min(range(len(held)), key=lambda at: (held[at], chance.random()))
                held[place] += 1
                own_s = LIGHT_S if started.kind == "light" else HEAVY_S
                free_at[place] = max(free_at[place], now_s + self.gap_s) + own_s
                heapq.heappush(events, (free_at[place] + self.gap_s, 1, numbers[started], place))
        return took


def p99(latencies: list[float]) -> float:
    return sorted(latencies)[int(0.99 * len(latencies))]


@pytest.mark.parametrize("replicas", [1, 2])
def test_light_requests_get_half_the_p99_and_heavy_ones_lose_little(replicas: int) -> None:
    """Costs differ tenfold, half of the requests each, 80% load; the same arrivals with lines and without."""
    lined = Simulated(replicas, 0.8).run(12_000)
    plain = Simulated(replicas, 0.8).run(12_000, lined=False)
    assert [len(those) for those in lined.values()] == [len(those) for those in plain.values()]
    assert p99(plain["light"]) / p99(lined["light"]) > 2.0
    assert p99(lined["heavy"]) / p99(plain["heavy"]) < 1.1


@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
def test_the_limit_is_the_number_of_replicas_and_a_little_more(replicas: int) -> None:
    simulated = Simulated(replicas, 0.8)
    simulated.run(4_000)
    learner = simulated.lines.learner
    assert replicas < learner.limit <= replicas + 3
    assert learner.service_s["light"] == pytest.approx(LIGHT_S + 2 * simulated.gap_s, rel=0.25)
    assert learner.service_s["heavy"] == pytest.approx(HEAVY_S + 2 * simulated.gap_s, rel=0.1)


def test_the_limit_follows_replicas_that_are_lost() -> None:
    simulated = Simulated(4, 0.4)
    simulated.run(6_000, change=(3_000, 2))
    assert 2 < simulated.lines.learner.limit <= 5


def test_a_service_that_never_queues_has_no_binding_limit() -> None:
    learner = ConcurrencyLearner()
    chance = random.Random(1)
    for _ in range(5_000):
        learner.ended("any", chance.randint(1, 50), 0.02)
    assert learner.limit >= 50
