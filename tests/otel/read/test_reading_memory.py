"""Memory while reading: constant beyond the bound of spans, and a small share of the text below it."""

from __future__ import annotations

import gc
import itertools
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.read import file_reader, inputs
from kwiken.otel.read.span_store import spans_within
from kwiken.otel.trace import load
from kwiken.otel.trace.load import read_forest
from tests.support.otel.span_trees import Maker, jaeger_json, otlp_lines, random_dag, write

SPANS = 150 * 9  # of one file


def written(folder: Path, files: int) -> None:
    """Write files of 150 requests each, as Jaeger's and as OTLP's by turns."""
    folder.mkdir()
    rng = random.Random(3)
    dag = random_dag(rng, 8)
    for number in range(files):
        spans = Maker(dag, rng).requests(150)
        text = jaeger_json(spans) if number % 2 else otlp_lines(spans)
        write(folder / f"{number:03d}.json", text)


def peak(folder: Path, max_spans: int) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        forest = read_forest([folder], max_spans=max_spans)
        assert forest.counts["spans_read"] == SPANS * len(list(folder.iterdir()))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    base = tmp_path_factory.mktemp("traces")
    for number in (6, 30):
        written(base / str(number), number)
    return {number: base / str(number) for number in (6, 30)}


def test_past_the_bound_more_files_take_no_more_memory(folders: dict[int, Path]) -> None:
    few, many = (peak(folders[number], max_spans=3000) for number in (6, 30))
    assert many < 1.25 * few


def test_below_the_bound_a_span_takes_some_two_hundred_bytes(folders: dict[int, Path]) -> None:
    few, many = (peak(folders[number], max_spans=10**6) for number in (6, 30))
    assert (many - few) / (24 * SPANS) < 250


def test_little_memory_holds_fewer_spans(folders: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert [spans_within(memory) for memory in (0, 1 << 29, 1 << 30, 1 << 40)] == [
        100_000,
        536_870,
        1_073_741,
        4_000_000,
    ]
    monkeypatch.setattr(load, "spans_within", lambda _: 3000)
    forest = read_forest([folders[6]])
    assert 1500 <= len(forest) <= 3000
    assert forest.counts["spans_sampled_out"] == 6 * SPANS - len(forest)


MIB = 1 << 20
PADDING = [{"key": f"http.header.{i}", "value": {"stringValue": "x" * 60}} for i in range(4)]


def large(path: Path, mib: int, *, document: bool) -> Path:
    """A file of so many MiB: OTLP lines, or one Jaeger document on one line."""
    rng = random.Random(5)
    spans = Maker(random_dag(rng, 8), rng).requests(150)
    lines = otlp_lines(spans).splitlines()
    units = json.loads(jaeger_json(spans))["data"] if document else [json.loads(line) for line in lines]
    with path.open("w") as file:
        file.write('{"data": [' if document else "")
        for number in itertools.count():
            text = json.dumps(padded(units[number % len(units)], f"{number + 1:032x}"))
            file.write(("," if document and number else "") + text + ("" if document else "\n"))
            if file.tell() >= mib * MIB:
                break
        file.write("]}" if document else "")
    return path


def padded(unit: dict[str, Any], trace: str) -> dict[str, Any]:
    """The same spans as another trace, with attributes as long as real ones."""
    for span in unit.get("spans", []):
        span["traceID"], span["tags"] = trace, PADDING
    for resource in unit.get("resourceSpans", ()):
        for span in resource["scopeSpans"][0]["spans"]:
            span["traceId"], span["attributes"] = trace, PADDING
    return unit


@pytest.mark.parametrize("document", [False, True], ids=["otlp lines", "one jaeger document"])
def test_a_large_file_is_read_in_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: bool
) -> None:
    monkeypatch.setattr(file_reader, "IN_MEMORY", MIB)
    monkeypatch.setattr(inputs, "IN_MEMORY", MIB)
    peaks = []
    for mib in (4, 8):
        path = large(tmp_path / "large.json", mib, document=document)
        gc.collect()
        tracemalloc.start()
        try:
            forest = read_forest([path], max_spans=2000)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert forest.counts["spans_read"] > 1000 * mib
        assert 0 < len(forest) <= 2000
        del forest
    assert peaks[1] < 1.1 * peaks[0] + MIB, "twice the file, the same memory"
    assert peaks[1] < 6 * MIB
