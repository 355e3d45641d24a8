"""Demo: runs a real service under load, learns from its traces, plans, applies the plan and compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.demo.progress import TerminalWatch
    from kwiken.cli.demo.run import run_demo

__all__ = ["TerminalWatch", "run_demo"]

__getattr__ = lazy_names(
    __name__, {"kwiken.cli.demo.progress": ("TerminalWatch",), "kwiken.cli.demo.run": ("run_demo",)}
)
