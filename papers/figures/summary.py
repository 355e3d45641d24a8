"""Verdicts of a source counted by kind, and one table for every source with its largest misses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from papers.figures.bounds import stated_bound
from papers.figures.rows import FigureRow, MissingRow, RowKind, RowVerdict, is_error

__all__ = ["COLUMNS", "counts", "largest_misses", "rows_of", "summary_lines", "summary_page"]

COLUMNS: Final = (
    "met",
    "missed",
    "order held",
    "order failed",
    "exact",
    "no value stated",
    "missing",
)
LARGEST: Final = 5
_WORDS: Final = {
    RowVerdict.MET: "met",
    RowVerdict.MISSED: "missed",
    RowVerdict.HELD: "order held",
    RowVerdict.FAILED: "order failed",
}


def counts(rows: Iterable[FigureRow], missing: Sequence[MissingRow] = ()) -> dict[str, int]:
    """Number of rows by column of the summary; a closed form that is not the printed value is missed."""
    found: Counter[str] = Counter(missing=len(missing))
    for one in rows:
        if one.kind is RowKind.EXACT and one.verdict is RowVerdict.MET:
            found["exact"] += 1
        elif one.verdict is RowVerdict.NONE:
            found["no value stated"] += 1
        else:
            found[_WORDS[one.verdict]] += 1
    return {column: found[column] for column in COLUMNS}


def summary_lines(rows: Iterable[FigureRow], missing: Sequence[MissingRow] = ()) -> str:
    """The counts in one line."""
    return ", ".join(f"{column} {count}" for column, count in counts(rows, missing).items())


def largest_misses(rows: Iterable[FigureRow]) -> list[FigureRow]:
    """The missed rows that are furthest from their bound, relative to it, the furthest first."""
    missed = [one for one in rows if one.verdict is RowVerdict.MISSED]
    return sorted(missed, key=_distance, reverse=True)[:LARGEST]


def _distance(row: FigureRow) -> float:
    bound = stated_bound(row.source, error=is_error(row.metric))
    if bound is None or math.isnan(row.ours):
        return 0.0
    nearest = min(max(row.ours, bound.low), bound.high)
    return abs(row.ours - nearest) / max(abs(nearest), 1e-9)


def rows_of(text: str | bytes, name: str) -> tuple[list[FigureRow], list[MissingRow]]:
    """Rows that `python -m papers NAME --json` printed.

    Args:
        name: name of the file, for its errors.

    Raises:
        InputError: no list of rows.
    """
    try:
        every = msgspec.json.decode(text, type=list[dict[str, object]])
        rows = [msgspec.convert(one, FigureRow) for one in every if "reason" not in one]
        missing = [msgspec.convert(one, MissingRow) for one in every if "reason" in one]
    except msgspec.DecodeError as error:
        raise InputError(f"{name}: {error}; `python -m papers NAME --json` writes one") from None
    return rows, missing


def summary_page(results: Mapping[str, tuple[list[FigureRow], list[MissingRow]]]) -> Iterator[str]:
    """Lines of a page in Markdown: one table of all sources, and the largest misses of each."""
    yield "# Published figures and ours"
    yield ""
    yield "Written by `python -m papers --summary`. `RowKind` in `papers/figures/rows.py` says what counts."
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
