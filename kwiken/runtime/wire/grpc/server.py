"""gRPC server of one port: one method of ours, health, reflection, limits, and an orderly end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kwiken.base.errors import InputError
from kwiken.runtime.wire.grpc.settings import server_options
from kwiken.runtime.wire.http_server import UNCOUNTED_BYTES, ByteBudget, listen, max_connections
from kwiken.runtime.wire.transport import wire

Method = Callable[[bytes, Any], Awaitable[bytes]]
DESCRIPTORS: Final = "kwiken.binpb"  # what protoc makes of kwiken.proto
FAREWELL_S: Final = 0.25  # the longest wait, at the end, for clients to close their connections


class GrpcServer:
    """gRPC server with one method.

    Args:
        method: name of the method, as `/PACKAGE.SERVICE/METHOD`.
        handler: answers a message, given its bytes and gRPC's context; cancelled when the client cancels, its
            deadline passes or its connection is lost.
        port: port to listen on; 0 for any free port.
        max_body: longest payload of a message, bytes.
        budget: budget of the bytes that all messages together hold.
        shared: whether other servers of this user may listen at the same port; the system then divides the
            connections among them.
    """

    def __init__(
        self,
        method: str,
        handler: Method,
        *,
        host: str,
        port: int,
        max_body: int,
        budget: ByteBudget,
        shared: bool = False,
    ) -> None:
        self._budget = budget
        self._method = method
        self._handler = handler
        self._host = f"[{host}]" if ":" in host else host
        self._port = port
        self._max_body = max_body
        self._shared = shared
        self._server: Any = None
        self._health = health.aio.HealthServicer()

    @property
    def url(self) -> str:
        """URL of the server, once started."""
        return f"grpc://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen; the server is not healthy yet.

        Raises:
            InputError: the address cannot be bound to.
        """
        service, _, name = self._method.strip("/").partition("/")
        server = aio.server(
            options=server_options(max_body=self._max_body, shared=self._shared),
            maximum_concurrent_rpcs=max_connections(),
        )
        unary = grpc.unary_unary_rpc_method_handler(self._within_budget)
        server.add_registered_method_handlers(service, {name: unary})
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (service, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, pool=_descriptors())
        await self._report(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._port = _bind(server, self._host, self._port, shared=self._shared)
        self._server = server
        await server.start()

    async def report_ready(self) -> None:
        """Report the server as healthy from now on."""
        await self._report(health_pb2.HealthCheckResponse.SERVING)

    async def report_stopping(self) -> None:
        """Report the server as unhealthy from now on."""
        await self._health.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Close all connections, and cancel the handlers that still run a little later.

        Clients are told first that the connection takes no more calls. A call that one of them sends at that
        moment then counts as refused. If connections were cut at once, nobody would know whether it ran.
        """
        if self._server is not None:
            await self._server.stop(FAREWELL_S)
            self._server = None

    async def _within_budget(self, message: bytes, context: Any) -> bytes:
        """Answer a message if there is room for its bytes."""
        charge = len(message) - UNCOUNTED_BYTES
        if charge <= 0:
            return await self._handler(message, context)
        if not self._budget.take(charge):
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.set_details("the messages of all calls together are too long; try again later")
            context.set_trailing_metadata(((wire.REFUSED, "1"),))
            return b""
        try:
            return await self._handler(message, context)
        finally:
            self._budget.give(charge)

    async def _report(self, state: Any) -> None:
        for name in ("", self._method.strip("/").partition("/")[0]):
            await self._health.set(name, state)


def _bind(server: Any, host: str, port: int, *, shared: bool) -> int:
    """Bind a server to an address; returns its port.

    Raises:
        InputError: the address cannot be bound to.
    """
    try:
        bound: int = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        for sock in listen(
            host.strip("[]"), port, shared=shared
        ):  # gRPC does not say why; this raises the reason
            sock.close()
        raise InputError(str(error), where=f"{host}:{port}") from error
    return bound


def _descriptors() -> Any:
    """What reflection tells: our own services, and those of gRPC that the server has."""
    pool = descriptor_pool.DescriptorPool()
    text = resources.files("kwiken.runtime.wire.grpc").joinpath(DESCRIPTORS).read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(text).file:
        pool.Add(file)
    for known in (health_pb2.DESCRIPTOR, reflection._reflection_pb2.DESCRIPTOR):  # noqa: SLF001 - exported nowhere else
        pool.AddSerializedFile(known.serialized_pb)
    return pool
