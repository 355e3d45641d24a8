"""Replica server: serves all shards of one stage from one process, by frames and, for people, by HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Final

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.metrics.page import METRICS_PATH, MetricsPage
from kwiken.runtime.replica.sent_items import SentItems
from kwiken.runtime.replica.stage_calls import (
    DEFAULT_SETTINGS,
    NOT_TAKEN,
    CallObserver,
    CallSettings,
    EndedCall,
    Ending,
    ReceivedCall,
    StageCalls,
)
from kwiken.runtime.replica.stage_runner import CpuMeter
from kwiken.runtime.wire.frames.messages import MARK, AnswerFrame, CallFrame, EndedFrame
from kwiken.runtime.wire.frames.protocol import OversizeItem
from kwiken.runtime.wire.frames.server import CallEnd, FrameServerLink
from kwiken.runtime.wire.http_server.http1_server import (
    TEXT,
    CallServer,
    HttpRequest,
    OtherProtocol,
    Response,
)
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire

RETRY_AFTER: Final = "Retry-After: 1\r\n"
FULL: Final = Response(503, b"too many calls at once", f"{wire.REFUSED}: 1\r\n{RETRY_AFTER}{TEXT}")
TOO_LONG: Final = 413
ALLOW_CALL: Final = "Allow: POST\r\n"
ALLOW_GET: Final = "Allow: GET, HEAD\r\n"
STATUS: Final = {
    Ending.ANSWERED: 200,
    Ending.INVALID: 400,
    Ending.MISDIRECTED: 421,
    Ending.FAILED: 500,
    Ending.REFUSED: 503,
    Ending.FULL: 503,
    Ending.LATE: 504,
}


def _received(request: HttpRequest) -> ReceivedCall:
    """Call in a request.

    Raises:
        InputError: the call is not one that may be sent; names the header.
    """
    headers: Mapping[str, str] = request.headers
    if "content-encoding" in headers:
        raise InputError("a call's body must not be compressed", where="header Content-Encoding")
    # Any web page can make a browser send a form, which has another type. A page whose name was made to
    # resolve to this machine can send this type too, but only with an Origin header.
    kind = headers.get("content-type", "")
    if kind != wire.MSGPACK:
        raise InputError(f"must be {wire.MSGPACK}, not {kind[:80]!r}", where="header Content-Type")
    if "origin" in headers:
        raise InputError("web pages may not call a replica", where="header Origin")
    remaining_ms = wire.read_number(headers, wire.DEADLINE, low=0.0, high=wire.MAX_DEADLINE_MS)
    deadline = inf if remaining_ms is None else request.came + remaining_ms / 1e3
    return ReceivedCall(
        request.body,
        request.came,
        deadline,
        headers.get(wire.STAGE, ""),
        read_call_settings(headers),
        headers.get(wire.TRACEPARENT, ""),
    )


def read_call_settings(headers: Mapping[str, str]) -> CallSettings:
    """Parse a call's headers.

    Raises:
        InputError: a header is no number; names the header.
    """

    def whole(name: str, default: int) -> int:
        found = wire.read_whole(headers, name, low=-wire.MAX_ATTEMPT, high=wire.MAX_ATTEMPT)
        return default if found is None else found

    return CallSettings(
        whole(wire.SHARD, 0), whole(wire.PRIORITY, 0), whole(wire.THREADS, 1), whole(wire.ATTEMPT, 0)
    )


class ReplicaServer:
    """Server of one stage.

    Args:
        port: port to listen on; 0 for any free port.
        max_inflight: largest number of calls at once, 1 or more; beyond it the least urgent calls are
            refused, to be served by other replicas.
        max_body: longest body of a call, bytes.
        max_bodies: bytes that all calls together may hold, without the first 16 KiB of each; None for a
            share of the memory.
        observer: receives every call that ran; None for none.
        tls: certificates for connections over TLS; None for connections without.

    Raises:
        DefinitionError: unknown stage, or one that cannot be served.
    """

    _page: MetricsPage | None = None

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
        tls: Certificates | None = None,
    ) -> None:
        self.calls = StageCalls(service, stage, max_inflight=max_inflight, observer=observer)
        self._streams = self.calls.stage.streams
        self._max_body = max_body
        link = partial(FrameServerLink, max_body=max_body, handler=self._framed, refuse=self._refusal)
        self._server = CallServer(
            self._answer,
            host=host,
            port=port,
            max_body=max_body,
            max_bodies=max_bodies,
            full=FULL,
            tls=tls,
            other=OtherProtocol(MARK, lambda loop, budget, ended: link(loop, budget=budget, ended=ended)),
        )

    @property
    def url(self) -> str:
        """URL of the server, once started."""
        return self._server.url

    async def start(self) -> None:
        """Listen, run the stage's setup, and become ready.

        Raises:
            InputError: the address cannot be bound to.
            DefinitionError: the setup raises; names the place.
        """
        await self._server.start()
        await self.calls.set_up()

    async def stop(self, *, grace_s: float = 10.0, linger_s: float = 0.25) -> None:
        """Refuse new calls, finish those in flight, then close.

        Args:
            grace_s: seconds that calls in flight may still take; then they are cancelled.
            linger_s: seconds for which calls on open connections are refused, so that they go to other
                replicas; a connection closed during a call would leave the caller in doubt whether the call
                ran.
        """
        self.calls.refuse_all()
        self._server.stop_accepting()
        await asyncio.sleep(min(linger_s, grace_s))
        await self.calls.emptied(max(0.0, grace_s - linger_s))
        await self._server.stop()

    def show(self, page: MetricsPage) -> None:
        """Show metrics at `/metrics`."""
        self._page = page

    async def _answer(self, request: HttpRequest) -> Response:
        method, path = request.method, request.path
        if path == wire.CALL_PATH:
            return await self._call(request) if method == "POST" else Response(405, headers=ALLOW_CALL)
        page = self._page if path == METRICS_PATH else None
        if page is None and path not in {"/livez", "/readyz"}:
            return Response(404)
        if method not in {"GET", "HEAD"}:
            return Response(405, headers=ALLOW_GET)
        return self._health(path) if page is None else await _shown(page, request)

    def _health(self, path: str) -> Response:
        if path == "/readyz" and (reason := self.calls.unready_reason) is not None:
            return Response(503, reason.encode(), TEXT)
        return Response(200, b"ok", TEXT)

    async def _call(self, request: HttpRequest) -> Response:
        if self._streams:
            refusal = InputError("a stage that streams answers to gateways, not over HTTP", where="call")
            return self._response(self.calls.invalid(refusal))
        try:
            call = _received(request)
        except InputError as error:
            return self._response(self.calls.invalid(error))
        return self._response(await self.calls.serve(call))

    async def _framed(self, frame: CallFrame, came: float, link: FrameServerLink) -> CallEnd:
        settings = DEFAULT_SETTINGS
        if frame.shard or frame.priority or frame.attempt or frame.threads != 1:
            settings = CallSettings(frame.shard, frame.priority, frame.threads, frame.attempt)
        remaining_s = min(max(0.0, frame.remaining_ms), wire.MAX_DEADLINE_MS) / 1e3
        call = ReceivedCall(frame.data, came, came + remaining_s, frame.stage, settings, frame.traceparent)
        meter = CpuMeter()
        items = SentItems(self.calls, link, frame.id, meter) if self._streams else None
        try:
            ended = await self.calls.serve(call, meter, items)
        except asyncio.CancelledError:
            return EndedFrame(frame.id, meter.ms)
        answer = self._frame_of(frame.id, ended)
        return answer if items is None else items.end(answer)

    def _frame_of(self, number: int, ended: EndedCall) -> AnswerFrame:
        ending = ended.ending
        return AnswerFrame(
            number,
            True,
            0,
            ended.body,
            STATUS[ending],
            NOT_TAKEN.get(ending, ""),
            ended.busy_ms,
            ended.inflight,
            self.calls.latency_ms,
        )

    def _refusal(self, call: OversizeItem) -> AnswerFrame:
        """Answer to a call whose body is not read."""
        reason = f"a body may have at most {self._max_body} bytes" if call.too_long else FULL.body.decode()
        frame = self._frame_of(call.id, self.calls.refused(reason, time.monotonic()))
        frame.status = TOO_LONG if call.too_long else frame.status
        return frame

    def _response(self, ended: EndedCall) -> Response:
        ending = ended.ending
        inflight = f"{wire.INFLIGHT}: {ended.inflight}\r\n"
        if ending in NOT_TAKEN:
            headers = f"{wire.REFUSED}: {NOT_TAKEN[ending]}\r\n{RETRY_AFTER}{inflight}{TEXT}"
        else:
            headers = (
                f"Content-Type: {wire.MSGPACK}\r\n{wire.BUSY}: {ended.busy_ms:.3f}\r\n"
                f"{inflight}{wire.LATENCY}: {self.calls.latency_ms:.3f}\r\n"
            )
        return Response(STATUS[ending], ended.body, headers)


async def _shown(page: MetricsPage, request: HttpRequest) -> Response:
    body, headers = await page.text(
        request.headers.get("accept", ""), request.headers.get("accept-encoding", "")
    )
    return Response(200, body, "".join(f"{name}: {value}\r\n" for name, value in headers.items()))
