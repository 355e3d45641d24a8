"""Choice of the load generator's client by the scheme of its target."""

from __future__ import annotations

from typing import Protocol

from kwiken.loadtest.generator.client import Client
from kwiken.loadtest.inputs.headers import Headers
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.inputs.settings import LoadTarget
from kwiken.loadtest.results.outcome import SentRequest


class RequestSender(Protocol):
    """Sender of the requests of a run, on connections of its own.

    Attributes:
        first_failure: what the server said of the first request that it refused; None if it refused none.
    """

    first_failure: str | None

    def send(self, query: int, traceparent: str) -> SentRequest:
        """Send one request; see `Client.send`."""

    def check(self) -> None:
        """Open the first connection; raises InputError if the target cannot be reached."""

    def close(self) -> None:
        """Close all connections."""


def client_of(
    target: LoadTarget, queries: Queries, *, method: str, timeout_s: float, headers: Headers = ()
) -> RequestSender:
    """Make the client of a target; arguments as those of `Client`.

    Raises:
        InputError: a target over gRPC, where Locust's own command has patched threads.
    """
    if target.grpc:
        # Imported here, because gRPC costs a load over HTTP a tenth of a second.
        from kwiken.loadtest.generator.grpc_client import GrpcClient

        return GrpcClient(target, queries, timeout_s=timeout_s, headers=headers)
    return Client(target, queries, method=method, timeout_s=timeout_s, headers=headers)
