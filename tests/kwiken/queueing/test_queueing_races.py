"""Queues with copies, against a slow simulator that knows nothing but the rules; and what the rules imply."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, replace
from math import inf
from typing import Any, cast, get_args

import numpy as np
import pytest

from kwiken import InputError, Reissue
from kwiken.queueing._estimates import Estimates
from kwiken.queueing._law import Constant, Exponential, LogNormal
from kwiken.queueing._pauses import Clock, Pauses, PausingClock, clocks
from kwiken.queueing._race import MAY, Calls, Copies, OverloadError, QueueRace, Served, turns
from kwiken.queueing._serve import copies_of, serve
from kwiken.queueing._station import Background, Cancel, Discipline, Dispatch, Earnings, Station

WORK = Exponential(10.0)


@dataclass
class Attempt:
    call: int
    replica: int
    left: float
    rest: float
    came: float
    ended: float = inf
    gone: bool = False
    dropped: bool = False
    heard: bool = False


class Slow:
    """The same rules, by brute force: at every step the next thing to happen anywhere, and work done until then."""

    def __init__(
        self,
        race: QueueRace,
        station: Station,
        clocks: list[Clock | None],
        copies: Copies,
        rng: np.random.Generator,
    ) -> None:
        self.race, self.station, self.copies = race, station, copies
        self.clocks = cast("list[PausingClock | None]", clocks)
        self.draws = turns(rng)
        self.attempts: list[Attempt] = []
        self.of: dict[int, list[Attempt]] = {}
        self.answer: dict[int, float] = {}
        self.now = 0.0
        self.worked = [0.0] * len(clocks)
        self.denied = 0
        self.estimates = Estimates(len(clocks))
        self.refused: dict[int, int] = {}
        self.level = station.earnings.burst if station.earnings else inf

    def present(self, replica: int) -> list[Attempt]:
        return [a for a in self.attempts if a.replica == replica and a.ended == inf and not a.gone]

    def paces(self, replica: int) -> list[tuple[Attempt, float]]:
        clock, workers = self.clocks[replica], self.station.workers
        if clock is not None:
            clock.worked(self.now)
            if any(begin <= self.now < end for begin, end in zip(clock._begins, clock._ends, strict=True)):
                return []
        present = self.present(replica)
        if self.station.discipline == "fifo":
            return [(a, 1.0) for a in present[:workers]]
        return [(a, min(1.0, workers / len(present))) for a in present]

    def began(self, call: int) -> float:
        """When its caller began to send it: ages count from there."""
        calls = self.race._given
        return float(calls.arrival[call] - (0.0 if calls.sending is None else calls.sending[call]))

    def turns(self) -> float:
        """The next moment at which a replica stops or goes on."""
        moments = [
            m
            for c in self.clocks
            if isinstance(c, PausingClock)
            for m in (*c._begins, *c._ends)
            if m > self.now
        ]
        return min(moments, default=inf)

    def run(self) -> None:
        calls = self.race._given
        arrivals = list(zip(calls.arrival.tolist(), itertools.count()))
        after_ms = self.station.reissue.after_ms if self.station.reissue is not None else inf
        # (moment, call, whether it may have a copy, whether it is the call's first)
        timers: list[tuple[float, int, bool, bool]] = sorted(
            (max(moment, self.began(call) + after_ms), call, role == MAY, True)
            for call, (moment, role) in enumerate(zip(calls.arrival.tolist(), self.race._roles, strict=True))
            if role
        )
        while True:
            going = [(a, p) for r in range(len(self.clocks)) for a, p in self.paces(r)]
            ends = min(((self.now + a.left / p, i) for i, (a, p) in enumerate(going)), default=(inf, -1))
            answers = min(
                (
                    (a.ended + a.rest, a.call)
                    for a in self.attempts
                    if a.ended < inf and not a.gone and a.call not in self.answer
                ),
                default=(inf, -1),
            )
            arrives = arrivals[0][0] if arrivals else inf
            timer = timers[0][0] if timers else inf
            moment = min(ends[0], answers[0], arrives, timer, self.turns())
            if moment == inf or (
                not arrivals
                and not timers
                and all(a.gone or a.ended < inf for a in self.attempts)
                and answers[0] == inf
            ):
                return
            for attempt, pace in going:
                attempt.left -= pace * (moment - self.now)
                self.worked[attempt.replica] += pace * (moment - self.now)
            self.now = moment
            if moment == ends[0]:
                going[ends[1]][0].ended = moment
            elif moment == answers[0]:
                self.answered(answers[1])
            elif moment == arrives:
                self.arrive(arrivals.pop(0)[1])
            elif moment == timer:
                _, call, may, first = timers.pop(0)
                timers = sorted([*timers, *self.timer(call, may=may, first=first)])

    def timer(self, call: int, may: bool, first: bool) -> list[tuple[float, int, bool, bool]]:
        if call in self.answer:
            if first and self.prompt_only:
                self.earn()
            return []
        again = self.send(call) if may else None
        return [] if again is None else [(again, call, True, False)]

    def arrive(self, call: int) -> None:
        one, other = (places[call] for places in self.race._places)
        if self.station.dispatch == "least" and one != other:
            order = [*range(one, len(self.clocks)), *range(one)]
            seat = min(order, key=lambda r: len(self.in_flight(r)))
        else:
            seat = min((one, other), key=self.score)
        if self.station.earnings and self.race._given.pinned[call] < 0 and not self.prompt_only:
            self.earn()
        given = self.race._given
        self.add(call, seat, float(given.work[call]), float(given.rest[call]))

    @property
    def prompt_only(self) -> bool:
        return self.station.earnings is not None and self.station.earnings.prompt_only

    def earn(self) -> None:
        assert self.station.earnings
        self.level = min(self.station.earnings.burst, self.level + self.station.earnings.fraction)

    def needed(self, call: int) -> float:
        earnings = self.station.earnings
        if earnings is None or not earnings.keeps_back:
            return 1.0
        kept = earnings.burst * 0.5 ** (self.refused.get(call, 0) + 1)
        return max(1.0, min(1.0 + kept, earnings.burst))

    def in_flight(self, replica: int) -> list[Attempt]:
        """What the caller waits for there."""
        return [
            a
            for a in self.attempts
            if a.replica == replica and not a.dropped and not a.gone and a.ended + a.rest > self.now
        ]

    def score(self, replica: int) -> float:
        self.hear(replica)
        flight = self.in_flight(replica)
        if self.station.dispatch != "aged":
            return len(flight)
        oldest = min((a.came for a in flight), default=self.now)
        return self.estimates.score(replica, len(flight), oldest, self.now)

    def hear(self, replica: int) -> None:
        """A replica's answers count once somebody looks at it."""
        for attempt in sorted(self.attempts, key=lambda a: a.ended + a.rest):
            at = attempt.ended + attempt.rest
            if (
                attempt.replica != replica
                or at > self.now
                or attempt.dropped
                or attempt.gone
                or attempt.heard
            ):
                continue
            attempt.heard = True
            if self.race._given.pinned[attempt.call] < 0:
                self.estimates.answered(replica, at - attempt.came, at)

    def add(self, call: int, replica: int, work: float, rest: float) -> None:
        self.hear(replica)
        self.attempts.append(Attempt(call, replica, work, rest, self.now))
        self.of.setdefault(call, []).append(self.attempts[-1])

    def send(self, call: int) -> float | None:
        """Send a copy; when to ask for another."""
        reissue = self.station.reissue
        assert reissue is not None
        tried = [a.replica for a in self.of[call]]
        left = [r for r in range(len(self.clocks)) if r not in tried]
        if not left:
            return None
        if self.level < self.needed(call):
            self.denied += 1
            self.refused[call] = self.refused.get(call, 0) + 1
            return 2 * self.now - self.began(call)
        self.level -= 1
        turn = int(next(self.draws) * len(left))
        left = left[turn:] + left[:turn]
        seat = left[0] if self.station.dispatch == "random" else min(left, key=self.score)
        work, rest = self.copies(float(self.race._given.work[call]), float(self.race._given.rest[call]))
        self.add(call, seat, work, rest)
        return self.now + reissue.after_ms if len(self.of[call]) <= reissue.copies else None

    def answered(self, call: int) -> None:
        self.answer[call] = self.now
        for other in self.of[call]:
            if other.ended + other.rest <= self.now or self.station.cancel == "none":
                continue
            self.hear(other.replica)
            self.estimates.dropped(
                other.replica, self.now - other.came, self.now, self.alive_at(other.replica)
            )
            other.dropped = True
            if other.ended < inf:
                continue
            served = other in [a for a, _ in self.in_service(other.replica)]
            if self.station.cancel == "running" or not served:
                other.gone = True

    def alive_at(self, replica: int) -> float:
        """When a replica answers that it lives: once it works."""
        clock = self.clocks[replica]
        stretches = () if clock is None else zip(clock._begins, clock._ends, strict=True)
        return next((end for begin, end in stretches if begin < self.now < end), self.now)

    def in_service(self, replica: int) -> list[tuple[Attempt, float]]:
        present = self.present(replica)
        return [
            (a, 1.0)
            for a in (present[: self.station.workers] if self.station.discipline == "fifo" else present)
        ]


