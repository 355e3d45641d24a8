"""Waiting in tests for what happens elsewhere, with a bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path


async def until(condition: Callable[[], object], *, within_s: float = 30.0) -> None:
    """Wait for a condition to hold; fails when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


def found(folder: Path, kind: str) -> list[str]:
    """The marks that handlers of the small test service left."""
    return [path.name for path in folder.glob(f"*.{kind}")]
