"""`kwiken doctor`: each figure's meaning, and what a run on this machine says."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kwiken.apps.doctor import checkup
from kwiken.apps.doctor.findings import (
    clock_finding,
    extra_finding,
    files_finding,
    memory_finding,
    processors_finding,
    quiet_finding,
)
from kwiken.base.machine.processor_use import ProcessorUse
from tests.support.project.commands import run


def use(*, others: float = 0.0, stolen: float = 0.0, throttled: float = 0.0) -> ProcessorUse:
    return ProcessorUse(
        seconds=2.0,
        processors=2,
        quota=math.inf,
        own=0.1,
        others=others,
        stolen=stolen,
        throttled=throttled,
        by_process={},
    )


def test_limits_are_judged_by_their_size() -> None:
    assert [files_finding(count).state for count in (65_536, 4096, 1024, 255)] == [
        "ok",
        "ok",
        "note",
        "fails",
    ]
    assert [processors_finding(given, 4).state for given in (4.0, 2.0, 0.5)] == ["ok", "ok", "note"]
    assert [memory_finding(mib << 20).state for mib in (4096, 512, 64)] == ["ok", "note", "fails"]
    assert "0.5 of 4 processors" in processors_finding(0.5, 4).found
    assert extra_finding("plan", []).state == "ok"
    assert extra_finding("plan", ["SciPy"]).cure == "pip install 'kwiken[plan]', if you need it"


@pytest.mark.parametrize(
    ("now_s", "wall_s", "state"),
    [
        (1.8e9, 2.0, "ok"),
        (1.8e9, 2.04, "ok"),
        (1.8e9, 5.0, "fails"),
        (1.8e9, -3.0, "fails"),
        (9e8, 2.0, "fails"),
    ],
)
def test_a_clock_that_jumps_or_was_never_set_fails(now_s: float, wall_s: float, state: str) -> None:
    assert clock_finding(now_s, wall_s, 2.0).state == state


@pytest.mark.parametrize(
    ("found", "late_ms", "state"),
    [
        (use(), 1.0, "ok"),
        (None, 1.0, "ok"),
        (None, 80.0, "fails"),
        (use(others=0.5), 5.0, "ok"),
        (use(others=1.0, stolen=0.5), 5.0, "fails"),
        (use(throttled=0.5), 5.0, "fails"),
        (use(), 51.0, "fails"),
    ],
)
def test_a_busy_machine_is_too_busy_to_measure(
    found: ProcessorUse | None, late_ms: float, state: str
) -> None:
    finding = quiet_finding(found, late_ms)
    assert finding.state == state
    assert ("too busy to measure" in finding.found) == (state == "fails")
    assert bool(finding.cure) == (state == "fails")


def test_a_run_checks_everything_and_names_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("doctor", "--port", str(port), "--seconds", "0.1", "--json")
    found = {each["name"]: each for each in json.loads(result.stdout)}
    extras = {"extra plan", "extra report", "extra load", "extra httpx", "extra batch", "extra otel"}
    checks = {"versions", "open files", "processors", "memory", "port", "TLS", "clock", "quiet"}
    assert set(found) == checks | extras
    assert found["port"]["state"] == "note"
    assert str(port) in found["port"]["found"]
    assert "Python 3." in found["versions"]["found"]
    assert result.exit_code == any(each["state"] == "fails" for each in found.values())


def test_a_checkup_needs_no_extra() -> None:
    code = "import sys, kwiken.apps.doctor.checkup, kwiken.cli.study.doctor; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert not {"numpy", "scipy", "yaml", "networkx", "locust"} & {*done.stdout.split()}


def test_tls_that_cannot_be_used_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIKEN_TLS_CA", str(tmp_path / "nowhere.pem"))
    result = run("doctor", "--seconds", "0.1", "--json")
    assert result.exit_code == 1
    (tls,) = [each for each in json.loads(result.stdout) if each["name"] == "TLS"]
    assert tls["state"] == "fails"
    assert "nowhere.pem" in tls["found"]


def test_timers_that_fire_late_fail_the_checkup(monkeypatch: pytest.MonkeyPatch) -> None:
    """One timer in fifty fires 80 ms late."""
    count, now_s = 0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal count, now_s
        count += 1
        now_s += seconds + 0.08 * (count % 50 == 0)

    clock = SimpleNamespace(time=lambda: 1.8e9 + now_s, monotonic=lambda: now_s, sleep=sleep)
    monkeypatch.setattr(checkup, "time", clock)
    found = {each.name: each for each in checkup.checkup(port=0, seconds=10.0)}
    assert found["clock"].state == "ok"
    assert "timers are 80.0 ms late" in found["quiet"].found
