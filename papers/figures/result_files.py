"""Files of a reproduction's results: rows as JSON, and as a table in Markdown with date and commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from papers.figures.rows import Findings

HEAD = ("figure", "metric", "source", "ours", "lowest to highest", "kind", "verdict", "note")


def as_json(found: Findings) -> str:
    """Rows as `python -m papers NAME --json` prints them: computed ones first."""
    rows = msgspec.to_builtins([*found.rows, *found.missing])
    return json.dumps(rows, indent=1) + "\n"


def as_page(name: str, title: str, found: Findings, *, seeds: int, facts: Mapping[str, Any]) -> str:
    """Rows as a page in Markdown.

    Args:
        name: name of the source.
        title: title of the source.
        found: rows that were computed, and those that were not, with the reason.
        seeds: number of synthetic populations.
        facts: machine, date and commit, as `benchmarks.formats.circumstances` returns them.
    """
    lines = [
        f"# {title}",
        "",
        f"`python -m papers {name} --seeds {seeds}`, {facts['date']}, commit {facts['commit']}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "| " + " | ".join("---" for _ in HEAD) + " |",
    ]
    for row in found.rows:
        span = "" if row.low is None or row.high is None else f"{row.low:g} to {row.high:g}"
        cells = (
            row.figure,
            row.metric,
            row.source,
            f"{row.ours:g}",
            span,
            row.kind.value,
            row.verdict.value,
            row.note,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if found.missing:
        lines.append("\nNot reproduced:\n")
        lines += [f"- {row.figure}, {row.metric}: {row.reason}" for row in found.missing]
    return "\n".join(lines) + "\n"
