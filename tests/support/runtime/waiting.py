"""Bounded waits for conditions in tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

# Bound of waits for what comes in moments on a free machine: long enough where other programs have the processors,
# below pytest's own limit of 300 s. A test that waits for an event takes no longer for it.
PATIENCE_S: Final = 120.0


async def until(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds; fails after a timeout."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


def soon(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds, without a loop; fails after a timeout."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def found(folder: Path, kind: str) -> list[str]:
    """Marks left by handlers of the small test service."""
    return [path.name for path in folder.glob(f"*.{kind}")]
