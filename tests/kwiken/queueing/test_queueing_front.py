"""The process in front of replicas: it does one thing at a time, and reads what has come before it sends copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken import Reissue
from kwiken._profile import Floats
from kwiken.queueing import Background, Constant, Earnings, Exponential, Primaries, QueueSimulation, Station
from kwiken.queueing._machine import FrontLine, Machine, SharedClock
from kwiken.queueing._network import idle_machine, simulate_machine
from kwiken.queueing._race import Calls, QueueRace, Served
from kwiken.queueing._serve import _without_queue, serve

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
        """The process in front sends one call after the other: of three at once the last waits longest."""
        station = Station(name="a", work=Constant(10.0), replicas=3, fanout=3, dispatch="least", front_ms=2.0)
        found, _ = simulated(station, [5.0], turns=3)
        assert sorted(found.stages["a"].call_ms) == pytest.approx([12.0, 13.0, 14.0])

    @pytest.mark.parametrize("turns", [3, 8])
    def test_a_copy_is_sent_and_read_by_it_too(self, turns: int) -> None:
        """Sent at 1, due at 11: the front is free. Copy sent at 12, worked at 16, came at 19, read at 20."""
        found, machine = simulated(RACING, [0.0, 100.0, 200.0], resting(100.0, 100.0, 100.0), turns=turns)
        assert found.stages["a"].call_ms == pytest.approx(np.full(3, 20.0))
        assert machine.answering["a"] == pytest.approx(np.ones(3))

    def test_when_a_race_is_over_the_loser_costs_it_too(self) -> None:
        """Came at 5, read at 25; three halves for the loser till 28: what comes at 25.5 is sent at 29."""
        found, machine = simulated(RACING, [5.0, 25.5], resting(100.0, 3.0))
        assert machine.sending["a"] == pytest.approx([1.0, 3.5])
        assert found.stages["a"].call_ms == pytest.approx([20.0, 3.5 + 4 + 3 + 1])

    def test_a_copy_does_not_wait_behind_its_sisters(self) -> None:
        """Eight calls from 5 on, sent one after the other till 13; the last is stuck. Its copy goes alone.

        Due at 33, sent at 34, worked at 35, read at 36; the request came at 5.
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
        assert found.stages["a"].latency_ms == pytest.approx([8 + 20 + 1 + 1 + 1])

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
    """A call at 0, sent at 4, due at 14; two more at 13, for which the front is held till 21."""

    def test_an_answer_that_came_meanwhile_needs_no_copy(self) -> None:
        """It came at 4 + 4 + 12 = 20 and is read at 25. The others' came at 23 and 27, read at 29 and 33."""
        found, _ = simulated(SLOW_FRONT, [0.0, 13.0, 13.0], resting(12.0, 2.0, 2.0))
        assert found.stages["a"].copies.tolist() == [0, 0, 0]
        assert found.stages["a"].call_ms == pytest.approx([25.0, 29.0 - 13.0, 33.0 - 13.0])

    @pytest.mark.parametrize("turns", [3, 4])
    def test_without_an_answer_the_copy_goes_when_the_front_is_free(self, turns: int) -> None:
        """Sent from 21 to 25, worked at 29, came at 32, when the front reads the others' till 33: read at 37."""
        found, _ = simulated(SLOW_FRONT, [0.0, 13.0, 13.0], resting(100.0, 2.0, 2.0), turns=turns)
        assert found.stages["a"].copies.tolist() == [1, 0, 0]
        assert found.stages["a"].call_ms == pytest.approx([37.0, 29.0 - 13.0, 33.0 - 13.0])

    @pytest.mark.parametrize("turns", [3, 4])
    def test_a_copy_does_not_hold_up_itself(self, turns: int) -> None:
        """The answer came at 4 + 4 + 19 = 27, when the copy was sent already, whatever turn it is."""
        found, _ = simulated(SLOW_FRONT, [0.0, 13.0, 13.0], resting(19.0, 2.0, 2.0), turns=turns)
        assert found.stages["a"].copies.tolist() == [1, 0, 0]

    @pytest.mark.parametrize(("rest_ms", "copies", "read"), [(5.75, 0, 11.75), (6.5, 1, 13.0)])
    def test_an_answer_that_comes_while_the_copy_is_written(
        self, rest_ms: float, copies: int, read: float
    ) -> None:
        """Due 11 ms later, when the front is free: it writes for 1 ms. The answer came after 10.75, or 11.5."""
        found, _ = simulated(RACING, [1.0], resting(rest_ms))
        assert found.stages["a"].copies.tolist() == [copies]
        assert found.stages["a"].call_ms == pytest.approx([read])

    def test_what_comes_after_a_race_holds_it_too(self) -> None:
        """A race of 0 is read at 29, its loser is done with at 41.

        A call at 20, sent at 24, is due at 34; its answer came at 40 and is read at 45.
        """
        found, _ = simulated(SLOW_FRONT, [0.0, 20.0], resting(100.0, 12.0))
        assert found.stages["a"].copies.tolist() == [1, 0]
        assert found.stages["a"].call_ms[1] == pytest.approx(45.0 - 20.0)


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

    def test_it_is_what_calls_waited_for(self) -> None:
        """One processor for replicas and front: a call is sent after all that the line held when it came."""
        station = Station(name="a", work=Exponential(3.0), front_ms=2.0)
        arrivals = np.cumsum(np.random.default_rng(1).exponential(6.0, 300))
        _, machine = simulate_machine(
            [station],
            arrivals,
            rng=np.random.default_rng(0),
            given=None,
            warm_up=0,
            machine=idle_machine([station], 1, arrivals[::3] + 1.0),
            turns=3,
        )
        just_before = arrivals - 1e-7
        waits = machine.line.wait_at(just_before, machine.clock)
        own = machine.clock.worked_at(arrivals + waits) + 1.0
        sent = machine.clock.moments_at(own)
        np.testing.assert_allclose(machine.sending["a"], sent - arrivals, atol=1e-5)
        assert (waits > 0.5).sum() > 50
        assert machine.clock.paces.min() < 1.0

    def test_nothing_to_do(self) -> None:
        machine = idle_machine([RACING], 2)
        np.testing.assert_array_equal(machine.line.wait_at(np.array([0.0, 5.0]), machine.clock), 0.0)


