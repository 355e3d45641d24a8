"""Slow requests: which are kept, and what their documents hold."""

from __future__ import annotations

import msgspec
from hypothesis import given, strategies as st

from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.runtime.gateway.live_page.slow_requests import (
    MAX_ATTEMPTS,
    MAX_KEPT,
    MIN_REQUESTS,
    SlowRequestTable,
)

MS = 1_000_000


def record_of(
    took_ms: float, *, attempts: int = 1, error: str | None = None, partial: bool = False
) -> RequestRecord:
    end = int(took_ms * MS)
    stage = StageRecord(2, "look", (), attempts, 0, end, partial=partial)
    stage.attempts = [
        AttemptRecord(
            3 + n, n, 0, AttemptKind.PRIMARY, "look-0", "here", 0, end * (n + 1) // attempts, Outcome.WON
        )
        for n in range(attempts)
    ]
    return RequestRecord(7, 1, None, "shop", 0, end, error=error, stages=[stage])


def test_the_slowest_failed_and_partial_requests_are_kept() -> None:
    slow = SlowRequestTable()
    for _ in range(MIN_REQUESTS):
        slow.request_finished(record_of(10.0))
    assert slow.after(0) == []
    for record in (
        record_of(50.0),
        record_of(9.0),
        record_of(1.0, error="boom"),
        record_of(1.0, partial=True),
    ):
        slow.request_finished(record)
    kept = slow.after(0)
    assert [(one["number"], one["why"], one["total_ms"]) for one in kept] == [
        *((1, "slow", 50.0), (2, "failed", 1.0), (3, "partial", 1.0)),
    ]
    assert kept[1]["error"] == "boom"
    assert [one["number"] for one in slow.after(2)] == [3]


def test_a_request_of_a_wide_fan_out_shows_the_attempts_that_ended_last() -> None:
    slow = SlowRequestTable()
    slow.request_finished(record_of(100.0, attempts=3 * MAX_ATTEMPTS, error="late"))
    (document,) = slow.after(0)
    shards = {span["shard"] for span in document["spans"]}
    assert shards == set(range(2 * MAX_ATTEMPTS, 3 * MAX_ATTEMPTS))
    assert document["left_out"] == 2 * MAX_ATTEMPTS


@given(st.lists(st.floats(0, 1e6), max_size=300))
def test_the_number_kept_is_bounded_and_documents_are_json(latencies: list[float]) -> None:
    slow = SlowRequestTable()
    for took_ms in latencies:
        slow.request_finished(record_of(took_ms))
    kept = slow.after(0)
    assert len(kept) <= MAX_KEPT
    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept
