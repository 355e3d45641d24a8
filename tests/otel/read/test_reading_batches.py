"""Batch decoding of spans: no mix-up of attributes between spans, and bounded caches."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.read import kw_batches, span_store
from kwiken.otel.read.columns import ERROR, FOLLOWS, span_numbers
from kwiken.otel.read.otlp import OtlpReader
from kwiken.otel.read.span_store import SpanStore
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.load import read_forest

TRACE = "7" * 32
OTHER_TRACE = "8" * 32
DIGITS = "1234567890abcdef"


def foreign(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": "r",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        **changes,
    }


def own(number: int, busy: object, *, peer: str = "here", **changes: Any) -> dict[str, Any]:
    texts = {"kw.service": "shop", "kw.stage": "lookup", "peer": peer}
    attributes: list[dict[str, Any]] = [{"key": k, "value": {"stringValue": v}} for k, v in texts.items()]
    attributes.append({"key": "kw.busy_ms", "value": {"doubleValue": busy}})
    return foreign(number, attributes=attributes, **changes)


def links(*targets: tuple[str, int]) -> list[dict[str, str]]:
    return [{"traceId": trace, "spanId": f"{number:016x}"} for trace, number in targets]


def line(*spans: dict[str, Any]) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}, separators=(",", ":")) + "\n"


def forest_of(folder: Path, *lines: str) -> Forest:
    path = folder / "a.jsonl"
    path.write_text("".join(lines))
    return read_forest([path])


def busy_of(forest: Forest) -> dict[int, float]:
    """Busy times by the ids of the own spans."""
    spans = forest.spans[forest.spans["own"] >= 0]
    return dict(zip(spans["span"].tolist(), forest.owns["busy_ms"][spans["own"]].tolist(), strict=True))


def links_of(forest: Forest) -> set[tuple[int, int]]:
    """Ids of spans, and of those that they come after."""
    return {
        (int(span["span"]), int(link["span"]))
        for span in forest.spans
        for link in forest.links
        if span["own"] == link["own"]
    }


@pytest.mark.parametrize("odd", ["2.5", "2.50"])
def test_a_busy_time_in_quotes_is_its_own_spans_after_others_of_the_batch(odd: str, tmp_path: Path) -> None:
    forest = forest_of(tmp_path, line(own(1, 1.5)), line(own(2, odd), foreign(3), own(4, 4.5)))
    assert busy_of(forest) == {1: 1.5, 2: 2.5, 4: 4.5}


@pytest.mark.parametrize("flush", [1, 8192], ids=["a batch a line", "one batch"])
def test_a_foreign_spans_links_are_nobodys(
    flush: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_store, "_BATCH_SPANS", flush)
    linked = foreign(3, links=links((TRACE, 9)))
    forest = forest_of(
        tmp_path,
        line(own(1, 1.0), own(2, 1.0, links=links((TRACE, 1)))),
        line(linked, own(4, 1.0, links=links((TRACE, 2)))),
    )
    assert links_of(forest) == {(2, 1), (4, 2)}


def test_a_link_into_another_trace_says_nothing_of_the_order_in_this_one(tmp_path: Path) -> None:
    both = links((OTHER_TRACE, 1), (TRACE, 2))
    forest = forest_of(tmp_path, line(own(1, 1.0), own(2, 1.0), own(3, 1.0, links=both)))
    assert links_of(forest) == {(3, 2)}


def test_what_is_remembered_of_own_spans_that_all_differ_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kw_batches, "_MAX_CACHED", 16)
    store = SpanStore()
    reader = OtlpReader(store)
    long, count = 1 << 14, 400
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, count + 1):
            text = line(own(number, 0.5 * number, peer=f"{number:04d}" * (long // 4)))
            reader.line(text.encode())
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 64 * long
    assert store.columns()[1]["busy_ms"].tolist() == [0.5 * number for number in range(1, count + 1)]


def test_a_span_of_jaegers_that_failed_still_follows_from_its_parent(tmp_path: Path) -> None:
    span = {"traceID": "7", "operationName": "r", "startTime": 1000, "duration": 5}
    after = [{"refType": "FOLLOWS_FROM", "traceID": "7", "spanID": "1"}]
    failed = [{"key": "error", "value": True}]
    spans = [
        {**span, "spanID": "1"},
        {**span, "spanID": "2", "references": after},
        {**span, "spanID": "3", "references": after, "tags": failed},
        {**span, "spanID": "4", "tags": failed},
    ]
    forest = forest_of(tmp_path, json.dumps({"traceID": "7", "spans": spans}))
    assert forest.spans["flags"].tolist() == [0, FOLLOWS, FOLLOWS | ERROR, ERROR]
    assert forest.counts["spans_detached"] == 2


def test_an_identifier_with_a_blank_at_its_end_is_another_one() -> None:
    assert span_numbers([DIGITS]).tolist() != span_numbers([DIGITS + " "]).tolist()


def test_digits_do_not_pass_from_a_long_identifier_to_a_short_one_before_it() -> None:
    short, long = DIGITS[:14], DIGITS + "12"
    assert span_numbers([short, long]).tolist() == [int(short, 16), int(span_numbers([long])[0])]


def test_blanks_within_identifiers_do_not_count_as_digits() -> None:
    spaced = [f"{DIGITS[:6]}  {last:08x}" for last in range(8)]
    assert len(set(span_numbers([DIGITS, *spaced]).tolist())) == 9
