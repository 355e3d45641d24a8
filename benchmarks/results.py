"""Formats of the results: a table for the terminal, JSON, and a page of the documentation."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.harness import Row

HEAD = ("what", "ours", "target", "", "alternative", "theirs", "theirs / ours", "spread")
Results = Mapping[str, Sequence[Row]]


def machine() -> dict[str, Any]:
    """Python version, system and number of cores."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


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


def as_page(results: Results, *, quick: bool) -> str:
    """A page in Markdown."""
    facts = machine()
    table = [HEAD, ("---",) * len(HEAD), *cells(results)]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Written by `python -m benchmarks --doc FILE`. The ways of doing one thing take turns in one",
            "process, so a ratio holds where a time does not: machines differ, and a shared one swings.",
            "*Theirs / ours* is the median over the rounds, beside its lowest and highest; above 1, ours",
            "takes less. Without an alternative the spread is that of our own figure.",
            "",
            f"Python {facts['python']}, {facts['system']}, {facts['cores']} cores"
            + (", a quick run: few rounds." if quick else "."),
            "",
            *("| " + " | ".join(line) + " |" for line in table),
            "",
        ]
    )


def cells(results: Results) -> list[tuple[str, ...]]:
    """The rows as text."""
    return [
        (
            row.name,
            f"{figure(row.ours)} {row.unit}",
            "" if row.target is None else f"{figure(row.target)} {row.unit}",
            {None: "", True: "met", False: "MISSED"}[row.met],
            row.alternative,
            "" if row.theirs is None else f"{figure(row.theirs)} {row.unit}",
            "" if row.ratio is None else figure(row.ratio),
            "" if row.spread is None else "{} to {}".format(*map(figure, row.spread)),
        )
        for found in results.values()
        for row in found
    ]


def figure(value: float) -> str:
    """Three digits that count, without an exponent where one can do without."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
