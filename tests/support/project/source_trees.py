"""Syntax trees of source files, parsed once for all rules that read them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

CHECKED: Final = "TYPE_CHECKING"


@cache
def tree(path: Path) -> ast.Module:
    """Tree of a file, without a look of the garbage collector at the growing millions of nodes."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        if collects:
            gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree."""
    return tuple(ast.walk(tree(path)))


@cache
def exported(path: Path) -> frozenset[str]:
    """Names of a package's face, from its `__init__`: those imported by `X as X`, or defined there.

    Names below `if TYPE_CHECKING:` load on first use.
    """
    body = tree(path).body
    checked = (node.body for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == CHECKED)
    named: set[str] = set()
    for node in (*body, *(inner for block in checked for inner in block)):
        if isinstance(node, ast.ImportFrom):
            named |= {alias.asname for alias in node.names if alias.asname is not None}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            named.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.add(node.targets[0].id)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            named.add(node.target.id)
    return frozenset(name for name in named if not name.startswith("_"))
