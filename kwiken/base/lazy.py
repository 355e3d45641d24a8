"""Lazy loading of a package's names on first use, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kwiken.base.extras import needs


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]], *, extra: str | None = None
) -> Callable[[str], Any]:
    """Make a module-level `__getattr__` that imports the module of a name when the name is first used.

    Args:
        package: full name of the package that gets the `__getattr__`.
        modules: names to load, by the full name of the module that has them.
        extra: what brings the optional libraries of these modules; None for whichever extra has them.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs(f"{package}.{name}", extra):
            value = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
