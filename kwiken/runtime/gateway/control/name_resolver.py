"""Resolver of replicas' host names: endpoints as users write them, and the addresses behind them."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kwiken.base.errors import InputError
from kwiken.model.service.stage import MAX_REPLICAS
from kwiken.runtime.base.abandoned import in_thread
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Replica

LOG = logging.getLogger("kwiken.gateway")
RESOLVE_S: Final = 5.0  # interval of name lookups
LOOKUP_S: Final = 3.0  # timeout of one lookup
MAX_PORT: Final = 65_535
_PORT = re.compile(r"[0-9]{1,5}")


class Endpoint(NamedTuple):
    """Place of one or more replicas.

    Attributes:
        host: name or address; a name may have several addresses.
        scheme: protocol that the replicas speak, as in their addresses.
    """

    host: str
    port: int
    scheme: str = wire.HTTP


def parse_endpoint(text: str) -> Endpoint:
    """Parse `HOST:PORT`, or `grpc://HOST:PORT`; an IPv6 address stands in brackets.

    Raises:
        InputError: the text has another form.
    """
    before, slashes, after = text.partition("://")
    scheme, place = (before, after) if slashes else (wire.HTTP, text)
    host, colon, port = place.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (
        scheme in wire.SCHEMES and colon and host and _PORT.fullmatch(port) and 0 < int(port) <= MAX_PORT
    ):
        raise InputError(
            "must be HOST:PORT or grpc://HOST:PORT, for example 127.0.0.1:9001", where=repr(text)
        )
    return Endpoint(host, int(port), scheme)


class HostNames:
    """Addresses of host names, which may change; a name that is not found keeps its known addresses."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], list[str]] = {}
        self._asking: dict[tuple[str, int], asyncio.Task[list[str]]] = {}
        self._logged: dict[tuple[str, int], str] = {}  # trouble of names that have never been known

    async def look_up(self, endpoints: Iterable[tuple[str, Endpoint]]) -> None:
        """Look up the names of some endpoints once.

        Args:
            endpoints: who has the endpoint, in words for the log, and the endpoint.
        """
        owners = {one[:2]: owner for owner, one in endpoints}
        await asyncio.gather(*(self._look_up(*place, owner) for place, owner in owners.items()))

    def addresses(self, endpoint: Endpoint) -> list[tuple[str, str]]:
        """Addresses of an endpoint as known now, and how each is written before a port."""
        found = self._known.get(endpoint[:2], ())
        return [(address, f"[{address}]" if ":" in address else address) for address in found]

    async def _look_up(self, host: str, port: int, owner: str) -> None:
        """Look a name up. One look-up of a name runs at a time: it cannot be ended, and may take minutes."""
        place = host, port
        asking = self._asking.get(place)
        if asking is None:
            asking = self._asking[place] = asyncio.create_task(_addresses(host, port))
            asking.add_done_callback(functools.partial(self._answered, place))
        try:
            async with asyncio.timeout(LOOKUP_S):
                self._known[place] = await asyncio.shield(asking)
        except (
            OSError,
            TimeoutError,
            UnicodeError,
        ) as error:  # UnicodeError: text that cannot be a host name
            reason = str(error) or type(error).__name__
            if (
                place not in self._known and self._logged.get(place) != reason
            ):  # asked again every few seconds
                self._logged[place] = reason
                LOG.warning(
                    "%s: cannot look up %s: %s", owner, host, reason, extra=about(Event.NAME_NOT_FOUND)
                )

    def _answered(self, place: tuple[str, int], asking: asyncio.Task[list[str]]) -> None:
        """Take note of the end of a look-up, whose error may have come too late for anybody to wait for."""
        del self._asking[place]
        if not asking.cancelled():
            asking.exception()


class SiblingNames:
    """Addresses of sibling gateways, whose host names are looked up at intervals.

    Args:
        secure: whether they take requests over TLS.
    """

    def __init__(self, endpoints: Sequence[Endpoint], *, secure: bool = False) -> None:
        self._scheme = "https" if secure else "http"
        self._endpoints = endpoints
        self._names = HostNames()

    def urls(self) -> list[str]:
        """URLs of the siblings as known now."""
        return [
            f"{self._scheme}://{shown}:{endpoint.port}"
            for endpoint in self._endpoints
            for _, shown in self._names.addresses(endpoint)
        ]

    async def watch(self) -> None:
        """Look the names up, now and at intervals, until cancelled."""
        while True:
            await self._names.look_up(("sibling gateways", each) for each in self._endpoints)
            await asyncio.sleep(RESOLVE_S)


class NameResolver:
    """Resolver of replicas' host names; a name may have several addresses, which may change.

    Args:
        healthy: leaves out replicas of a stage whose own health checks failed; None to leave out none.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Sequence[Endpoint]],
        control: Control,
        healthy: Callable[[str, Sequence[Replica]], Awaitable[list[Replica]]] | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._control = control
        self._healthy = healthy
        self._names = HostNames()

    async def resolve(self) -> dict[str, list[Replica]]:
        """Look up every name and check health once; a name that is not found keeps its known addresses.

        Returns:
            Replicas by stage.
        """
        await self._names.look_up(
            (f"stage {stage!r}", each) for stage, those in self._endpoints.items() for each in those
        )
        current = {
            # Two names may have the same address.
            stage: list(dict.fromkeys(one for endpoint in those for one in self._replicas(endpoint)))[
                :MAX_REPLICAS
            ]
            for stage, those in self._endpoints.items()
        }
        if self._healthy is not None:
            checks = (self._healthy(stage, those) for stage, those in current.items())
            current = dict(zip(current, await asyncio.gather(*checks), strict=True))
        self._control.set_replicas(current)
        return current

    async def watch(self) -> None:
        """Look up the names at intervals until cancelled."""
        while True:
            await asyncio.sleep(RESOLVE_S)
            await self.resolve()

    def _replicas(self, endpoint: Endpoint) -> list[Replica]:
        _, port, scheme = endpoint
        return [
            Replica(id=f"{shown}:{port}", node=address, address=f"{scheme}://{shown}:{port}")
            for address, shown in self._names.addresses(endpoint)
        ]


async def _addresses(host: str, port: int) -> list[str]:
    """Addresses of a name, in order; looked up by a thread of its own, for which no process waits."""
    found: list[str] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failed.append(error)
        else:
            found.extend(sorted({str(address[0]) for *_, address in answers})[:MAX_REPLICAS])

    await in_thread(look_up, name="kwiken-names")
    if failed:
        raise failed.pop()
    return found
