"""A call begins when the front begins to send it: what counts from there, and what from its visit's start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken import Reissue
from kwiken.queueing import Constant, Earnings, Primaries, QueueSimulation, Station, simulate_queues
from kwiken.queueing import _network as network
from kwiken.queueing._flow import StageCalls, settled_stage
from kwiken.queueing._machine import FrontLine, Machine
from kwiken.queueing._network import idle_machine, simulate_machine
from kwiken.queueing._race import Attempts, Calls, Served
from kwiken.queueing._serve import copies_of, serve

NOTHING = np.empty(0)


def simulated(
    stations: Sequence[Station], arrivals: Sequence[float], calls: dict[str, Primaries] | None = None
) -> tuple[QueueSimulation, Machine]:
    """On a machine that has a processor for everybody."""
    return simulate_machine(
        stations,
        np.array(arrivals),
        rng=np.random.default_rng(0),
        given=calls,
        warm_up=0,
        machine=idle_machine(stations, 64),
        turns=8,
    )


def resting(rests_ms: Sequence[Sequence[float]]) -> Primaries:
    """Calls that only rest; NaN for none."""
    rest = np.array(rests_ms)
    return Primaries(np.where(np.isnan(rest), np.nan, 0.0), rest)


def one_stage(
    station: Station, start: Sequence[float], calls: Primaries, machine: Machine
) -> tuple[network.StageQueues, StageCalls, Served]:
    return network._stage(station, np.array(start), calls, np.random.default_rng(0), machine)


class TestStagger:
    """A fan-out of four, 3 ms each to send and to read; calls take 50 ms."""

    FAN = Station(name="a", work=Constant(50.0), replicas=4, fanout=4, dispatch="least", front_ms=6.0)

    def test_one_after_the_other(self) -> None:
        """Sent from 0, 3, 6 and 9, and read from 53, 56, 59 and 62: all take as long."""
        found, machine = simulated([self.FAN], [0.0, 500.0])
        assert machine.starting["a"] == pytest.approx([0.0, 3.0, 6.0, 9.0] * 2)
        assert machine.sending["a"] == pytest.approx(np.full(8, 3.0))
        stage = found.stages["a"]
        assert stage.call_ms == pytest.approx(np.full(8, 56.0))
        assert stage.slowest_ms == pytest.approx(np.full(2, 56.0))
        assert stage.latency_ms == pytest.approx(np.full(2, 65.0))
        assert found.latency_ms == pytest.approx(np.full(2, 65.0))

    def test_the_slowest_call_need_not_be_the_last_to_be_answered(self) -> None:
        """The first takes 3 + 54 + 3, the last from 9 on 3 + 50 + 3 and so till 65."""
        rests = Primaries(np.zeros((1, 4)), np.array([[54.0, 1.0, 2.0, 50.0]]))
        found, _ = simulated([self.FAN], [0.0], {"a": rests})
        assert found.stages["a"].slowest_ms == pytest.approx([60.0])
        assert found.stages["a"].latency_ms == pytest.approx([65.0])

    def test_the_next_stage_begins_when_all_are_answered(self) -> None:
        then = Station(name="b", after=("a",), work=Constant(5.0), front_ms=2.0)
        found, machine = simulated([self.FAN, then], [10.0])
        assert machine.starting["b"] == pytest.approx([0.0])
        assert found.stages["b"].call_ms == pytest.approx([1.0 + 5.0 + 1.0])
        assert found.latency_ms == pytest.approx([65.0 + 7.0])

    def test_without_work_in_front_nothing_is_staggered(self) -> None:
        """And all is as without a machine, copies too."""
        reissue = Reissue(after_ms=12.0)
        stations = [
            Station(name="a", work=Constant(9.0), rest=Constant(1.0), replicas=3, fanout=4, reissue=reissue),
            Station(name="b", after=("a",), work=Constant(2.0), replicas=None, fanout=2),
        ]
        arrivals = np.cumsum(np.random.default_rng(3).exponential(20.0, 200))
        alone = simulate_queues(stations, arrivals, rng=np.random.default_rng(4))
        found, machine = simulate_machine(
            stations,
            arrivals,
            rng=np.random.default_rng(4),
            given=None,
            warm_up=0,
            machine=idle_machine(stations, 64),
        )
        for name in "ab":
            for delays in (machine.starting, machine.sending, machine.answering):
                np.testing.assert_array_equal(delays[name], 0.0)
            np.testing.assert_allclose(found.stages[name].call_ms, alone.stages[name].call_ms)
            np.testing.assert_allclose(found.stages[name].slowest_ms, alone.stages[name].latency_ms)
            np.testing.assert_allclose(found.stages[name].latency_ms, alone.stages[name].latency_ms)
        assert alone.stages["a"].copies.sum() > 20
        np.testing.assert_array_equal(found.stages["a"].copies, alone.stages["a"].copies)

    def test_a_request_without_calls(self) -> None:
        found, machine = simulated([self.FAN], [0.0, 100.0], {"a": resting([[np.nan] * 4, [1.0] * 4])})
        assert found.stages["a"].slowest_ms[0] == found.stages["a"].latency_ms[0] == 0.0
        assert machine.starting["a"] == pytest.approx([0.0] * 4 + [0.0, 3.0, 6.0, 9.0])

    def test_warm_up_is_left_out(self) -> None:
        found, _ = simulate_machine(
            [self.FAN],
            np.array([0.0, 10.0, 500.0]),
            rng=np.random.default_rng(0),
            given=None,
            warm_up=2,
            machine=idle_machine([self.FAN], 64),
        )
        assert found.stages["a"].slowest_ms == pytest.approx([56.0])
        assert found.stages["a"].latency_ms == pytest.approx([65.0])


def known(starting_ms: list[float], sending_ms: list[float], answering_ms: list[float]) -> Machine:
    """A machine of which the delays of stage `a` are known."""
    delays = ({"a": np.array(delays_ms)} for delays_ms in (starting_ms, sending_ms, answering_ms))
    starting, sending, answering = delays
    return Machine(4, NOTHING, starting=starting, sending=sending, answering=answering)


class TestKnownDelays:
    """One pass with what an earlier turn has found."""

    STATION = Station(name="a", work=Constant(0.0), replicas=None, fanout=2, front_ms=2.0)

    def test_what_is_counted_where(self) -> None:
        machine = known([0.0, 5.0], [1.0, 2.0], [0.5, 0.25])
        stage, calls, _ = one_stage(self.STATION, [100.0], resting([[10.0, 7.0]]), machine)
        assert stage.call_ms == pytest.approx([1 + 10 + 0.5, 2 + 7 + 0.25])
        assert stage.slowest_ms == pytest.approx([11.5])
        assert stage.latency_ms == pytest.approx([5 + 2 + 7 + 0.25])
        assert calls.sending == pytest.approx([1.0, 2.0])
        assert calls.answering == pytest.approx([0.5, 0.25])

    def test_calls_by_their_arrival_keep_what_is_theirs(self) -> None:
        """The second place is sent first."""
        machine = known([6.0, 0.0], [3.0, 2.0], [0.5, 0.25])
        stage, calls, _ = one_stage(self.STATION, [100.0], resting([[10.0, 7.0]]), machine)
        assert calls.there.tolist() == [1, 0]
        assert calls.sending == pytest.approx([2.0, 3.0])
        assert stage.call_ms == pytest.approx([2 + 7 + 0.25, 3 + 10 + 0.5])
        assert stage.latency_ms == pytest.approx([6 + 3 + 10 + 0.5])

    # two requests at 0 and 1, of which the second would have been begun first: at 1, not at 3
    CROSSED = known([3.0, 0.0], [1.0, 4.0], [0.0, 0.0])

    def test_what_is_begun_stays_in_the_order_of_what_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Earlier turns know other moments; a front that does one thing at a time began at 3 at the earliest."""
        seen: list[Calls] = []

        def noted(station: Station, calls: Calls, *others: object) -> Served:
            seen.append(calls)
            return serve(station, calls, np.random.default_rng(0))

        monkeypatch.setattr(network, "serve", noted)
        stage, calls, _ = one_stage(self.STATION, [0.0, 1.0], resting([[10.0], [10.0]]), self.CROSSED)
        assert seen[0].sending is not None
        assert seen[0].arrival == pytest.approx([4.0, 5.0])
        assert seen[0].arrival - seen[0].sending == pytest.approx([3.0, 3.0])
        assert calls.sending == pytest.approx([1.0, 2.0])
        assert stage.call_ms == pytest.approx([11.0, 12.0])

    def test_a_stage_lasts_until_its_last_answer_all_the_same(self) -> None:
        """It came at 5 and rested till 15: 14 ms after its visit began, whatever its call is said to have taken."""
        stage, _, _ = one_stage(self.STATION, [0.0, 1.0], resting([[10.0], [10.0]]), self.CROSSED)
        assert stage.latency_ms == pytest.approx([14.0, 15.0 - 1.0])

    @given(seed=st.integers(0, 2**32 - 1))
    def test_no_call_is_sent_before_it_is_begun(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        start = np.cumsum(rng.exponential(3.0, 8))
        delays = [rng.exponential(5.0, 16) for _ in range(3)]
        machine = Machine(
            4, NOTHING, starting={"a": delays[0]}, sending={"a": delays[1]}, answering={"a": delays[2]}
        )
        stage, calls, served = one_stage(
            self.STATION, start.tolist(), resting(rng.exponential(9.0, (8, 2)).tolist()), machine
        )
        sent = start[calls.there // 2] + (delays[0] + delays[1])[calls.there]
        assert (np.diff(sent) >= 0).all()
        assert (np.diff(sent - calls.sending) >= -1e-9).all()
        assert (calls.sending >= 0).all()
        assert (calls.sending <= delays[1][calls.there] + 1e-9).all()
        np.testing.assert_allclose(stage.call_ms, served.latency_ms + calls.sending)


class TestAges:
    SLOW = Station(
        name="a",
        work=Constant(4.0),
        rest=Constant(3.0),
        replicas=4,
        dispatch="least",
        front_ms=8.0,
        reissue=Reissue(after_ms=2.0),
    )

    def test_a_copy_that_is_due_while_its_call_is_sent_goes_right_after_it(self) -> None:
        """Begun at 0, sent till 4, due at 2: the copy is sent till 8, worked at 12, came at 15, is read at 19."""
        calls = Primaries(np.full((2, 1), 4.0), np.full((2, 1), 100.0))
        found, machine = simulated([self.SLOW], [0.0, 500.0], {"a": calls})
        assert found.stages["a"].copies.tolist() == [1, 1]
        assert machine.copying["a"] == pytest.approx([4.0, 4.0])
        assert found.stages["a"].call_ms == pytest.approx([19.0, 19.0])

    def test_the_front_is_asked_when_the_copy_may_go_not_before(self) -> None:
        """Sent till 4, when the front is free: what comes at 5.5 is not there yet, so the copy goes.

        Asked at 2, when the copy is due, the front is busy till 4, with the call itself: that is no reason to
        take what comes within 2 ms after 4 for an answer in time.
        """
        calls = Primaries(np.full((2, 1), 1.0), np.full((2, 1), 0.5))
        found, _ = simulated([self.SLOW], [0.0, 500.0], {"a": calls})
        assert found.stages["a"].copies.tolist() == [1, 1]

    def test_what_a_copy_waits_for_is_the_line_when_it_is_due(self) -> None:
        """Begun at 0 and due at 10: the line then holds 5 ms. 4 more to send it, 1 of its work, 1 to read it."""
        machine = Machine(
            64,
            NOTHING,
            sending={"a": np.array([2.0])},
            answering={"a": np.array([1.0])},
            line=FrontLine(np.array([0.0, 9.0, 11.0]), np.array([4.0, 6.0, 50.0])),
        )
        station = Station(
            name="a", work=Constant(1.0), replicas=None, front_ms=8.0, reissue=Reissue(after_ms=10.0)
        )
        calls = Primaries(np.ones((1, 1)), np.full((1, 1), 100.0))
        stage, _, _ = one_stage(station, [0.0], calls, machine)
        assert stage.call_ms == pytest.approx([10.0 + 5.0 + 4.0 + 1.0 + 1.0])

    @pytest.mark.parametrize(
        ("after_ms", "sending_ms", "asked_ms"),
        [
            (10.0, 3.0, 17.0),  # begun 3 ms before: denied at an age of 10, asked again at 20
            (10.0, 0.0, 20.0),
            (2.0, 5.0, 5.0),  # denied when it comes, at an age of 5, asked again at 10
        ],
    )
    def test_a_copy_that_was_denied_asks_at_twice_its_calls_age(
        self, after_ms: float, sending_ms: float, asked_ms: float
    ) -> None:
        """The first call's copy takes all; two calls that come just before the second asks again pay for that."""
        station = Station(
            name="a",
            work=Constant(1.0),
            replicas=8,
            dispatch="least",
            reissue=Reissue(after_ms=after_ms),
            earnings=Earnings(fraction=0.6, burst=1),
        )
        came = 100.0 + np.array([0.0, 1e-3, asked_ms, asked_ms])
        calls = Calls(
            came,
            np.ones(4),
            np.array([500.0, 500.0, 0.0, 0.0]),
            np.full(4, -1),
            sending=np.array([sending_ms, sending_ms, 0.0, 0.0]),
        )
        found = serve(station, calls, np.random.default_rng(0))
        assert found.copies.tolist() == [1, 1, 0, 0]
        assert found.denied == 1
        due = max(0.0, after_ms - sending_ms)
        assert found.latency_ms == pytest.approx([due + 1.0, asked_ms + 1.0, 1.0, 1.0])

    @pytest.mark.parametrize("replicas", [None, 4])
    def test_each_copy_is_as_much_later(self, replicas: int | None) -> None:
        """Ages of 6, 12 and 18 ms, of a call begun 2 ms before it came; the third answers first."""
        reissue = Reissue(after_ms=6.0, copies=3)
        station = Station(
            name="a", work=Constant(1.0), rest=Constant(20.0), replicas=replicas, reissue=reissue
        )
        calls = Calls(
            np.array([50.0]), np.ones(1), np.array([300.0]), np.array([-1]), sending=np.array([2.0])
        )
        found = serve(station, calls, np.random.default_rng(0))
        assert found.copies.tolist() == [3]
        assert found.latency_ms == pytest.approx([4.0 + 1.0 + 20.0])

    def test_a_second_copy_is_as_much_later_where_the_first_waited_for_its_call(self) -> None:
        """Sending took 8 ms: the first copy, due after 5, goes then; the second 5 ms after it. With a queue or not."""
        reissue = Reissue(after_ms=5.0, copies=2)
        late = Calls(np.array([50.0]), np.ones(1), np.array([3.0]), np.array([-1]), sending=np.array([8.0]))
        copies = [
            serve(
                Station(
                    name="a", work=Constant(1.0), rest=Constant(90.0), replicas=replicas, reissue=reissue
                ),
                late,
                np.random.default_rng(0),
            ).copies.tolist()
            for replicas in (4, None)
        ]
        assert copies == [[1], [1]]  # answered after 4 ms

    def test_settled_ages_count_from_the_beginning(self) -> None:
        """Calls of two requests by arrival, of places 1 and 0; the second has a copy at 21."""
        station = Station(name="a", work=Constant(1.0), replicas=2, front_ms=1.0)
        calls = StageCalls(
            requests=2,
            places=2,
            there=np.array([1, 0]),
            sending=np.array([3.0, 5.0]),
            answering=np.array([0.25, 0.5]),
            passing=np.array([1.0, 2.0]),
        )
        attempts = Attempts(
            call=np.array([0, 1, 1]),
            came=np.array([10.0, 12.0, 21.0]),
            replica=np.array([0, 1, 0]),
            work=np.ones(3),
            rest=np.array([7.0, 8.0, 9.0]),
            wins=np.array([True, False, True]),
        )
        found = settled_stage(station, [], calls, attempts)
        assert found.there.tolist() == [0, 1]
        assert found.first_attempt.tolist() == [0, 2, 3]
        assert found.age == pytest.approx([5.0, 21.0 - 12.0 + 5.0, 3.0])
        assert found.rest == pytest.approx([8.0 - 0.5, 9.0 - 2.0, 7.0 - 0.25])


@pytest.mark.parametrize("repeats", [False, True])
def test_a_copy_may_repeat_its_calls_work(repeats: bool) -> None:
    """It computes the same again, or draws work of its own; it rests on its own either way."""
    station = Station(name="a", work=Constant(4.0), rest=Constant(2.0), repeats=repeats)
    copies = copies_of(station, np.random.default_rng(0))
    drawn = [copies(work, 9.0) for work in (1.0, 30.0)]
    assert drawn == ([(1.0, 2.0), (30.0, 2.0)] if repeats else [(4.0, 2.0)] * 2)
