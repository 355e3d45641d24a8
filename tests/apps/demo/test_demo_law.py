"""Pause schedule of the demo: lengths and shares of pauses, and processes left running afterwards."""

from __future__ import annotations

import itertools
import math
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from kwiken.apps.demo.faults.pause_schedule import (
    MAX_BURST_S,
    MAX_MET,
    MAX_SHARE_OF_TIME,
    MEDIAN_BURST_S,
    MIN_MET,
    bursts,
    mean_burst_s,
    reach_of,
    share_of_requests,
    share_of_time,
    victims,
)
from kwiken.apps.demo.faults.pauser import Order, Pause, PausedProcess, disturb, read_order
from kwiken.base.errors import InputError
from tests.support.runtime.waiting import PATIENCE_S


def test_the_mean_burst_is_that_of_the_pause_schedule() -> None:
    rng = random.Random(1)
    draws = [min(MAX_BURST_S, rng.lognormvariate(math.log(MEDIAN_BURST_S), 0.5)) for _ in range(200_000)]
    assert mean_burst_s() == pytest.approx(sum(draws) / len(draws), rel=0.01)


def test_shares_are_log_uniform_and_within_their_bounds() -> None:
    shares = [share_of_requests(f"stage{i}", 7) for i in range(2000)]
    assert all(MIN_MET <= share <= MAX_MET for share in shares)
    middle = math.sqrt(MIN_MET * MAX_MET)
    assert 0.45 < sum(share < middle for share in shares) / len(shares) < 0.55


def test_seed_and_stage_alone_decide() -> None:
    assert share_of_requests("rank", 3) == share_of_requests("rank", 3)
    assert share_of_requests("rank", 3) != share_of_requests("rank", 4)
    assert share_of_requests("rank", 3) != share_of_requests("parse", 3)
    hit = list(itertools.islice(victims("rank", 3, 1), 3000))
    assert hit == list(itertools.islice(victims("rank", 3, 1), 3000))
    assert all(900 < hit.count(replica) < 1100 for replica in range(3))


def met_pauses(rate: float, *, met: float, reach: float, seed: int) -> float:
    """Share of the requests that meet a pause: the first at the paused replica does, those after it do not."""
    rng = random.Random(seed)
    share = share_of_time(met, rate=rate, reach=reach)
    hit, last = 0, 0.0
    for burst in itertools.islice(bursts("rank", seed, share), 4000):
        last = burst.start_s + burst.length_s
        hit += rng.expovariate(rate * reach) < burst.length_s
    return hit / (rate * last)


@pytest.mark.parametrize("reach", [reach_of(2, 1), reach_of(3, 8), 1.0])
@pytest.mark.parametrize("rate", [5.0, 20.0, 50.0, 90.0])
def test_the_same_share_of_requests_meets_a_pause_at_any_rate(rate: float, reach: float) -> None:
    assert met_pauses(rate, met=0.01, reach=reach, seed=1) == pytest.approx(0.01, rel=0.05)


@given(met=st.floats(MIN_MET, MAX_MET), rate=st.floats(0.5, 2000), reach=st.floats(0.05, 1))
def test_pauses_leave_most_of_the_time_and_grow_with_the_rate(met: float, rate: float, reach: float) -> None:
    share = share_of_time(met, rate=rate, reach=reach)
    assert 0 < share <= MAX_SHARE_OF_TIME
    assert share <= share_of_time(met, rate=2 * rate, reach=reach)


def test_reach_by_hand() -> None:
    assert reach_of(1, 1) == 1
    assert reach_of(2, 1) == 0.5
    assert reach_of(3, 2) == pytest.approx(5 / 9)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_long_run_share_is_the_drawn_one(share: float) -> None:
    runs = list(itertools.islice(bursts("rank", 5, share), 20_000))
    assert sum(b.length_s for b in runs) / (runs[-1].start_s + runs[-1].length_s) == pytest.approx(
        share, rel=0.03
    )


@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.5))
def test_bursts_follow_each_other_and_stay_short(seed: int, share: float) -> None:
    runs = list(itertools.islice(bursts("s", seed, share), 50))
    assert all(0 < b.length_s <= MAX_BURST_S for b in runs)
    assert all(a.start_s + a.length_s <= b.start_s for a, b in itertools.pairwise(runs))


class FakeProcess:
    def __init__(self, now: Callable[[], float], dies_at: float = math.inf) -> None:
        self.now, self.dies_at = now, dies_at
        self.stopped = False
        self.sent: list[tuple[float, signal.Signals]] = []

    def send(self, number: signal.Signals) -> None:
        if self.now() >= self.dies_at:
            raise ProcessLookupError
        self.stopped = number == signal.SIGSTOP
        self.sent.append((self.now(), number))


