"""Measurement of the demo: requests and spend by plan, changes of plan, and the disturbance."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.apps.console.output import Bar
from kwiken.apps.demo.faults.disturb import DisturbanceError, DisturbedStage, Disturber, choose
from kwiken.apps.demo.faults.pauser import PausedProcess
from kwiken.apps.demo.pace.attempt import InconclusiveRunError
from kwiken.apps.demo.pace.health import Finding, HealthWindow
from kwiken.apps.demo.pace.monitor import Monitor
from kwiken.apps.demo.pace.rate_search import Pace
from kwiken.apps.demo.progress import TerminalWatch
from kwiken.apps.demo.setup.blocks import ARMS, Block, Schedule
from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.setup.load import Load, LoadError, Record, read_records
from kwiken.apps.demo.setup.settings import MAX_SECONDS, MIN_SECONDS, DemoSettings, Timing, divide
from kwiken.apps.demo.trial.arms import run_blocks
from kwiken.apps.demo.trial.measure import assign, attach, calls_of, spent_of, under_another_plan
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.runtime.base.process_id import family
from kwiken.runtime.gateway.control.client import NoAnswerError
from kwiken.tail.planning.planner import make_plan
from tests.support.models.profiles import small_profile
from tests.support.project.commands import refused, run
from tests.support.runtime.waiting import PATIENCE_S, until

WINDOW = HealthWindow(rate=50.0, answered=1, failed=0, backlog=0, lag_ms=0.0, line_ms=0.0, use=None)
VOID = Finding("others took all")


async def sound_end() -> tuple[HealthWindow, Finding | None]:
    return WINDOW, None


BLOCKS = [Block("before", 0, 100.0, 105.0), Block("after", 0, 105.0, 110.0), Block("after", 1, 110.0, 115.0)]


def record(number: int, due: float, latency: float | None = 5.0, status: int = 200) -> Record:
    error = "dropped" if latency is None else None
    return Record(due, None if latency is None else 0.1, latency, status, error, f"{number:032x}")


def noted(number: int, at_s: float, plan: str | None, *kinds: AttemptKind) -> RequestRecord:
    """A request of one stage with a call of each kind, half a second apart."""
    attempts = [
        AttemptRecord(
            1, 0, i, kind, "r", "n", int((at_s + i / 2) * 1e9), int((at_s + i / 2 + 0.1) * 1e9), Outcome.WON
        )
        for i, kind in enumerate(kinds)
    ]
    visit = StageRecord(2, "spell", (), 1, int(at_s * 1e9), int(at_s * 1e9) + 10, attempts=attempts)
    return RequestRecord(
        number, 3, None, "search", int(at_s * 1e9), int(at_s * 1e9) + 10, plan=plan, stages=[visit]
    )


def test_requests_go_to_the_arm_in_whose_block_they_were_due() -> None:
    due = [99.0, 100.2, 101.0, 104.97, 106.0, 111.0, 116.0]
    arms, settling = assign([record(n, when) for n, when in enumerate(due)], Schedule(BLOCKS, 0.5, 0.05))
    assert [row.intended_s for row in arms["before"].rows] == [101.0]
    assert [(row.intended_s, row.block) for row in arms["after"].rows] == [(106.0, 1), (111.0, 2)]
    assert arms["even"].rows == []
    assert settling == 2
    assert arms["after"].seconds == pytest.approx(8.9)


def test_failed_and_dropped_requests_are_counted_and_are_no_gain() -> None:
    records = [record(1, 101), record(2, 102, 3.0, 503), record(3, 103, None, 0), record(4, 104, 12_000.0, 0)]
    data = assign(records, Schedule(BLOCKS, 0.5))[0]["before"]
    assert (len(data.sent), data.failed, data.dropped) == (3, 2, 1)
    when, took = data.series()
    assert np.allclose(when, [101, 102, 103, 104])
    assert np.allclose(took, [5, 10_000, 10_000, 12_000])


def test_spend_of_an_arm_by_hand() -> None:
    schedule = Schedule(BLOCKS, 0.0)
    arms, _ = assign([record(1, 106), record(2, 111), record(3, 101)], schedule)
    primary, copy, retry = AttemptKind.PRIMARY, AttemptKind.REISSUE, AttemptKind.RETRY
    attach(
        arms,
        [
            noted(1, 106.0, "p", primary, copy),
            noted(2, 111.0, "q", primary, primary, retry),
            noted(3, 101.0, None, primary),
            noted(99, 106.0, "p", copy),
        ],
    )
    calls = calls_of(arms["after"], schedule, {"spell": 2.0})
    assert sorted(call.at_s for call in calls) == pytest.approx([1.0, 1.5, 6.0, 6.5, 7.0])
    spent = spent_of(calls, schedule.seconds["after"])
    assert (spent.calls, spent.copies, spent.retries) == (3, 1, 1)
    assert spent.reissue == pytest.approx(1 / 3)
    arms["after"].records[0].stages[0].attempts[1].catch_up = True
    spent = spent_of(calls_of(arms["after"], schedule, {"spell": 2.0}), schedule.seconds["after"])
    assert (spent.copies, spent.late_copies, spent.retries) == (0, 1, 1)
    assert spent.reissue == 0.0
    assert spent.catch_up == pytest.approx(1 / 3)
    assert under_another_plan(arms["after"], "p") == 1
    assert under_another_plan(arms["before"], None) == 0


def test_requests_that_met_a_pause_are_told_from_the_others() -> None:
    schedule = Schedule(BLOCKS, 0.5)
    arms, _ = assign([record(n, 101.0 + n / 10) for n in range(4)], schedule)
    # Each has one call, for 100 ms from its start on, at the replica "r".
    attach(arms, [noted(n, 101.0 + n, None, AttemptKind.PRIMARY) for n in range(4)])
    data = arms["before"]
    assert data.undisturbed_ms({}).size == 4
    assert data.undisturbed_ms({"another": [(0.0, 1e9)]}).size == 4
    assert data.undisturbed_ms({"r": [(0.0, 1e9)]}).size == 0
    assert (
        data.undisturbed_ms({"r": [(90.0, 91.0), (101.05, 101.06), (102.5, 103.0), (103.05, 103.2)]}).size
        == 2
    )
    assert data.undisturbed_ms({"r": [(100.0, 101.0), (104.2, 105.0)]}).size == 4  # before and after


@given(seconds=st.floats(MIN_SECONDS, MAX_SECONDS))
def test_the_time_is_divided_without_rest(seconds: float) -> None:
    timing = divide(seconds)
    assert timing.total_s == pytest.approx(seconds)
    assert timing.block_s > 0.5
    assert timing.rounds >= 2
    assert timing.rounds <= len(ARMS) or timing.rounds % len(ARMS) == 0


@pytest.mark.parametrize("seconds", [0, 7.9, 4000, float("nan")])
def test_too_short_or_long_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="seconds: must be from"):
        divide(seconds)


async def test_every_block_starts_from_no_plan_and_gets_its_own() -> None:
    plan = make_plan(small_profile(), budgets=Budgets(reissue=0.05), created="2025-01-01T00:00:00Z")
    put: list[Plan | None] = []

    async def take(value: Plan | None) -> None:
        put.append(value)

    async def tick(_: float) -> None:
        await asyncio.sleep(0)

    plans = {"before": None, "after": plan, "even": plan, "p95": plan}
    timing = Timing(0, 0, 0, 2, 0.02)
    trial, attempt = await run_blocks(
        plans, timing, seed=1, put=take, begin=lambda: None, end=sound_end, tick=tick
    )
    assert not attempt.failed
    assert trial.repeated == []
    assert [block.arm for block in trial.blocks] == [arm for order in trial.order for arm in order]
    assert put[0::2] == [None] * 2 * len(ARMS)
    assert put[1::2] == [plans[block.arm] for block in trial.blocks]
    assert all(a.end_s <= b.start_s for a, b in zip(trial.blocks, trial.blocks[1:], strict=False))


async def test_a_block_that_tells_nothing_is_repeated_and_does_not_count() -> None:
    ends = iter([VOID, None, None, VOID, *[None] * 7])
    put: list[Plan | None] = []

    async def take(value: Plan | None) -> None:
        put.append(value)

    async def end() -> tuple[HealthWindow, Finding | None]:
        return WINDOW, next(ends)

    async def tick(_: float) -> None: ...

    trial, attempt = await run_blocks(
        dict.fromkeys(ARMS),
        Timing(0, 0, 0, 2, 0.01),
        seed=1,
        put=take,
        begin=lambda: None,
        end=end,
        tick=tick,
    )
    assert not attempt.failed
    assert [block.arm for block in trial.blocks] == [arm for order in trial.order for arm in order]
    assert len(trial.repeated) == 2
    assert len(put) == 2 * 10


async def test_a_trial_ends_once_too_many_blocks_told_nothing() -> None:
    async def nothing(_: object) -> None: ...

    async def end() -> tuple[HealthWindow, Finding | None]:
        return WINDOW, VOID

    trial, attempt = await run_blocks(
        dict.fromkeys(ARMS),
        Timing(0, 0, 0, 3, 0.01),
        seed=1,
        put=nothing,
        begin=lambda: None,
        end=end,
        tick=nothing,
    )
    assert attempt.failed
    assert attempt.reason == "others took all; 5 stretches told nothing"
    assert trial.blocks == []


async def test_the_monitor_counts_what_ended_in_the_stretch(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    inside: dict[str, float | None] = {"inside": 3, "line_ms": None}

    async def status() -> dict[str, float | None]:
        return inside

    monitor = Monitor(path, pids=lambda: [os.getpid()], status=status)
    assert monitor.first_due_s() is None
    line = '{"intended_s":7.5,"start_lag_ms":%s,"latency_ms":%s,"status":%d,"error":null,"trace_id":"a"}\n'
    path.write_text(line % (0.5, 5, 200))
    assert monitor.first_due_s() == 7.5
    monitor.begin()
    with path.open("a") as file:
        file.write(line % (1.5, 5, 200) + line % (2.5, 9, 503) + line % ("null", "null", 0) + '{"intended')
    window = await monitor.end(20.0)
    assert (window.rate, window.answered, window.failed) == (20.0, 1, 2)
    assert (window.backlog, window.line_ms) == (3, 0.0)
    assert 1.5 < window.lag_ms <= 2.5
    path.write_text(
        path.read_text()
        + '_s":8.0,"start_lag_ms":1,"latency_ms":1,"status":200,"error":null,"trace_id":""}\n'
    )
    assert (await monitor.end(20.0)).answered == 1


async def test_a_gateway_that_does_not_answer_has_an_unknown_backlog(tmp_path: Path) -> None:
    async def status() -> dict[str, float]:
        raise NoAnswerError("busy")

    monitor = Monitor(tmp_path / "records.jsonl", pids=list, status=status)
    assert (await monitor.end(1.0)).backlog is None


async def test_a_tick_that_fails_ends_the_trial() -> None:
    async def tick(_: float) -> None:
        raise LoadError("gone")

    async def put(_: Plan | None) -> None: ...

    with pytest.raises(LoadError, match="gone"):
        await run_blocks(
            dict.fromkeys(ARMS),
            Timing(0, 0, 0, 2, 0.3),
            seed=1,
            put=put,
            begin=lambda: None,
            end=sound_end,
            tick=tick,
        )


def test_every_replica_of_the_two_stages_drawn_may_be_hit() -> None:
    processes: list[dict[str, Any]] = [
        {"stage": name, "replica": f"{name}-{number}", "identity": {"pid": 100 * at + number}}
        for at, name in enumerate(("rank", "parse", "page", "spell"), start=1)
        for number in (1, 0)
    ]
    calls = {"rank": 1, "parse": 8, "page": 1, "spell": 1}
    drawn = [choose(processes, seed, rate=50.0, calls=calls) for seed in range(60)]
    assert {frozenset(each) for each in drawn} == {frozenset(pair) for pair in combinations(calls, 2)}
    chosen = drawn[3]
    for name, flaky in chosen.items():
        own = [each for each in processes if each["stage"] == name]
        assert flaky.replicas == {each["identity"]["pid"]: each["replica"] for each in own}
        assert flaky.target.pids == [
            each["identity"]["pid"] for each in sorted(own, key=lambda one: str(one["replica"]))
        ]
    assert choose(reversed(processes), 3, rate=50.0, calls=calls) == chosen
    slower = choose(processes, 3, rate=5.0, calls=calls)
    assert all(slower[name].target.share < flaky.target.share for name, flaky in chosen.items())


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see a process' state"
)


async def until_paused(disturber: Disturber, pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while state_of(pid) != "T":
        assert time.monotonic() < deadline
        disturber.check()
        await asyncio.sleep(0.002)


@needs_proc
async def test_the_disturbance_reports_its_pauses_and_leaves_no_replica_paused(
    sleeper: subprocess.Popen[bytes],
) -> None:
    flaky = {"rank": DisturbedStage(PausedProcess("rank", [sleeper.pid], 0.9), {sleeper.pid: "rank-1"})}
    async with Disturber(flaky, 3) as disturber:
        await until_paused(disturber, sleeper.pid)
        await asyncio.sleep(0.4)
    assert state_of(sleeper.pid) in "SR"
    report = disturber.report()
    paused = report.stages["rank"]
    assert not report.calm
    assert {replica for replica, _, _ in paused.pauses} == {"rank-1"}
    assert paused.planned == 0.9
    assert 0 < paused.realised <= 1
    assert paused.bursts == len(paused.pauses) >= 1


@needs_proc
async def test_a_disturbance_that_was_killed_is_noticed_and_undone(sleeper: subprocess.Popen[bytes]) -> None:
    flaky = {"rank": DisturbedStage(PausedProcess("rank", [sleeper.pid], 0.9), {sleeper.pid: "rank-1"})}
    before = set(family(os.getpid()))
    async with Disturber(flaky, 3) as disturber:
        await until_paused(disturber, sleeper.pid)
        (process,) = set(family(os.getpid())) - before
        os.kill(process, signal.SIGKILL)
        with pytest.raises(DisturbanceError, match="too soon"):
            await until(disturber.check)
    assert state_of(sleeper.pid) in "SR"


async def test_calm_disturbs_nothing() -> None:
    async with Disturber({}, 3) as disturber:
        disturber.check()
    assert disturber.report().calm
    assert disturber.report().stages == {}


async def checked_for(load: Load, seconds: float) -> None:
    """Check a load again and again, until that fails."""
    async with asyncio.timeout(seconds):
        while True:
            await load.check()
            await asyncio.sleep(0.02)


async def test_a_load_that_ends_too_soon_says_why(tmp_path: Path) -> None:
    queries = tmp_path / "queries.txt"
    queries.write_text("x\n")
    load = Load(
        "http://127.0.0.1:1", arrivals=1, longest_s=5, queries=queries, records=tmp_path / "r", seed=0
    )
    async with load:
        with pytest.raises(LoadError, match=r"the load ended too soon: (?!kwiken: )"):
            await checked_for(load, PATIENCE_S)


def test_bad_records_name_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        '{"intended_s":1,"start_lag_ms":0,"latency_ms":1,"status":200,"error":null,"trace_id":"a"}\n{"x":1}\n'
    )
    with pytest.raises(InputError, match=r"r\.jsonl:2: "):
        read_records(path)


def test_an_earlier_demo_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    mine = [tmp_path / "notes.txt", traces / "keep.txt"]
    old = [tmp_path / "demo.json", traces / "search.1.000001.jsonl", traces / "search.2.000001.jsonl.part"]
    for path in (*mine, *old):
        path.write_text("x")
    Folder.make(tmp_path).release()
    assert all(path.exists() for path in mine)
    assert not any(path.exists() for path in old)


@pytest.mark.parametrize("name", ["profile.json", "plan.json", "traces/search.1.000001.jsonl"])
def test_what_no_demo_wrote_is_never_removed(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("days of work")
    with pytest.raises(InputError, match=rf"holds {name}, which no demo wrote"):
        Folder.make(tmp_path)
    assert theirs.read_text() == "days of work"


def test_a_demo_that_ended_early_leaves_a_folder_for_the_next(tmp_path: Path) -> None:
    folder = Folder.make(tmp_path)
    (folder.traces / "search.1.000001.jsonl.part").write_text("{}")
    with pytest.raises(InputError, match="another demo writes there"):
        Folder.make(tmp_path)
    folder.release()
    again = Folder.make(tmp_path)
    assert not list(again.traces.iterdir())
    again.release()


def test_packed_traces_are_the_same_traces(tmp_path: Path) -> None:
    folder = Folder.make(tmp_path)
    lines = b'{"resourceSpans":[]}\n' * 20_000
    for name in ("search.1.000001.jsonl", "search.1.000002.jsonl.part"):
        (folder.traces / name).write_bytes(lines)
    (folder.traces / "keep.txt").write_text("x")
    folder.pack_traces()
    folder.release()
    names = ["keep.txt", "search.1.000001.jsonl.gz", "search.1.000002.jsonl.gz"]
    assert sorted(path.name for path in folder.traces.iterdir()) == names
    for name in names[1:]:
        assert gzip.decompress((folder.traces / name).read_bytes()) == lines
        assert (folder.traces / name).stat().st_size < len(lines) / 20


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"rate": 1e9}, "at most 2000"), ({"rate": 1.0}, "about 16 requests, and 50 are needed")],
)
def test_a_rate_that_cannot_work_is_refused_before_anything_starts(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        DemoSettings(seconds=66, budget=0.05, seed=0, calm=False, out=tmp_path, **settings)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file"):
        Folder.make(tmp_path / "file")


def test_the_pausing_process_loads_little() -> None:
    code = (
        "import sys, kwiken.apps.demo.faults.pauser; print('numpy' in sys.modules, 'aiohttp' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_the_bar_moves_with_the_steps_and_never_past_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spy(Bar):
        def __init__(self) -> None:
            super().__init__(None, "", None)
            self.at: list[float] = []

        def update(self, done: float, *, total: float | None = None, label: str | None = None) -> None:
            self.at.append(done)

    spy = Spy()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    watch = TerminalWatch(spy)
    for label, seconds in (("start", 0.0), ("learn", 2.0), ("plan", 0.0), ("compare", 3.0)):
        watch.step(label, seconds)
        for _ in range(3):
            watch.passed(1.0)
    assert spy.at == [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 3, 4, 5]


def test_the_pace_and_what_becomes_of_it_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    watch = TerminalWatch(Bar(None, "", None))
    watch.pace(Pace(50.0, given=2.0, request_cpu_s=0.013, share=0.34, taken=0.1), 100.0)
    watch.void(VOID)
    watch.slower("others took all", 50.0, 25.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "this machine gives 2 processors and a request takes 13 ms of them: 50 requests a second use 34% of what "
        "it gives; 100 s of load"
    )
    assert lines[1].endswith("these seconds do not count: others took all")
    assert lines[2] == "at 50 requests a second others took all: once more at 25"


def test_a_run_that_tells_nothing_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tell_nothing(*_: object) -> None:
        raise InconclusiveRunError("at 50 requests a second 3 requests failed; lower --rate")

    monkeypatch.setattr("kwiken.apps.demo.run.run_demo", tell_nothing)
    ran = run("demo", "--out", str(tmp_path / "demo"))
    assert ran.exit_code == 3
    assert (
        ran.stderr
        == "kwiken: this run tells nothing: at 50 requests a second 3 requests failed; lower --rate\n"
    )
    assert ran.stdout == ""


def full(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Has every file system say that so much room is left."""
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)


def test_the_demo_refuses_to_start_without_disk_space_for_its_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "deep" / "demo"
    full(monkeypatch, 2_000_000)
    refused(
        run("demo", "--out", str(out)), f"{out}: has room for 2 MB, and a demo of this length writes 68 MB"
    )
    assert not out.exists()


def test_what_an_earlier_demo_left_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Folder.make(tmp_path).release()
    (tmp_path / "profile.json").write_text("x" * 3000)
    full(monkeypatch, 1000)
    with pytest.raises(InputError, match="has room for 0 MB"):
        Folder.make(tmp_path, needs=5000)
    Folder.make(tmp_path, needs=3500).release()


def test_a_demo_ends_once_nothing_can_be_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.make(tmp_path)
    folder.check_room()
    full(monkeypatch, 0)
    with pytest.raises(InputError, match=f"{tmp_path}: no room is left there, so the traces are incomplete"):
        folder.check_room()
    folder.release()
