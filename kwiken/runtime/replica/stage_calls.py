"""Calls of one stage at one replica, by frames and by HTTP alike: limits, order, run and figures."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import inspect
import logging
import time
from collections.abc import Callable
from math import inf
from typing import Any, Final, Protocol

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.otel.write.records import ExceptionRecord
from kwiken.runtime.base.errors import DeadlineError
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.replica.priority_queue import CallQueue, DisplacedError
from kwiken.runtime.replica.stage_runner import (
    CallOverhead,
    CpuMeter,
    ItemSender,
    RanCall,
    StageRunner,
    metered,
)
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import MAX_PRIORITY
from kwiken.runtime.wire.transport.handler_errors import setup_failed

LOG = logging.getLogger("kwiken.replica")
SMOOTHING: Final = 0.1  # weight of one call in the moving average of latencies


class ServedCall(msgspec.Struct, frozen=True):
    """Facts of one call that a replica ran, for a server span.

    Attributes:
        parent: trace context of the caller's attempt; None if the caller sent none.
        shard: number of the shard, from 0.
        attempt: number of the attempt, from 0.
        start_ns: arrival of the call, nanoseconds since 1970.
        began_ns: moment at which its handler began, nanoseconds since 1970.
        end_ns: moment at which its answer was ready, nanoseconds since 1970.
        busy_ms: CPU time of the call, milliseconds.
        error: description of the error; None for an answer, "cancelled" if the client disconnected.
        first_item_ns: moment of its first item, nanoseconds since 1970; None where it sent none.
    """

    parent: wire.Parent | None
    shard: int
    attempt: int
    start_ns: int
    began_ns: int
    end_ns: int
    busy_ms: float
    error: str | None = None
    exception: ExceptionRecord | None = None
    first_item_ns: int | None = None


class CallObserver(Protocol):
    """Receives every call that a replica ran; must not block."""

    def call_finished(self, call: ServedCall) -> None:
        """Take one finished call."""


class CallSettings(msgspec.Struct, frozen=True):
    """Settings of a call.

    Attributes:
        shard: number of the shard, from 0.
        priority: priority of the call; higher is more urgent.
        threads: number of threads that the handler may use, 1 or more.
        attempt: number of the attempt, from 0.
    """

    shard: int
    priority: int
    threads: int
    attempt: int

    def check(self, stage: Stage) -> None:
        """Check the settings against a stage.

        Raises:
            InputError: one is out of range; names it as a header of HTTP.
        """
        for name, value, low, high in (
            (wire.SHARD, self.shard, 0, stage.fanout - 1),
            (wire.PRIORITY, self.priority, -MAX_PRIORITY, MAX_PRIORITY),
            (wire.THREADS, self.threads, 1, stage.threads),
            (wire.ATTEMPT, self.attempt, 0, wire.MAX_ATTEMPT),
        ):
            if not low <= value <= high:
                raise InputError(f"must be from {low} to {high}, not {value}", where=f"header {name}")


DEFAULT_SETTINGS: Final = CallSettings(shard=0, priority=0, threads=1, attempt=0)


class ReceivedCall(msgspec.Struct, frozen=True):
    """Call as it arrived, decoded by its protocol.

    Attributes:
        body: inputs of the handler, encoded.
        came: arrival of the call, seconds of `time.monotonic`.
        deadline: moment after which the answer is useless, on the same clock; infinite for none.
        stage: stage that the caller means; empty if it does not say.
        settings: shard and attempt, priority and threads of the call.
        traceparent: trace context of the caller's attempt, as it was sent; empty for none.
    """

    body: bytes
    came: float
    deadline: float = inf
    stage: str = ""
    settings: CallSettings = DEFAULT_SETTINGS
    traceparent: str = ""


class Ending(enum.Enum):
    """Kind of end of a call at a replica."""

    ANSWERED = "answered"
    FAILED = "the handler raised, or its inputs have the wrong types"
    INVALID = "a header is invalid; nothing ran"
    LATE = "dropped past its deadline; nothing ran"
    REFUSED = "the replica is starting or stopping; nothing ran"
    FULL = "the replica holds its largest number of calls; nothing ran"
    MISDIRECTED = "the call is for another stage; nothing ran"

    # By identity, which members have: the hash of `Enum` is a function in Python, called for every call.
    __hash__ = object.__hash__


# Endings of calls that were not taken, with the value of the header or metadata `wire.REFUSED`.
NOT_TAKEN: Final = {Ending.MISDIRECTED: "1", Ending.REFUSED: "1", Ending.FULL: wire.FULL}


class EndedCall(msgspec.Struct, frozen=True):
    """Result of a call.

    Attributes:
        body: encoded answer, encoded kind and message of an error, or the reason of a refusal as text.
        inflight: number of calls at the replica when the call ended, this one included if it was taken.
        busy_ms: CPU time of the call, milliseconds.
    """

    ending: Ending
    body: bytes
    inflight: int
    busy_ms: float = 0.0


class StageCalls:
    """Runs the calls of one stage.

    Args:
        max_inflight: largest number of calls at once, 1 or more; beyond it the least urgent calls are
            refused, to be served by other replicas.
        observer: receives every call that ran; None for none.

    Attributes:
        inflight: number of calls that run or wait.
        latency_ms: moving average of the latencies of calls, milliseconds; 0 before the first.
        latencies: latencies of calls by how they ended; without those whose clients disconnected.
        cpu_ns: CPU time of handlers, nanoseconds.

    Raises:
        DefinitionError: unknown stage, or one that cannot be served.
    """

    def __init__(
        self, service: Service, stage: str, *, max_inflight: int, observer: CallObserver | None
    ) -> None:
        self.stage = service[stage]
        self._runner = StageRunner(service, stage, recorded=observer is not None)
        self._max_inflight = max_inflight
        self._observer = observer
        self._queue = CallQueue()
        self.inflight = 0
        self.latency_ms = 0.0
        self.latencies = {ending: LatencyHistogram() for ending in Ending}
        self.cpu_ns = 0
        self._overhead = CallOverhead()
        self._ready = False
        self._stopping = False
        self._idle = asyncio.Event()

    @property
    def queued(self) -> int:
        """Number of calls that wait to start."""
        return len(self._queue)

    @property
    def unready_reason(self) -> str | None:
        """Reason of refusals, "starting" or "stopping"; None while calls are taken."""
        if self._stopping:
            return "stopping"
        return None if self._ready else "starting"

    async def set_up(self) -> None:
        """Run the stage's setup, then take calls.

        A setup that is no coroutine function runs in a thread, so that liveness checks are answered.

        Raises:
            DefinitionError: the setup raises; names the place.
        """
        if self.stage.setup is not None:
            await _set_up(self.stage.name, self.stage.setup)
        self._ready = True
        self._overhead.start()

    def refuse_all(self) -> None:
        """Refuse calls from now on; those in flight go on."""
        self._stopping = True

    async def emptied(self, within_s: float) -> None:
        """Wait for the end of all calls in flight."""
        self._idle.clear()
        if self.inflight:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), within_s)

    async def serve(
        self, call: ReceivedCall, meter: CpuMeter | None = None, items: ItemSender | None = None
    ) -> EndedCall:
        """Serve one call: cancel it when its client disconnects.

        Args:
            meter: counts the call's processor time, also of one that is cancelled; None for one of its own.
            items: sends the items of a stage that streams, whose latency is that of the first; else None.
        """
        ended = await self._serve(call, meter or CpuMeter(), items)
        if ended.ending is not Ending.INVALID:  # counted already
            self.latencies[ended.ending].add(((items and items.first_at) or time.monotonic()) - call.came)
        return ended

    async def _serve(self, call: ReceivedCall, meter: CpuMeter, items: ItemSender | None) -> EndedCall:
        if call.stage and call.stage != self.stage.name:
            # The caller has an outdated address: the port belonged to another replica before.
            return self._refused(Ending.MISDIRECTED, f"this is a replica of stage {self.stage.name!r}")
        if (reason := self.unready_reason) is not None:
            return self._refused(Ending.REFUSED, reason)
        if call.settings is not DEFAULT_SETTINGS:
            try:
                call.settings.check(self.stage)
            except InputError as error:
                return self.invalid(error)
        full = self.inflight >= self._max_inflight
        if full and not self._queue.displace(call.came, call.settings.priority):
            return self._refused(Ending.FULL, f"{self.inflight} calls are running or queued already")
        self.inflight += 1
        try:
            return await self._admitted(call, meter, items)
        except DisplacedError:
            return self._refused(Ending.FULL, "a more urgent call took its place")
        finally:
            self.inflight -= 1
            if not self.inflight:
                self._idle.set()

    def invalid(self, error: InputError) -> EndedCall:
        """Count a call with an invalid header or body; returns its result."""
        self.latencies[Ending.INVALID].add(0.0)
        return EndedCall(Ending.INVALID, self._runner.failure(error), self.inflight)

    def refused(self, reason: str, came: float) -> EndedCall:
        """Count a call whose body was not read; returns its result.

        Args:
            reason: why the body was not read.
            came: arrival of the call, seconds of `time.monotonic`.
        """
        self.latencies[Ending.REFUSED].add(time.monotonic() - came)
        return self._refused(Ending.REFUSED, reason)

    def _refused(self, ending: Ending, reason: str) -> EndedCall:
        return EndedCall(ending, reason.encode(), self.inflight)

    async def _admitted(self, call: ReceivedCall, meter: CpuMeter, items: ItemSender | None) -> EndedCall:
        settings, traceparent = call.settings, call.traceparent or None
        # Read once: durations must not depend on a clock that is set while the call runs.
        start_ns, came_ns = time.time_ns(), time.monotonic_ns()
        # Waits at least one iteration: a client that disconnects meanwhile cancels work that has not started.
        await self._queue.take(call.came, settings.priority)
        if time.monotonic() >= call.deadline:
            late = self._runner.failure(DeadlineError("dropped past its deadline"))
            return EndedCall(Ending.LATE, late, self.inflight)
        shard, threads = settings.shard, settings.threads
        runner = self._runner
        run = (
            runner.run(call.body, shard=shard, threads=threads, traceparent=traceparent)
            if items is None
            else runner.stream(call.body, items, shard=shard, threads=threads, traceparent=traceparent)
        )
        ran: RanCall | None = None
        began_ns = time.monotonic_ns() - came_ns
        try:
            ran = await metered(run, meter)
        finally:
            self.cpu_ns += meter.ns
            times_ns = start_ns, start_ns + began_ns, start_ns + time.monotonic_ns() - came_ns
            first_ns = None
            if items is not None and items.first_at:
                first_ns = start_ns + round(items.first_at * 1e9) - came_ns
            self._finish(traceparent, settings, times_ns, meter, ran, first_ns)
        self._note_latency((((items and items.first_at) or time.monotonic()) - call.came) * 1e3)
        ending = Ending.ANSWERED if ran.error is None else Ending.FAILED
        return EndedCall(ending, ran.body, self.inflight, meter.ms + self._overhead.share_ms(meter))

    def _finish(
        self,
        traceparent: str | None,
        settings: CallSettings,
        times_ns: tuple[int, int, int],
        meter: CpuMeter,
        ran: RanCall | None,
        first_item_ns: int | None,
    ) -> None:
        """Report a call to the observer.

        Args:
            traceparent: trace context of the caller's attempt, as it was sent; None for none.
            times_ns: arrival of the call, begin and end of its handler, nanoseconds since 1970.
            ran: outcome of the call; None if it was cancelled.
            first_item_ns: moment of its first item, nanoseconds since 1970; None for none.
        """
        if self._observer is None:
            return
        with contextlib.suppress(Exception):  # a faulty observer must not fail calls
            self._observer.call_finished(
                ServedCall(
                    parent=wire.parse_traceparent(traceparent),
                    shard=settings.shard,
                    attempt=settings.attempt,
                    start_ns=times_ns[0],
                    began_ns=times_ns[1],
                    end_ns=times_ns[2],
                    busy_ms=meter.ms,
                    error=ran.error if ran is not None else "cancelled",
                    exception=ran.exception if ran is not None else None,
                    first_item_ns=first_item_ns,
                )
            )

    def _note_latency(self, latency_ms: float) -> None:
        """Update the exponentially weighted mean of latencies, which starts at the first value."""
        if self.latency_ms == 0.0:
            self.latency_ms = latency_ms
        else:
            self.latency_ms += SMOOTHING * (latency_ms - self.latency_ms)


async def _set_up(stage: str, setup: Callable[[], Any]) -> None:
    try:
        done = await asyncio.to_thread(setup)
        if inspect.isawaitable(done):
            await done
    except (Exception, SystemExit) as error:
        LOG.debug("setup of stage %s raised", stage, exc_info=True)
        raise setup_failed(stage, error) from error
