"""Memory while reading: flat in the number of files past the bound, and a small part of the text below it."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path

import pytest

from otel._fit import read_forest
from tests.support.span_trees import Maker, jaeger_json, otlp_lines, random_dag, write

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
    for number in (6, 48):
        written(base / str(number), number)
    return {number: base / str(number) for number in (6, 48)}


def test_past_the_bound_more_files_take_no_more_memory(folders: dict[int, Path]) -> None:
    few, many = (peak(folders[number], max_spans=3000) for number in (6, 48))
    assert many < 1.25 * few


def test_below_the_bound_a_span_takes_some_two_hundred_bytes(folders: dict[int, Path]) -> None:
    few, many = (peak(folders[number], max_spans=10**6) for number in (6, 48))
    assert (many - few) / (42 * SPANS) < 250
