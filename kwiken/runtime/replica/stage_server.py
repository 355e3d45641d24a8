"""Server of one stage, for HTTP and gRPC alike: settings, start, and an orderly stop."""

from __future__ import annotations

import abc
import asyncio
from typing import Generic, Protocol, TypeVar

import msgspec

from kwiken.model.service.service import Service
from kwiken.runtime.replica.stage_calls import CallObserver, StageCalls
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a stage's server, and limits of its calls; see `StageServer`."""

    host: str
    port: int
    max_body: int
    max_bodies: int | None
    tls: Certificates | None


class ProtocolServer(Protocol):
    """Server of one protocol."""

    @property
    def url(self) -> str:
        """URL of the server, once started."""

    async def start(self) -> None:
        """Listen."""

    async def stop(self) -> None:
        """Close."""


S = TypeVar("S", bound=ProtocolServer)


class StageServer(abc.ABC, Generic[S]):
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
        self._server = self._serving(
            Port(host=host, port=port, max_body=max_body, max_bodies=max_bodies, tls=tls)
        )

    @abc.abstractmethod
    def _serving(self, at: Port) -> S:
        """Server of the protocol at a port, not started yet."""

    @abc.abstractmethod
    def _send_elsewhere(self) -> None:
        """Tell clients that further calls go to other replicas."""

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
        self._send_elsewhere()
        await asyncio.sleep(min(linger_s, grace_s))
        await self.calls.emptied(max(0.0, grace_s - linger_s))
        await self._server.stop()
