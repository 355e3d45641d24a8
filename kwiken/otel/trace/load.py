"""Loading of traces from files, folders or a running Jaeger into a cleaned forest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.otel.http import scheme_of
from kwiken.otel.read import MAX_SPANS, FileReader, SpanStore, find_files
from kwiken.otel.trace.forest import Forest, grow

FILES_OF_ONE_TRACE: Final = "warning_files_of_one_trace"  # name of a count of profiles
Progress = Callable[[int, int], None]


def read_forest(
    paths: Iterable[str | Path],
    *,
    on_progress: Progress | None = None,
    max_spans: int = MAX_SPANS,
    kind_by: str | None = None,
) -> Forest:
    """Read traces into cleaned trees; arguments and errors as `fit_profile`."""
    given = [str(path) for path in paths]
    if not given:
        raise InputError("give at least one file, folder or jaeger:// address of traces")
    schemes = [scheme_of(path) for path in given]
    if "prometheus" in schemes:
        where = given[schemes.index("prometheus")]
        raise InputError("holds histograms, which `kwiken fit` reads; traces are needed", where=where)
    addresses = [path for path, scheme in zip(given, schemes, strict=True) if scheme]
    if addresses:
        from kwiken.otel.http import (
            JaegerQuery,
            fetched,
        )  # with clients of HTTP and TLS, which files need not

        queries = [JaegerQuery.parse(path) for path in addresses]
    else:
        queries = []
    files = find_files(path for path, scheme in zip(given, schemes, strict=True) if not scheme)
    store = SpanStore(max_spans=max_spans, kind_by=kind_by)
    reader = FileReader(store)
    total, done = sum(file.size for file in files), 0
    tell = on_progress if on_progress is not None else _quiet
    for file in files:
        reader.file(file, partial(_tell, tell, done, total))
        done += file.size
        tell(done, total)
    for query in queries:
        with fetched(query) as answer:
            reader.stream(answer, query.where)
    forest = grow(store)
    forest.counts["files"] = len(files)
    with_spans = len(files) - reader.without_spans
    forest.counts[FILES_OF_ONE_TRACE] = with_spans if with_spans > 1 and forest.counts["traces"] == 1 else 0
    forest.counts["files_without_spans"] = reader.without_spans
    forest.counts["spans_without_time"] = reader.without_time
    forest.counts["lines_unfinished"] = reader.unfinished
    return forest


def _tell(tell: Progress, before: int, total: int, here: int) -> None:
    tell(before + here, total)


def _quiet(done: int, total: int) -> None:
    """Progress callback that does nothing."""
