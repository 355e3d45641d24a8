"""Jobs of a real cluster on emulated nodes: they run beside a service, and outlive a kill of its supervisor."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from kwiken.runtime.cluster.state.files import StateFiles
from kwiken.runtime.cluster.state.jobs.documents import EventKind
from kwiken.runtime.cluster.state.jobs.folder import JobFolder
from kwiken.runtime.cluster.state.jobs.journal import read_events
from tests.support.runtime.stacks import kwiken

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's"),
]
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
WITHIN_S = 60.0


def test_a_job_goes_on_though_the_supervisor_is_killed(tmp_path: Path) -> None:
    state, profile, ran = tmp_path / "state", tmp_path / "profile.json", tmp_path / "ran"
    kwiken("classify", str(EXAMPLES / "allocator" / "measurements.toml"), "-o", str(profile))
    up = [
        *("up", "services.hello:hello", "--port", "0", "--state", str(state), "--detach"),
        *("--nodes", str(EXAMPLES / "allocator" / "nodes.toml"), "--profiles", str(profile)),
        *("--workloads", str(EXAMPLES / "jobs" / "workloads.toml")),
    ]
    script = f"echo begun >> {ran}; sleep 4; echo done >> {ran}"
    job = kwiken("submit", "--state", str(state), "--cores", "2", "--", "sh", "-c", script).strip()
    kwiken(*up)
    try:
        until = time.monotonic() + WITHIN_S
        while not ran.exists() and time.monotonic() < until:
            time.sleep(0.05)
        supervisor = StateFiles(state, "hello").read()
        assert supervisor is not None
        os.kill(supervisor.supervisor.pid, signal.SIGKILL)
        assert supervisor.supervisor.wait(10.0)
        kwiken(*up)
        while list(JobFolder(state).names()) and time.monotonic() < until:
            time.sleep(0.05)
        assert ran.read_text().split() == ["begun", "done"]
        (ended,) = json.loads(kwiken("queue", "--state", str(state), "--json"))["ended"]
        assert (ended["job"], ended["code"]) == (job, 0)
        kinds = [event.kind for event in read_events(JobFolder(state).journal)]
        assert kinds.count(EventKind.PLACED) == kinds.count(EventKind.ENDED) == 1
    finally:
        kwiken("down", "--state", str(state))
