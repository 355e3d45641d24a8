"""`kwiken status`: output on partial answers and catch-up."""

from __future__ import annotations

from typing import Any

import pytest

from kwiken.cli.live.status import _show, _spend


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


def spend(found: dict[str, Any]) -> str:
    return "\n".join(_spend(found))


def test_unused_levers_are_not_named() -> None:
    said = spend(figures())
    assert "catch-up" not in said
    assert "utility" not in said


def test_levers_in_use_say_what_they_spent() -> None:
    late = account_of(fraction=0.01, spent=3.0, horizon_share=0.004, share_10s=0.008)
    lost = account_of(fraction=0.001, spent=1.0, horizon_share=0.0005, share_10s=0.0009, horizon_s=90.0)
    said = spend(figures(catch_up=late, utility=lost, late_reissues=7, partial=12))
    assert "catch-up budget 1.00%, spent 0.40% over 1 h, last 10 s 0.80% (7 late reissues)" in said
    assert "utility budget 0.100%, lost 0.050% over 1.5 min, last 10 s 0.090% (12 partial answers)" in said


def test_reissues_stand_beside_their_bounds() -> None:
    ledger = account_of(
        fraction=0.049,
        spent=40.0,
        horizon_share=0.031,
        horizon_s=30.0,
        peak=0.196,
        worst_10s=0.152,
        floor_spent=2.0,
        denied=7,
        denied_by={"horizon": 0, "peak": 4, "stage_peak": 3},
    )
    assert (
        "reissue budget 4.90%, spent 3.10% over 30 s, worst 10 s 15.20% of 19.60%, 5% of it by the floor\n"
        "reissues denied: 7 (peak 4, stage peak 3)\n"
    ) in spend(figures(ledger=ledger))
    quiet = spend(figures())
    assert "reissue budget 0.00%, spent 0.00% over 1 h\n" in quiet
    assert "denied" not in quiet


def test_sampled_traces_are_counted_by_the_reason_for_which_they_were_kept() -> None:
    kept = {"first": 200, "slow": 27, "failed": 0, "drawn": 50}
    said = spend(figures(traces={"kept": kept, "dropped": 1239}))
    assert said.endswith("\nspans of 277 requests kept (first 200, slow 27, drawn 50), of 1239 not")
    assert "spans" not in spend(figures(traces=None)), "every request is traced, or none"
    assert spend(figures(traces={"kept": {}, "dropped": 0})).endswith("\nspans of 0 requests kept, of 0 not")


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