def raced(
    station: Station, rest_ms: float, *, reading_ms: float | None = 1.0, passing_ms: float | None = 3.0
) -> Served:
    """One call at 100, of 4 ms of work."""
    parts = [None if part is None else np.array([part]) for part in (reading_ms, passing_ms)]
    calls = Calls(np.array([100.0]), np.array([4.0]), np.array([rest_ms]), np.array([-1]), *parts)
    return serve(station, calls, np.random.default_rng(0))


@pytest.mark.parametrize("replicas", [None, 3])
class TestInTime:
    """Copies of 4 ms of work, due 10 ms after the call; what is read within 3 ms more was in time."""

    @staticmethod
    def station(replicas: int | None, *, copies: int = 1, rest_ms: float = 0.0) -> Station:
        reissue = Reissue(after_ms=10.0, copies=copies)
        return Station(
            name="a", work=Constant(4.0), rest=Constant(rest_ms), replicas=replicas, reissue=reissue
        )

    def test_an_answer_that_has_come_needs_no_copy(self, replicas: int | None) -> None:
        """Read at 4 + 7.75 + 1 = 12.75 and at 13; before the time-out there is nothing to ask."""
        for rest_ms in (2.0, 7.75, 8.0):
            found = raced(self.station(replicas), rest_ms)
            assert found.copies.tolist() == [0]
            assert found.latency_ms == pytest.approx([4 + rest_ms + 1])

    def test_one_that_has_not_gets_one(self, replicas: int | None) -> None:
        """Read at 13.25: the copy goes, and does not win. At 105 it does: 10 + 4 + 3 = 17."""
        for rest_ms, latency_ms in ((8.25, 13.25), (100.0, 17.0)):
            found = raced(self.station(replicas), rest_ms)
            assert found.copies.tolist() == [1]
            assert found.latency_ms == pytest.approx([latency_ms])

    def test_nothing_in_front(self, replicas: int | None) -> None:
        """What is answered at the time-out is in time, a moment later is late."""
        for rest_ms, copies in ((6.0, 0), (6.25, 1)):
            found = raced(self.station(replicas), rest_ms, reading_ms=None, passing_ms=None)
            assert found.copies.tolist() == [copies]
            assert found.latency_ms == pytest.approx([4 + rest_ms])

    def test_a_second_copy_neither(self, replicas: int | None) -> None:
        """Due at 20: the call is read at 23, or at 23.25; its first copy, read at 67, does not matter."""
        for rest_ms, copies in ((18.0, 1), (18.25, 2)):
            found = raced(self.station(replicas, copies=2, rest_ms=50.0), rest_ms)
            assert found.copies.tolist() == [copies]
            assert found.latency_ms == pytest.approx([4 + rest_ms + 1])

    def test_a_first_copy_is_an_answer_too(self, replicas: int | None) -> None:
        """Sent at 10, read 4 ms, its rest and 3 ms later: at 23, in time for the second one, or at 23.25."""
        for rest_ms, copies in ((6.0, 1), (6.25, 2)):
            found = raced(self.station(replicas, copies=2, rest_ms=rest_ms), 100.0)
            assert found.copies.tolist() == [copies]
            assert found.latency_ms == pytest.approx([10 + 4 + rest_ms + 3])


