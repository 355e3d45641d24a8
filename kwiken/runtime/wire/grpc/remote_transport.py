"""Transport that reaches each replica by the protocol that its address names."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from kwiken.model.service.service import Service
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply

if TYPE_CHECKING:
    from kwiken.runtime.wire.grpc.transport import GrpcTransport

GRPC_PREFIX: Final = f"{wire.GRPC}://"


class RemoteTransport:
    """Sends calls over HTTP or gRPC; use as an asynchronous context manager.

    gRPC is loaded with the first replica that needs it, so that a gateway without one does not pay for it.

    Args:
        service: service whose stages are called; the annotations of its handlers give the types of answers.
        raw: whether to leave answers undecoded, to be passed on as received; see `CallBodies`.
        tls: certificates for calls over TLS; None for calls without.
    """

    def __init__(self, service: Service, *, raw: bool = False, tls: Certificates | None = None) -> None:
        self._tls = tls
        self._service = service
        self._raw = raw
        self._http = FrameTransport(service, raw=raw, tls=tls)
        self._grpc: GrpcTransport | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to take calls."""
        await self._stack.enter_async_context(self._http)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop every probe and close every connection."""
        await self._stack.aclose()

    def prepare(self, replicas: Iterable[Replica]) -> None:
        """Load what calls to some replicas need, so that the first of them need not wait for that."""
        for replica in replicas:
            self._transport(replica)

    def call(self, replica: Replica, call: Call) -> Coroutine[Any, Any, Reply]:
        """Send one call by the protocol of the replica's address.

        Raises:
            KwikenError: as `Transport.call` says.
        """
        return self._transport(replica).call(replica, call)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe whether a replica is alive; returns at once.

        Args:
            heard: called later with whether the replica answered, unless the transport is closed before.
        """
        self._transport(replica).ask(replica, heard)

    def _transport(self, replica: Replica) -> FrameTransport | GrpcTransport:
        if not replica.address.startswith(GRPC_PREFIX):
            return self._http
        if self._grpc is None:
            from kwiken.runtime.wire.grpc.transport import GrpcTransport

            self._grpc = GrpcTransport(self._service, raw=self._raw, tls=self._tls)
            self._stack.push_async_exit(self._grpc)
        return self._grpc
