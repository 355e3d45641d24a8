"""`kwiken status --watch`: stages, levers, and replicas that died a short time ago."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner

from kwiken.cli.live.status import _state, command
from kwiken.cli.live.status_watch import EVERY_S, KEEP_DEAD_S, SeenReplicas, watch


def replica(pid: int, *, alive: bool = True, name: str = "look-0") -> dict[str, Any]:
    return {
        "replica": name,
        "stage": "look",
        "pid": pid,
        "alive": alive,
        "inflight": 2,
        "latency_ms": 1.234,
        "ejected": False,
        "trouble": None,
        "restarts": 0,
        "address": f"http://127.0.0.1:{pid}",
    }


def account(**more: Any) -> dict[str, Any]:
    return {
        "fraction": 0.05,
        "horizon_share": 0.0123,
        "share_10s": 0.02,
        "peak": 0.2,
        "left": 12.5,
        "denied": 3,
        **more,
    }


def cluster(*replicas: dict[str, Any]) -> dict[str, Any]:
    recent = {"rate_per_s": 99.5, "p50_ms": 4.0, "p99_ms": 55.25}
    stage = {
        "replicas": [{"ejected": False, "inflight": 2}, {"ejected": True, "inflight": 1}],
        "recent": recent,
        "reissues": 17,
        "ledger": account(),
        "late": {"copies": 5},
    }
    runtime = {
        "recent": recent,
        "load": 0.25,
        "plan": "abc",
        "ledger": account(),
        "catch_up": account(fraction=0.0),
        "utility": account(fraction=0.001),
        "stages": {"look": stage},
    }
    return {"service": "shop", "replicas": list(replicas), "runtime": runtime}


def test_a_dead_replica_stays_in_the_table_for_a_while() -> None:
    now = 100.0
    seen = SeenReplicas(lambda: now)
    assert [each["pid"] for each in seen.update([replica(1), replica(2, name="look-1")])] == [1, 2]
    now += 1.0
    found = seen.update([replica(3), replica(2, name="look-1")])
    assert [(each["pid"], _state(each)) for each in found] == [(1, "dead"), (3, "serving"), (2, "serving")]
    assert found[0]["inflight"] is None
    now += KEEP_DEAD_S - 1.5
    assert len(seen.update([replica(3), replica(2, name="look-1")])) == 3
    now += 1.0
    assert [each["pid"] for each in seen.update([replica(3), replica(2, name="look-1")])] == [3, 2]


def test_it_shows_rate_latencies_load_and_spend_until_the_service_is_down(
    capsys: pytest.CaptureFixture[str],
) -> None:
    views = [[cluster(replica(1))], [cluster(replica(3))], []]
    slept: list[float] = []
    watch(lambda: views.pop(0), _state, clear=False, sleep=slept.append, clock=lambda: float(len(slept)))
    said = capsys.readouterr()
    assert slept == [EVERY_S, EVERY_S]
    assert "shop: 99.5 requests a second, p50 4 ms, p99 55.2 ms, load 0.25, plan abc" in said.out
    first, second = said.out.split("shop:")[1:]
    assert re.search(r"look +│ +1 of 2 │ +99.5 │ +4 │ +55.2 │ +3 │ +17 │ +3 │ 1.23% │ +5", first)
    assert re.search(r"partial answers +│ +0.10% │ +1.23% │ +2.00% │ +20.00% │ +12.5 │ +3", first)
    assert "dead" not in first
    assert re.search(r"look-0 +│ +1 │ +dead", second)
    assert "no service is up any more" in said.err


def test_it_excludes_json() -> None:
    found = CliRunner().invoke(command, ["--watch", "--json", "--state", "/nowhere"])
    assert found.exit_code != 0
