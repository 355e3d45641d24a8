"""Line decoding of spans: an unusual span among others is read, or refused, as it would be alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.read import columns
from kwiken.otel.trace.load import read_forest

CALL = {
    "kw.service": {"stringValue": "shop"},
    "kw.stage": {"stringValue": "lookup"},
    "kw.attempt.kind": {"stringValue": "primary"},
    "kw.outcome": {"stringValue": "won"},
}
Pairs = list[tuple[str, dict[str, Any]]]


def span(number: int, attributes: Pairs = [], **changes: Any) -> dict[str, Any]:  # noqa: B006 - only read
    return {
        "traceId": f"{7:032x}",
        "spanId": f"{number:016x}",
        "name": "r",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": [{"key": key, "value": value} for key, value in attributes],
        **changes,
    }


def line(*spans: dict[str, Any], end: str = "\n") -> str:
    found = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    return json.dumps(found, separators=(",", ":")) + end


def call(*numbers: tuple[str, object]) -> Pairs:
    return [*CALL.items(), *((f"kw.{key}", {"doubleValue": value}) for key, value in numbers)]


def written(folder: Path, text: str, name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def told(path: Path) -> list[tuple[float, float]]:
    """Busy time and worth of the own spans, in order of their ids; -1 for not known."""
    owns = read_forest([path]).owns
    return [
        (-1.0 if math.isnan(busy) else busy, -1.0 if math.isnan(worth) else worth)
        for busy, worth in zip(owns["busy_ms"].tolist(), owns["worth"].tolist(), strict=True)
    ]


def test_numbers_are_read_wherever_they_stand(tmp_path: Path) -> None:
    first = span(1, call(("worth", 0.5), ("busy_ms", 1.25)))
    spans = [
        first,
        span(2, call(("busy_ms", 2))),
        span(3, call()),
        span(4, call(("worth", 0.75), ("busy_ms", 1e-3))),
        span(5, call(("busy_ms", 4.0), ("worth", 1.0))),
        span(6, [("kw.worth", {"doubleValue": 0.25}), *call(("busy_ms", 5.0))]),
        span(7, [("kw.worth", {"doubleValue": 0.125}), *call(("busy_ms", 5.0))]),
        span(8, call(("worth", 0.5))),
    ]
    expected = [
        (1.25, 0.5),
        (2.0, -1.0),
        (-1.0, -1.0),
        (0.001, 0.75),
        (4.0, 1.0),
        (5.0, 0.25),
        (5.0, 0.125),
        (-1.0, 0.5),
    ]
    assert told(written(tmp_path, line(*spans))) == expected
    alone = "".join(line(one) for one in spans)
    assert told(written(tmp_path, alone, "b.jsonl")) == expected


def test_text_of_a_number_is_a_number_for_all_of_a_line(tmp_path: Path) -> None:
    spans = [span(1, call(("busy_ms", 1.5))), span(2, [*CALL.items(), ("kw.busy_ms", {"intValue": "3"})])]
    assert told(written(tmp_path, line(*spans).replace("1.5}", "1.5 }"))) == [(1.5, -1.0), (3.0, -1.0)]


@pytest.mark.parametrize("stated", [1500, " 1500", "1500 ", "01500", "1_500"])
def test_times_of_other_forms_are_read_among_usual_ones(stated: Any, tmp_path: Path) -> None:
    forest = read_forest([written(tmp_path, line(span(1), span(2, startTimeUnixNano=stated), span(3)))])
    assert forest.spans["start"].tolist() == [1000, 1500, 1000]
    assert forest.spans["end"].tolist() == [2000, 2000, 2000]


@pytest.mark.parametrize("stated", ["1.0", "1e3", "1,2", "null", "-1", str(1 << 62)])
def test_times_that_cannot_be_are_refused_among_usual_ones(stated: str, tmp_path: Path) -> None:
    path = written(tmp_path, line(span(1)) + line(span(2), span(3, endTimeUnixNano=stated)))
    with pytest.raises(
        InputError, match=rf"a.jsonl:2: span '{3:016x}' .*endTimeUnixNano must be a whole number"
    ):
        read_forest([path])


@pytest.mark.parametrize("key", ["busy_ms", "worth"])
@pytest.mark.parametrize("stated", [-1.0, 1e300, "NaN"])
def test_numbers_out_of_bounds_are_refused_where_their_like_is_known(
    key: str, stated: object, tmp_path: Path
) -> None:
    good = line(span(1, call(("worth", 1.0), ("busy_ms", 1.0))))
    values: dict[str, object] = {"worth": 1.0, "busy_ms": 1.0, key: stated}
    path = written(tmp_path, good + line(span(2, call(*values.items()))))
    with pytest.raises(InputError, match=rf"a.jsonl:2: kw.{key} must be a number from 0 to"):
        read_forest([path])


def test_of_an_odd_last_line_that_is_still_written_nothing_is_taken(tmp_path: Path) -> None:
    bad = line(span(2), span(3, startTimeUnixNano="soon"), end="")
    forest = read_forest([written(tmp_path, line(span(1)) + bad, "a.jsonl.part")])
    assert forest.spans["span"].tolist() == [1]
    assert forest.counts["lines_unfinished"] == 1


def test_identifiers_with_blanks_are_not_taken_for_several(tmp_path: Path) -> None:
    half = "ab" * 4
    spans = [span(0, spanId=one) for one in (f"{half} {half}", half, f"{half}{half}", f"{half}  {half[1:]}")]
    assert len(set(read_forest([written(tmp_path, line(*spans))]).spans["span"].tolist())) == len(spans)


def test_an_odd_last_trace_of_an_open_file_leaves_nothing(tmp_path: Path) -> None:
    """Jaeger's, without a line's end: what came before it counts."""

    def trace(number: int, *tags: tuple[str, str]) -> str:
        span = {
            "traceID": f"{number:x}",
            "spanID": f"{number:x}",
            "operationName": "r",
            "startTime": 1000,
            "duration": 5,
            "tags": [{"key": key, "value": value} for key, value in tags],
        }
        return json.dumps({"traceID": f"{number:x}", "spans": [span]})

    path = tmp_path / "jaeger.jsonl.part"
    path.write_text(trace(1) + "\n" + trace(2, ("kw.service", "a"), ("kw.busy_ms", "soon")))
    forest = read_forest([path])
    assert (forest.counts["spans_read"], forest.counts["lines_unfinished"]) == (1, 1)


def test_a_repeated_worth_is_the_last_of_its_own_span(tmp_path: Path) -> None:
    twice = span(1, call(("worth", 0.5), ("worth", 0.75), ("busy_ms", 1.0)))
    once = span(2, call(("worth", 0.5), ("busy_ms", 1.0)))
    assert told(written(tmp_path, line(twice, once))) == [(1.0, 0.75), (1.0, 0.5)]


def test_services_without_spans_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_NAMES", 1)
    silent = [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]},
            "scopeSpans": [{"spans": []}],
        }
        for name in "abc"
    ]
    found = {"resourceSpans": [*silent, {"scopeSpans": [{"spans": [span(1)]}]}]}
    assert len(read_forest([written(tmp_path, json.dumps(found) + "\n")]).spans) == 1
