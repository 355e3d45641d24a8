"""Formats of the results: a table for the terminal, JSON, and a page of the documentation."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.harness import Row

HEAD = ("what", "ours", "target", "", "alternative", "theirs", "theirs / ours", "spread")
TITLE = "# Benchmarks\n\n"
HEADING = "## Results\n"  # what follows in a page is written by this module
ADDITIONS = 10_000_000  # of the loop that tells the speed of a machine
Results = Mapping[str, Sequence[Row]]


def machine() -> dict[str, Any]:
    """Python version, system, number of cores, and seconds that a loop of additions takes."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "additions_s": additions_s(),
    }


def additions_s() -> float:
    """Seconds for ten million additions in a Python loop, by which times of different machines compare."""
    start = time.perf_counter()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return time.perf_counter() - start


def as_json(results: Results, *, quick: bool) -> str:
    """All rows as a JSON document."""
    rows = [{"bench": bench, **asdict(row)} for bench, found in results.items() for row in found]
    return json.dumps({"machine": machine(), "quick": quick, "rows": rows}, indent=1) + "\n"


def as_table(results: Results) -> str:
    """Columns of text."""
    lines = [HEAD, *cells(results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_page(results: Results, *, quick: bool, page: str = "") -> str:
    """A page in Markdown with a section for each benchmark.

    Args:
        results: rows by benchmark; they replace the sections of the same name.
        quick: whether few rounds were run.
        page: the page as it stands; what precedes the results, and sections of other benchmarks, are kept.
    """
    facts = machine()
    measured = (
        f"Python {facts['python']}, {facts['system']}, {facts['cores']} cores, "
        f"ten million additions in {facts['additions_s']:.2f} s"
        + (", a quick run: few rounds." if quick else ".")
    )
    before, _, written = page.partition(HEADING)
    parts = re.split(r"^### (.+)\n", written, flags=re.MULTILINE)[1:]
    sections = {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
    for name, rows in results.items():
        table = [HEAD, ("---",) * len(HEAD), *cells({name: rows})]
        sections[name] = "\n".join([measured, "", *("| " + " | ".join(line) + " |" for line in table)])
    told = "\n".join(f"### {name}\n\n{text}\n" for name, text in sorted(sections.items()))
    return f"{before or TITLE}{HEADING}\n{told}"


def cells(results: Results) -> list[tuple[str, ...]]:
    """The rows as text."""
    return [
        (
            row.name,
            f"{figure(row.ours)} {row.unit}",
            "" if row.target is None else f"{figure(row.target)} {row.unit}{_ratio(row)}",
            {None: "", True: "met", False: "MISSED"}[row.met],
            row.alternative,
            "" if row.theirs is None else f"{figure(row.theirs)} {row.unit}",
            "" if row.ratio is None else figure(row.ratio),
            "" if row.spread is None else "{} to {}".format(*map(figure, row.spread)),
        )
        for found in results.values()
        for row in found
    ]


def _ratio(row: Row) -> str:
    """Target of the ratio in brackets, where the target is a ratio."""
    return "" if row.least is None else f" (ratio {figure(row.least)})"


def figure(value: float) -> str:
    """Three digits that count, without an exponent where one can do without."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
