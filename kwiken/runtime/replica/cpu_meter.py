"""How much CPU time a call takes: what a copy of it would cost."""

from __future__ import annotations

import contextvars
import time
import types
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Meter:
    """CPU time of one call, nanoseconds."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0

    @property
    def ms(self) -> float:
        """Milliseconds."""
        return self.ns / 1e6


class Carrier:
    """CPU time that a thread burns around its calls: reading, writing, keeping the books.

    A copy costs a replica that too, and for a light stage it is most of the cost. It is what the thread burnt
    less what the calls were metered, spread evenly over the calls. Jobs in other threads are metered but not
    burnt here, so a stage that uses many is charged a little less than it costs.
    """

    __slots__ = ("_calls", "_metered_ns", "_since_ns")

    def __init__(self) -> None:
        self._since_ns = 0
        self._metered_ns = 0
        self._calls = 0

    def start(self) -> None:
        """Count from now on, in the thread of the event loop: what came before is start-up."""
        self._since_ns = time.thread_time_ns()
        self._metered_ns = 0
        self._calls = 0

    def share_ms(self, meter: Meter) -> float:
        """Note a call's end; the mean share that a call so far bears of the rest, milliseconds."""
        self._calls += 1
        self._metered_ns += meter.ns
        rest = time.thread_time_ns() - self._since_ns - self._metered_ns
        return max(0, rest) / self._calls / 1e6


_current: contextvars.ContextVar[Meter | None] = contextvars.ContextVar("meter", default=None)


@types.coroutine
def metered(work: Coroutine[Any, Any, T], meter: Meter) -> Generator[Any, Any, T]:
    """Run a coroutine and add to the meter the CPU time of this thread in each of its steps.

    The event loop runs one step at a time, so what the thread burns between entering and leaving a step is
    that call's alone, however many calls interleave. Neither waiting nor a paused process counts: a fault
    does not make the stage look costly. Work in tasks of its own is not counted; work in threads is, where
    the loop's default executor is a `MeteredThreads`.
    """
    _current.set(meter)
    step: Callable[[Any], Any] = work.send
    argument: Any = None
    while True:
        began = time.thread_time_ns()
        try:
            waited_for = step(argument)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        finally:
            meter.ns += time.thread_time_ns() - began
            argument = None  # an error that was thrown in: its traceback holds this frame
        try:
            argument = yield waited_for
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the coroutine decides, as it would without us
            step, argument = work.throw, error
        else:
            step = work.send


class MeteredThreads(ThreadPoolExecutor):
    """Threads that add the CPU time of each job to the meter of the call that submitted it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As any executor's."""
        meter = _current.get()
        if meter is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(lambda: _timed(meter, lambda: fn(*args, **kwargs)))


def _timed(meter: Meter, job: Callable[[], T]) -> T:
    began = time.thread_time_ns()
    try:
        return job()
    finally:
        meter.ns += time.thread_time_ns() - began
