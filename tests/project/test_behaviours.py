"""The table of behaviours: each row that passes names a test that exists, and the others give a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (Path(__file__).with_name("behaviours.md")).read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("| ").split(" | "))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| behaviour |")
]
TEST = re.compile(r"`([a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
MIN_PASSED = 76


@cache
def names_in(file: str) -> frozenset[str]:
    """Names of the tests of a file."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def test_every_row_that_passes_names_a_test_that_exists() -> None:
    passed = [row for row in ROWS if row[1] == "pass"]
    assert len(passed) >= MIN_PASSED
    for behaviour, _, named in passed:
        match = TEST.fullmatch(named)
        assert match is not None, behaviour
        assert match[2] in names_in(match[1]), f"{behaviour}: there is no {named}"


def test_every_other_row_gives_a_reason() -> None:
    others = [row for row in ROWS if row[1] != "pass"]
    assert others
    for behaviour, result, reason in others:
        assert result in {"in part", "not obeyed", "not offered", "not written"}, behaviour
        assert reason.endswith("."), behaviour
