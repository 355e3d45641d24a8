"""Work in threads that the end of the process does not wait for: talks with servers that may never answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


def ended_within(work: Callable[[], object], within_s: float, *, name: str) -> bool:
    """Do work in a thread, and wait for its end for a limited time; returns whether it has ended."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    thread.join(within_s)
    return not thread.is_alive()


async def in_thread(work: Callable[[], object], *, name: str) -> None:
    """Do work in a thread and wait for its end; a cancelled wait leaves it to itself."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            work()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name=name, daemon=True).start()
    await ended.wait()
