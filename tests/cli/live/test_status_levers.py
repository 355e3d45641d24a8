"""`kwiken status`: output on partial answers and catch-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwiken.cli.live.status import _show, _show_spend


def account_of(**more: Any) -> dict[str, Any]:
    zeros = dict.fromkeys(("fraction", "spent", "horizon_share", "peak", "share_10s", "floor_spent"), 0.0)
    return {**zeros, "horizon_s": 3600.0, "worst_10s": None, "denied": 0, "denied_by": {}, **more}


def figures(**more: Any) -> dict[str, Any]:
    account = account_of()
    plain = dict.fromkeys(
        ("requests", "failed", "reissues", "retries", "shed", "late_reissues", "partial"), 0
    )
    empty = {"plan": None, "stages": {}, "ledger": account, "catch_up": account, "utility": account}
    return empty | plain | more


@pytest.fixture
def spend(capsys: pytest.CaptureFixture[str]) -> Callable[[dict[str, Any]], str]:
    """What status says of budgets, with single blanks."""

    def said(found: dict[str, Any]) -> str:
        _show_spend(found)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        return "\n".join(" ".join(line.replace("│", "|").split()) for line in text.splitlines())

    return said


Spend = Callable[[dict[str, Any]], str]


def test_unused_levers_are_not_named(spend: Spend) -> None:
    said = spend(figures())
    assert "catch-up" not in said
    assert "utility" not in said


def test_levers_in_use_say_what_they_spent(spend: Spend) -> None:
    late = account_of(fraction=0.01, spent=3.0, horizon_share=0.004, share_10s=0.008)
    lost = account_of(fraction=0.001, spent=1.0, horizon_share=0.0005, share_10s=0.0009, horizon_s=90.0)
    cost = {"chosen": 1.25, "failures": 0.5}
    said = spend(
        figures(catch_up=late, utility=lost, late_reissues=7, partial=12, requests=99, lost_utility=cost)
    )
    assert "catch-up | 1.00% | 0.40% | 1 h | 0.80% | - | - | 0\n" in said
    assert "utility | 0.100% | 0.050% | 1.5 min | 0.090% | - | - | 0\n" in said
    assert "99 | 0 | 12 | 0 | 0 | 7 | 0\n" in said
    assert "| 1.25 | 0.5\n" in said


def test_reissues_stand_beside_their_bounds(spend: Spend) -> None:
    ledger = account_of(
        fraction=0.049,
        spent=40.0,
        horizon_share=0.031,
        horizon_s=30.0,
        share_10s=0.02,
        peak=0.196,
        worst_10s=0.152,
        floor_spent=2.0,
        denied=7,
        denied_by={"horizon": 0, "peak": 4, "stage_peak": 3},
    )
    said = spend(figures(ledger=ledger))
    assert "reissue | 4.90% | 3.10% | 30 s | 2.00% | 15.20% | 19.60% | 7\n" in said
    assert "5% of the reissues' spend was by the floor\nreissues denied: 7 (peak 4, stage peak 3)" in said
    seen = spend(figures(ledger=ledger | {"spent_share": 0.031, "observed_share": 0.029}))
    assert "reissues charged: 3.10% of the work; observed at replicas: 2.90%\n" in seen
    quiet = spend(figures())
    assert "reissue | 0.00% | 0.00% | 1 h | 0.00% | - | - | 0\n" in quiet
    assert "reissues denied" not in quiet


def test_sampled_traces_are_counted_by_the_reason_for_which_they_were_kept(spend: Spend) -> None:
    kept = {"first": 200, "slow": 27, "failed": 0, "drawn": 50}
    said = spend(figures(traces={"kept": kept, "dropped": 1239}))
    assert said.endswith("\nspans of 277 requests kept (first 200, slow 27, drawn 50), of 1239 not")
    assert "spans" not in spend(figures(traces=None)), "every request is traced, or none"
    assert spend(figures(traces={"kept": {}, "dropped": 0})).endswith("\nspans of 0 requests kept, of 0 not")


def test_long_sentences_are_wrapped(spend: Spend) -> None:
    note = {
        "phase": "watching",
        "sentence": "copies help " * 40,
        "at_s": 0.0,
        "budget": 0.05,
        "changes": 1,
        "useless": 0,
        "history": [{"at_s": 0.0, "action": "take_back", "reason": "the tail grew " * 30}],
    }
    assert spend(figures(autopilot=note)).replace("\n", " ").count("copies help") == 40


def test_tables_of_a_wide_service_fit_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    recent = {"rate_per_s": 1234.5, "p50_ms": 123.4, "p99_ms": 1234.5}
    replica = {"address": "http://127.0.0.1:41999", "ejected": False, "inflight": 12, "trouble": None}
    stage = {"recent": recent, "reissues": 123456, "ledger": account_of(denied=1234)}
    line = dict.fromkeys(("running", "waiting", "started", "waited", "turned_away"), 12345)
    waits = dict.fromkeys(("wait_p50_ms", "wait_p99_ms", "service_ms"), 1234.5)
    placed = {"node": "big-0", "class": "big", "speed": 1.25, "cores": 2.0}
    _show(
        {
            "service": "search",
            "url": "http://127.0.0.1:8080",
            "gateways": [{"pid": 12345}],
            "actions": [],
            "replicas": [
                replica
                | placed
                | {"replica": "snippets-3", "pid": 1234567, "alive": True, "latency_ms": 12.5, "restarts": 3}
            ],
            "runtime": figures(
                stages={"snippets": stage | {"replicas": [replica] * 12}},
                lines={"limit": 4, "kinds": {"GET /search": line | waits}},
                gateways=[
                    {"gateway": f"gateway-{n}", "requests": 1234567, "failed": 0, "shed": 0, "recent": recent}
                    for n in range(2)
                ],
            ),
        }
    )
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("127.0.0.1:41999", "snippets-3", "12/12", "GET /search", "1234", "big-0"):
        assert whole in text, "no cell is folded"


@pytest.mark.parametrize("unkept", [None, "No space left on device"])
def test_an_unsaved_plan_is_reported(unkept: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    cluster: dict[str, Any] = {
        "service": "shop",
        "url": "http://127.0.0.1:1",
        "gateways": [],
        "actions": [],
        "replicas": [],
        "runtime": figures(plan_unkept=unkept),
    }
    _show(cluster)
    told = (
        "kwiken: shop: the plan in force cannot be noted (No space left on device); a gateway that takes over"
    )
    assert (told in capsys.readouterr().err) is (unkept is not None)


@pytest.mark.parametrize(
    ("alive", "serving", "said"), [(False, "b", True), (False, "a", False), (True, "b", False)]
)
def test_replicas_missing_from_the_state_file_are_reported(
    alive: bool, serving: str, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = {
        "replica": "rank-0",
        "pid": 1,
        "alive": alive,
        "inflight": None,
        "latency_ms": None,
        "ejected": None,
        "restarts": 0,
        "address": "http://h:a",
    }
    recent = {"rate_per_s": 0.0, "p50_ms": None, "p99_ms": None}
    stage = {"recent": recent, "reissues": 0, "ledger": account_of()}
    stages = {
        "rank": stage | {"replicas": [{"address": f"http://h:{serving}", "ejected": False, "inflight": 0}]}
    }
    _show(
        {
            "service": "shop",
            "url": "http://127.0.0.1:1",
            "gateways": [],
            "actions": [],
            "replicas": [replica],
            "runtime": figures(stages=stages),
        }
    )
    told = "shop: the gateway has 1 of its replicas that are not noted"
    assert (told in capsys.readouterr().err) is said
