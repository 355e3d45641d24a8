"""Lazy loading of a package's names on first use, so that importing the package stays cheap."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kwiken.base.extras import needs


def names_of(file: str) -> list[str]:
    """Names that a package loads on first use, sorted: what its `__all__` and `dir` show.

    Args:
        file: path of the package's source, its `__file__`.
    """
    return sorted(name for name, _ in _checked_imports(Path(file)))


def lazy_names(package: str, file: str, *, extra: str | None = None) -> Callable[[str], Any]:
    """Make a module-level `__getattr__` that imports the module of a name when the name is first used.

    The names and their modules are read from the package's own `if TYPE_CHECKING:` block, so that each name
    is written once. The block is read when the first name is asked for.

    Args:
        package: full name of the package that gets the `__getattr__`, its `__name__`.
        file: path of the package's source, its `__file__`.
        extra: what brings the optional libraries of these modules; None for whichever extra has them.
    """

    @cache
    def modules() -> dict[str, str]:
        return dict(_checked_imports(Path(file)))

    def load(name: str) -> Any:
        module = None if name.startswith("__") else modules().get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs(f"{package}.{name}", extra):
            value = getattr(importlib.import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def _checked_imports(file: Path) -> Iterator[tuple[str, str]]:
    """Name and module of each import below `if TYPE_CHECKING:` at the top level of a source file."""
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom) and statement.module is not None:
                    for alias in statement.names:
                        yield alias.name, statement.module
