"""The process in front of replicas: it does one thing at a time, and reads what has come before it sends copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken import Reissue
from kwiken._profile import Floats
from kwiken.queueing import Background, Constant, Earnings, Primaries, QueueSimulation, Station
from kwiken.queueing._machine import FrontLine, Machine, SharedClock
from kwiken.queueing._network import idle_machine, simulate_machine
from kwiken.queueing._race import Calls, QueueRace, Served
from kwiken.queueing._serve import _without_queue, serve, with_background

RACING = Station(
    name="a",
    work=Constant(4.0),
    rest=Constant(3.0),
    replicas=2,
    front_ms=2.0,
    reissue=Reissue(after_ms=10.0),
)
STEPS = st.lists(st.tuples(st.floats(0.01, 20), st.floats(0.05, 10)), min_size=1, max_size=12)


def simulated(
    station: Station, arrivals: list[float], calls: Primaries | None = None, *, turns: int = 8
) -> tuple[QueueSimulation, Machine]:
    """On a machine that has a processor for everybody."""
    return simulate_machine(
        [station],
        np.array(arrivals),
        rng=np.random.default_rng(0),
        given=None if calls is None else {"a": calls},
        warm_up=0,
        machine=idle_machine([station], 32),
        turns=turns,
    )


def resting(*rests_ms: float) -> Primaries:
    """One call a request, of 4 ms of work and these rests."""
    return Primaries(np.full((len(rests_ms), 1), 4.0), np.array(rests_ms)[:, None])


class TestFront:
    def test_half_before_and_half_after(self) -> None:
        """The process in front sends one call after the other: of three at once the last begins 2 ms later.

        Sent at 6, 7 and 8, worked at 16, 17 and 18, read at 17, 18 and 19.
        """
        station = Station(name="a", work=Constant(10.0), replicas=3, fanout=3, dispatch="least", front_ms=2.0)
        found, machine = simulated(station, [5.0], turns=3)
        assert machine.starting["a"] == pytest.approx([0.0, 1.0, 2.0])
        assert machine.sending["a"] == pytest.approx(np.ones(3))
        assert found.stages["a"].call_ms == pytest.approx(np.full(3, 12.0))
        assert found.stages["a"].slowest_ms == pytest.approx([12.0])
        assert found.stages["a"].latency_ms == pytest.approx([14.0])

    @pytest.mark.parametrize("turns", [3, 8])
    def test_a_copy_is_sent_and_read_by_it_too(self, turns: int) -> None:
        """Begun at 0, due at 10: the front is free. Copy sent at 11, worked at 15, came at 18, read at 19."""
        found, machine = simulated(RACING, [0.0, 100.0, 200.0], resting(100.0, 100.0, 100.0), turns=turns)
        assert found.stages["a"].call_ms == pytest.approx(np.full(3, 19.0))
        assert machine.answering["a"] == pytest.approx(np.ones(3))

    def test_when_a_race_is_over_the_loser_costs_it_too(self) -> None:
        """Came at 5, read at 24; three halves for the loser till 27: what comes at 25.5 is sent at 28."""
        found, machine = simulated(RACING, [5.0, 25.5], resting(100.0, 3.0))
        assert machine.starting["a"] == pytest.approx([0.0, 1.5])
        assert machine.sending["a"] == pytest.approx([1.0, 1.0])
        assert found.stages["a"].call_ms == pytest.approx([19.0, 1 + 4 + 3 + 1])
        assert found.stages["a"].latency_ms == pytest.approx([19.0, 1.5 + 1 + 4 + 3 + 1])

    def test_a_copy_does_not_wait_behind_its_sisters(self) -> None:
        """Eight calls from 5 on, sent one after the other till 13; the last is stuck. Its copy goes alone.

        The others' answers, from 7 on, are read from 13 on, 9 ms after each call began. The last began at 12, is
        due at 32, sent at 33, worked at 34, read at 35; the request came at 5.
        """
        station = Station(
            name="a",
            work=Constant(1.0),
            replicas=16,
            fanout=8,
            dispatch="least",
            front_ms=2.0,
            reissue=Reissue(after_ms=20.0),
        )
        rest = np.zeros((1, 8))
        rest[0, 7] = 100.0
        found, _ = simulated(station, [5.0], Primaries(np.ones((1, 8)), rest))
        assert found.stages["a"].call_ms == pytest.approx([9.0] * 7 + [20 + 1 + 1 + 1])
        assert found.stages["a"].slowest_ms == pytest.approx([23.0])
        assert found.stages["a"].latency_ms == pytest.approx([7 + 20 + 1 + 1 + 1])

    def test_others_take_processors_away(self) -> None:
        station = Station(name="a", work=Constant(10.0))
        machine = idle_machine([station], 1, np.array([3.0, 3.0]))
        found, _ = simulate_machine(
            [station],
            np.array([0.0, 100.0]),
            rng=np.random.default_rng(0),
            given=None,
            warm_up=0,
            machine=machine,
            turns=12,
        )
        assert found.stages["a"].call_ms == pytest.approx([12.0, 10.0])


SLOW_FRONT = replace(RACING, replicas=4, dispatch="least", front_ms=8.0)


class TestHeldFront:
    """A call at 0, sent at 4, due at 10; two more at 9, begun at 9 and 13: the front is held till 17."""

    def test_an_answer_that_came_meanwhile_needs_no_copy(self) -> None:
        """It came at 4 + 4 + 8 = 16 and is read at 21. The others' came at 19 and 23, read at 25 and 29."""
        found, _ = simulated(SLOW_FRONT, [0.0, 9.0, 9.0], resting(8.0, 2.0, 2.0))
        assert found.stages["a"].copies.tolist() == [0, 0, 0]
        assert found.stages["a"].call_ms == pytest.approx([21.0, 25.0 - 9.0, 29.0 - 13.0])
        assert found.stages["a"].latency_ms == pytest.approx([21.0, 25.0 - 9.0, 29.0 - 9.0])

    @pytest.mark.parametrize("turns", [3, 4])
    def test_without_an_answer_the_copy_goes_when_the_front_is_free(self, turns: int) -> None:
        """Sent from 17 to 21, worked at 25, came at 28, when the front reads the others' till 29: read at 33."""
        found, _ = simulated(SLOW_FRONT, [0.0, 9.0, 9.0], resting(100.0, 2.0, 2.0), turns=turns)
        assert found.stages["a"].copies.tolist() == [1, 0, 0]
        assert found.stages["a"].call_ms == pytest.approx([33.0, 25.0 - 9.0, 29.0 - 13.0])

    @pytest.mark.parametrize("turns", [3, 4])
    def test_a_copy_does_not_hold_up_itself(self, turns: int) -> None:
        """The answer came at 4 + 4 + 15 = 23, when the copy was sent already, whatever turn it is."""
        found, _ = simulated(SLOW_FRONT, [0.0, 9.0, 9.0], resting(15.0, 2.0, 2.0), turns=turns)
        assert found.stages["a"].copies.tolist() == [1, 0, 0]

    @pytest.mark.parametrize(("rest_ms", "copies", "read"), [(4.75, 0, 10.75), (5.5, 1, 12.0)])
    def test_an_answer_that_comes_while_the_copy_is_written(
        self, rest_ms: float, copies: int, read: float
    ) -> None:
        """Due 10 ms later, when the front is free: it writes for 1 ms. The answer came after 9.75, or 10.5."""
        found, _ = simulated(RACING, [1.0], resting(rest_ms))
        assert found.stages["a"].copies.tolist() == [copies]
        assert found.stages["a"].call_ms == pytest.approx([read])

    def test_what_comes_after_a_race_holds_it_too(self) -> None:
        """A race of 0 is read at 25, its loser is done with at 37.

        A call at 16, sent at 20, is due at 26; its answer came at 36 and is read at 41.
        """
        found, _ = simulated(SLOW_FRONT, [0.0, 16.0], resting(100.0, 12.0))
        assert found.stages["a"].copies.tolist() == [1, 0]
        assert found.stages["a"].call_ms == pytest.approx([25.0, 41.0 - 16.0])


