"""Run of a probe: ended by signals with everything that was started, noted where others used the machine."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from kwiken.apps.console.output import note
from kwiken.apps.console.process import Terminated

T = TypeVar("T")
QUIET_S: Final = 0.5  # time for which the use by others is measured, before a probe and after it, seconds
MAX_TAKEN: Final = 0.15  # processors: more use by other programs is noted


def run_probe(work: Coroutine[Any, Any, T]) -> T:
    """Run a probe to its end, and note if others used the processors just before it or after it.

    SIGTERM cancels the probe as Ctrl-C does, so that it cleans up.

    Raises:
        Terminated: SIGTERM came.
    """
    import asyncio
    import signal

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        before = await _used_by_others()
        found = await work
        _note_others((before + await _used_by_others()) / 2)
        return found

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise Terminated from None
    finally:
        work.close()  # after an early interrupt the coroutine has never started


async def _used_by_others() -> float:
    """Processors that other programs and the hypervisor use, measured while the probe rests."""
    import asyncio

    from kwiken.base.machine.processor_use import use_between
    from kwiken.base.machine.reading import read_processors

    first = read_processors()
    await asyncio.sleep(QUIET_S)
    last = read_processors()
    return 0.0 if first is None or last is None else use_between(first, last).taken


def _note_others(taken: float) -> None:
    if taken > MAX_TAKEN:
        note(
            f"others used {taken:.2g} processors beside the probe: what it measured is rough; "
            "repeat it on a quiet machine"
        )
