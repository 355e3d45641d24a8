"""Hedged unary calls of a `grpc.aio` channel: a client interceptor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from kwiken.hedge.hedger import Hedger
from kwiken.hedge.routes import Routes
from kwiken.runtime.base.grpc_ends import answer_of


class HedgedUnaryCalls(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # has no types
    """Interceptor of unary calls, with copies of the methods that a plan reissues.

    A plan names only methods that read. Other methods, and streams, go out as they are.

    Raises:
        InputError: no stage of the plan denotes a call.
    """

    def __init__(self, hedger: Hedger) -> None:
        self._hedger = hedger
        self._routes = Routes(lambda: hedger.plan)

    async def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Awaitable[Any]], client_call_details: Any, request: Any
    ) -> Any:
        """Make a call, hedged if its method is a stage's."""
        name: bytes | str = client_call_details.method
        found = self._routes.find("POST", name.decode() if isinstance(name, bytes) else name)
        if found is None:
            return await continuation(client_call_details, request)
        stage, read = found

        async def send(number: int) -> Any:  # noqa: ARG001 - the channel says where to
            call = await continuation(client_call_details, request)
            await answer_of(call)
            return call

        body_bytes = _size(request) if read and self._hedger.max_body_bytes(stage) < inf else 0
        return await self._hedger.call(stage, send, read=read, body_bytes=body_bytes)


def _size(request: Any) -> int:
    """Size of a request message, bytes; 0 for an object that only its serializer can measure."""
    if isinstance(request, bytes):
        return len(request)
    return request.ByteSize() if isinstance(request, Message) else 0
