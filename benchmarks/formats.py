"""Formats of benchmark results: a table for the terminal, and JSON and Markdown for each benchmark."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import Row

HEAD = ("what", "ours", "target", "", "alternative", "theirs", "theirs / ours", "spread")
ADDITIONS = 10_000_000  # of the loop that tells the speed of a machine
Results = Mapping[str, Sequence[Row]]


def circumstances() -> dict[str, Any]:
    """Date, commit, Python version, system, number of cores, and seconds that a loop of additions takes."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "additions_s": additions_s(),
    }


def commit() -> str:
    """Short hash of the commit that is checked out; `unknown` outside of a repository."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    words = (git, "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def additions_s() -> float:
    """Seconds for ten million additions in a Python loop, by which times of different machines compare."""
    start = time.perf_counter()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return time.perf_counter() - start


def as_json(name: str, rows: Sequence[Row], *, quick: bool, facts: Mapping[str, Any]) -> str:
    """Rows of one benchmark as a JSON document, with the machine, the date and the commit."""
    document = {"benchmark": name, **facts, "quick": quick, "rows": [asdict(row) for row in rows]}
    return json.dumps(document, indent=1) + "\n"


def as_table(results: Results) -> str:
    """Columns of text."""
    lines = [HEAD, *cells(results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_page(name: str, rows: Sequence[Row], *, quick: bool, facts: Mapping[str, Any]) -> str:
    """One benchmark as a page in Markdown: the command, where and when it ran, and a table.

    Args:
        name: name of the benchmark.
        rows: its results.
        quick: whether few rounds were run.
        facts: machine, date and commit, as `circumstances` returns them.
    """
    head = (
        f"# {name}\n\n`python -m benchmarks --only {name}`, {facts['date']}, commit {facts['commit']}. "
        f"Python {facts['python']}, {facts['system']}, {facts['cores']} cores; "
        f"ten million additions took {facts['additions_s']:.2f} s."
        + (" A quick run: few rounds." if quick else "")
    )
    table = [HEAD, ("---",) * len(HEAD), *cells({name: rows})]
    return "\n".join([head, "", *("| " + " | ".join(line) + " |" for line in table)]) + "\n"


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
