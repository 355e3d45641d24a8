"""Ray Serve application: the chain of `benchmarks.gateway.chain` as three deployments, composed by handles.

The first stage is the application's ingress and calls the other two, so a request crosses the same number of
processes as ours: the proxy in the gateway's place and a process for each stage.
"""

from __future__ import annotations

from typing import Any

import msgspec
from ray import serve
from ray.serve._private import replica
from starlette.requests import Request
from starlette.responses import Response

from benchmarks.gateway.chain import STAGES, Item, step

AT_ONCE = 1000  # calls that a replica takes at once: far above the load, so nothing waits at a door


class Stage:
    """A stage that others call."""

    def __init__(self) -> None:
        loopback_only()

    async def __call__(self, item: Item) -> Item:
        """Do a stage's work."""
        return step(item)


class Ingress:
    """The first stage, which takes requests and calls the other stages one after another."""

    def __init__(self, *later: Any) -> None:
        loopback_only()
        self._later = later
        self._decoder = msgspec.json.Decoder(Item)

    async def __call__(self, request: Request) -> Response:
        """Answer a request, JSON in and JSON out."""
        item = step(self._decoder.decode(await request.body()))
        for stage in self._later:
            item = await stage.remote(item)
        return Response(msgspec.json.encode({"answer": item}), media_type="application/json")


def loopback_only() -> None:
    """Let the server that this replica opens next, for calls between deployments, listen on loopback.

    Ray has it listen on every interface, and it unpickles whatever it is sent.
    """
    add = replica.add_port_to_grpc_server

    def add_on_loopback(server: Any, address: str) -> Any:
        return add(server, f"127.0.0.1:{address.rpartition(':')[2]}")

    replica.add_port_to_grpc_server = add_on_loopback


def application() -> Any:
    """The composed application, one replica a stage."""
    first, *others = STAGES
    later = [_deployment(Stage, name).bind() for name in others]
    return _deployment(Ingress, first).bind(*later)


def _deployment(kind: type[Any], name: str) -> Any:
    return serve.deployment(kind, name=name, num_replicas=1, max_ongoing_requests=AT_ONCE)
