"""Gateway: HTTP server that runs each request through the service's DAG and answers in JSON."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from kwiken.errors import DefinitionError, InputError, KwikenError
from kwiken.runtime.engine import Answer, Executor
from kwiken.runtime.errors import (
    DeadlineError,
    HandlerError,
    OverloadError,
    PlanNotSavedError,
    UnavailableError,
)
from kwiken.runtime.gateway.allowed_origins import AllowedOrigins
from kwiken.runtime.gateway.control import Control, Denied
from kwiken.runtime.gateway.loop_lag import ITERATIONS_TO_START, LagWatch, loop_iterations_of
from kwiken.runtime.gateway.timing import timing_of
from kwiken.runtime.http_server import ByteBudget, Listener
from kwiken.runtime.transport import MAX_PRIORITY, wire
from kwiken.service import Service

LOG = logging.getLogger("kwiken.gateway")
MAX_REQUEST: Final = 4 << 20  # bytes
RETRY_SOON_S: Final = 1.0

Route = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Gateway:
    """HTTP gateway of a service.

    Args:
        service: service to serve.
        executor: executor that runs its requests.
        host: address to listen on.
        port: port to listen on; 0 for any free port.
        token: secret for the control routes; None closes them.
        remote: whether the gateway is ready only when every stage has replicas.
        max_body: longest body of a request, bytes.
        max_bodies: bytes that all requests together may hold, without the first 16 KiB of each; None for a
            share of the memory.
        allowed_hosts: further host names that the gateway answers to, and whose pages may send requests.
        sockets: listening sockets, used instead of host and port; empty to create new ones.

    Raises:
        DefinitionError: the service cannot be served.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        remote: bool = True,
        max_body: int = MAX_REQUEST,
        max_bodies: int | None = None,
        allowed_hosts: Collection[str] = (),
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        self._service = service
        self._executor = executor
        self._reader = wire.RequestReader(service)
        self._listener = Listener(
            self._answer,
            host=host,
            port=port,
            max_body=max_body,
            sockets=sockets,
            budget=ByteBudget(max_bodies) if max_bodies is not None else None,
        )
        self._origins = AllowedOrigins(host, allowed_hosts)
        iterations = loop_iterations_of(service) if remote else ITERATIONS_TO_START
        self._lag = LagWatch(lambda lag_s: executor.note_line(iterations * lag_s))
        self._remote = remote
        self._max_body = max_body
        self._started = time.monotonic()
        self._answered: Counter[int] = Counter()
        self._inflight = 0
        self._idle = asyncio.Event()
        self._stopping = False
        self._closed = False
        self.control = Control(service, executor, token=token, status=self._figures)
        control = self.control
        self._routes: dict[str, dict[str, Route]] = {
            "/v1/request": {"POST": self._request},
            "/": {"GET": self._page},
            "/livez": {"GET": self._livez},
            "/readyz": {"GET": self._readyz},
            "/v1/plan": dict.fromkeys(("GET", "PUT"), self._guarded(control.plan)),
            "/v1/replicas": dict.fromkeys(("GET", "PUT"), self._guarded(control.replicas)),
            "/v1/status": {"GET": self._guarded(control.status)},
        }

    @property
    def url(self) -> str:
        """URL of the gateway, once started."""
        return self._listener.url

    async def start(self) -> None:
        """Listen for requests.

        Raises:
            InputError: the address cannot be bound to.
        """
        await self._listener.start()
        self._lag.start()

    async def stop(self, *, grace_s: float = 10.0, linger_s: float = 0.25) -> None:
        """Fail `/readyz`, then refuse new requests, finish those in flight, and close.

        Args:
            grace_s: seconds for the whole shutdown; then requests in flight are cancelled.
            linger_s: seconds for which requests are still served while load balancers notice `/readyz`.
        """
        self._stopping = True
        await asyncio.sleep(min(linger_s, grace_s))
        self._closed = True
        self._listener.stop_accepting()
        self._idle.clear()
        if self._inflight:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), max(0.0, grace_s - linger_s))
        await self._listener.stop()
        self._lag.stop()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        methods = self._routes.get(request.rel_url.raw_path)
        refusal = self._origins.refusal(
            request.method,
            request.headers.getall("Host", ()),
            origin=request.headers.get("Origin"),
            fetch_site=request.headers.get("Sec-Fetch-Site"),
            may_lack_host=tuple(request.version) < (1, 1),
        )
        if refusal is not None:
            response = _failure(refusal.status, refusal.reason)
        elif methods is None:
            response = _failure(404, f"no such route; send requests by POST to {wire.REQUEST_PATH}")
        else:
            route = methods.get("GET" if request.method == "HEAD" else request.method)
            if route is None:
                response = _failure(
                    405, f"this route only allows {', '.join(methods)}", Allow=", ".join(methods)
                )
            else:
                response = await self._guard(route, request)
        if self._stopping:
            response.headers["Connection"] = "close"
        return response

    async def _guard(self, route: Route, request: web.BaseRequest) -> web.Response:
        """Run a route; an error becomes an error response with its reason."""
        self._inflight += 1
        try:
            self._check_length(request.content_length or 0)
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0  # it is not part of the response
            response = await route(request)
        except web.HTTPRequestEntityTooLarge as error:
            response = _failure(413, str(error.text))
        except Denied as error:
            response = _failure(error.status, str(error), **{"WWW-Authenticate": "Bearer"})
        except Exception as error:
            response = failure_of(error)
            if response.status == 500 and not isinstance(error, KwikenError):  # noqa: PLR2004
                LOG.exception("request failed")
        finally:
            self._inflight -= 1
            if not self._inflight:
                self._idle.set()
        return response

    def _check_length(self, told: int) -> None:
        """Refuse too long a body before it is read."""
        if told > self._max_body:
            raise web.HTTPRequestEntityTooLarge(self._max_body, told)

    async def _request(self, request: web.BaseRequest) -> web.Response:
        if self._closed:
            raise OverloadError("the gateway is stopping", retry_after_s=RETRY_SOON_S)
        headers = request.headers
        if headers.get("Content-Type") != wire.JSON and request.content_type != wire.JSON:
            # An HTML form of a foreign page cannot send this type.
            return _failure(
                415,
                f"a request's Content-Type must be {wire.JSON}, not {headers.get('Content-Type', '')[:80]!r}",
            )
        if "Content-Encoding" in headers:
            raise InputError("a request's body must not be compressed", where="header Content-Encoding")
        deadline_ms = wire.read_number(headers, wire.DEADLINE, low=0.0, high=wire.MAX_DEADLINE_MS)
        priority = wire.read_whole(headers, wire.PRIORITY, low=-MAX_PRIORITY, high=MAX_PRIORITY)
        parent = wire.parse_traceparent(headers.get(wire.TRACEPARENT))
        try:
            self._executor.turn_away(deadline_ms=deadline_ms, priority=priority or 0)
        except OverloadError:
            self._answered[503] += 1
            raise
        timing = headers.get(wire.TIMING) == "1"
        body = self._reader.read(await request.read())
        try:
            answer = await self._executor.run(
                body,
                deadline_ms=deadline_ms,
                priority=priority or 0,
                parent=None if parent is None else (parent.trace_id, parent.span_id),
                note=timing,
            )
        except Exception as error:
            response = failure_of(error)
            self._answered[response.status] += 1
            raise
        self._answered[200] += 1
        return _answer_of(answer, timing=timing)

    async def _page(self, request: web.BaseRequest) -> web.Response:
        del request
        if self._service.page is None:
            return _failure(404, "the service has no page")
        return web.Response(
            text=self._service.page, content_type="text/html", headers={"X-Content-Type-Options": "nosniff"}
        )

    async def _livez(self, request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(text="ok")

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        del request
        if self._stopping:
            return web.Response(status=503, text="stopping")
        lacking = self.control.lacking if self._remote else []
        if lacking:
            return web.Response(status=503, text=f"no replica of {', '.join(lacking)}")
        return web.Response(text="ok")

    def _guarded(self, what: Callable[[web.BaseRequest], Awaitable[Any]]) -> Route:
        async def route(request: web.BaseRequest) -> web.Response:
            self.control.authorise(request.headers)
            return _json(200, await what(request))

        return route

    def _figures(self) -> dict[str, Any]:
        return {
            "service": self._service.name,
            "state": "stopping" if self._stopping else "serving",
            "uptime_s": time.monotonic() - self._started,
            "answered": {str(status): count for status, count in sorted(self._answered.items())},
        }


def _answer_of(answer: Answer, *, timing: bool) -> web.Response:
    document: dict[str, Any] = {"answer": answer.value}
    if answer.partial:
        document |= {"partial": True, "utility": round(answer.utility, 6)}
    if timing and answer.record is not None:
        document["timing"] = timing_of(answer.record)
    response = _json(200, document)
    if answer.partial:
        response.headers[wire.PARTIAL] = "1"
        response.headers[wire.UTILITY] = f"{answer.utility:.6g}"
    return response


def failure_of(error: BaseException) -> web.Response:
    """HTTP response for an error."""
    leaves = _leaves(error)
    worst = _worst(leaves)
    status = next((status for kind, status in _STATUS if isinstance(worst, kind)), 500)
    if status == 500 and not isinstance(worst, HandlerError):  # noqa: PLR2004
        return _failure(status, f"{type(worst).__name__}: {worst}")
    message = _said(error) if status == 502 else str(worst)  # noqa: PLR2004
    response = _failure(status, message)
    if status == 503:  # noqa: PLR2004
        wait_s = worst.retry_after_s if isinstance(worst, OverloadError) else RETRY_SOON_S
        response.headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    return response


# The first match counts; the last entry is the base class of all.
_STATUS: Final = (
    (HandlerError, 500),
    (DeadlineError, 504),
    (OverloadError, 503),
    (UnavailableError, 503),
    (PlanNotSavedError, 507),
    (InputError, 400),
    (DefinitionError, 400),
    (KwikenError, 502),
)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _said(error: BaseException) -> str:
    """Complete message of an error; the messages of a group's errors follow the group's own."""
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: {'; '.join(_said(inner) for inner in error.exceptions)}"
    return str(error)


def _worst(leaves: list[BaseException]) -> BaseException:
    """Most informative of several errors: a handler's own, then a missed deadline, then the first."""
    for kind in (HandlerError, DeadlineError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _failure(status: int, message: str, **headers: str) -> web.Response:
    response = _json(status, {"error": message})
    response.headers.update(headers)
    return response


def _json(status: int, value: Any) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), headers={"Content-Type": wire.JSON})