def calls_of(
    station: Station, utilisation: float, count: int, rng: np.random.Generator, *, sending_ms: float = 0.0
) -> Calls:
    gap_ms = 1e3 / station.visits_per_s(utilisation)
    arrival = np.cumsum(rng.standard_exponential(count)) * gap_ms
    pinned = np.where(rng.random(count) < 0.1, rng.integers(station.replicas or 1, size=count), -1)
    work, rest = station.work.draw(rng, count), station.rest.draw(rng, count)
    began = np.sort(arrival - rng.random(count) * sending_ms)  # in the order of arrival too
    return Calls(arrival, work, rest, pinned, arrival - began if sending_ms else None)


def both(
    station: Station, utilisation: float, count: int, seed: int, sending_ms: float
) -> tuple[Served, Slow]:
    rng = np.random.default_rng(seed)
    calls = calls_of(station, utilisation, count, rng, sending_ms=sending_ms)
    assert station.replicas is not None
    times = clocks(station.pauses, station.replicas, np.random.default_rng([seed, 1]))
    spares = [copies_of(station, np.random.default_rng([seed, 2])) for _ in range(2)]
    drawing = np.random.default_rng([seed, 3])
    race = QueueRace(station, calls, times, spares[0], drawing)
    again = clocks(station.pauses, station.replicas, np.random.default_rng([seed, 1]))
    slow = Slow(race, station, again, spares[1], copy.deepcopy(drawing))
    served = race.run()
    slow.run()
    return served, slow


