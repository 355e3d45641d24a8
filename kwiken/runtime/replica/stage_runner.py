"""Runner of one stage's calls: decodes inputs, runs the handler and meters its CPU time, encodes answers."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
import types
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, Protocol, TypeVar

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.otel.write.records import ExceptionRecord
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.base.tracebacks import ExceptionRecorder
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.handler_errors import is_own, kind_and_message, log_handler_error
from kwiken.runtime.wire.transport.msgpack_work import decodable

P = ParamSpec("P")
T = TypeVar("T")


class CpuMeter:
    """Counter of the CPU time of one call.

    Attributes:
        ns: CPU time so far, nanoseconds.
        read_at_ns: CPU time of the event loop's thread when its last step of the call ended, nanoseconds.
    """

    __slots__ = ("ns", "read_at_ns")

    def __init__(self) -> None:
        self.ns = 0
        self.read_at_ns = 0

    @property
    def ms(self) -> float:
        """CPU time, milliseconds."""
        return self.ns / 1e6


class CallOverhead:
    """Overhead of calls: CPU time that the event loop's thread spends on I/O and bookkeeping around handlers.

    A copy costs a replica this overhead too, and for a light stage it is most of the cost. It is the CPU time
    of the thread minus the metered time of the calls, spread evenly over the calls. Jobs in other threads are
    metered but not part of this thread's time, so a stage that uses many of them is charged slightly too
    little.
    """

    __slots__ = ("_calls", "_metered_ns", "_since_ns")

    def __init__(self) -> None:
        self._since_ns = 0
        self._metered_ns = 0
        self._calls = 0

    def start(self) -> None:
        """Start counting, in the thread of the event loop: time before is start-up."""
        self._since_ns = time.thread_time_ns()
        self._metered_ns = 0
        self._calls = 0

    def share_ms(self, meter: CpuMeter) -> float:
        """Record the end of a call; returns the mean overhead per call so far, milliseconds.

        It counts the thread's CPU time up to the last step of the call: to read that clock again is a system
        call. What the thread does after that step is counted with the next call.
        """
        self._calls += 1
        self._metered_ns += meter.ns
        rest = meter.read_at_ns - self._since_ns - self._metered_ns
        return max(0, rest) / self._calls / 1e6


_current: contextvars.ContextVar[CpuMeter | None] = contextvars.ContextVar("meter", default=None)


@types.coroutine
def metered(work: Coroutine[Any, Any, T], meter: CpuMeter) -> Generator[Any, Any, T]:
    """Run a coroutine and add the CPU time of this thread in each of its steps to the meter.

    The event loop runs one step at a time, so the thread's CPU time between entering and leaving a step
    belongs to that call alone, however many calls interleave. Neither waiting nor a paused process counts: a
    fault does not make the stage look expensive. Work in separate tasks is not counted; work in threads is,
    if the loop's default executor is a `MeteredThreads`.
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
            meter.read_at_ns = time.thread_time_ns()
            meter.ns += meter.read_at_ns - began
            argument = None  # may be an error thrown in, whose traceback holds this frame
        try:
            argument = yield waited_for
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the coroutine handles it, as it would without metering
            step, argument = work.throw, error
        else:
            step = work.send


class MeteredThreads(ThreadPoolExecutor):
    """Thread pool that adds the CPU time of each job to the meter of the call that submitted it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a job; see `ThreadPoolExecutor.submit`."""
        meter = _current.get()
        if meter is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(lambda: _timed(meter, lambda: fn(*args, **kwargs)))


def _timed(meter: CpuMeter, job: Callable[[], T]) -> T:
    began = time.thread_time_ns()
    try:
        return job()
    finally:
        meter.ns += time.thread_time_ns() - began


LOG = logging.getLogger("kwiken.replica")
MAX_MESSAGE: Final = 500  # characters


class ItemSender(Protocol):
    """Sends the items of one call.

    Attributes:
        first_at: moment of the first item, seconds of `time.monotonic`; 0 before.
    """

    first_at: float

    async def send(self, item: bytes) -> None:
        """Send an item, and wait until there is room for the next."""


