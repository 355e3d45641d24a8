"""Gateway: HTTP server that runs each request through the service's DAG and answers in JSON."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.service.service import Service
from kwiken.otel.write.records import Entrance
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.control import Control, Denied
from kwiken.runtime.gateway.control.exchange import EXCHANGE_PATH, Exchange
from kwiken.runtime.gateway.control.metrics import GatewayMetrics
from kwiken.runtime.gateway.control.siblings import GATEWAY_NAME, INSTANCE, is_alone
from kwiken.runtime.gateway.front_door import FrontDoor
from kwiken.runtime.gateway.item_response import ItemResponse
from kwiken.runtime.gateway.live_page.allowed_origins import AllowedOrigins
from kwiken.runtime.gateway.live_page.page import LivePage
from kwiken.runtime.gateway.observation.loop_lag import ITERATIONS_TO_START, loop_iterations_of
from kwiken.runtime.gateway.observation.self_measurement import SelfMeasurement
from kwiken.runtime.gateway.pages import Pages
from kwiken.runtime.gateway.responses import (
    INTERNAL,
    answer_of,
    failure,
    failure_of,
    json_response,
    judge,
    status_sent,
)
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.metrics.page import METRICS_PATH, MetricsPage
from kwiken.runtime.wire.http_server.acceptor import max_connections
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget
from kwiken.runtime.wire.http_server.json_response import GatewayResponse
from kwiken.runtime.wire.http_server.listener import Listener
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import MAX_PRIORITY

LOG = logging.getLogger("kwiken.gateway")

DEFAULTS = GatewaySettings()


async def _report_nothing() -> None:
    """Nothing but `/readyz` tells of the stop."""


Route = Callable[[web.BaseRequest], Awaitable[GatewayResponse]]


class Gateway:
    """HTTP gateway of a service.

    Args:
        settings: where it listens, what it takes in, and who may control it.
        exchange: with the other gateways of the service; None without any.
        gateways: URL of each gateway of the cluster.

    Attributes:
        door: takes requests in, for further protocols.
        metrics: metrics of the gateway's process.
        tls: certificates for requests over TLS; None for requests without.
        report_stopping: called when the stop begins, so that other protocols too tell load balancers.

    Raises:
        DefinitionError: the service cannot be served.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        settings: GatewaySettings = DEFAULTS,
        *,
        exchange: Exchange | None = None,
        gateways: Sequence[str] = (),
    ) -> None:
        self._service = service
        self._settings = settings
        self.tls = settings.certificates
        budget = ByteBudget(settings.max_bodies) if settings.max_bodies is not None else None
        self.door = FrontDoor(service, executor, settings.kinds, budget)
        self._listener = Listener(
            self._answer,
            host=settings.host,
            port=settings.port,
            max_body=settings.max_body,
            sockets=settings.sockets,
            budget=self.door.budget,
            most=max_connections(doors=settings.doors),
            tls=settings.certificates,
            streams=self.door.streams,
        )
        self._origins = AllowedOrigins(settings.host, settings.allowed_hosts)
        self.control = Control(
            service,
            executor,
            exchange or Exchange.of_one(executor, settings.name),
            token=settings.token,
            status=self._figures,
            gateways=gateways,
        )
        live = LivePage(service, executor, SystemClock(), steered=self.control.steered)
        self._measured = SelfMeasurement(
            executor,
            live,
            loop_iterations=loop_iterations_of(service) if settings.remote else ITERATIONS_TO_START,
        )
        self.metrics = GatewayMetrics(
            service,
            executor,
            lags=self._measured.lag.lags,
            instance=f"{service.name}-gateway-{os.getpid()}",
            control=self.control,
            tls=settings.certificates,
        )
        self._started = time.monotonic()
        self._entry: Entrance | None = None
        self._stopping = False
        self.report_stopping: Callable[[], Awaitable[None]] = _report_nothing
        self._routes = self._routes_to(
            Pages(service.page, live, MetricsPage(self.metrics.shown), self.control, settings.name)
        )

    def _routes_to(self, pages: Pages) -> dict[str, dict[str, Route]]:
        """Routes by path and method."""
        control = self.control
        routes: dict[str, dict[str, Route]] = {
            wire.REQUEST_PATH: {"POST": self._request},
            "/": {"GET": pages.own},
            "/livez": {"GET": self._livez},
            "/readyz": {"GET": self._readyz},
            "/v1/plan": dict.fromkeys(("GET", "PUT"), self._guarded(control.plan)),
            "/v1/plan/check": {"PUT": self._guarded(control.plan_check)},
            "/v1/replicas": dict.fromkeys(("GET", "PUT"), self._guarded(control.replicas)),
            "/v1/crowded-nodes": dict.fromkeys(("GET", "PUT"), self._guarded(control.crowded_nodes)),
            EXCHANGE_PATH: {"PUT": self._guarded(control.answer_sibling)},
            "/v1/status": {"GET": self._guarded(control.status)},
            "/v1/autopilot": dict.fromkeys(("GET", "PUT"), self._guarded(control.autopilot)),
            "/v1/autopilot/hold": {"PUT": self._guarded(control.hold)},
            "/v1/autopilot/note": {"PUT": self._guarded(control.take_note)},
            "/v1/autopilot/resume": {"PUT": self._guarded(control.resume)},
            "/v1/targets": {"GET": self._guarded(control.targets)},
            "/kwiken": {"GET": pages.live},
            "/v1/live": {"GET": self._guarded(pages.live_data)},
        }
        if self._settings.metrics != "off":
            routes[METRICS_PATH] = {"GET": self._metrics_to(pages)}
        return routes

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
        self._entry = Entrance(self._listener.url, "POST", wire.REQUEST_PATH, status_sent)
        self._measured.start()

    async def stop(self, *, grace_s: float = 10.0, linger_s: float = 0.25) -> None:
        """Fail `/readyz`, accept no connections, refuse requests, finish those in flight, close: in order.

        Args:
            grace_s: seconds for the whole shutdown; then requests in flight are cancelled.
            linger_s: seconds for which requests are still served while load balancers notice `/readyz`; and
                as long again on the connections that are open.
        """
        self._stopping = True
        await self.report_stopping()
        await asyncio.sleep(min(linger_s, grace_s))
        self._listener.stop_accepting()
        # Requests of the connections that were accepted last may be on their way.
        left_s = max(0.0, grace_s - linger_s)
        await asyncio.sleep(min(linger_s, left_s))
        self.door.close()
        await self.door.emptied(max(0.0, left_s - linger_s))
        await self._listener.stop()
        self._measured.stop()
        await self.control.siblings.close()

    async def _answer(self, request: web.BaseRequest) -> GatewayResponse:
        methods = self._routes.get(request.rel_url.raw_path)
        refusal = self._origins.refusal(
            request.method,
            request.headers.getall("Host", ()),
            origin=request.headers.get("Origin"),
            fetch_site=request.headers.get("Sec-Fetch-Site"),
            may_lack_host=tuple(request.version) < (1, 1),
        )
        response: GatewayResponse
        if refusal is not None:
            response = failure(refusal.status, refusal.reason)
        elif methods is None:
            response = failure(404, f"no such route; send requests by POST to {wire.REQUEST_PATH}")
        else:
            route = methods.get("GET" if request.method == "HEAD" else request.method)
            if route is None:
                response = failure(
                    405, f"this route only allows {', '.join(methods)}", Allow=", ".join(methods)
                )
            else:
                answering = self._guard(route, request)
                if methods is self._routes[wire.REQUEST_PATH]:
                    answering = self.metrics.http.timed(answering)
                response = await answering
        if self._stopping:
            response.headers["Connection"] = "close"
        if request.query_string and is_alone(request.rel_url.query):
            response.headers[INSTANCE] = self.control.siblings.instance
            response.headers[GATEWAY_NAME] = self._settings.name
        return response

    async def _guard(self, route: Route, request: web.BaseRequest) -> GatewayResponse:
        """Run a route; an error becomes an error response with its reason."""
        self.door.enter()
        try:
            self._check_length(request.content_length or 0)
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0  # it is not part of the response
            return await route(request)
        except web.HTTPRequestEntityTooLarge as error:
            return failure(413, str(error.text))
        except Denied as error:
            return failure(error.status, str(error), **{"WWW-Authenticate": "Bearer"})
        except Exception as error:
            response = failure_of(error)
            if response.status == INTERNAL and not isinstance(error, KwikenError):
                parent = wire.parse_traceparent(request.headers.get(wire.TRACEPARENT))
                trace_id = parent.trace_id if parent is not None else 0
                LOG.exception("request failed", extra=about(Event.REQUEST_ERROR, trace_id=trace_id))
            return response
        finally:
            self.door.leave()

    def _check_length(self, told: int) -> None:
        """Refuse too long a body before it is read."""
        if told > self._settings.max_body:
            raise web.HTTPRequestEntityTooLarge(self._settings.max_body, told)

    async def _request(self, request: web.BaseRequest) -> GatewayResponse:
        headers = request.headers
        if headers.get("Content-Type") != wire.JSON and request.content_type != wire.JSON:
            # An HTML form of a foreign page cannot send this type.
            return failure(
                415,
                f"a request's Content-Type must be {wire.JSON}, not {headers.get('Content-Type', '')[:80]!r}",
            )
        if "Content-Encoding" in headers:
            raise InputError("a request's body must not be compressed", where="header Content-Encoding")
        deadline_ms = wire.read_number(headers, wire.DEADLINE, low=0.0, high=wire.MAX_DEADLINE_MS)
        priority = wire.read_whole(headers, wire.PRIORITY, low=-MAX_PRIORITY, high=MAX_PRIORITY) or 0
        parent = wire.parse_traceparent(headers.get(wire.TRACEPARENT))
        timing = headers.get(wire.TIMING) == "1"
        self.door.turn_away(deadline_ms=deadline_ms, priority=priority, parent=parent)
        try:
            body = await request.read()
        except OverloadError as error:
            self.door.note_unread(error, priority=priority, parent=parent)
            raise
        items = ItemResponse(request) if self.door.streams else None
        try:
            answer = await self.door.answer(
                body,
                deadline_ms=deadline_ms,
                priority=priority,
                parent=parent,
                timing=timing,
                headers=headers,
                entry=self._entry,
                deliver=None if items is None else items.deliver,
            )
        except Exception as error:
            if items is None or not items.has_begun:
                raise
            await items.fail(judge(error).reason)
            return items.response
        if items is None:
            return answer_of(answer, timing=timing)
        await items.end(answer, timing=timing)
        return items.response

    async def _livez(self, request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(text="ok")

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        del request
        if self._stopping:
            return web.Response(status=503, text="stopping")
        lacking = self.control.lacking if self._settings.remote else []
        if lacking:
            return web.Response(status=503, text=f"no replica of {', '.join(lacking)}")
        return web.Response(text="ok")

    def _guarded(self, what: Callable[[web.BaseRequest], Awaitable[Any]]) -> Route:
        async def route(request: web.BaseRequest) -> GatewayResponse:
            self.control.authorise(request.headers)
            return json_response(200, await what(request))

        return route

    def _metrics_to(self, pages: Pages) -> Route:
        """Route of the metrics: for everybody, or for those who have the token."""

        async def route(request: web.BaseRequest) -> web.Response:
            self.control.authorise(request.headers)
            return await pages.metrics(request)

        return route if self._settings.metrics == "token" else pages.metrics

    def _figures(self) -> dict[str, Any]:
        return {
            "service": self._service.name,
            "gateway": self._settings.name,
            "state": "stopping" if self._stopping else "serving",
            "uptime_s": time.monotonic() - self._started,
            "answered": {str(status): count for status, count in sorted(self.door.answered.items())},
        }
