"""Short run of the whole demo: its output must be consistent. No times are asserted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwiken.apps.demo.setup.blocks import ARMS
from kwiken.apps.report.collect import Wishes, gather
from kwiken.apps.report.inputs import find
from kwiken.apps.report.model.result import read_result
from kwiken.cli.live.demo import NO_RESULT
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.codec import profile_from_json
from tests.support.runtime.waiting import PATIENCE_S

TRIES = 3

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("search_cache")]
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find processes")


def descendants(parent: int) -> set[int]:
    """Processes below one, by /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: set[int] = set()
    waiting = [parent]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def alive(pids: set[int]) -> set[int]:
    """Those that run; a zombie is none."""
    kept = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            kept.add(pid)
    return kept


def gone(pids: set[int], within_s: float = PATIENCE_S) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pids)


def start(out: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kwiken", "demo", "--out", str(out), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_a_short_demo_holds_together(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    for _ in range(TRIES):
        process = start(out, "--seconds", "20", "--rate", "12", "--json", "--seed", "4")
        said, errors = process.communicate(timeout=220)
        if process.returncode != NO_RESULT:  # else what runs beside the tests took the processors
            break
    assert process.returncode == 0, errors
    result = read_result(said, where="stdout")
    assert result == read_result((out / "demo.json").read_text(), where="demo.json")

    assert result.requests == sum(count.requests for count in result.arms.values())
    assert all(count.requests > 0 for count in result.arms.values())
    assert result.failed == 0
    for ladder in (result.before, result.after, result.even, result.p95, result.expected):
        steps = [getattr(ladder, name) for name in ladder.__struct_fields__]
        assert steps == sorted(steps)
        assert steps[0] > 0

    # A ledger's promise: the budget, and one burst of 50 requests' worth besides.
    limit = result.budgets["reissue"]
    for spent in (result.spent, result.spent_even):
        assert 0 <= spent.reissue <= spent.reissue_worst_10s + 1e-9 or spent.reissue <= limit
        assert spent.reissue <= limit * (1 + 50 / max(1, min(c.requests for c in result.arms.values())))
        assert spent.calls > 0
    used = sum(stage.used for stage in result.stages)
    assert used == pytest.approx(result.spent.reissue)
    assert sum(stage.cost for stage in result.stages) == pytest.approx(1)
    given = sum(stage.budget for stage in result.stages)
    assert given == pytest.approx(1) or given == 0

    stages = {"parse", "spell", "lookup", "symbols", "rank", "snippets", "page"}
    assert {stage.name for stage in result.stages} == stages
    assert len(result.disturbance.stages) == 2
    assert set(result.disturbance.stages) < stages
    assert all(0 < paused.planned <= 0.5 for paused in result.disturbance.stages.values())
    assert 0 < result.achieved.p50_ms <= result.after.p50_ms
    assert "12 requests a second use" in result.settings.pace

    profile = profile_from_json((out / "profile.json").read_text())
    plan = Plan.from_json((out / "plan.json").read_text())
    assert plan.profile == profile.digest
    assert {stage.name for stage in profile.stages if not stage.own_time} == stages
    rows = [json.loads(line) for line in (out / "load.jsonl").read_text().splitlines()]
    assert {row["arm"] for row in rows} == set(ARMS)
    assert len(rows) == result.requests + result.dropped
    page = (out / "report.html").read_text()
    assert "http://" not in page
    assert 'id="requests"' in page

    material = gather(find([str(out)]), Wishes())
    assert material.result == result
    assert {arm: len(values) for arm, values in material.arms.items()} == {
        arm: sum(row["arm"] == arm for row in rows) for arm in ARMS
    }


@linux
def test_an_overload_ends_with_its_reason_and_without_a_result(tmp_path: Path) -> None:
    """One gateway of this kind cannot serve a thousand requests a second on any machine."""
    out = tmp_path / "demo"
    process = start(out, "--seconds", "8", "--rate", "1000")
    _, errors = process.communicate(timeout=220)
    assert process.returncode == NO_RESULT, errors
    assert errors.splitlines()[-1].startswith("kwiken: this run tells nothing: at 1000 requests a second ")
    assert errors.splitlines()[-1].endswith("; lower --rate")
    assert not {path.name for path in out.iterdir()} & {"demo.json", "report.html", "plan.json"}


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_stays_however_the_demo_ends(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path / "demo", "--seconds", "30", "--rate", "10")
    assert process.stderr is not None
    for line in process.stderr:
        if "warming" in line:
            break
    below = descendants(process.pid)
    assert len(below) > 16
    os.kill(process.pid, number)
    process.communicate(timeout=40)
    code = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}[number]
    assert process.returncode == code
    assert gone(below)
