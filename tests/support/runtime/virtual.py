"""Virtual-time event loop: the clock jumps to the next timer, so hours take milliseconds, reproducibly."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

START_NS = 1_700_000_000_000_000_000


class DeadlockError(AssertionError):
    """Deadlock: every task waits, and no timer could wake one."""


class _JumpingSelector(selectors.BaseSelector):
    """Selector that advances the clock instead of waiting; no file is ever ready."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._files: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, int(fileobj), events, data)
        self._files[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("nothing will ever happen any more")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop in virtual time; see the module."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9
        self.trouble: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _loop, context: self.trouble.append(context))

    def time(self) -> float:
        return self._jumping.now

    def timers(self) -> list[asyncio.TimerHandle]:
        """Timers that are set."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return [timer for timer in scheduled if not timer.cancelled()]


class VirtualClock:
    """Clock of the running virtual loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def time_ns(self) -> int:
        return START_NS + round(self.monotonic() * 1e9)


def simulate(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main` under virtual time; fails if a task or a timer outlives it, or an error was never retrieved."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(main())
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks outlived the test: {left}"
        assert not loop.trouble, loop.trouble
        assert not loop.timers(), f"timers outlived the test: {loop.timers()}"
        return result
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
