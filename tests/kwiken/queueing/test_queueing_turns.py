"""Turns of the loop in front: what it does when, against a slow simulator and by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import groupby
from math import isnan, nan
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken._profile import Floats
from kwiken.queueing import _flow
from kwiken.queueing._flow import Settled, flow
from kwiken.queueing._machine import Machine

NOTHING = np.empty(0)
SEEDS = st.integers(0, 2**32 - 1)


class Attempt(NamedTuple):
    """Of a call: at which age it goes, who serves it and how long, its rest, and whether it answers."""

    age: float
    rest: float
    work: float = 0.0
    replica: int = -1
    wins: bool = True


Requests = Sequence[Sequence[Sequence[Attempt] | None]]  # their calls' attempts; None for a call not made
Key = tuple[str, int, int]  # stage, request, place
Piece = tuple[float, Callable[[float], None]]  # its work, and what to do then, told when it was begun


class Planned(NamedTuple):
    """A stage: work of the front for each call, names of its parents, calls, and replicas."""

    front_ms: float
    after: tuple[str, ...]
    requests: Requests
    replicas: int


def settled(
    name: str, front_ms: float, requests: Requests, *, after: tuple[int, ...] = (), replicas: int = 0
) -> Settled:
    """A stage of which all is settled; attempts by call by request, None for a place without a call."""
    width = max(len(calls) for calls in requests)
    there = [
        request * width + place
        for request, calls in enumerate(requests)
        for place, call in enumerate(calls)
        if call is not None
    ]
    calls = [call for row in requests for call in row if call is not None]
    attempts = [attempt for call in calls for attempt in call]
    return Settled(
        name=name,
        after=after,
        front_ms=front_ms,
        places=len(requests) * width,
        there=np.array(there, np.int64),
        first=np.cumsum([0, *[sum(call is not None for call in row) for row in requests]]),
        first_attempt=np.cumsum([0, *[len(call) for call in calls]]),
        age=np.array([attempt.age for attempt in attempts]),
        replica=np.array([attempt.replica for attempt in attempts], np.int64),
        work=np.array([attempt.work for attempt in attempts]),
        rest=np.array([attempt.rest for attempt in attempts]),
        wins=np.array([attempt.wins for attempt in attempts], np.bool_),
        background=(NOTHING, np.empty(0, np.int64), NOTHING),
        replicas=replicas,
        workers=1,
    )


def resting(rests_ms: Sequence[Sequence[float]]) -> Requests:
    """One attempt a call, which only rests; by request."""
    return [[[Attempt(0.0, rest)] for rest in row] for row in rests_ms]


def many(*arrivals: float) -> tuple[Machine, Floats]:
    """A machine where nobody waits for a processor, and moments at which requests come."""
    return Machine(64, NOTHING), np.array(arrivals)


class TestByHand:
    """The front takes 4 ms to send and 4 to read; calls rest and do nothing else."""

    def test_sends_go_before_reads_that_wait(self) -> None:
        """Sent from 0, 4 and, as it comes at 7, from 8; what came at 6 is read from 12 then.

        The others came at 10 and 14, and are read from 16 and 20.
        """
        found = flow(*many(0.0, 1.0, 7.0), [settled("a", 8.0, resting([[2.0]] * 3))])
        assert found.starting["a"].tolist() == [0.0, 3.0, 1.0]
        assert found.sending["a"].tolist() == [4.0] * 3
        assert found.answering["a"].tolist() == [16.0 - 6.0, 20.0 - 10.0, 24.0 - 14.0]

    def test_sends_go_in_their_order(self) -> None:
        """Four come while the first is sent."""
        found = flow(*many(0.0, 1.0, 1.5, 2.0, 3.0), [settled("a", 8.0, resting([[100.0]] * 5))])
        assert found.starting["a"].tolist() == [0.0, 3.0, 6.5, 10.0, 13.0]

    def test_reads_go_in_their_order(self) -> None:
        """Sent at 4, 8 and 12, come at 10, 8.5 and 12.5: read from 12 on, the second, the first and the third."""
        found = flow(*many(0.0), [settled("a", 8.0, resting([[6.0, 0.5, 0.5]]))])
        assert found.answering["a"].tolist() == [20.0 - 10.0, 16.0 - 8.5, 24.0 - 12.5]

    def test_an_answer_and_what_it_lets_go_on_are_one_stretch(self) -> None:
        """Answers came at 7 and 11. The first is read from 8 to 12, and its two calls go till 20.

        Only then the second is read, which waits since 11, and its calls go from 24 to 32.
        """
        first = settled("a", 8.0, resting([[3.0], [3.0]]))
        then = settled("b", 8.0, resting([[100.0, 100.0]] * 2), after=(0,))
        found = flow(*many(0.0, 0.5), [first, then])
        assert found.answering["a"].tolist() == [12.0 - 7.0, 24.0 - 11.0]
        assert found.starting["b"].tolist() == [0.0, 4.0, 0.0, 4.0]
        assert found.sending["b"].tolist() == [4.0] * 4

    def test_a_fan_out_is_sent_call_after_call(self) -> None:
        found = flow(*many(5.0), [settled("a", 6.0, resting([[50.0] * 5]))])
        assert found.starting["a"].tolist() == [0.0, 3.0, 6.0, 9.0, 12.0]
        assert found.sending["a"].tolist() == [3.0] * 5
        assert found.answering["a"].tolist() == [3.0] * 5

    def test_stages_that_an_answer_lets_go_go_in_their_order(self) -> None:
        """Read till 10, `b` is sent till 14, `c` till 18, and both of its calls till 22."""
        stages = [
            settled("a", 8.0, resting([[2.0]])),
            settled("b", 8.0, resting([[1.0]]), after=(0,)),
            settled("c", 8.0, resting([[50.0, 50.0]]), after=(0,)),
        ]
        found = flow(*many(0.0), stages)
        assert found.starting["b"].tolist() == [0.0]
        assert found.starting["c"].tolist() == [4.0, 8.0]
        assert found.answering["b"].tolist() == [26.0 - 15.0]

    def test_a_stage_whose_calls_cost_the_front_nothing_waits_for_nobody(self) -> None:
        """Its answer is there at 6, while `a` is sent till 8, and lets a call go right then."""
        stages = [
            settled("a", 8.0, resting([[50.0, 50.0]])),
            settled("b", 0.0, resting([[6.0, 5.0]])),
            settled("c", 8.0, resting([[50.0]]), after=(1,)),
        ]
        found = flow(*many(0.0), stages)
        for delays in (found.starting, found.sending, found.answering):
            assert delays["b"].tolist() == [0.0, 0.0]
        assert found.starting["c"].tolist() == [2.0]
        assert found.sending["c"].tolist() == [4.0]

    def test_a_copy_that_is_due_while_its_call_is_sent_goes_right_after_it(self) -> None:
        """Sent till 4 and due at 3: written till 8, and the answer that came then at 9 is read till 13."""
        call = [Attempt(0.0, 100.0, wins=False), Attempt(3.0, 1.0)]
        found = flow(*many(0.0), [settled("a", 8.0, [[call]])])
        assert found.copying["a"].tolist() == [4.0]
        assert found.answering["a"].tolist() == [4.0]

    def test_a_copy_is_due_by_its_calls_beginning(self) -> None:
        """Begun at 5 after a sister: due at 14, not at 18; what comes at 13 is sent before, till 17."""
        calls = [[Attempt(0.0, 100.0)], [Attempt(0.0, 100.0, wins=False), Attempt(10.0, 1.0)]]
        found = flow(*many(0.0, 13.0), [settled("a", 8.0, [calls, [[Attempt(0.0, 100.0)], None]])])
        assert found.starting["a"].tolist() == [0.0, 4.0, 0.0, 0.0]
        assert found.copying["a"][1] == 21.0 - 14.0
        assert np.isnan(found.copying["a"][0])

    def test_others_get_its_processor_when_it_has_no_more_to_do(self) -> None:
        """One processor, of which other work takes half from 1 on: sent at 7, when 7 of its 10 ms are left."""
        machine = Machine(1, np.array([1.0]), 10.0)
        found = flow(machine, np.array([0.0]), [settled("a", 8.0, resting([[100.0]]))])
        assert found.sending["a"].tolist() == [7.0]
        assert found.answering["a"].tolist() == [4.0]
        paces = np.diff(found.clock.worked_at(np.array([0.0, 1.0, 7.0, 14.0, 107.0])))
        assert paces == pytest.approx([1.0, 3.0, 7.0, 93.0])
        assert found.clock.moments.tolist() == [0.0, 1.0, 7.0]

    def test_others_keep_their_share_while_it_goes_on(self) -> None:
        """Three sends and a read without a break, each 4 ms on half a processor, till the other work is done.

        The second answer came at 8.5, and its read begins at 12 and has 1 ms to go when that is, at 14.
        """
        machine = Machine(1, np.array([0.0]), 7.0)
        found = flow(machine, np.array([0.0]), [settled("a", 4.0, resting([[50.0, 0.5, 60.0]]))])
        assert found.starting["a"].tolist() == [0.0, 4.0, 8.0]
        assert found.sending["a"].tolist() == [4.0, 4.0, 4.0]
        assert found.answering["a"].tolist() == [2.0, 15.0 - 8.5, 2.0]

    def test_a_fan_out_goes_in_one_stretch_though_another_waits_to_be_sent(self) -> None:
        """Read from 6 to 10, when another request waits since 7: its three calls go till 22, then that one."""
        stages = [
            settled("a", 8.0, resting([[2.0], [100.0]])),
            settled("b", 8.0, resting([[100.0] * 3, [100.0] * 3]), after=(0,)),
        ]
        found = flow(*many(0.0, 7.0), stages)
        assert np.diff(found.starting["b"][:3]).tolist() == [4.0, 4.0]
        assert found.starting["b"].tolist()[:3] == [0.0, 4.0, 8.0]
        assert found.starting["a"].tolist() == [0.0, 22.0 - 7.0]

    def test_what_a_race_leaves_waits_for_its_turn(self) -> None:
        """A race is read till 21, and an answer that came at 18 is read before the 12 ms that the loser costs."""
        call = [Attempt(0.0, 100.0, wins=False), Attempt(10.0, 3.0)]
        found = flow(*many(0.0, 4.0), [settled("a", 8.0, [[call], [[Attempt(0.0, 10.0)]]])])
        assert found.copying["a"][0] == 4.0
        assert found.answering["a"].tolist() == [21.0 - 17.0, 25.0 - 18.0]

    def test_what_a_race_lets_go_on_goes_before_what_it_leaves(self) -> None:
        """A race is read till 21; the next call goes at once, before the 12 ms that the loser costs."""
        call = [Attempt(0.0, 100.0, wins=False), Attempt(10.0, 3.0)]
        stages = [
            settled("a", 8.0, [[call]]),
            settled("b", 8.0, resting([[1.0]]), after=(0,)),
        ]
        found = flow(*many(0.0), stages)
        assert found.answering["a"].tolist() == [21.0 - 17.0]
        assert found.starting["b"].tolist() == [0.0]
        assert found.answering["b"].tolist() == [41.0 - 26.0]


class TestOtherWork:
    """What comes with requests, when one is over."""

    def test_it_takes_its_share_of_the_processors(self) -> None:
        """One processor, 4 ms of other work each time.

        The first is sent at 4, back at 6, read at 10. The second comes at 12.5, when 1.5 ms of what the first left
        are to be done: the two share till 15.5, and it is sent at 18.
        """
        machine = Machine(1, NOTHING, beside_ms=4.0)
        found = flow(machine, np.array([0.0, 12.5]), [settled("a", 8.0, resting([[2.0], [100.0]]))])
        assert found.sending["a"].tolist() == [4.0, 5.5]
        assert found.answering["a"].tolist() == [4.0, 4.0]

    def test_a_request_is_over_with_its_last_stage(self) -> None:
        """Beside work that goes on for ever, 2 ms from 5, when both stages have ended, till 9."""
        machine = Machine(1, np.array([0.0]), 100.0, beside_ms=2.0)
        stages = [settled("a", 0.0, resting([[5.0]])), settled("b", 0.0, resting([[1.0]]))]
        found = flow(machine, np.array([0.0]), stages)
        assert found.clock.moments.tolist() == [0.0, 5.0, 9.0]
        assert found.clock.paces.tolist() == [1.0, 0.5, 1.0]

    def test_a_request_is_not_over_with_its_first_stage(self) -> None:
        machine = Machine(1, np.array([0.0]), 100.0, beside_ms=2.0)
        stages = [
            settled("a", 0.0, resting([[5.0]])),
            settled("b", 0.0, resting([[4.0]]), after=(0,)),
        ]
        found = flow(machine, np.array([0.0]), stages)
        assert found.clock.moments.tolist() == [0.0, 9.0, 13.0]
        assert found.clock.paces.tolist() == [1.0, 0.5, 1.0]

    def test_all_of_it_goes_on_at_once(self) -> None:
        """Three requests of one moment, without calls, beside two pieces of what comes by itself."""
        machine = Machine(1, np.zeros(2), 1.0, beside_ms=6.0)
        nobody: Requests = [[None]] * 3
        found = flow(machine, np.zeros(3), [settled("a", 8.0, nobody)])
        assert found.clock.paces.min() == pytest.approx(1 / (2 + 3))

    def test_so_has_a_request_without_calls(self) -> None:
        machine = Machine(1, NOTHING, beside_ms=6.0)
        requests: Requests = [[None], [[Attempt(0.0, 1.0)]]]
        found = flow(machine, np.array([0.0, 5.0]), [settled("a", 8.0, requests)])
        # from 0 on; what is left of it at 5 slows the second's send till 7
        assert found.clock.moments.tolist()[:3] == [0.0, 5.0, 7.0]
        assert found.sending["a"].tolist() == [0.0, 5.0]


@dataclass
class SlowFront:
    """The same by brute force, where nobody waits for a processor: what comes next anywhere, one at a time."""

    arrivals: list[float]
    stages: dict[str, Planned]
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    starting: dict[Key, float] = field(default_factory=dict)
    sending: dict[Key, float] = field(default_factory=dict)
    answering: dict[Key, float] = field(default_factory=dict)
    copying: dict[Key, float] = field(default_factory=dict)
    sends: list[Piece] = field(default_factory=list)
    others: list[Piece] = field(default_factory=list)
    ended: dict[tuple[str, int], int] = field(default_factory=dict)  # answers that a request waits for there
    told: dict[tuple[str, int], int] = field(default_factory=dict)  # parents that have ended
    free_at: dict[tuple[str, int], float] = field(default_factory=dict)  # by replica
    now: float = 0.0
    number: int = 0
    held: bool = False

    def run(self) -> None:
        for request, moment in enumerate(self.arrivals):
            self.at(moment, partial(self.go_on, request))
        while self.events:
            self.now, _, what = heappop(self.events)
            what()

    def at(self, moment: float, what: Callable[[], None]) -> None:
        self.number += 1
        heappush(self.events, (moment, self.number, what))

    def front(self, line: list[Piece], work: float, then: Callable[[float], None]) -> None:
        if not work:
            then(self.now)
            return
        line.append((work, then))
        self.take()

    def take(self) -> None:
        line = self.sends or self.others
        if self.held or not line:
            return
        work, then = line.pop(0)
        begun, self.held = self.now, True

        def end() -> None:
            then(begun)
            self.held = False
            self.take()

        self.at(self.now + work, end)

    def go_on(self, request: int, parent: str | None = None) -> None:
        """Begin the sources, or what has waited for a stage alone; after one without calls what waits for it."""
        for name, (_, after, requests, _) in self.stages.items():
            if parent in after:
                self.told[name, request] = self.told.get((name, request), 0) + 1
            if (parent in after if after else parent is None) and self.told.get((name, request), 0) == len(
                after
            ):
                self.begin(name, request)
                if all(call is None for call in requests[request]):
                    self.go_on(request, name)

    def begin(self, name: str, request: int) -> None:
        front_ms, _, requests, _ = self.stages[name]
        calls = [place for place, call in enumerate(requests[request]) if call is not None]
        self.ended[name, request] = len(calls)
        visited = self.now
        was, self.held = self.held, True  # all are in the line before the first begins
        for place in calls:
            send = partial(self.sent, (name, request, place), visited)
            if front_ms:
                self.sends.append((front_ms / 2, send))
            else:
                send(self.now)
        self.held = was
        self.take()

    def sent(self, key: Key, visited: float, begun: float) -> None:
        name, request, place = key
        self.starting[key], self.sending[key] = begun - visited, self.now - begun
        front_ms, _, requests, _ = self.stages[name]
        primary, *copies = requests[request][place] or ()
        self.go(key, primary)
        for number, copy in enumerate(copies):
            due = max(self.now, begun + copy.age)
            written = partial(self.copied, key, copy, nan if number else due)
            self.at(due, partial(self.front, self.others, front_ms / 2, written))

    def copied(self, key: Key, copy: Attempt, due: float, _: float) -> None:
        if not isnan(due):  # the first
            self.copying[key] = self.now - due
        self.go(key, copy)

    def go(self, key: Key, attempt: Attempt) -> None:
        seat = (key[0], attempt.replica)
        done = self.now
        if attempt.work:
            done = self.free_at[seat] = max(self.now, self.free_at.get(seat, 0.0)) + attempt.work
        if attempt.wins:
            self.at(done + attempt.rest, lambda: self.came(key))

    def came(self, key: Key) -> None:
        came, (name, request, place) = self.now, key
        front_ms, _, requests, _ = self.stages[name]

        def read(_: float) -> None:
            self.answering[key] = self.now - came
            self.ended[name, request] -= 1
            waiting: list[Piece] = []
            if front_ms:  # this very turn sends first
                waiting, self.sends = self.sends, waiting
            if not self.ended[name, request]:
                self.go_on(request, name)
            self.sends += waiting
            losers = len(requests[request][place] or ()) - 1
            if losers and front_ms:
                self.others.append((front_ms / 2 * _flow.AFTER_A_RACE * losers, lambda _: None))

        self.front(self.others, front_ms / 2, read)


def drawn(
    rng: np.random.Generator, *, most: int = 3, replicas: bool = True
) -> tuple[list[float], dict[str, Planned]]:
    """A few requests and stages, some of which cost the front nothing, with a copy here and there."""
    arrivals = np.cumsum(rng.exponential(5.0, rng.integers(1, 6))).tolist()
    stages: dict[str, Planned] = {}
    for name in "abcde"[: rng.integers(1, 6)]:
        after = tuple(other for other in stages if rng.random() < 0.4)
        count = int(rng.integers(1, 4)) if replicas and rng.random() < 0.5 else 0
        width = int(rng.integers(1, 5))
        requests = [
            [call_of(rng, most, count) if rng.random() < 0.8 else None for _ in range(width)]
            for _ in arrivals
        ]
        front_ms = float(rng.uniform(0.1, 6.0)) if rng.random() < 0.8 else 0.0
        stages[name] = Planned(front_ms, after, requests, count)
    return arrivals, stages


def call_of(rng: np.random.Generator, most: int, replicas: int) -> list[Attempt]:
    attempts = min(most, int(rng.choice([1, 1, 1, 2, 3])))
    ages = np.concatenate(([0.0], np.sort(rng.uniform(0.0, 12.0, attempts - 1))))
    wins = int(rng.integers(attempts))
    return [
        Attempt(
            age,
            float(rng.exponential(6.0)),
            float(rng.exponential(4.0)) if replicas else 0.0,
            int(rng.integers(replicas)) if replicas else -1,
            number == wins,
        )
        for number, age in enumerate(ages.tolist())
    ]


def stages_of(stages: dict[str, Planned]) -> list[Settled]:
    names = list(stages)
    return [
        settled(name, front_ms, requests, after=tuple(map(names.index, after)), replicas=replicas)
        for name, (front_ms, after, requests, replicas) in stages.items()
    ]


@pytest.fixture(scope="module")
def free_losers() -> Iterator[None]:
    """What losers cost the front is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_flow, "AFTER_A_RACE", 0)
        yield


