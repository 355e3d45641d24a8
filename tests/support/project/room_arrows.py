"""Command that counts the rooms of `kwiken/` and the arrows between them: `python -m tests.support.project.room_arrows`.

A room is a folder or a module: of `kwiken/` itself, or of one wing. An arrow stands for all imports of one room by
another, wherever they stand in a file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.project.source_trees import nodes

KWIKEN: Final = Path(__file__).resolve().parents[3] / "kwiken"
PAPERS: Final = KWIKEN.with_name("papers")


def name_of(path: Path) -> str:
    """Full name of the module in a file."""
    parts = path.relative_to(KWIKEN.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """File of each module by its full name; `__main__` is none, since nothing imports it."""
    files = (*sorted(KWIKEN.rglob("*.py")), *sorted(PAPERS.rglob("*.py")))
    return {name_of(path): path for path in files if path.name != "__main__.py"}


def _imported(path: Path) -> Iterator[str]:
    """Modules of ours that a file imports, or imports names from."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules() else node.module


def rooms_of(folder: str = "kwiken") -> dict[str, set[str]]:
    """Rooms of a folder, each with the other rooms of the folder that it imports.

    Faces below the folder count as their rooms; the folder's own face is a room of its own for `kwiken` alone, which
    users import.

    Args:
        folder: full name of a package, `kwiken` or one of its wings.
    """
    depth = folder.count(".") + 2

    def room(module: str) -> str | None:
        inside = module.startswith(f"{folder}.") or module == folder == "kwiken"
        return ".".join(module.split(".")[:depth]) if inside else None

    arrows: dict[str, set[str]] = {}
    for module, path in modules().items():
        if (start := room(module)) is not None:
            ends = {room(target) for target in _imported(path)} - {start, None}
            arrows.setdefault(start, set()).update(end for end in ends if end is not None)
    return arrows


def main() -> None:
    """Print rooms and arrows of `kwiken/` and of each wing as a table of Markdown."""
    wings = [name for name, path in modules().items() if name.count(".") == 1 and path.name == "__init__.py"]
    sys.stdout.write("| folder | rooms | arrows |\n|---|---|---|\n")
    for folder in ("kwiken", *wings):
        arrows = rooms_of(folder)
        count = sum(len(ends) for ends in arrows.values())
        sys.stdout.write(f"| `{folder.replace('.', '/')}/` | {len(arrows)} | {count} |\n")


if __name__ == "__main__":
    main()
