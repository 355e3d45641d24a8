"""Errors in traces: one line that names the file, and the line or field."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_to_json
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.read import columns, file_reader, inputs
from kwiken.otel.read.span_store import SpanStore
from kwiken.tail.planning.planner import make_plan
from tests.support.models.profiles import small_profile
from tests.support.otel.span_trees import T0, Maker, Span, jaeger_json, layered_dag, otlp_lines, record

GOOD = Maker(layered_dag(random.Random(1), 2), random.Random(1)).requests(3)


def otlp(**changes: Any) -> str:
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "r",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        **changes,
    }
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"spans": [{k: v for k, v in span.items() if v is not ...}]}]}]}
    )


def own(**changes: Any) -> str:
    values = {
        "kw.service": "shop",
        "kw.stage": "s",
        "kw.attempt.kind": "primary",
        "kw.outcome": "won",
        **changes,
    }

    def value(v: Any) -> dict[str, Any]:
        if isinstance(v, bool):
            return {"boolValue": v}
        return (
            {"intValue": str(v)}
            if isinstance(v, int)
            else {"doubleValue" if isinstance(v, float) else "stringValue": v}
        )

    return otlp(attributes=[{"key": k, "value": value(v)} for k, v in values.items()])


def jaeger(change: Callable[[Any], None]) -> str:
    document = json.loads(jaeger_json(GOOD))
    change(document)
    return json.dumps(document)


def of(*spans: tuple[int, int, int, int]) -> str:
    """A trace of (id, parent, start, end)."""
    return otlp_lines([Span(1, i, parent, "s", f"o{i}", T0 + a, T0 + b) for i, parent, a, b in spans])


LINES = otlp_lines(GOOD)
SPAN = f"span '{'2' * 16}' of trace '{'1' * 32}'"
NANOSECONDS = "must be a whole number of nanoseconds since 1970, before 2116"

# What is in the file, and what the message says.
CASES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "bad.json: is empty"),
    "blank": (" \n\n  \n", "bad.json: is empty"),
    "a mark and nothing": (b"\xef\xbb\xbf", "bad.json: is empty"),
    "plain text": ("hello\n", "is neither OTLP JSON"),
    "a list": ("[1, 2]", "is neither OTLP JSON"),
    "a number": ("42", "is neither OTLP JSON"),
    "an object of something else": ('{"a": 1}', "is neither OTLP JSON"),
    "metrics": ('{"resourceMetrics": []}\n', "there is no span to learn from"),
    "logs": ('{"resourceLogs": []}\n' * 3, "there is no span to learn from"),
    "an array of something else": ('[{"a": 1}]', r"bad.json: \[0\]: is neither OTLP JSON"),
    "an array cut off": ('[{"data": []}, ', r"bad.json:1: Input data was truncated"),
    "a broken trace in an array": ('[{"data": []}, {"data": [1]}]', r"bad.json: \[1\]: data\[0\]: Expected"),
    "pretty documents one after another": (
        jaeger_json(GOOD, indent=1) * 2,
        r"bad.json:\d+: .*; several documents stand one on a line, or in one array",
    ),
    "zipkin without times": (
        '[{"traceId": "1", "id": "2", "localEndpoint": {}}]',
        r"there is no span to learn from \(1 without_time\)",
    ),
    "zipkin with a broken time": (
        '[{"traceId": "1", "id": "2", "timestamp": "now"}]',
        r"\[0\]: Expected `int \| null`, got `str`",
    ),
    "snake case": ('{"resource_spans": []}', "names its fields in snake_case"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(9), "is compressed by zstd; unpack it first"),
    "a zip archive": (b"PK\x03\x04" + bytes(9), "is a zip archive; unpack it first"),
    "protobuf": (b"\0\0\x01\x10\x0a", "is binary, such as OTLP in protobuf; set `format: json`"),
    "tempo's trace of nothing": ('{"trace": 5}', "bad.json: is neither OTLP JSON"),
    "a profile of ours": (
        profile_to_json(small_profile(20)),
        "bad.json: is a profile of kwiken, and traces are needed; `kwiken explain` and `plan` take profiles",
    ),
    "latencies of a load": ('{"intended_s": 1.0, "latency_ms": 2.0}\n' * 3, "is neither OTLP JSON"),
    "a plan of ours": (
        make_plan(small_profile(300), budgets=Budgets(reissue=0.05), created="").to_json(),
        "bad.json: is a plan of kwiken, and traces are needed",
    ),
    "data that is no list": ('{"data": {"a": 1}}', "is neither OTLP JSON"),
    "data of numbers": ('{"data": [1]}', r"bad.json:1: data\[0\]: Expected `object`, got `int`"),
    "binary": (bytes(range(256)), "is binary"),
    "utf-16": (LINES.encode("utf-16"), "is text in UTF-16; write it in UTF-8"),
    "utf-16 of the other order": (b"\xfe\xff" + LINES.encode("utf-16-be"), "is text in UTF-16"),
    "not utf-8 inside": (LINES.encode().replace(b"front", b"fr\xff\xfe!"), "bad.json:1: "),
    "xml": ("<traces/>", "is neither OTLP JSON"),
    "cut in the first line": (
        LINES[:200],
        r"bad.json:1: Input data was truncated: the document has no end; copy or download it again",
    ),
    "cut in the last line": (LINES[:-50], r"bad.json:3: Input data was truncated"),
    "cut in a document": (jaeger_json(GOOD, indent=1)[:-30], r"bad.json:\d\d+: Input data was truncated"),
    "a broken line": (LINES + "{broken\n", r"bad.json:4: "),
    "a broken line after blank ones": (LINES + "\n\n{broken\n", r"bad.json:6: "),
    "two kinds of lines": (
        LINES + jaeger_json(GOOD).replace("\n", "") + "\n",
        r"bad.json:4: .*resourceSpans",
    ),
    "a comma too many": (
        jaeger_json(GOOD, indent=1).replace('"logs": []', '"logs": [],,', 1),
        r"bad.json:\d+: ",
    ),
    "nested too deep": ('{"data": ' + "[" * 100_000, "bad.json"),
    "jaeger's own error": (
        '{"data": null, "errors": [{"code": 404, "msg": "trace not found"}]}',
        "trace not found",
    ),
    "jaeger with nothing": ('{"data": []}', "there is no span to learn from"),
    "otlp with nothing": ('{"resourceSpans": []}\n', "there is no span to learn from"),
    "a span without an id": (otlp(spanId=...), r"1 without_id"),
    "a span of no trace": (otlp(traceId=...), r"1 without_id"),
    "a span with an empty id": (otlp(spanId=""), r"1 without_id"),
    "a trace without an id": (otlp(traceId="0" * 32), r"1 without_id"),
    "a span without an end": (otlp(endTimeUnixNano=...), "of 1, 1 end before they begin or have no end"),
    "a time of words": (
        otlp(startTimeUnixNano="noon"),
        f"bad.json:1: {SPAN}: startTimeUnixNano {NANOSECONDS}, not 'noon'",
    ),
    "a time that is a list": (otlp(startTimeUnixNano=[1]), r"bad.json:1: .*startTimeUnixNano"),
    "a time before 1970": (
        otlp(startTimeUnixNano="-5"),
        f"bad.json:1: {SPAN}: startTimeUnixNano {NANOSECONDS}, not '-5'",
    ),
    "a time past all clocks": (
        otlp(endTimeUnixNano=str(2**80)),
        f"bad.json:1: {SPAN}: endTimeUnixNano {NANOSECONDS}, not '1208925819614629174706176'",
    ),
    "a duration of words": (
        jaeger(lambda d: d["data"][0]["spans"][0].update(duration="long")),
        r"bad.json:1: data\[0\]: .*duration",
    ),
    "a huge jaeger time": (
        jaeger(lambda d: d["data"][1]["spans"][0].update(startTime=2**70)),
        r"bad.json:1: .*startTime",
    ),
    "a jaeger time past all clocks": (
        jaeger(lambda d: d["data"][1]["spans"][0].update(startTime=2**60)),
        r"bad.json:1: data\[1\]: span '\w+' of trace '\w+': startTime must be a .*, not '1152921504606846976'",
    ),
    "a jaeger end before 1970": (
        jaeger(lambda d: d["data"][0]["spans"][0].update(startTime=5, duration=-9)),
        r"bad.json:1: data\[0\]: .* startTime \+ duration must be .*, not '-4'",
    ),
    "spans that are no list": (jaeger(lambda d: d["data"][2].update(spans=None)), r"data\[2\]: .*spans"),
    "a span that is none": (jaeger(lambda d: d["data"][0]["spans"].append(7)), r"data\[0\]: .*spans"),
    "a process that is none": (
        jaeger(lambda d: d["data"][0].update(processes=[1])),
        r"data\[0\]: .*processes",
    ),
    "negative durations only": (of((1, 0, 900, 100)), "of 1, 1 end before they begin"),
    "failed requests of no time": (
        otlp(endTimeUnixNano="500", status={"code": 2}),
        "of 1, 1 end before they begin or have no end and 1 failed",
    ),
    "a span that is its own parent": (of((1, 1, 0, 100)), r"there is no span to learn from \(1 cyclic\)"),
    "a cycle": (of((1, 2, 0, 100), (2, 3, 0, 90), (3, 1, 0, 80)), r"there is no span .*\(3 cyclic\)"),
    "pieces of a lost root": (
        of((1, 9, 0, 50), (2, 9, 60, 90)),
        r"no trace has a root to learn from \(2 orphaned\)",
    ),
    "a request that calls nothing": (of((1, 0, 0, 100)), "makes a call that ends well: there are no stages"),
    "all calls outside the request": (of((1, 0, 0, 100), (2, 1, 200, 300)), "there are no stages"),
    "an unknown outcome": (
        own(**{"kw.outcome": "maybe"}),
        r"bad.json:1: kw.outcome must be one of won, .*'maybe'",
    ),
    "an unknown kind": (own(**{"kw.attempt.kind": 3}), r"bad.json:1: kw.attempt.kind must be one of primary"),
    "a shard below 0": (
        own(**{"kw.shard": -1}),
        r"bad.json:1: kw.shard must be a whole number from 0 to 9999",
    ),
    "a shard past all bounds": (own(**{"kw.shard": 10**9}), r"bad.json:1: kw.shard must be a whole number"),
    "a shard of text": (own(**{"kw.shard": "one"}), r"bad.json:1: kw.shard must be a whole number"),
    "a busy time below 0": (own(**{"kw.busy_ms": -1.0}), r"bad.json:1: kw.busy_ms must be a number from 0"),
    "a busy time that is none": (
        own(**{"kw.busy_ms": "NaN"}),
        r"bad.json:1: kw.busy_ms must be a number from 0",
    ),
    "a stage that is no text": (own(**{"kw.stage": 4}), r"bad.json:1: kw.stage must be text, not 4"),
    "an own request without stages": (
        otlp(attributes=[{"key": "kw.service", "value": {"stringValue": "shop"}}]),
        "the requests visited no stage",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_files_are_refused_in_one_line(case: str, tmp_path: Path) -> None:
    content, message = CASES[case]
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as caught:
        fit_profile([path])
    assert "\n" not in str(caught.value)


def test_a_bad_file_among_good_ones_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "b.jsonl").write_text(LINES + "oops\n")
    with pytest.raises(InputError, match=r"b\.jsonl:4: "):
        fit_profile([tmp_path])


def test_a_bad_time_far_up_in_a_long_file_is_named_by_its_line(tmp_path: Path) -> None:
    many = Maker(layered_dag(random.Random(1), 2), random.Random(1)).requests(2500)
    lines = otlp_lines(many).splitlines(keepends=True)
    lines[10] = lines[10].replace('"startTimeUnixNano": "', '"startTimeUnixNano": "-', 1)
    (tmp_path / "a.jsonl").write_text("".join(lines))
    assert len(many) > 8192
    assert lines[10].count('"-') == 1
    with pytest.raises(
        InputError, match=r"a\.jsonl:11: span '\w+' of trace '\w+': startTimeUnixNano must be"
    ):
        fit_profile([tmp_path])


def test_paths_that_are_not_there_or_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: No such file"):
        fit_profile([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"holds no files named \.json"):
        fit_profile([tmp_path])
    with pytest.raises(InputError, match="give at least one file"):
        fit_profile([])
    (tmp_path / "dir.json").mkdir()
    with pytest.raises(InputError, match="holds no files"):
        fit_profile([tmp_path / "dir.json"])
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="loop: Too many levels of symbolic links"):
        fit_profile([tmp_path / "loop"])
    with pytest.raises(InputError, match="null byte"):
        fit_profile([tmp_path / "a\0b"])


@pytest.mark.parametrize("cut", [5, 40, 400])
def test_a_packed_file_cut_off_or_broken(cut: int, tmp_path: Path) -> None:
    packed = gzip.compress(LINES.encode())
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(packed[:cut])
    with pytest.raises(InputError, match=r"a\.jsonl\.gz"):
        fit_profile([path])
    path.write_bytes(packed[: len(packed) // 2] + b"\0" * 50 + packed[len(packed) // 2 :])
    with pytest.raises(InputError, match=r"a\.jsonl\.gz"):
        fit_profile([path])


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(LINES)
    monkeypatch.setattr(file_reader, "MAX_UNIT", 1000)
    with pytest.raises(InputError, match=r"a\.jsonl:\d: is longer than"):
        fit_profile([path])
    path.write_text(jaeger_json(GOOD, indent=1))
    monkeypatch.setattr(inputs, "IN_MEMORY", 1000)
    monkeypatch.setattr(inputs, "MAX_BYTES", 2000)
    with pytest.raises(InputError, match="is larger than"):
        fit_profile([path])


class Counted(io.BytesIO):
    """A stream that says how much of it was read."""

    given = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.given += len(line)
        return line


@pytest.mark.parametrize("start", [LINES[:30], LINES.replace('": ', '":\n ')[:50], "{"])
def test_a_file_with_a_hole_is_refused_before_it_is_all_read(start: str) -> None:
    hole = Counted(start.encode() + bytes(3 * inputs.IN_MEMORY))
    with pytest.raises(InputError, match=r"here.*: holds zero bytes"):
        file_reader.FileReader(SpanStore()).stream(hole, "here")
    assert hole.given <= inputs.IN_MEMORY + 100


def test_a_hole_behind_the_part_held_in_memory_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_reader, "IN_MEMORY", 1000)
    monkeypatch.setattr(inputs, "IN_MEMORY", 1000)
    text = jaeger_json(GOOD).encode()
    with pytest.raises(InputError, match="here: holds zero bytes"):
        file_reader.FileReader(SpanStore()).stream(io.BytesIO(text[:1500] + bytes(5000)), "here")


def test_packed_lines_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINES.encode() * 10))
    monkeypatch.setattr(file_reader, "MAX_BYTES", 20_000)
    with pytest.raises(InputError, match="is larger than"):
        fit_profile([path])


def test_names_without_bound_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_NAMES", 20)
    path = tmp_path / "a.jsonl"
    spans = [Span(i, i, 0, "s", f"GET /user/{'xy'[i % 2] * i}", T0, T0 + 5) for i in range(1, 50)]
    path.write_text(otlp_lines(spans))
    with pytest.raises(InputError, match="an operation's name must not hold identifiers"):
        fit_profile([path])


def test_names_with_identifiers_that_are_recognised_are_one_and_take_no_memory_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MAX_NAMES", 20)
    monkeypatch.setattr(columns, "_MAX_CACHED", 10)
    store = SpanStore()
    spans = [Span(i, i, 0, "s", f"GET /user/{i}", T0, T0 + 5) for i in range(1, 50)]
    file_reader.FileReader(store).stream(io.BytesIO(jaeger_json(spans).encode()), "here")
    assert store.names.operations == [("s", "GET /user/{id}")]
    assert len(store.names.bare("s")) <= 10


def test_too_many_stages_are_refused(tmp_path: Path) -> None:
    calls = [Span(1, i, 1, "s", f"call {i}", T0 + i * 10, T0 + i * 10 + 5) for i in range(2, 1100)]
    path = tmp_path / "a.jsonl"
    path.write_text(otlp_lines([Span(1, 1, 0, "s", "root", T0, T0 + 20_000), *calls]))
    with pytest.raises(
        InputError, match=r"there are 1098 stages, and at most 999 fit; names of spans must be routes \(GET"
    ):
        fit_profile([path])


def test_roots_that_are_asked_for_in_vain_are_answered_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(LINES)
    with pytest.raises(InputError, match=r"no span is of operation 'buy'; roots are: front:op0 \(3\)"):
        fit_profile([path], root="buy")
    with pytest.raises(InputError, match="no span is of operation 'op0' of service 'back'"):
        fit_profile([path], root="op0", service="back")
    with pytest.raises(InputError, match=r"of 0, .* 3 are of other times"):
        fit_profile([path], since_s=T0 / 1e9 + 1e6)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_read_or_refused_but_never_crashes(data: st.DataObject, tmp_path: Path) -> None:
    text = data.draw(st.sampled_from([LINES, jaeger_json(GOOD), jaeger_json(GOOD, indent=1), OWN])).encode()
    at = data.draw(st.integers(0, len(text) - 1))
    damage = data.draw(
        st.sampled_from([b"", b"\n", b'"', b"}", b"0", b"-", b"\xff", b"null", b"1e999", b"{}"])
    )
    length = data.draw(st.integers(0, 40))
    path = tmp_path / "a.json"
    path.write_bytes(text[:at] + damage + text[at + length :])
    try:
        assert fit_profile([path]).requests > 0
    except InputError as error:
        message = str(error)
        assert "\n" not in message


def _own_lines() -> str:
    from kwiken.otel.write.labels import Labels
    from kwiken.otel.write.otlp_json import OtlpLines
    from kwiken.otel.write.span_model import request_spans

    rng = random.Random(4)
    lines = OtlpLines({"service.name": "shop"})
    dag = layered_dag(rng, 2)
    return "".join(
        lines.line(request_spans(record(rng, dag, copies=0.5), Labels())).decode() for _ in range(3)
    )


OWN = _own_lines()