class TestAgainstASlowOne:
    @given(seed=SEEDS)
    def test_with_processors_for_all(self, seed: int) -> None:
        arrivals, stages = drawn(np.random.default_rng(seed))
        slow = SlowFront(arrivals, stages)
        slow.run()
        found = flow(Machine(64, NOTHING), np.array(arrivals), stages_of(stages))
        for name, (_, _, requests, _) in stages.items():
            width = max(map(len, requests))
            keys = [(name, request, place) for request in range(len(arrivals)) for place in range(width)]
            for delays, wanted, missing in (
                (found.starting, slow.starting, 0.0),
                (found.sending, slow.sending, 0.0),
                (found.answering, slow.answering, 0.0),
                (found.copying, slow.copying, 0.0),
            ):
                expected = np.array([wanted.get(key, missing) for key in keys])
                np.testing.assert_allclose(np.nan_to_num(delays[name]), expected, atol=1e-6, err_msg=name)

    @pytest.mark.usefixtures("free_losers")
    @given(seed=SEEDS, processors=st.integers(1, 3))
    def test_where_processors_are_scarce(self, seed: int, processors: int) -> None:
        """One piece at a time, each as long as it is, sends first, and never idle while somebody waits.

        A fan-out's sends follow each other: nothing comes in between.
        """
        rng = np.random.default_rng(seed)
        arrivals, stages = drawn(rng, most=2, replicas=False)
        others = np.sort(rng.uniform(0.0, 40.0, 12))
        found = flow(Machine(processors, others, 2.0), np.array(arrivals), stages_of(stages))
        pieces = sorted(pieces_of(found, arrivals, stages))
        wanted = sum(
            planned.front_ms / 2 * (1 + len(call))
            for planned in stages.values()
            for calls in planned.requests
            for call in calls
            if call is not None
        )
        assert sum(piece.ended - piece.begun for piece in pieces) == pytest.approx(wanted, abs=1e-6)
        free = 0.0
        for number, (begun, ended, ready, sends, _) in enumerate(pieces):
            assert begun == pytest.approx(max(free, min(piece.ready for piece in pieces[number:])), abs=1e-6)
            free = ended
            waiting = [piece for piece in pieces[number + 1 :] if piece.ready < begun - 1e-6]
            if not sends:
                assert not any(piece.sends or piece.ready < ready - 1e-6 for piece in waiting)
        visits = [piece.visit for piece in pieces if piece.sends]
        assert len(list(groupby(visits))) == len(set(visits))