DISCIPLINES: tuple[Discipline, ...] = get_args(Discipline)
DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)
CANCELS: tuple[Cancel, ...] = get_args(Cancel)


@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.parametrize("cancel", CANCELS)
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_it_does_what_the_rules_say(discipline: Discipline, cancel: Cancel, dispatch: Dispatch) -> None:
    """Every way of serving, with copies, pauses, several workers, an account and sending, call by call."""
    case = DISCIPLINES.index(discipline) * 100 + CANCELS.index(cancel) * 10 + DISPATCHES.index(dispatch)
    for i, (workers, copies, pauses, earnings, probability, sending_ms) in enumerate(
        [
            (1, 1, None, None, 1.0, 0.0),
            (2, 3, None, None, 0.7, 25.0),
            (1, 2, Pauses(share=0.2, length=Exponential(60.0), replicas=2), None, 1.0, 0.0),
            (2, 1, Pauses(share=0.1, length=Constant(40.0)), Earnings(fraction=0.125, burst=2), 1.0, 12.0),
            (1, 2, None, Earnings(fraction=0.25, burst=3, prompt_only=True, keeps_back=True), 0.7, 8.0),
        ]
    ):
        station = Station(
            name="a",
            work=WORK,
            rest=LogNormal(5.0, 1.0),
            replicas=4,
            workers=workers,
            discipline=discipline,
            dispatch=dispatch,
            cancel=cancel,
            reissue=Reissue(after_ms=15.0, copies=copies, probability=probability),
            pauses=pauses,
            earnings=earnings,
        )
        served, slow = both(station, 0.4, 120, 1000 * case + i, sending_ms)
        expected = np.array([slow.answer[call] for call in range(120)]) - slow.race._given.arrival
        np.testing.assert_allclose(served.latency_ms, expected, atol=1e-6)
        np.testing.assert_array_equal(served.copies, [len(slow.of[call]) - 1 for call in range(120)])
        np.testing.assert_array_equal(served.replica, [slow.of[call][0].replica for call in range(120)])
        np.testing.assert_allclose(served.worked_ms, slow.worked, atol=1e-6)
        assert served.denied == slow.denied
        assert served.copies.sum() > 3


