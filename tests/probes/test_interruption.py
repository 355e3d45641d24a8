"""An interrupted or killed probe leaves nothing behind: no process, no folder, no control group."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models.probes import ProbeRun
from tests.support.project.compilers import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(sys.platform != "linux", reason="probes need Linux"),
]
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]


@pytest.fixture
def stage_probe(tmp_path: Path) -> Iterator[ProbeRun]:
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"name": "ada"}\n')
    work = tmp_path / "work"
    work.mkdir()
    (work / "data.txt").write_text("x")
    words = ("--stage", "greet", "--requests", str(requests), "--working-folder", str(work))
    run = ProbeRun(tmp_path, "stage", "services.hello:hello", *words)
    yield run
    run.close()


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_stage_probe_leaves_nothing_behind(
    stage_probe: ProbeRun, number: signal.Signals, code: int
) -> None:
    stage_probe.wait_for(lambda: any("run_stage" in command for command in stage_probe.processes()))
    assert [path.name for path in stage_probe.temporary.glob("*/work/*")] == ["data.txt"]
    stage_probe.process.send_signal(number)
    assert stage_probe.process.wait(timeout=60) == code
    stage_probe.wait_for(lambda: not stage_probe.processes())
    assert list(stage_probe.temporary.iterdir()) == []
    assert stage_probe.groups() == []


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_machine_probe_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    run = ProbeRun(tmp_path, "machine", "--source", "disk", "--source", "cpu-int", "--no-crosstalk")
    try:
        run.wait_for(lambda: any("probe-kernels" in command for command in run.processes()))
        run.process.send_signal(number)
        assert run.process.wait(timeout=60) == code
        run.wait_for(lambda: not run.processes())
        assert list(run.temporary.iterdir()) == []
    finally:
        run.close()


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.1, 0.4, 0.8, 1.1, 1.5, 2.0, 2.7, 3.5, 5.0])
def test_a_probe_interrupted_at_any_moment_leaves_nothing_behind(
    stage_probe: ProbeRun, after_s: float
) -> None:
    """Before Python runs the command, the signal ends the process by itself."""
    time.sleep(after_s)
    stage_probe.process.send_signal(signal.SIGINT)
    assert stage_probe.process.wait(timeout=60) in {130, -signal.SIGINT, 1, 0}
    stage_probe.wait_for(lambda: not stage_probe.processes())
    assert list(stage_probe.temporary.iterdir()) == []
    assert stage_probe.groups() == []