@pytest.mark.parametrize("replicas", [None, 3])
def test_a_copy_is_drawn_for_the_rest_of_its_call(replicas: int | None) -> None:
    """Not for the time in front too, which may be longer than any rest."""
    station = TestInTime.station(replicas)
    calls = Calls(
        np.array([0.0, 100.0]),
        np.full(2, 4.0),
        np.array([50.0, 60.0]),
        np.full(2, -1),
        np.full(2, 30.0),
        np.full(2, 3.0),
    )
    asked: list[float] = []

    def copies(rest_ms: float) -> tuple[float, float]:
        asked.append(rest_ms)
        return 4.0, 0.0

    rng = np.random.default_rng(0)
    if replicas is None:
        _without_queue(station, calls, copies, rng)
    else:
        QueueRace(station, calls, [None] * replicas, copies, rng).run()
    assert asked == [50.0, 60.0]


def test_an_answer_in_time_earns() -> None:
    """Two calls that are read with their time-outs bring half a copy each, after the first call spent the burst."""
    earnings = Earnings(fraction=0.5, burst=1, prompt_only=True)
    station = Station(
        name="a",
        work=Constant(4.0),
        replicas=3,
        reissue=Reissue(after_ms=10.0),
        earnings=earnings,
    )
    for rest_ms, copies in ((8.0, [1, 0, 0, 1]), (8.25, [1, 0, 0, 0])):
        calls = Calls(
            np.array([0.0, 100.0, 200.0, 300.0]),
            np.full(4, 4.0),
            np.array([90.0, rest_ms, rest_ms, 90.0]),
            np.full(4, -1),
            np.ones(4),
            np.full(4, 3.0),
        )
        assert serve(station, calls, np.random.default_rng(0)).copies.tolist() == copies


@pytest.mark.parametrize(("rest_ms", "own_ms"), [(0.0, 4.0), (1e5, 10.0 + 4.0)])
def test_background_has_no_front(rest_ms: float, own_ms: float) -> None:
    """Other work of replicas comes between calls: each call keeps what is read and what is sent for it."""
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
        np.full(50, rest_ms),
        np.full(50, -1),
        in_front,
        in_front,
    )
    found = serve(station, calls, np.random.default_rng(0))
    np.testing.assert_allclose(found.latency_ms, own_ms + in_front, atol=0.3)
