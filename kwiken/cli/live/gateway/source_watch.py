"""Watch of the Python files below a folder, for `kwiken up --reload`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

POLL_S: Final = 0.5
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


async def watch_sources(folder: Path, changed: Callable[[], None]) -> None:
    """Call a function whenever the Python files below a folder have changed and rest; never returns.

    Args:
        folder: folder to watch; hidden folders and installed packages in it are left out.
    """
    known = latest = await asyncio.to_thread(_stamps, folder)
    while True:
        await asyncio.sleep(POLL_S)
        now = await asyncio.to_thread(_stamps, folder)
        if now == latest != known:  # all files of an edit are written
            known = now
            changed()
        latest = now


def _stamps(folder: Path) -> dict[str, int]:
    """Time of the last change of each file, by path, nanoseconds."""
    stamps = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(place, name)  # noqa: PTH118 - thousands of files, twice a second
                try:
                    stamps[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 - the same
                except OSError:
                    continue  # it has just been removed
    return stamps