def walked(clock: SharedClock, since: float, own_ms: float) -> float:
    """The moment at which so much own time has passed, change by change."""
    now = since
    while True:
        place = int(np.flatnonzero(clock.moments <= now)[-1])
        pace = float(clock.paces[place])
        end = float(clock.moments[place + 1]) if place + 1 < len(clock.moments) else np.inf
        if (end - now) * pace >= own_ms:
            return now + own_ms / pace
        own_ms -= (end - now) * pace
        now = end


def own_between(clock: SharedClock, since: float, until: float) -> float:
    """Own time between two moments, change by change."""
    edges = [since, *[moment for moment in clock.moments.tolist() if since < moment < until], until]
    places = [int(np.flatnonzero(clock.moments <= edge)[-1]) for edge in edges[:-1]]
    return float(sum(clock.paces[at] * (edges[i + 1] - edges[i]) for i, at in enumerate(places)))


class TestFrontLine:
    @given(jobs=STEPS, changes=STEPS, moments=st.lists(st.floats(0, 300), min_size=1, max_size=5))
    def test_one_server_in_the_order_of_arrival(
        self, jobs: list[tuple[float, float]], changes: list[tuple[float, float]], moments: list[float]
    ) -> None:
        """Whoever comes waits until all before him are served, at the machine's pace."""
        clock = SharedClock(
            np.cumsum([0.0, *[step for step, _ in changes]]),
            np.array([1.0, *[pace / 10 for _, pace in changes]]),
        )
        came, ends, backlog = [0.0], [0.0], [0.0]
        for step, work in jobs:
            came.append(came[-1] + step)
            begins = max(ends[-1], came[-1])
            ends.append(walked(clock, begins, work))
            backlog.append(own_between(clock, came[-1], ends[-1]))
        line = FrontLine(np.array(came), np.array(backlog))
        asked = [*moments, *came]  # what comes with a piece of work comes after it
        waits = [
            max(0.0, max(end for at, end in zip(came, ends, strict=True) if at <= moment) - moment)
            for moment in asked
        ]
        np.testing.assert_allclose(line.wait_at(np.array(asked), clock), waits, rtol=1e-6, atol=1e-6)

    def test_nothing_to_do(self) -> None:
        machine = idle_machine([RACING], 2)
        np.testing.assert_array_equal(machine.line.wait_at(np.array([0.0, 5.0]), machine.clock), 0.0)


