"""Listening sockets of a cluster's gateways, opened by the supervisor: during a restart clients wait."""

from __future__ import annotations

import socket

from kwiken.runtime.cluster.specs import LOOPBACK, local_url
from kwiken.runtime.wire.http_server.acceptor import listen, reserve


class GatewaySockets:
    """Sockets of all gateways, at one port for HTTP, and one for gRPC if requests come over gRPC too.

    A single gateway has the port for itself. Several share it, and the system divides the connections among
    them; each has a port of its own on loopback besides, by which the supervisor reaches it.

    gRPC takes no sockets that another process has opened, so each gateway opens its own. For several, the
    port is held here for as long as the cluster runs, so that it is the same for all and stays theirs.

    Args:
        port: port to listen on; 0 for any free port.
        count: number of gateways, 1 or more.
        grpc_port: port for requests over gRPC, 0 for any free port; None for none.
        secure: whether the gateways speak TLS.

    Attributes:
        grpc_port: port for requests over gRPC; None for none, 0 if a single gateway is to choose one.

    Raises:
        InputError: the address cannot be bound to.
    """

    def __init__(
        self, host: str, port: int, count: int, *, grpc_port: int | None = None, secure: bool = False
    ) -> None:
        self._secure = secure
        self._host = host
        # Not shared at first: the port of another program, or of another cluster, must not be shared.
        first = listen(host, port)
        self.port = _port_of(first)
        self._public = [first]
        self._own: list[list[socket.socket]] = [[] for _ in range(count)]
        self.grpc_port = grpc_port
        self._reserved: list[socket.socket] = []
        if count == 1:
            return
        _close(first)
        self._public = []
        try:
            for number in range(count):
                self._public.append(listen(host, self.port, shared=True))
                self._own[number] = listen(LOOPBACK, 0)
            if grpc_port is not None:
                first = listen(host, grpc_port)  # not shared, as above
                self.grpc_port = _port_of(first)
                _close(first)
                self._reserved = reserve(host, self.grpc_port)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """URL for requests from this machine."""
        return local_url(self._host, self.port, secure=self._secure)

    def url_of(self, number: int) -> str:
        """URL at which the supervisor reaches one gateway."""
        own = self._own[number]
        return local_url(LOOPBACK, _port_of(own), secure=self._secure) if own else self.url

    def files_of(self, number: int) -> list[int]:
        """File descriptors of one gateway's sockets."""
        return [sock.fileno() for sock in (*self._public[number], *self._own[number])]

    def close(self) -> None:
        """Close all sockets."""
        for sockets in (*self._public, *self._own, self._reserved):
            _close(sockets)


def _port_of(sockets: list[socket.socket]) -> int:
    port: int = sockets[0].getsockname()[1]
    return port


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()
