"""Command that counts the lines of `kwiken/` by wing: `python -m tests.support.project.line_counts`.

Lines are those of Python files. Code is lines without blank ones, comments and docstrings. The systems of nine
publications stand in rooms of their own, which SYSTEMS names, and LATER names what came beside them; all else
is the core.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3] / "kwiken"
# Folders and files of each system, from `kwiken/`.
SYSTEMS: Final[dict[str, tuple[str, ...]]] = {
    "Tarcil": (
        "allocator/sampling",
        "allocator/schedulers/sampled.py",
        "cli/allocate/place_sampled.py",
    ),
    "ARQ": (
        "upkeep/jobs",
        "runtime/cluster/state/jobs",
        "runtime/decisions/lines",
        "cli/queue",
    ),
    "HCloud": (
        "allocator/provisioning",
        "export/provisions",
        "cli/allocate/provision.py",
    ),
    "colocation": ("allocator/packing", "cli/allocate/packing"),
    "MRCute": (
        "batch/jobs",
        "cli/batch",
    ),
    "Corral": (
        "batch/racks",
        "export/racks",
        "apps/batch_run",
        "cli/batch/racks",
    ),
    "storage model": (
        "storage/model",
        "storage/trace",
        "export/block_io",
        "cli/data/storage",
    ),
    "BLOC": ("storage/consolidation",),
    "ECHO": (
        "traffic",
        "traffic/span_flows",
        "allocator/distance",
        "cli/data/traffic",
    ),
}
LATER: Final[dict[str, tuple[str, ...]]] = {
    "autopilot": ("tail/autopilot", "runtime/gateway/steering"),
    "Kubernetes and images": ("upkeep/kubernetes", "export/deployments", "apps/deploy"),
    "TLS": ("runtime/wire/tls",),
    "`kwiken.hedge`": ("hedge",),
}


class Count(NamedTuple):
    """Lines of some files.

    Attributes:
        files: number of the files.
        lines: all lines.
        code: lines without blank ones, comments and docstrings.
    """

    files: int = 0
    lines: int = 0
    code: int = 0

    def __add__(self, other: Count) -> Count:  # type: ignore[override]
        return Count(*(one + more for one, more in zip(self, other, strict=True)))


def count_of(path: Path) -> Count:
    """Count of one file."""
    text = path.read_text(encoding="utf-8")
    return Count(1, text.count("\n"), len(set(_code_lines(text))))


def _code_lines(text: str) -> Iterator[int]:
    """Numbers of the lines with code, some of them several times."""
    told = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    empty = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty and token.start[0] not in told:
            yield from range(token.start[0], token.end[0] + 1)


def system_of(path: Path) -> str | None:
    """System that a file of `kwiken/` belongs to, by the longest place that holds the file; None for the core."""
    held = [
        (len(place), system)
        for system, places in (SYSTEMS | LATER).items()
        for place in places
        if path.is_relative_to(ROOT / place)
    ]
    return max(held)[1] if held else None


def counts() -> tuple[dict[str, Count], dict[str, Count], Count]:
    """Counts of the core by wing, of each system, and of all.

    Raises:
        ValueError: SYSTEMS names a place that is not there.
    """
    for place in (place for places in (SYSTEMS | LATER).values() for place in places):
        if not (ROOT / place).exists():
            raise ValueError(f"no kwiken/{place}")
    wings: dict[str, Count] = {}
    systems = dict.fromkeys(SYSTEMS | LATER, Count())
    total = Count()
    for path in sorted(ROOT.rglob("*.py")):
        found, system = count_of(path), system_of(path)
        total += found
        if system is not None:
            systems[system] += found
        else:
            wing = path.relative_to(ROOT).parts[0]
            wings[wing] = wings.get(wing, Count()) + found
    return wings, systems, total


def main() -> None:
    """Print the counts as a table of Markdown."""
    wings, systems, total = counts()
    rows = [
        *(
            ("`kwiken/" + wing + ("`" if wing.endswith(".py") else "/`"), found)
            for wing, found in wings.items()
        ),
        ("core, together", sum(wings.values(), Count())),
        *((name, systems[name]) for name in SYSTEMS),
        ("nine systems, together", sum((systems[name] for name in SYSTEMS), Count())),
        *((name, systems[name]) for name in LATER),
        ("all", total),
    ]
    sys.stdout.write("| part | files | lines | code |\n|---|---|---|---|\n")
    for name, found in rows:
        sys.stdout.write(f"| {name} | {found.files} | {found.lines:,} | {found.code:,} |\n")


if __name__ == "__main__":
    main()
