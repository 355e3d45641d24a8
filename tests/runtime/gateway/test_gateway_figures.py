"""Combined status of gateways: sums, shares weighted by work, and the slowest percentiles."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.engine.status_document import combined


def account(work: float, spent: float, worst: float | None) -> dict[str, Any]:
    return {
        "fraction": 0.05,
        "work": work,
        "spent": spent,
        "spent_share": spent / work if work else 0.0,
        "horizon_s": 3600.0,
        "horizon_share": spent / work if work else 0.0,
        "left": 1.0,
        "peak": 0.2,
        "share_10s": 0.0,
        "worst_10s": worst,
        "floor_spent": 0.0,
        "denied": 3,
        "denied_by": {"call": 3, "peak": 0},
    }


def status_of(
    requests: int = 10, work: float = 10.0, spent: float = 0.5, p99_ms: float | None = 20.0, **more: Any
) -> dict[str, Any]:
    replica = {
        "id": "a-0",
        "node": "n",
        "address": "http://a",
        "inflight": 2,
        "latency_ms": 4.0,
        "ejected": False,
        "failing": 0.0,
        "trouble": None,
    }
    recent = {"answered": requests, "rate_per_s": requests / 10, "p50_ms": 5.0, "p99_ms": p99_ms}
    return {
        "plan": "abc",
        "requests": requests,
        "failed": 0,
        "load": 0.2,
        "recent": recent,
        "ledger": account(work, spent, 0.01),
        "stages": {"a": {"calls": requests, "p99_ms": p99_ms, "replicas": [replica]}},
        "answered": {"200": requests},
        **more,
    }


def test_counts_add_up_and_shares_are_weighted_by_work() -> None:
    both = combined([status_of(10, 10.0, 1.0, 20.0), status_of(30, 30.0, 0.0, 50.0, load=0.6)])
    assert (both["requests"], both["answered"], both["load"]) == (40, {"200": 40}, 0.6)
    assert both["recent"] == {"answered": 40, "rate_per_s": 4.0, "p50_ms": 5.0, "p99_ms": 50.0}
    ledger = both["ledger"]
    assert (ledger["fraction"], ledger["peak"], ledger["horizon_s"]) == (0.05, 0.2, 3600.0)
    assert (ledger["spent"], ledger["denied"], ledger["denied_by"]) == (1.0, 6, {"call": 6, "peak": 0})
    assert ledger["horizon_share"] == pytest.approx(1.0 / 40)
    assert ledger["spent_share"] == pytest.approx(1.0 / 40)


def test_a_replica_that_one_gateway_avoids_is_avoided() -> None:
    second = status_of()
    second["stages"]["a"]["replicas"][0] |= {"ejected": True, "trouble": "refused", "latency_ms": None}
    (replica,) = combined([status_of(), second])["stages"]["a"]["replicas"]
    assert (replica["inflight"], replica["ejected"], replica["trouble"], replica["latency_ms"]) == (
        4,
        True,
        "refused",
        4.0,
    )


def test_one_gateway_stays_as_it_is() -> None:
    alone = status_of()
    assert combined([copy.deepcopy(alone)]) == alone


WORK = st.just(0.0) | st.floats(1e-6, 1e6)  # no product with a share underflows


@given(st.lists(st.tuples(WORK, st.floats(0, 1)), min_size=2, max_size=6))
def test_the_share_of_the_sum_lies_between_the_gateways_shares(parts: list[tuple[float, float]]) -> None:
    both = combined([status_of(work=work, spent=work * share) for work, share in parts])
    shares = [share for work, share in parts if work]
    if shares:
        assert min(shares) - 1e-9 <= both["ledger"]["horizon_share"] <= max(shares) + 1e-9
        assert both["ledger"]["spent"] <= both["ledger"]["work"] + 1e-6


@pytest.mark.parametrize("name", ["load", "plan", "spent_share", "ejected", "replicas", "autopilot", "kinds"])
def test_names_that_others_chose_are_not_taken_for_fields(name: str) -> None:
    """Stages are named by the service, and kinds of requests by whoever sends them."""
    line = {"running": 1, "waiting": 2, "wait_p99_ms": 3.0}
    one = status_of(
        lines={"limit": 4, "kinds": {name: line}}, arms={"tried": {"failed": 1, "cells": {"-4": 2}}}
    )
    one["stages"][name] = one["stages"].pop("a")
    both = combined([copy.deepcopy(one), copy.deepcopy(one)])
    assert both["stages"][name]["calls"] == 20
    assert both["lines"] == {"limit": 8, "kinds": {name: {"running": 2, "waiting": 4, "wait_p99_ms": 3.0}}}
    assert both["arms"] == {"tried": {"failed": 2, "cells": {"-4": 4}}}


def test_a_person_at_one_gateway_and_the_newest_note_count_for_all() -> None:
    first = status_of(
        author="autopilot", trial=None, trial_share=0.0, control_share=0.01, autopilot={"at_s": 5.0}
    )
    second = status_of(
        author="person", trial="t", trial_share=0.1, control_share=0.05, autopilot={"at_s": 7.0}
    )
    both = combined([first, second])
    assert (both["author"], both["trial"], both["trial_share"]) == ("person", "t", 0.1)
    assert both["autopilot"] == {"at_s": 7.0}
    assert both["control_share"] == 0.05
