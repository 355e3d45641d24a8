"""Ways to send one request through the three stages: each peer's, as its own documents say.

Libraries get an inner transport that spreads calls over the replicas of a stage, so that a copy goes to
another replica than its call. Envoy, gRPC and the gateway of kwiken spread calls themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
from grpc import aio

from benchmarks.gateway.peers.messages import Numbered, front_door, path_of
from benchmarks.gateway.peers.world import TIMEOUT_S
from kwiken.hedge.hedger import Hedger
from kwiken.hedge.httpx_transport import HedgedTransport

HTTP_OK: Final = 200
RETRIES: Final = 3  # attempts of a call by gRPC's retries, in all
Send = Callable[[int], Awaitable[Mapping[str, float]]]
"""Sends the request of a number; returns the time of each stage's call in milliseconds, where it is known.

An exception means that the request is lost.
"""


class SpreadTransport(httpx.AsyncBaseTransport):
    """Sends each attempt to the next replica in turn of the stage that its URL's host names."""

    def __init__(self, addresses: Mapping[str, Sequence[str]]) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._inner = httpx.AsyncHTTPTransport(limits=limits)
        self._turn = {stage: itertools.cycle(found) for stage, found in addresses.items()}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one attempt."""
        host, _, port = next(self._turn[request.url.host]).rpartition(":")
        return await self._inner.handle_async_request(
            httpx.Request(
                request.method,
                request.url.copy_with(host=host, port=int(port)),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def transport_of(way: str, found: Mapping[str, Any]) -> httpx.AsyncBaseTransport:
    """Transport of a way that hedges in the client.

    Args:
        way: `plain`, `hedge-python`, `httpx-hedged` or `kwiken.hedge`.
        found: settings of the run, as `client` gets them.
    """
    made: httpx.AsyncBaseTransport = SpreadTransport(found["addresses"])
    share, budget = found["share"], found["budget"]
    if way == "hedge-python":
        from hedge import HedgeConfig
        from hedge.transport import HedgedHttpxTransport

        config = HedgeConfig(
            percentile=1 - share,
            budget_percent=100 * budget,
            estimated_rps=len(found["addresses"]) * found["rate_per_s"],
            key_level="endpoint",
        )
        made = HedgedHttpxTransport(made, config)
    elif way == "httpx-hedged":
        from httpx_hedged import EndpointConfig, HedgeConfig as Defaults, HedgedTransport as Rival, Route

        routes = [Route("GET", f"/{stage}", EndpointConfig()) for stage in found["addresses"]]
        made = Rival(made, Defaults(percentile=1 - share, budget_percent=100 * budget), routes)
    elif way == "kwiken.hedge":
        made = HedgedTransport(Hedger.load(Path(found["plan"])), made)
    return made


@contextlib.asynccontextmanager
async def by_stages(way: str, found: Mapping[str, Any]) -> AsyncIterator[Send]:
    """Calls of the stages one after another over HTTP, by the client's own transport or through Envoy."""
    url = found.get("url")
    transport = (
        transport_of(way, found)
        if url is None
        else httpx.AsyncHTTPTransport(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None)
        )
    )
    async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT_S) as client:

        async def send(number: int) -> Mapping[str, float]:
            took = {}
            for stage in found["addresses"]:
                start = time.perf_counter()
                reply = await client.get(f"{url or f'http://{stage}'}/{stage}?id={number}")
                if reply.status_code != HTTP_OK or reply.json() != {"id": number}:
                    raise RuntimeError(f"{stage}: {reply.status_code}")
                took[stage] = 1e3 * (time.perf_counter() - start)
            return took

        yield send


@contextlib.asynccontextmanager
async def by_gateway(found: Mapping[str, Any]) -> AsyncIterator[Send]:
    """Whole requests to kwiken's gateway over HTTP."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(limits=limits), timeout=TIMEOUT_S
    ) as client:

        async def send(number: int) -> Mapping[str, float]:
            reply = await client.post(f"{found['url']}/v1/request", json={"id": number})
            if reply.status_code != HTTP_OK or reply.json()["answer"] != {"id": number}:
                raise RuntimeError(str(reply.status_code))
            return {}

        yield send


@contextlib.asynccontextmanager
async def by_grpc_gateway(found: Mapping[str, Any]) -> AsyncIterator[Send]:
    """Whole requests to kwiken's gateway over gRPC."""
    request, reply = front_door()
    async with aio.insecure_channel(found["url"]) as channel:
        ask = channel.unary_unary(
            "/kwiken.v1.Gateway/Ask",
            request_serializer=request.SerializeToString,
            response_deserializer=reply.FromString,
        )

        async def send(number: int) -> Mapping[str, float]:
            answer = await ask(request(json=json.dumps({"id": number})), timeout=TIMEOUT_S)
            if json.loads(answer.json) != {"id": number}:
                raise RuntimeError(answer.json)
            return {}

        yield send


@contextlib.asynccontextmanager
async def by_grpc(way: str, found: Mapping[str, Any]) -> AsyncIterator[Send]:
    """Calls of the stages one after another by `grpc.aio`, with its retries or without."""
    policy = {
        "maxAttempts": RETRIES,
        "initialBackoff": "0.001s",
        "maxBackoff": "0.001s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    method: dict[str, Any] = {"name": [{}]} | ({"retryPolicy": policy} if way == "gRPC retries" else {})
    config = json.dumps({"loadBalancingConfig": [{"round_robin": {}}], "methodConfig": [method]})
    async with contextlib.AsyncExitStack() as stack:
        calls = []
        for stage in found["addresses"]:
            target = f"ipv4:{','.join(found['addresses'][stage])}"
            channel = await stack.enter_async_context(
                aio.insecure_channel(target, options=[("grpc.service_config", config)])
            )
            calls.append(
                channel.unary_unary(
                    path_of(stage),
                    request_serializer=Numbered.SerializeToString,
                    response_deserializer=Numbered.FromString,
                )
            )

        async def send(number: int) -> Mapping[str, float]:
            took = {}
            for stage, call in zip(found["addresses"], calls, strict=True):
                start = time.perf_counter()
                answer = await call(Numbered(id=number), timeout=TIMEOUT_S)
                if answer.id != number:
                    raise RuntimeError(f"{stage}: answer of another request")
                took[stage] = 1e3 * (time.perf_counter() - start)
            return took

        yield send
