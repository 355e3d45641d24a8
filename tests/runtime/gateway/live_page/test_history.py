"""History of a status: numbered samples, a bound on their number, and changes of the plan."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

from kwiken.runtime.gateway.live_page.history import MAX_PLANS, MAX_SAMPLES, History

STAGES = ("parse", "look")


def status_with(**changes: Any) -> dict[str, Any]:
    account = {"work": 10.0, "spent": 0.5, "denied": 2, "fraction": 0.05, "peak": 0.2, "horizon_share": 0.05}
    recent = {"answered": 5, "rate_per_s": 2.5, "p50_ms": 10.0, "p99_ms": 80.0}
    stage = {"recent": dict(recent), "replicas": [{"inflight": 2}, {"inflight": 1}]}
    return {
        **dict.fromkeys(("requests", "failed", "partial", "shed", "reissues", "retries"), 0),
        "plan": None,
        "load": 0.25,
        "recent": recent,
        **{lever: dict(account) for lever in ("ledger", "catch_up", "utility")},
        "stages": {name: copy.deepcopy(stage) for name in STAGES},
        **changes,
    }


def test_samples_are_numbered_and_read_from_a_number_on() -> None:
    history = History(STAGES)
    for second in range(3):
        history.add(status_with(requests=second), at_s=100.0 + second)
    assert [sample["number"] for sample in history.after(0)] == [100, 101, 102]
    (last,) = history.after(101)
    assert (last["at_s"], last["counts"]["requests"], last["p99_ms"]) == (102.0, 2, 80.0)
    assert {stage["inflight"] for stage in last["stages"].values()} == {3}
    assert last["levers"]["ledger"]["spent"] == 0.5
    assert history.after(102) == []


def test_old_samples_are_forgotten() -> None:
    history = History(STAGES)
    for second in range(MAX_SAMPLES + 7):
        history.add(status_with(), at_s=float(second + 1))
    kept = history.after(0)
    assert (len(kept), kept[0]["number"], kept[-1]["number"]) == (MAX_SAMPLES, 8, MAX_SAMPLES + 7)


def test_a_sample_is_read_as_the_document_that_was_added() -> None:
    history = History(STAGES)
    unknown = {"answered": 0, "rate_per_s": None, "p50_ms": None, "p99_ms": None}
    history.add(status_with(recent=unknown, failed=3), at_s=100.0)
    (sample,) = history.after(0)
    levers, recent = sample["levers"], {"rate_per_s": 2.5, "p50_ms": 10.0, "p99_ms": 80.0}
    assert sample == {
        "number": 100,
        "at_s": 100.0,
        "load": 0.25,
        "rate_per_s": None,
        "p50_ms": None,
        "p99_ms": None,
        "counts": {"requests": 0, "failed": 3, "partial": 0, "shed": 0, "reissues": 0, "retries": 0},
        "levers": dict.fromkeys(levers, status_with()["ledger"]),
        "stages": {name: {**recent, "inflight": 3} for name in STAGES},
    }
    text = json.dumps(sample)  # whole numbers stay whole
    assert '"failed": 3,' in text
    assert '"denied": 2,' in text
    assert '"inflight": 3}' in text


def test_samples_take_no_memory_beyond_their_place() -> None:
    history = History(STAGES)
    history.add(status_with(), at_s=1.0)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for second in range(2 * MAX_SAMPLES):
        history.add(status_with(load=second / 3, failed=1000 + second), at_s=float(second + 2))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20 * MAX_SAMPLES  # a document has more than a thousand bytes


def test_a_plan_is_noted_when_it_changes() -> None:
    history = History(STAGES)
    for second, digest in enumerate([None, None, "aaa", "aaa", "bbb", None]):
        history.add(status_with(plan=digest), at_s=float(second))
    assert [(plan["digest"], plan["since_s"]) for plan in history.plans] == [
        *((None, 0.0), ("aaa", 2.0), ("bbb", 4.0), (None, 5.0)),
    ]
    for number in range(2 * MAX_PLANS):
        history.add(status_with(plan=str(number)), at_s=float(number))
    assert len(history.plans) == MAX_PLANS
