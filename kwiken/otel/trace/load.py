"""Loading of traces from files, folders or a running Jaeger into a cleaned forest.

Files may be read by other processes: each reads some into columns of spans, which is most of the work, and
this process puts the columns together in the order of the files. The result is that of reading all here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, Spread
from kwiken.base.machine.memory import memory_limit
from kwiken.otel.http.query_address import scheme_of
from kwiken.otel.read.file_reader import FileReader
from kwiken.otel.read.inputs import TraceFile, find_files
from kwiken.otel.read.span_store import SpanStore, StoredSpans, spans_within
from kwiken.otel.trace.forest import Forest, grow

FILES_OF_ONE_TRACE: Final = "warning_files_of_one_trace"  # name of a count of profiles
PART_BYTES: Final = 16 << 20  # of files that a process reads at once, at least one file
PARTS_AT_ONCE: Final = 32  # read ahead of what this process has put together: some hundred MB of columns
GZIP_RATIO: Final = 10  # bytes of traces for one byte of a compressed file, about
Progress = Callable[[int, int], None]


def read_forest(
    paths: Iterable[str | Path],
    *,
    on_progress: Progress | None = None,
    max_spans: int | None = None,
    kind_by: str | None = None,
    spread: Spread | None = None,
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
        from kwiken.otel.http.jaeger_api import JaegerQuery, fetched

        queries = [JaegerQuery.parse(path) for path in addresses]
    else:
        queries = []
    files = find_files(path for path, scheme in zip(given, schemes, strict=True) if not scheme)
    tell = on_progress if on_progress is not None else _quiet
    max_spans = spans_within(memory_limit()) if max_spans is None else max_spans
    read = None if spread is None else _read_in_parts(files, spread, tell, max_spans, kind_by)
    store, seen = read if read is not None else _read_here(files, tell, max_spans, kind_by)
    if queries:
        reader = FileReader(store)
        for query in queries:
            with fetched(query) as answer:
                reader.stream(answer, query.where)
        seen = seen.with_(reader)
    forest = grow(store)
    forest.counts["files"] = len(files)
    with_spans = len(files) - seen.without_spans
    forest.counts[FILES_OF_ONE_TRACE] = with_spans if with_spans > 1 and forest.counts["traces"] == 1 else 0
    forest.counts["files_without_spans"] = seen.without_spans
    forest.counts["spans_without_time"] = seen.without_time
    forest.counts["lines_unfinished"] = seen.unfinished
    return forest


@dataclass(frozen=True)
class _Seen:
    """Numbers of files without spans, of spans without time and of unfinished lines."""

    without_spans: int = 0
    without_time: int = 0
    unfinished: int = 0

    def with_(self, other: FileReader | _Seen) -> _Seen:
        """Sums with those of other files."""
        return _Seen(
            self.without_spans + other.without_spans,
            self.without_time + other.without_time,
            self.unfinished + other.unfinished,
        )


def _read_here(
    files: Sequence[TraceFile], tell: Progress, max_spans: int, kind_by: str | None
) -> tuple[SpanStore, _Seen]:
    """Read files in this process."""
    store = SpanStore(max_spans=max_spans, kind_by=kind_by)
    reader = FileReader(store)
    total, done = sum(file.size for file in files), 0
    for file in files:
        reader.file(file, partial(_tell, tell, done, total))
        done += file.size
        tell(done, total)
    return store, _Seen().with_(reader)


def _read_in_parts(
    files: Sequence[TraceFile], spread: Spread, tell: Progress, max_spans: int, kind_by: str | None
) -> tuple[SpanStore, _Seen] | None:
    """Read files as jobs of an engine; None where reading all here could give something else."""
    store, seen = SpanStore(max_spans=max_spans, kind_by=kind_by), _Seen()
    total, done = sum(file.size for file in files), 0
    parts = _parts(files)
    while some := tuple(islice(parts, PARTS_AT_ONCE)):
        jobs: list[Job] = [(read_part, (part, max_spans, kind_by, store.limit)) for part in some]
        for part, (stored, of_part) in zip(some, spread(jobs), strict=True):
            if not store.absorb(stored):
                return None
            seen = seen.with_(of_part)
            done += sum(file.size for file in part)
            tell(done, total)
    return store, seen


def _parts(files: Sequence[TraceFile]) -> Iterator[tuple[TraceFile, ...]]:
    """Files in their order, as parts of about the same work."""
    part: list[TraceFile] = []
    size = 0
    for file in files:
        work = file.size * (GZIP_RATIO if file.path.suffix == ".gz" else 1)
        if part and size + work > PART_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(file)
        size += work
    if part:
        yield tuple(part)


def read_part(
    files: tuple[TraceFile, ...], max_spans: int, kind_by: str | None, limit: int
) -> tuple[StoredSpans, _Seen]:
    """Read some files, as a job of an engine; arguments as `SpanStore`.

    Raises:
        InputError: as `read_forest`.
    """
    store = SpanStore(max_spans=max_spans, kind_by=kind_by, limit=limit)
    reader = FileReader(store)
    for file in files:
        reader.file(file, lambda _: None)
    return store.stored(), _Seen().with_(reader)


def _tell(tell: Progress, before: int, total: int, here: int) -> None:
    tell(before + here, total)


def _quiet(done: int, total: int) -> None:
    """Progress callback that does nothing."""
