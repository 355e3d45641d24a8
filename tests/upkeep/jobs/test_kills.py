"""Kills of the supervisor at random moments: every job runs once, and none is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kwiken.runtime.cluster.state.jobs.documents import EventKind
from kwiken.runtime.cluster.state.jobs.folder import JobFolder
from kwiken.runtime.cluster.state.jobs.journal import read_events
from tests.support.allocation.jobs import order

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's"),
]
JOBS = 24
MAX_KILLS = 12
MIN_KILLS = 6  # on a quick machine the jobs end before the last kills
LONGEST_S = 240.0


def started(state: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.allocation.jobs.supervisor", str(state)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_jobs_run_once_though_their_supervisor_is_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    """Each job notes its start and its end; a kill may come while it waits, starts, runs or ends."""
    chance = random.Random(seed)
    folder = JobFolder(tmp_path)
    ran = tmp_path / "ran"
    names = [f"job-{number}" for number in range(JOBS)]
    for name in names:
        script = (
            f"echo {name} begun >> {ran}; sleep {chance.uniform(0.0, 1.5):.2f}; echo {name} done >> {ran}"
        )
        folder.submit(
            order(
                name,
                command=["sh", "-c", script],
                folder=str(tmp_path),
                takes_s=chance.choice([None, 1.0]),
                submitted_at=time.time(),
            )
        )
    until = time.monotonic() + LONGEST_S
    kills = 0
    supervisor = started(tmp_path)
    try:
        while list(folder.names()) and time.monotonic() < until:
            if kills < MAX_KILLS:
                if chance.random() < 0.7:  # else perhaps before the jobs are taken over
                    assert supervisor.stdout is not None
                    supervisor.stdout.readline()
                time.sleep(chance.uniform(0.0, 0.9))
                supervisor.kill()
                supervisor.communicate()
                kills += 1
                supervisor = started(tmp_path)
            else:
                time.sleep(0.1)
        assert supervisor.stdout is not None
        supervisor.stdout.readline()  # the jobs may have ended under the one before: this one still starts
        supervisor.terminate()
        supervisor.communicate(timeout=30)
        assert supervisor.returncode == 0
    finally:
        supervisor.kill()
        supervisor.communicate()
    assert kills >= MIN_KILLS
    lines = Counter(ran.read_text().splitlines())
    assert lines == Counter([f"{name} {what}" for name in names for what in ("begun", "done")])
    events = read_events(folder.journal)
    ends = {event.job: event for event in events if event.kind.final}
    assert set(ends) == set(names)
    assert {event.kind for event in ends.values()} == {EventKind.ENDED}
    assert {event.code for event in ends.values()} == {0}
    assert len([event for event in events if event.kind.final]) == JOBS
