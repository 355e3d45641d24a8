"""Demo: runs a real service under load, learns from its traces, plans, applies the plan and compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.apps.demo.progress import TerminalWatch as TerminalWatch
    from kwiken.apps.demo.run import run_demo as run_demo

__getattr__ = lazy_names(__name__, __file__)