def raced(
    station: Station,
    rest_ms: float,
    *,
    sending_ms: float | None = None,
    reading_ms: float | None = 1.0,
    passing_ms: float | None = 3.0,
) -> Served:
    """One call that comes at 100, of 4 ms of work."""
    parts = [None if part is None else np.array([part]) for part in (sending_ms, reading_ms, passing_ms)]
    calls = Calls(np.array([100.0]), np.array([4.0]), np.array([rest_ms]), np.array([-1]), *parts)
    return serve(station, calls, np.random.default_rng(0))


@pytest.mark.parametrize("replicas", [None, 3])
@pytest.mark.parametrize(("sending_ms", "due_ms"), [(None, 10.0), (0.0, 10.0), (2.5, 7.5), (6.0, 4.0)])
class TestInTime:
    """Copies of 4 ms of work, due 10 ms after the call began; what is read within 3 ms more was in time.

    So a call is in time up to a rest of 10 + 3 - 4 - 1 = 8 ms, less what its sending took.
    """

    @staticmethod
    def station(replicas: int | None, *, copies: int = 1, rest_ms: float = 0.0) -> Station:
        reissue = Reissue(after_ms=10.0, copies=copies)
        return Station(
            name="a", work=Constant(4.0), rest=Constant(rest_ms), replicas=replicas, reissue=reissue
        )

    def test_an_answer_that_has_come_needs_no_copy(
        self, replicas: int | None, sending_ms: float | None, due_ms: float
    ) -> None:
        """Read a little before the last moment and in it; before the time-out there is nothing to ask."""
        for rest_ms in (0.0, due_ms - 2.25, due_ms - 2.0):
            found = raced(self.station(replicas), rest_ms, sending_ms=sending_ms)
            assert found.copies.tolist() == [0]
            assert found.latency_ms == pytest.approx([4 + rest_ms + 1])

    def test_one_that_has_not_gets_one(
        self, replicas: int | None, sending_ms: float | None, due_ms: float
    ) -> None:
        """Read a quarter too late: the copy goes, and does not win. After 105 it does: in 4 + 3 more."""
        for rest_ms, latency_ms in ((due_ms - 1.75, due_ms + 3.25), (100.0, due_ms + 7.0)):
            found = raced(self.station(replicas), rest_ms, sending_ms=sending_ms)
            assert found.copies.tolist() == [1]
            assert found.latency_ms == pytest.approx([latency_ms])

    def test_nothing_in_front(self, replicas: int | None, sending_ms: float | None, due_ms: float) -> None:
        """What is answered at the time-out is in time, a moment later is late."""
        for rest_ms, copies in ((due_ms - 4.0, 0), (due_ms - 3.75, 1)):
            found = raced(
                self.station(replicas), rest_ms, sending_ms=sending_ms, reading_ms=None, passing_ms=None
            )
            assert found.copies.tolist() == [copies]
            assert found.latency_ms == pytest.approx([4 + rest_ms])

    def test_a_second_copy_neither(
        self, replicas: int | None, sending_ms: float | None, due_ms: float
    ) -> None:
        """Due 10 ms after the first: the call is read 3 ms later, or 3.25; its first copy does not matter."""
        for rest_ms, copies in ((due_ms + 8.0, 1), (due_ms + 8.25, 2)):
            found = raced(self.station(replicas, copies=2, rest_ms=50.0), rest_ms, sending_ms=sending_ms)
            assert found.copies.tolist() == [copies]
            assert found.latency_ms == pytest.approx([4 + rest_ms + 1])

    def test_a_first_copy_is_an_answer_too(
        self, replicas: int | None, sending_ms: float | None, due_ms: float
    ) -> None:
        """Read 4 ms, its rest and 3 ms after it was due: 13 ms, in time for the second one, or 13.25."""
        for rest_ms, copies in ((6.0, 1), (6.25, 2)):
            found = raced(self.station(replicas, copies=2, rest_ms=rest_ms), 100.0, sending_ms=sending_ms)
            assert found.copies.tolist() == [copies]
            assert found.latency_ms == pytest.approx([due_ms + 4 + rest_ms + 3])


