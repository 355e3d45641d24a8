"""Event loop in virtual time: when every task waits, the clock jumps to the next timer.

Hours take milliseconds, and each run takes the same course. The clock stands still while threads of
`run_in_executor` work. A wait for a socket could not be told from a wait for nothing, so sockets are refused.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

START_S: Final = 1_000.0  # of the clock
START_NS: Final = 1_700_000_000_000_000_000  # nanoseconds since 1970 at the clock's zero


class DeadlockError(AssertionError):
    """Deadlock: every task waits, and no timer could wake one."""


class _JumpingSelector(selectors.BaseSelector):
    """Selector that advances the clock instead of waiting; the loop's own wake-up is its only file."""

    def __init__(self) -> None:
        self.now = START_S
        self.threads = 0  # jobs in other threads, which wake the loop when they are done
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._real.get_map():
            raise RuntimeError(
                "virtual time has no sockets and pipes: use a fake, or run the test in real time"
            )
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.threads and timeout != 0:
            return self._real.select(None)
        ready = self._real.select(0)
        if not ready:
            if timeout is None:
                raise DeadlockError("nothing will ever happen any more")
            self.now += max(0.0, timeout)
        return ready

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop in virtual time; see the module.

    Attributes:
        trouble: contexts of errors that nobody retrieved, as passed to an exception handler.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9
        self.trouble: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _loop, context: self.trouble.append(context))

    def time(self) -> float:
        """Virtual seconds."""
        return self._jumping.now

    def timers(self) -> list[asyncio.TimerHandle]:
        """Timers that are set."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return [timer for timer in scheduled if not timer.cancelled()]

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread, while the clock stands still."""
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self._jumping.threads -= 1

    async def shutdown_default_executor(self, *timeout: Any, **named: Any) -> None:
        """End the threads of `run_in_executor`, as the loop's close does."""
        self._jumping.threads += 1
        try:
            await super().shutdown_default_executor(*timeout, **named)
        finally:
            self._jumping.threads -= 1


class VirtualClock:
    """Clock of the running virtual loop."""

    def monotonic(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()

    def time_ns(self) -> int:
        """Virtual nanoseconds since 1970."""
        return START_NS + round(self.monotonic() * 1e9)


def simulate(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function in virtual time.

    Raises:
        AssertionError: a task or a timer outlives it, an error was never retrieved, or (`DeadlockError`)
            every task waits for what never comes.
    """
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
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make a plain function of an asynchronous test: it runs in virtual time, with any test framework.

    In virtual time the clock jumps to the next timer when all tasks wait: a wait of an hour takes no time,
    and latencies are exact. Sockets are refused; functions in threads work, and take no virtual time.

    Raises:
        AssertionError: from the returned function: a task or a timer outlives the test, an error was never
            retrieved, or every task waits for what never comes.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return simulate(lambda: test(*args, **kwargs))

    return run