class FakeTime:
    def __init__(self, end: float) -> None:
        self.t, self.end = 1000.0, 1000.0 + end

    def now(self) -> float:
        return self.t

    def wait(self, seconds: float) -> bool:
        self.t = min(self.t + seconds, self.end)
        return self.t >= self.end


def run_fake(
    seconds: float, *, seed: int = 1, dies_at: float = math.inf
) -> tuple[dict[int, FakeProcess], list[Pause]]:
    clock = FakeTime(seconds)
    shares = {"parse": 0.1, "rank": 0.02}
    pids = {"parse": [11, 12], "rank": [21, 22, 23]}
    processes = {
        pid: FakeProcess(clock.now, dies_at if name == "rank" else math.inf)
        for name in shares
        for pid in pids[name]
    }
    order = Order(seed, [PausedProcess(name, pids[name], share) for name, share in shares.items()])
    pauses: list[Pause] = []
    disturb(order, processes, clock=clock.now, wait=clock.wait, tell=pauses.append)
    return processes, pauses


def test_every_stop_is_followed_by_its_continue() -> None:
    processes, pauses = run_fake(3000)
    for pid, process in processes.items():
        kinds = [number for _, number in process.sent]
        assert kinds[0::2] == [signal.SIGSTOP] * len(kinds[0::2])
        assert kinds[1::2] == [signal.SIGCONT] * len(kinds[0::2])
        assert len(kinds) % 2 == 0
        told = [p for p in pauses if p.pid == pid]
        assert told
        assert [t for t, _ in process.sent] == [t for p in told for t in (p.start_s, p.end_s)]
    paused = {
        name: sum(p.end_s - p.start_s for p in pauses if p.stage == name) / 3000 for name in ("parse", "rank")
    }
    assert paused["parse"] == pytest.approx(0.1, rel=0.15)
    assert paused["rank"] == pytest.approx(0.02, rel=0.35)


@given(seconds=st.floats(0.1, 60), seed=st.integers(0, 1000))
def test_no_process_stays_paused_whenever_the_disturbance_ends(seconds: float, seed: int) -> None:
    processes, _ = run_fake(seconds, seed=seed)
    assert not any(process.stopped for process in processes.values())


def test_a_replica_that_has_gone_is_left_alone_and_the_others_go_on() -> None:
    _processes, pauses = run_fake(1000, dies_at=1100.0)
    assert max(p.end_s for p in pauses if p.stage == "parse") > 1900
    assert all(p.start_s < 1100 for p in pauses if p.stage == "rank")


def test_an_error_in_the_middle_continues_all() -> None:
    clock = FakeTime(100)
    process = FakeProcess(clock.now)

    def wait(seconds: float) -> bool:
        if process.stopped:
            raise KeyboardInterrupt
        return clock.wait(seconds)

    with pytest.raises(KeyboardInterrupt):
        disturb(
            Order(1, [PausedProcess("s", [9], 0.1)]),
            {9: process},
            clock=clock.now,
            wait=wait,
            tell=lambda _: None,
        )
    assert not process.stopped


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}\n",
        b'{"seed":1,"targets":[{"stage":"a","pids":[1],"share":0.1}]}',
        b'{"seed":1,"targets":[{"stage":"a","pids":[9],"share":1.5}]}',
        b'{"seed":1,"targets":[{"stage":"a","pids":[],"share":0.1}]}',
    ],
)
def test_bad_orders_are_refused(line: bytes) -> None:
    with pytest.raises(InputError):
        read_order(line)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see whether a process is stopped"
)
def test_real_processes_are_paused_and_run_again_when_the_order_giver_goes() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    order = msgspec.json.encode(Order(3, [PausedProcess("s", [sleeper.pid], 0.97)])) + b"\n"
    pauser = subprocess.Popen(
        [sys.executable, "-m", "kwiken.apps.demo.faults.pauser"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert pauser.stdin is not None
        assert pauser.stdout is not None
        pauser.stdin.write(order)
        pauser.stdin.flush()
        deadline = time.monotonic() + PATIENCE_S
        while state_of(sleeper.pid) != "T" and time.monotonic() < deadline:
            time.sleep(0.002)
        assert state_of(sleeper.pid) == "T"
        pauser.stdin.close()
        assert pauser.wait(20) == 0
        assert state_of(sleeper.pid) in "SR"
        pauses = [msgspec.json.decode(line, type=Pause) for line in pauser.stdout.read().splitlines()]
        assert pauses
        assert all((p.stage, p.pid) == ("s", sleeper.pid) and p.end_s >= p.start_s for p in pauses)
    finally:
        sleeper.kill()
        pauser.kill()
        for process in (sleeper, pauser):
            process.wait()
        pauser.stdout.close()  # type: ignore[union-attr]
