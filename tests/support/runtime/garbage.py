"""Counter of objects in reference cycles, which only the garbage collector frees."""

from __future__ import annotations

import asyncio
import gc
import types
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

OWN = ("/runtime/", "/tests/")


async def garbage_of(run: Callable[[], Awaitable[Any]], *, times: int = 2) -> Counter[str]:
    """Count the frames, tasks, errors and objects of the runtime that are in cycles after calls of `run`.

    Args:
        run: function to call; called once more before, so that objects made only once are not counted.
        times: number of counted calls.
    """
    await run()
    await _settle()
    gc.disable()
    gc.freeze()  # scanning all other objects again and again would take most of the time
    flags = gc.get_debug()
    try:
        for _ in range(times):
            await run()
        await _settle()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(name for thing in gc.garbage if (name := _name(thing)) is not None)
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


async def _settle() -> None:
    """Run callbacks that are due: they hold their arguments."""
    for _ in range(20):
        await asyncio.sleep(0)


def _name(thing: Any) -> str | None:
    if isinstance(thing, types.FrameType):
        path = thing.f_code.co_filename
        return f"frame {thing.f_code.co_qualname}" if any(own in path for own in OWN) else None
    kind = type(thing)
    if isinstance(thing, BaseException | asyncio.Future) or kind.__module__.startswith(
        ("kwiken.runtime.", "tests.")
    ):
        return kind.__qualname__
    return None