@pytest.mark.parametrize("replicas", [None, 3])
def test_a_copy_that_is_due_before_its_call_is_sent_goes_with_it(replicas: int | None) -> None:
    """Begun 14 ms before it came: the copy is due at once, and answers after 4 + 3; a second one 10 later."""
    found = raced(TestInTime.station(replicas), 100.0, sending_ms=14.0)
    assert found.copies.tolist() == [1]
    assert found.latency_ms == pytest.approx([4.0 + 3.0])


@pytest.mark.parametrize("replicas", [None, 3])
def test_a_copy_is_drawn_for_the_work_and_rest_of_its_call(replicas: int | None) -> None:
    """Not for the time in front too, which may be longer than any rest."""
    station = TestInTime.station(replicas)
    calls = Calls(
        np.array([0.0, 100.0]),
        np.full(2, 4.0),
        np.array([50.0, 60.0]),
        np.full(2, -1),
        sending=np.full(2, 1.0),
        reading=np.full(2, 30.0),
        passing=np.full(2, 3.0),
    )
    asked: list[tuple[float, float]] = []

    def copies(work_ms: float, rest_ms: float) -> tuple[float, float]:
        asked.append((work_ms, rest_ms))
        return 4.0, 0.0

    rng = np.random.default_rng(0)
    if replicas is None:
        _without_queue(station, calls, copies, rng)
    else:
        QueueRace(station, calls, [None] * replicas, copies, rng).run()
    assert asked == [(4.0, 50.0), (4.0, 60.0)]