class TestRules:
    def test_duplicating_everything_pays_below_a_third(self) -> None:
        """Exponential work, random replicas, no cancellation: for many replicas the threshold is 1/3 (Vulimiri 2013)."""

        def gain(utilisation: float) -> float:
            rng = np.random.default_rng(7)
            alone = Station(name="a", work=WORK, replicas=40, dispatch="random")
            twice = replace(alone, reissue=Reissue(after_ms=0.0), cancel="none")
            calls = calls_of(alone, utilisation, 150_000, rng)
            calls = replace(calls, pinned=np.full(calls.count, -1))
            means = [serve(s, calls, np.random.default_rng(7)).latency_ms.mean() for s in (alone, twice)]
            return float(means[0] / means[1])

        assert gain(0.28) > 1.04
        assert gain(0.39) < 0.96

    def test_a_copy_at_once_halves_exponential_work_when_idle(self) -> None:
        station = Station(name="a", work=WORK, replicas=50, reissue=Reissue(after_ms=0.0))
        calls = Calls(
            np.arange(20_000.0) * 1e4,
            WORK.draw(np.random.default_rng(1), 20_000),
            np.zeros(20_000),
            np.full(20_000, -1),
        )
        served = serve(station, calls, np.random.default_rng(2))
        assert served.latency_ms.mean() == pytest.approx(5.0, rel=0.03)
        assert (served.copies == 1).all()
        assert served.extra_ms == pytest.approx(0.0, abs=0.02 * served.worked_ms.sum())  # two halves are one

    def test_no_copy_goes_where_there_is_nobody_else(self) -> None:
        alone = Station(name="a", work=WORK)
        calls = calls_of(alone, 0.8, 2000, np.random.default_rng(1))
        raced = replace(alone, reissue=Reissue(after_ms=5.0))
        served = [serve(station, calls, np.random.default_rng(2)) for station in (alone, raced)]
        np.testing.assert_array_equal(served[0].latency_ms, served[1].latency_ms)
        assert not served[1].copies.any()

    def test_copies_are_capped(self) -> None:
        station = Station(name="a", work=Constant(50.0), replicas=8, reissue=Reissue(after_ms=10.0, copies=3))
        calls = calls_of(station, 0.1, 500, np.random.default_rng(1))
        served = serve(station, replace(calls, pinned=np.full(500, -1)), np.random.default_rng(2))
        assert set(served.copies.tolist()) == {3}

    def test_the_account_bounds_the_copies(self) -> None:
        station = Station(
            name="a",
            work=WORK,
            replicas=4,
            reissue=Reissue(after_ms=1.0),
            earnings=Earnings(fraction=0.05, burst=5),
        )
        calls = calls_of(station, 0.5, 10_000, np.random.default_rng(1))
        served = serve(station, calls, np.random.default_rng(2))
        assert 0.04 * 9000 < served.copies.sum() <= 5 + 0.05 * (calls.pinned < 0).sum()
        assert served.denied > 0

    def test_copies_that_overload_their_stage_are_refused(self) -> None:
        """Without cancellation or an account waits make copies, which make waits: it never settles."""
        for discipline in DISCIPLINES:
            station = Station(
                name="busy",
                work=WORK,
                replicas=4,
                discipline=discipline,
                cancel="none",
                reissue=Reissue(after_ms=20.0),
            )
            calls = calls_of(station, 0.7, 50_000, np.random.default_rng(1))
            with pytest.raises(OverloadError, match=r"stage 'busy'.*overload"):
                serve(station, calls, np.random.default_rng(2))

    def test_a_paused_replica_does_nothing_meanwhile(self) -> None:
        """All that a stage works, its pauses and its idle time add up; and pauses show as waits."""
        pauses = Pauses(share=0.3, length=Exponential(200.0))
        station = Station(name="a", work=Constant(5.0), pauses=pauses)
        calls = calls_of(station, 0.3, 100_000, np.random.default_rng(1))
        served = serve(station, calls, np.random.default_rng(2))
        calm = serve(replace(station, pauses=None), calls, np.random.default_rng(2))
        assert served.worked_ms.sum() == pytest.approx(calm.worked_ms.sum())
        assert (served.latency_ms >= calm.latency_ms - 1e-6).all()
        # A call comes in a pause, or one begins while it is served, and then waits for what is left of it.
        assert 0.3 < (served.wait_ms > 20).mean() < 0.6

    def test_the_share_and_the_length_of_pauses(self) -> None:
        clock = PausingClock(Pauses(share=0.2, length=Exponential(30.0)), np.random.default_rng(1))
        assert clock.worked(1e7) == pytest.approx(0.8e7, rel=0.02)
        moments = np.sort(np.random.default_rng(2).random(1000) * 1e6)
        worked = clock.worked_at(moments)
        np.testing.assert_allclose(worked, [clock.worked(moment) for moment in moments.tolist()])
        assert (np.diff(worked) >= 0).all()
        back = clock.moments_at(worked)
        np.testing.assert_allclose(back, [clock.moment(own) for own in worked.tolist()])
        assert (back <= moments + 1e-6).all()  # in a pause: its beginning
        assert (np.abs(back - moments) < 1e-6).mean() == pytest.approx(0.8, abs=0.05)

    def test_background_takes_what_it_says(self) -> None:
        background = Background(utilisation=0.25, work=Exponential(3.0))
        station = Station(name="a", work=WORK, replicas=3, background=background)
        rng = np.random.default_rng(1)
        arrival = np.cumsum(rng.standard_exponential(60_000)) * 1e3 / station.visits_per_s(0.6)
        calls = Calls(arrival, WORK.draw(rng, 60_000), np.zeros(60_000), np.full(60_000, -1))
        served = serve(station, calls, np.random.default_rng(2))
        assert len(served.latency_ms) == len(served.copies) == 60_000
        np.testing.assert_allclose(served.worked_ms / arrival[-1], 0.6, rtol=0.05)


