"""Jobs that misbehave and files that are damaged: jobs end when told to, and the others go on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.runtime.cluster.state.jobs import journal
from kwiken.runtime.cluster.state.jobs.documents import EventKind, JobEvent, exit_words
from kwiken.runtime.cluster.state.jobs.folder import JobFolder
from kwiken.runtime.cluster.state.jobs.journal import JobJournal, read_events
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.upkeep.jobs import job_runner, shim
from kwiken.upkeep.jobs.job_runner import JobRunner
from tests.support.allocation.jobs import FixedRoom, order
from tests.support.runtime.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
WITHIN_S = PATIENCE_S


@asynccontextmanager
async def running(folder: JobFolder, told: list[str]) -> AsyncIterator[JobRunner]:
    """A runner of jobs on one node of two cores."""
    assert folder.lock()
    async with NodeLimits() as limits:
        limits.add_node("one", Limit(2.0, 1.0))
        runner = JobRunner(folder, FixedRoom({"one": (1.0, 2.0)}), limits, say=told.append)
        runner.resume()
        yield runner
        await runner.close()


async def run_until(runner: JobRunner, there: Path) -> None:
    until = time.monotonic() + WITHIN_S
    while not os.path.exists(there) and time.monotonic() < until:  # noqa: ASYNC240, PTH110 - a look
        await runner.step()
        await asyncio.sleep(0.02)
    assert os.path.exists(there)  # noqa: ASYNC240, PTH110


def end_of(folder: JobFolder, job: str) -> JobEvent:
    (end,) = [event for event in read_events(folder.journal) if event.job == job and event.kind.final]
    return end


def test_a_command_that_ignores_its_cancelling_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "STOP_S", 0.2)
    folder, told = JobFolder(tmp_path), list[str]()
    script = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(tmp_path / 'up')!r}, 'w'); time.sleep(600)"
    folder.submit(order("deaf", command=[sys.executable, "-c", script]))

    async def scenario() -> None:
        async with running(folder, told) as runner:
            await run_until(runner, tmp_path / "up")
            folder.ask_to_cancel("deaf")
            until = time.monotonic() + WITHIN_S
            while list(folder.names()) and time.monotonic() < until:
                await runner.step()
                await asyncio.sleep(0.02)

    asyncio.run(scenario())
    end = end_of(folder, "deaf")
    assert end.kind is EventKind.INTERRUPTED
    assert end.reason == "it was told to end, and was killed after 0.2 s"


def test_what_a_command_writes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "MAX_OUTPUT", 10_000)
    monkeypatch.setattr(job_runner, "SHOW_S", 0.1)
    folder, told = JobFolder(tmp_path), list[str]()
    folder.submit(order("loud", command=["sh", "-c", "while true; do echo aaaaaaaaaaaaaaaaaaaaaaaaa; done"]))
    log = folder.log("loud")

    async def scenario() -> None:
        async with running(folder, told) as runner:
            await run_until(runner, log.with_name(log.name + ".1"))

    asyncio.run(scenario())
    assert log.with_name(log.name + ".1").stat().st_size <= 10_000


def test_a_job_that_fits_on_no_node_is_told_and_holds_up_nobody(tmp_path: Path) -> None:
    folder, told = JobFolder(tmp_path), list[str]()
    folder.submit(order("huge", cores=64.0, submitted_at=1.0))
    folder.submit(order("small", command=["touch", str(tmp_path / "ran")], submitted_at=2.0))

    async def scenario() -> None:
        async with running(folder, told) as runner:
            await run_until(runner, tmp_path / "ran")
            (shown,) = runner.view().waiting
            assert (shown.job, shown.too_large) == ("huge", True)

    asyncio.run(scenario())
    assert "job huge waits for a larger node: none has 64 cores and 0 GB" in told


@pytest.mark.parametrize("suffix", [".claim", ".result"])
def test_a_job_with_a_damaged_file_is_ended_and_the_others_wait_on(tmp_path: Path, suffix: str) -> None:
    folder, told = JobFolder(tmp_path), list[str]()
    for name in ("hurt", "well"):
        folder.submit(order(name))
    assert shim.make_claim(folder.path("hurt", ".claim"), "one")
    folder.path("hurt", suffix).write_bytes(b"")  # as a power cut leaves it
    assert folder.lock()
    runner = JobRunner(folder, FixedRoom({"one": (1.0, 2.0)}), NodeLimits(), say=told.append)
    runner.resume()
    end = end_of(folder, "hurt")
    assert end.kind is EventKind.INTERRUPTED
    assert f"hurt{suffix}: is not what it should be" in end.reason
    assert end.reason.endswith("; it is not run again")
    assert [one.job for one in runner.view().waiting] == ["well"]
    folder.unlock()


@pytest.mark.parametrize("known", [False, True])
async def test_an_order_of_the_future_does_not_stop_the_clock(tmp_path: Path, known: bool) -> None:
    """Its moment is new to a runner, or known from the journal of one that had no room."""
    folder, waiting = JobFolder(tmp_path), list[str]()
    folder.submit(order("later", submitted_at=4e9))
    for cores in (0.5, 2.0) if known else (2.0,):
        assert folder.lock()
        async with NodeLimits() as limits:
            limits.add_node("one", Limit(2.0, 1.0))
            room = FixedRoom({"one": (1.0, cores)})
            runner = JobRunner(folder, room, limits, say=lambda _: None, clock=lambda: 1e9)
            runner.resume()
            await runner.step()
            waiting = [one.job for one in runner.view().waiting]
            await runner.close()
    assert waiting == []


def test_a_command_that_is_told_to_end_before_it_runs_does_not_run(tmp_path: Path) -> None:
    job = shim.Command(["touch", str(tmp_path / "ran")], str(tmp_path))
    job.end()
    assert job.run() == -15
    assert not (tmp_path / "ran").exists()


def test_what_a_command_leaves_behind_ends_with_the_job(tmp_path: Path) -> None:
    left = tmp_path / "left"
    words = ["sh", "-c", f"sleep 600 & echo $! > {left}"]
    files = [str(tmp_path / name) for name in ("x.claim", "x.result")]
    subprocess.run(
        [sys.executable, "-I", "-S", shim.__file__, *files, "one", str(tmp_path), "--", *words],
        start_new_session=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert '"code": 0' in (tmp_path / "x.result").read_text()
    pid, until = int(left.read_text()), time.monotonic() + WITHIN_S
    while _lives(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_journal_loses_old_jobs_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SHORTENED", 20_000)
    monkeypatch.setattr(journal, "KEPT", 5)
    path = tmp_path / "journal.jsonl"
    written = JobJournal(path)
    written.append(JobEvent(at=0.0, job="waits", kind=EventKind.ARRIVED))
    for number in range(2_000):
        written.append(JobEvent(at=1.0, job=f"job-{number}", kind=EventKind.ENDED, code=0))
        assert path.stat().st_size <= 21_000
    written.close()
    events = read_events(path)
    assert (events[0].job, events[-1].job) == ("waits", "job-1999")


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-99, "signal 99")]
)
def test_ends_are_told_in_words(code: int, words: str) -> None:
    assert exit_words(code) == words


def test_a_command_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be text in UTF-8"):
        order("odd", command=["\udcff"]).check(where="order")
