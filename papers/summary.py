"""Verdicts of a source counted by kind, and one table for every source with its largest misses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from papers.bounds import stated_bound
from papers.rows import Kind, MissingRow, Row, Verdict, is_error

__all__ = ["COLUMNS", "counts", "largest_misses", "read_results", "summary_lines", "summary_page"]

COLUMNS: Final = (
    "met",
    "missed",
    "order held",
    "order failed",
    "exact",
    "input",
    "no value stated",
    "missing",
)
LARGEST: Final = 5
MAX_BYTES: Final = 16 << 20  # of one file of results
_WORDS: Final = {
    Verdict.MET: "met",
    Verdict.MISSED: "missed",
    Verdict.HELD: "order held",
    Verdict.FAILED: "order failed",
}


def counts(rows: Iterable[Row], missing: Sequence[MissingRow] = ()) -> dict[str, int]:
    """Number of rows by column of the summary; a closed form that is not the printed value is missed."""
    found: Counter[str] = Counter(missing=len(missing))
    for one in rows:
        if one.kind is Kind.EXACT and one.verdict is Verdict.MET:
            found["exact"] += 1
        elif one.verdict is Verdict.NONE:
            found["input" if one.kind is Kind.INPUT else "no value stated"] += 1
        else:
            found[_WORDS[one.verdict]] += 1
    return {column: found[column] for column in COLUMNS}


def summary_lines(rows: Iterable[Row], missing: Sequence[MissingRow] = ()) -> str:
    """The counts in one line."""
    return ", ".join(f"{column} {count}" for column, count in counts(rows, missing).items())


def largest_misses(rows: Iterable[Row]) -> list[Row]:
    """The missed rows that are furthest from their bound, relative to it, the furthest first."""
    missed = [one for one in rows if one.verdict is Verdict.MISSED]
    return sorted(missed, key=_distance, reverse=True)[:LARGEST]


def _distance(row: Row) -> float:
    bound = stated_bound(row.source, error=is_error(row.metric))
    if bound is None or math.isnan(row.ours):
        return 0.0
    nearest = min(max(row.ours, bound.low), bound.high)
    return abs(row.ours - nearest) / max(abs(nearest), 1e-9)


def read_results(folder: Path) -> dict[str, tuple[list[Row], list[MissingRow]]]:
    """Rows by source, from files that `python -m papers NAME --json` printed.

    Args:
        folder: folder with a file NAME.json for each source.

    Raises:
        InputError: no such file, or one that is no list of rows.
    """
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not paths:
        raise InputError(f"{folder}: no results; write them by `make papers`", where="--summary")
    return {path.stem: _read(path) for path in paths}


def _read(path: Path) -> tuple[list[Row], list[MissingRow]]:
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path}: more than {MAX_BYTES >> 20} MiB, so no list of rows")
    try:
        every = msgspec.json.decode(path.read_bytes(), type=list[dict[str, object]])
        rows = [msgspec.convert(one, Row) for one in every if "reason" not in one]
        missing = [msgspec.convert(one, MissingRow) for one in every if "reason" in one]
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: {error}; `python -m papers {path.stem} --json` writes one") from None
    return rows, missing


def summary_page(results: Mapping[str, tuple[list[Row], list[MissingRow]]]) -> Iterator[str]:
    """Lines of a page in Markdown: one table of all sources, and the largest misses of each."""
    yield "# Published figures and ours"
    yield ""
    yield "Written by `python -m papers --summary`. `Kind` in `papers/rows.py` says what counts."
    yield ""
    yield f"| source | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for name, (rows, missing) in results.items():
        yield f"| {name} | {' | '.join(map(str, counts(rows, missing).values()))} |"
    for name, (rows, _) in results.items():
        if misses := largest_misses(rows):
            yield ""
            yield f"## {name}: largest misses"
            yield ""
            yield "| figure | metric | ours | source | note |"
            yield "|---|---|---|---|---|"
            for one in misses:
                yield f"| {one.figure} | {one.metric} | {one.ours:g} | {one.source} | {one.note} |"
