"""Replica server: serves all shards of one stage over HTTP from one process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from kwiken.errors import InputError
from kwiken.otel.write import ExceptionRecord
from kwiken.runtime.errors import DeadlineError
from kwiken.runtime.http_server import TEXT, CallServer, Request, Response
from kwiken.runtime.metrics import METRICS_PATH, MetricsPage
from kwiken.runtime.replica.cpu_meter import CallOverhead, CpuMeter, metered
from kwiken.runtime.replica.metrics import ReplicaMetrics
from kwiken.runtime.replica.priority_queue import CallQueue, DisplacedError
from kwiken.runtime.replica.stage_runner import RanCall, StageRunner
from kwiken.runtime.transport import MAX_PRIORITY, setup_failed, wire
from kwiken.service import Service, Stage

LOG = logging.getLogger("kwiken.replica")
RETRY_AFTER: Final = "Retry-After: 1\r\n"
FULL: Final = Response(503, b"too many calls at once", f"{wire.REFUSED}: 1\r\n{RETRY_AFTER}{TEXT}")
ALLOW_CALL: Final = "Allow: POST\r\n"
ALLOW_GET: Final = "Allow: GET, HEAD\r\n"
SMOOTHING: Final = 0.1  # weight of one call in the moving average of latencies


class ServedCall(msgspec.Struct, frozen=True):
    """Facts of one call that a replica ran, for a server span.

    Attributes:
        parent: trace context of the caller's attempt; None if the caller sent none.
        shard: number of the shard, from 0.
        start_ns: arrival of the call, nanoseconds since 1970.
        end_ns: moment at which its answer was ready, nanoseconds since 1970.
        busy_ms: CPU time of the call, milliseconds.
        error: description of the error; None for an answer, "cancelled" if the client disconnected.
        exception: exception of the handler; None for none.
    """

    parent: wire.Parent | None
    shard: int
    start_ns: int
    end_ns: int
    busy_ms: float
    error: str | None = None
    exception: ExceptionRecord | None = None


class CallHeaders(NamedTuple):
    """Values of a call's headers.

    Attributes:
        remaining_ms: time left when the call was sent, milliseconds; None without a deadline.
        shard: number of the shard, from 0.
        priority: priority of the call; higher is more urgent.
        threads: number of threads that the handler may use, 1 or more.
    """

    remaining_ms: float | None
    shard: int
    priority: int
    threads: int


def _read(headers: Mapping[str, str], stage: Stage) -> CallHeaders:
    """Parse a call's headers.

    Raises:
        InputError: a header is invalid; names the header.
    """
    if "content-encoding" in headers:
        raise InputError("a call's body must not be compressed", where="header Content-Encoding")
    # Any web page can make a browser send a form, which has another type. A page whose name was made to
    # resolve to this machine can send this type too, but only with an Origin header.
    kind = headers.get("content-type", "")
    if kind != wire.MSGPACK:
        raise InputError(f"must be {wire.MSGPACK}, not {kind[:80]!r}", where="header Content-Type")
    if "origin" in headers:
        raise InputError("web pages may not call a replica", where="header Origin")
    return CallHeaders(
        wire.read_number(headers, wire.DEADLINE, low=0.0, high=wire.MAX_DEADLINE_MS),
        wire.read_whole(headers, wire.SHARD, low=0, high=stage.fanout - 1) or 0,
        wire.read_whole(headers, wire.PRIORITY, low=-MAX_PRIORITY, high=MAX_PRIORITY) or 0,
        wire.read_whole(headers, wire.THREADS, low=1, high=stage.threads) or 1,
    )


class CallObserver(Protocol):
    """Receives every call that a replica ran; must not block."""

    def call_finished(self, call: ServedCall) -> None:
        """Take one finished call."""


class ReplicaServer:
    """HTTP server of one stage.

    Args:
        service: service of the stage.
        stage: name of the stage.
        host: address to listen on.
        port: port to listen on; 0 for any free port.
        max_inflight: largest number of calls at once, 1 or more; beyond it the least urgent calls are
            refused, to be served by other replicas.
        max_body: longest body of a call, bytes.
        max_bodies: bytes that all calls together may hold, without the first 16 KiB of each; None for a
            share of the memory.
        observer: receives every call that ran; None for none.
        name: name of the replica in metrics.
        node: name of the machine in metrics.
        shows_metrics: whether it shows its metrics at `/metrics`.

    Attributes:
        metrics: its metrics.

    Raises:
        DefinitionError: unknown stage, or one that cannot be served.
    """

    def __init__(
        self,
        service: Service,
        stage: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        max_inflight: int = 64,
        max_body: int = wire.MAX_BODY,
        max_bodies: int | None = None,
        observer: CallObserver | None = None,
        name: str = "",
        node: str = "",
        shows_metrics: bool = True,
    ) -> None:
        self._stage = service[stage]
        self._runner = StageRunner(service, stage, recorded=observer is not None)
        self._max_inflight = max_inflight
        self._observer = observer
        self._server = CallServer(
            self._answer, host=host, port=port, max_body=max_body, max_bodies=max_bodies, full=FULL
        )
        self._queue = CallQueue()
        self.metrics = ReplicaMetrics(service, stage, name or stage, node, self._queue)
        self._page = MetricsPage(self.metrics.shown) if shows_metrics else None
        self._inflight = 0
        self._latency_ms = 0.0
        self._overhead = CallOverhead()
        self._ready = False
        self._stopping = False
        self._idle = asyncio.Event()

    @property
    def url(self) -> str:
        """URL of the server, once started."""
        return self._server.url

    async def start(self) -> None:
        """Listen, run the stage's setup, and become ready.

        A setup that is no coroutine function runs in a thread, so that `/livez` answers meanwhile.

        Raises:
            InputError: the address cannot be bound to.
            DefinitionError: the setup raises; names the place.
        """
        await self._server.start()
        if self._stage.setup is not None:
            await _set_up(self._stage.name, self._stage.setup)
        self._ready = True
        self._overhead.start()

    async def stop(self, *, grace_s: float = 10.0, linger_s: float = 0.25) -> None:
        """Refuse new calls, finish those in flight, then close.

        Args:
            grace_s: seconds that calls in flight may still take; then they are cancelled.
            linger_s: seconds for which calls on open connections are refused, so that they go to other
                replicas; a connection closed during a call would leave the caller in doubt whether the call
                ran.
        """
        self._stopping = True
        self._server.stop_accepting()
        await asyncio.sleep(min(linger_s, grace_s))
        self._idle.clear()
        if self._inflight:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), max(0.0, grace_s - linger_s))
        await self._server.stop()

    async def _answer(self, request: Request) -> Response:
        method, path = request.method, request.path
        if path == wire.CALL_PATH:
            if method != "POST":
                return Response(405, headers=ALLOW_CALL)
            return await self.metrics.http.timed(self._call(request))
        if path not in {"/livez", "/readyz"} and (path != METRICS_PATH or self._page is None):
            return Response(404)
        if method not in {"GET", "HEAD"}:
            return Response(405, headers=ALLOW_GET)
        return (
            self._health(path)
            if self._page is None or path != METRICS_PATH
            else await _shown(self._page, request)
        )

    def _health(self, path: str) -> Response:
        if path == "/readyz" and (self._stopping or not self._ready):
            return Response(503, b"stopping" if self._stopping else b"starting", TEXT)
        return Response(200, b"ok", TEXT)

    async def _call(self, request: Request) -> Response:
        headers = request.headers
        if headers.get(wire.STAGE, self._stage.name) != self._stage.name:
            # The caller has an outdated address: the port belonged to another replica before.
            self.metrics.refused["misdirected"] += 1
            return self._refuse(f"this is a replica of stage {self._stage.name!r}", status=421)
        if self._stopping or not self._ready:
            state = "stopping" if self._stopping else "starting"
            self.metrics.refused[state] += 1
            return self._refuse(state)
        try:
            call_headers = _read(headers, self._stage)
        except InputError as error:
            self.metrics.refused["invalid"] += 1
            return self._reply(400, self._runner.failure(error))
        full = self._inflight >= self._max_inflight
        if full and not self._queue.displace(request.came, call_headers.priority):
            self.metrics.refused["full"] += 1
            return self._refuse(f"{self._inflight} calls are running or queued already", why=wire.FULL)
        self._inflight += 1
        try:
            return await self._admitted(request, call_headers)
        except DisplacedError:
            self.metrics.refused["displaced"] += 1
            return self._refuse("a more urgent call took its place", why=wire.FULL)
        finally:
            self._inflight -= 1
            if not self._inflight:
                self._idle.set()

    async def _admitted(self, request: Request, call_headers: CallHeaders) -> Response:
        came = request.came
        start_ns = time.time_ns()
        # Waits at least one iteration: a client that disconnects meanwhile cancels work that has not started.
        await self._queue.take(came, call_headers.priority)
        if (
            call_headers.remaining_ms is not None
            and (time.monotonic() - came) * 1e3 >= call_headers.remaining_ms
        ):
            self.metrics.refused["expired"] += 1
            return self._reply(504, self._runner.failure(DeadlineError("dropped past its deadline")))
        meter = CpuMeter()
        parent = wire.parse_traceparent(request.headers.get(wire.TRACEPARENT))
        shard, threads = call_headers.shard, call_headers.threads
        run = self._runner.run(request.body, shard=shard, threads=threads, parent=parent)
        ran: RanCall | None = None
        try:
            ran = await metered(run, meter)
        finally:
            self.metrics.cpu_s += meter.ns / 1e9
            self._finish(parent, shard, start_ns, meter, ran)
        self._note_latency((time.monotonic() - came) * 1e3)
        return self._reply(ran.status, ran.body, busy_ms=meter.ms + self._overhead.share_ms(meter))

    def _finish(
        self, parent: wire.Parent | None, shard: int, start_ns: int, meter: CpuMeter, ran: RanCall | None
    ) -> None:
        """Report a call to the observer; None for a call that was cancelled."""
        if self._observer is None:
            return
        with contextlib.suppress(Exception):  # a faulty observer must not fail calls
            self._observer.call_finished(
                ServedCall(
                    parent=parent,
                    shard=shard,
                    start_ns=start_ns,
                    end_ns=time.time_ns(),
                    busy_ms=meter.ms,
                    error=ran.error if ran is not None else "cancelled",
                    exception=ran.exception if ran is not None else None,
                )
            )

    def _note_latency(self, latency_ms: float) -> None:
        """Update the exponentially weighted mean of latencies, which starts at the first value."""
        if self._latency_ms == 0.0:
            self._latency_ms = latency_ms
        else:
            self._latency_ms += SMOOTHING * (latency_ms - self._latency_ms)

    def _refuse(self, message: str, *, status: int = 503, why: str = "1") -> Response:
        headers = f"{wire.REFUSED}: {why}\r\n{RETRY_AFTER}{wire.INFLIGHT}: {self._inflight}\r\n{TEXT}"
        return Response(status, message.encode(), headers)

    def _reply(self, status: int, body: bytes, *, busy_ms: float = 0.0) -> Response:
        return Response(
            status,
            body,
            f"Content-Type: {wire.MSGPACK}\r\n{wire.BUSY}: {busy_ms:.3f}\r\n"
            f"{wire.INFLIGHT}: {self._inflight}\r\n{wire.LATENCY}: {self._latency_ms:.3f}\r\n",
        )


async def _shown(page: MetricsPage, request: Request) -> Response:
    body, content_type = await page.text(request.headers.get("accept", ""))
    return Response(200, body, f"Content-Type: {content_type}\r\n")


async def _set_up(stage: str, setup: Callable[[], Any]) -> None:
    try:
        done = await asyncio.to_thread(setup)
        if inspect.isawaitable(done):
            await done
    except (Exception, SystemExit) as error:
        LOG.debug("setup of stage %s raised", stage, exc_info=True)
        raise setup_failed(stage, error) from error
