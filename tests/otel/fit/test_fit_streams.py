"""What is learned from the spans of answers that stream: the time to the first item."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.write.observer import ServerSpans, make_observer
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
STREAM_MS = 900.0


def streamed(number: int, first_ms: float) -> RequestRecord:
    """A request of one stage whose first item comes so long after its start, and whose stream goes on."""
    start = T0 + number * 50 * MS
    first, end = start + round(first_ms * MS), start + round((first_ms + STREAM_MS) * MS)
    attempt = AttemptRecord(
        number * 10 + 3,
        0,
        0,
        AttemptKind.PRIMARY,
        "r9",
        "n",
        start,
        end,
        Outcome.WON,
        busy_ms=1.0,
        first_item_ns=first,
    )
    stage = StageRecord(
        number * 10 + 2, "a", (), 1, start, end, attempts=[attempt], idempotent=True, first_item_ns=first
    )
    return RequestRecord(
        number + 1, number * 10 + 1, None, "shop", start, end, stages=[stage], first_item_ns=first
    )


def test_a_profile_of_streams_has_the_times_to_their_first_items(tmp_path: Path) -> None:
    gateway = make_observer("shop", traces=tmp_path)
    replica = ServerSpans("shop", "a", "r9", "n", traces=tmp_path)
    firsts_ms = [10.0 + number % 7 for number in range(150)]
    for number, first_ms in enumerate(firsts_ms):
        request = streamed(number, first_ms)
        gateway.request_finished(request)
        parent = SimpleNamespace(
            trace_id=request.trace_id, span_id=request.stages[0].attempts[0].span_id, sampled=True
        )
        replica.call_finished(
            SimpleNamespace(
                parent=parent,
                shard=0,
                start_ns=request.start_ns,
                began_ns=request.start_ns,
                end_ns=request.end_ns,
                busy_ms=1.0,
                attempt=0,
                error=None,
                exception=None,
                first_item_ns=request.first_item_ns,
            )
        )
    gateway.close()
    replica.close()
    profile = fit_profile([tmp_path])
    latencies = sorted(profile.stage("a").latency_ms.tolist())
    assert latencies == pytest.approx(sorted(firsts_ms), abs=0.01)
    spans = [
        span
        for path in tmp_path.iterdir()
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    lengths = {round((int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"])) / MS) for s in spans}
    assert min(lengths) >= STREAM_MS, "the spans themselves last as long as the stream"
    named = [span["name"] for span in spans if any(e["name"] == "first_item" for e in span.get("events", ()))]
    assert (named.count("request"), named.count("a")) == (150, 300)


def test_a_stream_that_another_stage_takes_whole_is_a_stage_to_its_first_item_and_then_time_of_the_request(
    tmp_path: Path,
) -> None:
    gateway = make_observer("shop", traces=tmp_path)
    for number in range(150):
        request = streamed(number, 10.0 + number % 7)
        request.first_item_ns = None
        (inner,) = request.stages
        whole = inner.end_ns
        request.end_ns = whole + 20 * MS
        attempt = AttemptRecord(
            number * 10 + 5,
            0,
            0,
            AttemptKind.PRIMARY,
            "r1",
            "n",
            whole,
            request.end_ns,
            Outcome.WON,
            busy_ms=1.0,
        )
        after = StageRecord(
            number * 10 + 4, "b", ("a",), 1, whole, request.end_ns, attempts=[attempt], idempotent=True
        )
        request.stages.append(after)
        gateway.request_finished(request)
    gateway.close()
    profile = fit_profile([tmp_path])
    assert sorted(set(profile.stage("a").latency_ms.round(3))) == [10.0 + number for number in range(7)]
    assert set(profile.stage("b").latency_ms.round(3)) == {20.0}
    assert profile.latency_ms == pytest.approx(profile.stage("a").latency_ms + STREAM_MS + 20.0)
    own = profile.stage("shop:request (own time)")
    assert own.latency_ms == pytest.approx([STREAM_MS] * 150, abs=0.01)
