"""Locust's own command in tests, with the locustfile of the package or one of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

LOCUSTFILE = Path(__file__).resolve().parents[3] / "kwiken" / "loadtest" / "locustfile.py"
Locust = Callable[..., "subprocess.Popen[str]"]
"""Starts Locust's command with arguments and `file`, and does not wait."""


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, once it has ended."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err
