"""The main job on an embedded default: a real service, real load, learn, plan, apply, compare.

The pausing process imports this too, so all heavy names load on use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cli.demo._disturb import Disturber, Flaky, choose
    from cli.demo._run import run_demo
    from cli.demo._settings import DemoSettings, divide
    from cli.demo._watch import TerminalWatch, Watch

_LAZY = {
    "DemoSettings": "cli.demo._settings",
    "Disturber": "cli.demo._disturb",
    "Flaky": "cli.demo._disturb",
    "TerminalWatch": "cli.demo._watch",
    "Watch": "cli.demo._watch",
    "choose": "cli.demo._disturb",
    "divide": "cli.demo._settings",
    "run_demo": "cli.demo._run",
}

__all__ = ["DemoSettings", "Disturber", "Flaky", "TerminalWatch", "Watch", "choose", "divide", "run_demo"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