@pytest.mark.parametrize("sending_ms", [0.0, 2.5])
def test_an_answer_in_time_earns(sending_ms: float) -> None:
    """Two calls that are read with their time-outs bring half a copy each, after the first call spent the burst."""
    earnings = Earnings(fraction=0.5, burst=1, prompt_only=True)
    station = Station(
        name="a",
        work=Constant(4.0),
        replicas=3,
        reissue=Reissue(after_ms=10.0),
        earnings=earnings,
    )
    most_ms = 10.0 - sending_ms + 3.0 - 4.0 - 1.0
    for rest_ms, copies in ((most_ms, [1, 0, 0, 1]), (most_ms + 0.25, [1, 0, 0, 0])):
        calls = Calls(
            np.array([0.0, 100.0, 200.0, 300.0]),
            np.full(4, 4.0),
            np.array([90.0, rest_ms, rest_ms, 90.0]),
            np.full(4, -1),
            sending=np.full(4, sending_ms),
            reading=np.ones(4),
            passing=np.full(4, 3.0),
        )
        assert serve(station, calls, np.random.default_rng(0)).copies.tolist() == copies


@pytest.mark.parametrize("copied", [False, True])
def test_background_has_no_front(copied: bool) -> None:
    """Other work of replicas comes between calls: each call keeps what is sent, read and passed for it."""
    station = Station(
        name="a",
        work=Constant(4.0),
        replicas=4,
        dispatch="least",
        reissue=Reissue(after_ms=10.0),
        background=Background(utilisation=0.001, work=Constant(0.1)),
    )
    in_front: Floats = np.arange(0.0, 50.0)
    calls = Calls(
        np.arange(0.0, 5e4, 1e3),
        np.full(50, 4.0),
        np.full(50, 1e5 if copied else 0.0),
        np.full(50, -1),
        sending=in_front / 4,
        reading=in_front[::-1].copy(),
        passing=in_front,
    )
    if not copied:  # in time by far
        calls = replace(calls, passing=np.full(50, 60.0))
    found = serve(station, calls, np.random.default_rng(0))
    due = np.maximum(0.0, 10.0 - in_front / 4)
    wanted = due + 4.0 + in_front if copied else 4.0 + in_front[::-1]
    np.testing.assert_allclose(found.latency_ms, wanted, atol=0.3)
    assert found.copies.tolist() == [int(copied)] * 50


def test_background_is_sent_by_nobody() -> None:
    """Calls and other work by arrival: what is in front stays with its call, and is nothing for others."""
    station = Station(
        name="a", work=Constant(4.0), replicas=2, background=Background(utilisation=0.3, work=Constant(1.0))
    )
    arrival: Floats = np.arange(10.0, 500.0, 10.0)
    parts = [arrival / scale for scale in (100.0, 200.0, 300.0)]
    every = with_background(
        station,
        Calls(arrival, np.full(49, 4.0), np.zeros(49), np.full(49, -1), *parts),
        np.random.default_rng(0),
    )
    own = every.pinned < 0
    assert 0 < own.sum() < len(own)
    for scale, part in zip((100.0, 200.0, 300.0), (every.sending, every.reading, every.passing), strict=True):
        assert part is not None
        np.testing.assert_allclose(part, np.where(own, every.arrival / scale, 0.0))
