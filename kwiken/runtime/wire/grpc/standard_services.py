"""Services that every gRPC server has beside its own: health and reflection, with limits on their streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from kwiken.runtime.base.errors import DeadlineError, OverloadError
from kwiken.runtime.wire.grpc.incoming_messages import IncomingMessages

DESCRIPTORS: Final = "kwiken.binpb"  # what protoc makes of kwiken.proto
MAX_QUESTIONS: Final = 1000  # of one stream of reflection
PARSED: Final = reflection_pb2.ServerReflectionRequest
ANSWERED: Final = reflection_pb2.ServerReflectionResponse
MAX_WATCHES: Final = 256  # streams that follow the health of the server; beyond it the oldest ends
TOO_MANY: Final = "too many streams follow the server's health"
STOPPING: Final = "the server is stopping"
States = health_pb2.HealthCheckResponse


# The health service of `grpcio-health-checking` writes to its streams while it holds a lock that a change of
# the state needs, and a stream is ended by a cancel. A cancel that falls into a write leaves the stream open
# for as long as its client likes. Here nothing is shared between streams, and none is cancelled.
class _Watch:
    """A stream that follows the health of one service."""

    __slots__ = ("end", "news")

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.end: tuple[grpc.StatusCode, str] | None = None


class HealthService:
    """Health of a server and of its one service."""

    NAME: Final = health.SERVICE_NAME

    def __init__(self, service: str) -> None:
        self._state = States.NOT_SERVING
        self._services = ("", service)
        self._watches: dict[_Watch, None] = {}
        self._stopping = False

    @property
    def watches(self) -> int:
        """Number of streams that follow the health."""
        return len(self._watches)

    def report_ready(self) -> None:
        """Report the server as healthy from now on; without effect once it is stopping."""
        if not self._stopping:
            self._report(States.SERVING)

    def report_stopping(self) -> None:
        """Report the server as unhealthy for good."""
        self._stopping = True
        self._report(States.NOT_SERVING)

    def end_watches(self) -> None:
        """End all streams."""
        for watch in list(self._watches):
            self._end(watch, grpc.StatusCode.UNAVAILABLE, STOPPING)

    async def check(self, request: Any, context: Any) -> Any:
        """Answer a question for the state of a service."""
        if request.service not in self._services:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            context.set_details("there is no such service")
            return None
        return States(status=self._state)

    async def watch(self, request: Any, context: Any) -> None:
        """Tell a client the state of a service, and each change of it."""
        while len(self._watches) >= MAX_WATCHES:
            self._end(next(iter(self._watches)), grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY)
        watch = _Watch()
        self._watches[watch] = None
        known = request.service in self._services
        told = None
        try:
            while watch.end is None:
                watch.news.clear()
                state = self._state if known else States.SERVICE_UNKNOWN
                if state != told:
                    await context.write(States(status=state))
                    told = state
                else:
                    await watch.news.wait()
        finally:
            self._watches.pop(watch, None)
        code, reason = watch.end
        context.set_code(code)
        context.set_details(reason)

    def _report(self, state: Any) -> None:
        self._state = state
        for watch in self._watches:
            watch.news.set()

    def _end(self, watch: _Watch, code: grpc.StatusCode, reason: str) -> None:
        del self._watches[watch]
        watch.end = code, reason
        watch.news.set()


class StandardServices:
    """Health and reflection of one server.

    Args:
        messages: takes the messages of the server's calls.

    Attributes:
        health: health of the server and its service.
    """

    def __init__(self, service: str, messages: IncomingMessages) -> None:
        self._messages = messages
        self.health = HealthService(service)
        names = (service, HealthService.NAME, reflection.SERVICE_NAME)
        self._reflection = reflection.aio.ReflectionServicer(names, _Files(_descriptors()))

    def handlers(self) -> tuple[Any, ...]:
        """Handlers for `aio.Server.add_generic_rpc_handlers`.

        Each takes a stream of messages, so that gRPC does not ask for the first one by itself.
        """
        serialised = health_pb2.HealthCheckResponse.SerializeToString
        return (
            grpc.method_handlers_generic_handler(
                HealthService.NAME,
                {
                    "Check": grpc.stream_unary_rpc_method_handler(
                        self._check, response_serializer=serialised
                    ),
                    "Watch": grpc.stream_stream_rpc_method_handler(
                        self._watch, response_serializer=serialised
                    ),
                },
            ),
            grpc.method_handlers_generic_handler(
                reflection.SERVICE_NAME,
                {
                    "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                        self._reflect, response_serializer=ANSWERED.SerializeToString
                    )
                },
            ),
        )

    async def _check(self, requests: Any, context: Any) -> Any:
        del requests  # the context gives them too
        request = await self._next(context, health_pb2.HealthCheckRequest.FromString)
        return await self.health.check(request, context) if request is not None else None

    async def _watch(self, requests: Any, context: Any) -> None:
        del requests
        request = await self._next(context, health_pb2.HealthCheckRequest.FromString)
        if request is not None:
            await self.health.watch(request, context)

    async def _reflect(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        del requests

        async def questions() -> AsyncIterator[Any]:
            for _ in range(MAX_QUESTIONS):
                question = await self._next(context, PARSED.FromString, optional=True)
                if question is None:
                    return
                yield question
            _tell(context, grpc.StatusCode.RESOURCE_EXHAUSTED, f"more than {MAX_QUESTIONS} questions")

        async for answer in self._reflection.ServerReflectionInfo(questions(), context):
            yield answer

    async def _next(
        self, context: Any, parse: Callable[[bytes], Any], *, optional: bool = False
    ) -> Any | None:
        """Next message of a call; None if there is none, which the status of the call then says.

        Args:
            parse: what makes a request of its bytes.
            optional: whether the client may end the call here.
        """
        try:
            message = await self._messages.read(context.read)
            if message is not None:
                return parse(message)
        except OverloadError as error:
            _tell(context, grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except DeadlineError as error:
            _tell(context, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
        except DecodeError as error:
            _tell(context, grpc.StatusCode.INVALID_ARGUMENT, f"not a message of this method: {error}")
        else:
            if not optional:
                _tell(context, grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        return None


def _tell(context: Any, code: grpc.StatusCode, details: str) -> None:
    context.set_code(code)
    context.set_details(details)


class _Files:
    """Descriptor pool that finds the file of a method too, as `package.Service.Method`.

    The pool itself finds files of services, messages and fields only; tools describe methods, too.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:  # noqa: N802 - the pool's name
        """Find the file that defines a symbol.

        Raises:
            KeyError: no file defines it.
        """
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = self._pool.FindServiceByName(service)
            if method not in found.methods_by_name:
                raise
            return found.file


def _descriptors() -> Any:
    """What reflection tells: our own services, and those of gRPC that the server has."""
    pool = descriptor_pool.DescriptorPool()
    text = resources.files("kwiken.runtime.wire.grpc").joinpath(DESCRIPTORS).read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(text).file:
        pool.Add(file)
    for known in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
        pool.AddSerializedFile(known.serialized_pb)
    return pool