class RanCall(msgspec.Struct, frozen=True):
    """Result of a call.

    Attributes:
        body: the encoded answer, or the encoded kind and message of an error.
        error: description of the error, for the span; None for an answer.
        exception: the handler's exception, for the span; None for none.
    """

    body: bytes
    error: str | None = None
    exception: ExceptionRecord | None = None


class StageRunner:
    """Runs the handler of one stage.

    Raises:
        DefinitionError: unknown stage, or one that cannot be served.
    """

    def __init__(self, service: Service, stage: str, *, recorded: bool) -> None:
        self._name = service[stage].name
        self._codec = wire.Codec(service, stage)
        handler: Any = service[stage].handler
        assert handler is not None  # the codec has read its annotations
        self._handler: Callable[..., Any] = handler  # a coroutine function; a generator where it streams
        self._is_worded = self._codec.takes_shard or self._codec.takes_threads
        self._exceptions = ExceptionRecorder() if recorded else None
        self._encoder = msgspec.msgpack.Encoder()

    async def run(self, body: bytes, *, shard: int, threads: int, traceparent: str | None) -> RanCall:
        """Run one call; an error of the handler is logged and becomes the result.

        Args:
            body: inputs of the handler, encoded.
            shard: number of the shard, from 0.
            threads: number of threads that the handler may use, 1 or more.
            traceparent: trace context of the caller, as it was sent; None if the caller sent none.
        """
        try:
            inputs = self._codec.inputs(await decodable(body))
        except InputError as error:
            return self._unfit(error, traceparent)
        try:
            words = self._words(shard, threads) if self._is_worded else {}
            return RanCall(self._encoder.encode(await self._handler(*inputs, **words)))
        except BaseException as error:  # reported to the caller
            if not is_own(error):
                raise
            return self._raised(error, traceparent)

    async def stream(
        self, body: bytes, items: ItemSender, *, shard: int, threads: int, traceparent: str | None
    ) -> RanCall:
        """Run one call of a stage that streams: send each item as it comes; see `run`.

        Args:
            items: sends an item to the caller, and waits until there is room for the next.
        """
        try:
            inputs = self._codec.inputs(await decodable(body))
        except InputError as error:
            return self._unfit(error, traceparent)
        try:
            generator = self._handler(*inputs, **self._words(shard, threads))
            async with contextlib.aclosing(generator):
                async for item in generator:
                    await items.send(self._encoder.encode(item))
        except BaseException as error:  # reported to the caller
            if not is_own(error):
                raise
            return self._raised(error, traceparent)
        return RanCall(b"")

    def _words(self, shard: int, threads: int) -> dict[str, int]:
        """Keywords that the handler takes."""
        words = {}
        if self._codec.takes_shard:
            words["shard"] = shard
        if self._codec.takes_threads:
            words["threads"] = threads
        return words

    def _unfit(self, error: InputError, traceparent: str | None) -> RanCall:
        """Result of a call whose inputs have other types."""
        parent = wire.parse_traceparent(traceparent)
        trace_id = parent.trace_id if parent is not None else 0
        LOG.warning("%s", error, extra=about(Event.ANSWER_UNFIT, trace_id=trace_id))
        return self._failed(error, None)

    def _raised(self, error: BaseException, traceparent: str | None) -> RanCall:
        """Result of a call whose handler raised."""
        parent = wire.parse_traceparent(traceparent)
        log_handler_error(LOG, self._name, parent.trace_id if parent is not None else 0, error)
        record = None
        if self._exceptions is not None and parent is not None and parent.sampled:
            record = self._exceptions.record(error)
        return self._failed(error, record)

    def _failed(self, error: BaseException, record: ExceptionRecord | None) -> RanCall:
        kind, message = kind_and_message(error)
        return RanCall(self.failure(error), f"{kind}: {message[:MAX_MESSAGE]}", record)

    def failure(self, error: BaseException) -> bytes:
        """Body of a response that stands for an error: its kind and message, without any traceback."""
        kind, message = kind_and_message(error)
        return self._encoder.encode({"kind": kind, "error": message[:MAX_MESSAGE]})
