"""Result of a `kwiken load` that ran in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """Report that it printed as JSON."""
        report = json.loads(self.out)
        assert isinstance(report, dict)
        return report

    @property
    def complaints(self) -> list[str]:
        """Lines on stderr without the warning that the generator was late, which a busy machine causes."""
        return [line for line in self.err.splitlines() if "the generator was late" not in line]


Serve = Callable[..., str]
"""Starts a server with options of `benchmarks.load.fake_server`; gives its URL."""
Load = Callable[..., Ran]
"""Runs `kwiken load` with arguments."""
StartLoad = Callable[..., "subprocess.Popen[str]"]
"""Starts `kwiken load` and does not wait."""


def lines(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