class TestWithoutQueues:
    def test_copies_race_without_load(self) -> None:
        station = Station(
            name="a", work=Constant(0.0), rest=WORK, replicas=None, reissue=Reissue(after_ms=0.0)
        )
        rest = WORK.draw(np.random.default_rng(1), 50_000)
        calls = Calls(np.arange(50_000.0), np.zeros(50_000), rest, np.full(50_000, -1))
        served = serve(station, calls, np.random.default_rng(1))
        assert served.latency_ms.mean() == pytest.approx(5.0, rel=0.02)
        assert (served.latency_ms <= rest).all()
        assert served.copies.sum() == 50_000

    def test_a_coin_for_each_call(self) -> None:
        reissue = Reissue(after_ms=10.0, probability=0.25, copies=2)
        station = Station(name="a", work=Constant(0.0), rest=WORK, replicas=None, reissue=reissue)
        calls = Calls(
            np.arange(50_000.0),
            np.zeros(50_000),
            WORK.draw(np.random.default_rng(1), 50_000),
            np.full(50_000, -1),
        )
        served = serve(station, calls, np.random.default_rng(1))
        assert (served.copies > 0).sum() == pytest.approx(0.25 * np.exp(-1) * 50_000, rel=0.05)


class TestBadInput:
    @pytest.mark.parametrize(
        ("changes", "pattern"),
        [
            ({"replicas": 0}, "stage 'a': replicas: must be a whole number"),
            ({"replicas": True}, "replicas"),
            ({"workers": 1025}, "workers.*1024"),
            ({"fanout": 1.5}, "fanout"),
            ({"discipline": "lifo"}, "discipline: must be one of fifo, sharing, not 'lifo'"),
            ({"dispatch": "best"}, "dispatch: must be one of random, two, aged, least"),
            ({"cancel": True}, "cancel: must be one of none, queued, running"),
            (
                {"replicas": None, "background": Background(utilisation=0.1, work=WORK)},
                "background: needs replicas",
            ),
        ],
    )
    def test_stations(self, changes: dict[str, Any], pattern: str) -> None:
        with pytest.raises(InputError, match=pattern):
            Station(**{"name": "a", "work": WORK, **changes})

    @pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
    def test_shares(self, value: float) -> None:
        with pytest.raises(InputError, match=r"pauses.share"):
            Pauses(share=value, length=WORK)
        with pytest.raises(InputError, match=r"background.utilisation"):
            Background(utilisation=value, work=WORK)

    @pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
    def test_laws(self, value: float) -> None:
        for make in (Constant, Exponential, lambda v: LogNormal(v, 1.0), lambda v: LogNormal(1.0, v)):
            with pytest.raises(InputError, match="finite number"):
                make(value)

    def test_no_length(self) -> None:
        with pytest.raises(InputError, match=r"pauses.length"):
            Pauses(share=0.1, length=Constant(0.0))
        with pytest.raises(InputError, match=r"background.work"):
            Background(utilisation=0.1, work=Constant(0.0))

    def test_accounts(self) -> None:
        with pytest.raises(InputError, match=r"earnings.fraction"):
            Earnings(fraction=1.5)
        with pytest.raises(InputError, match=r"earnings.burst"):
            Earnings(fraction=0.1, burst=-1)

    def test_a_load_that_calls_cannot_make(self) -> None:
        busy = Station(name="a", work=WORK, background=Background(utilisation=0.5, work=WORK))
        assert busy.utilisation(busy.visits_per_s(0.9)) == pytest.approx(0.9)
        for station, utilisation in ((busy, 0.4), (Station(name="a", work=WORK, replicas=None), 0.5)):
            with pytest.raises(InputError, match="cannot be reached"):
                station.visits_per_s(utilisation)