class Done(NamedTuple):
    """A piece of the front's: when it was begun, ended and asked for, by the front's own time."""

    begun: float
    ended: float
    ready: float
    sends: bool = False
    visit: tuple[str, int] | None = None


def pieces_of(found: Machine, arrivals: list[float], stages: dict[str, Planned]) -> list[Done]:
    """All that the front did, by what is told of it."""
    pieces: list[Done] = []
    ends: dict[str, list[float]] = {}
    worked = found.clock.worked
    for name, (front_ms, after, requests, _) in stages.items():
        half, width = front_ms / 2, max(map(len, requests))
        ends[name] = []
        for request, calls in enumerate(requests):
            visited = max([ends[parent][request] for parent in after], default=arrivals[request])
            ends[name].append(visited)
            for place, call in enumerate(calls):
                if call is None:
                    continue
                at = request * width + place
                begun = visited + found.starting[name][at]
                sent = begun + found.sending[name][at]
                assert found.starting[name][at] >= 0.0
                assert worked(sent) - worked(begun) == pytest.approx(half, abs=1e-6)
                pieces.append(Done(worked(begun), worked(sent), worked(visited), True, (name, request)))
                if len(call) > 1:
                    due = max(sent, begun + call[1].age)
                    sent_copy = due + found.copying[name][at]
                    pieces.append(Done(worked(sent_copy) - half, worked(sent_copy), worked(due)))
                    sent = sent_copy if call[1].wins else sent
                came = sent + next(attempt.rest for attempt in call if attempt.wins)
                read = came + found.answering[name][at]
                pieces.append(Done(worked(read) - half, worked(read), worked(came)))
                ends[name][-1] = max(ends[name][-1], read)
    return [piece for piece in pieces if piece.ended - piece.begun > 1e-9]


class TestLine:
    def test_it_is_what_answers_wait_for(self) -> None:
        """One processor for the front and other work: an answer is read after all that was there when it came.

        Where a send came while it waited, after that too, and no sooner.
        """
        rng = np.random.default_rng(1)
        arrivals = np.cumsum(rng.exponential(6.0, 300))
        rest = rng.exponential(20.0, 300)
        one = settled("a", 2.0, resting(rest[:, None].tolist()))
        machine = flow(Machine(1, arrivals[::3] + 1.0), arrivals, [one])
        came = arrivals + machine.starting["a"] + machine.sending["a"] + rest
        waits = machine.line.wait_at(came - 1e-7, machine.clock)
        read = machine.clock.moments_at(machine.clock.worked_at(came + waits) + 1.0) - came
        overtaken = np.array(
            [((at < arrivals) & (arrivals < at + wait)).any() for at, wait in zip(came, waits, strict=True)]
        )
        np.testing.assert_allclose(machine.answering["a"][~overtaken], read[~overtaken], atol=1e-5)
        assert (machine.answering["a"][overtaken] > read[overtaken] + 0.5).all()
        assert (waits[~overtaken] > 0.5).sum() > 50
        assert overtaken.sum() > 10
        assert machine.clock.paces.min() < 1.0
