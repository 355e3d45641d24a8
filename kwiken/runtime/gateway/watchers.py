"""Watchers of a gateway: the plan's source file, other gateways' plan, addresses of replicas' host names."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kwiken.errors import InputError, KwikenError
from kwiken.runtime.files import read_file
from kwiken.runtime.gateway.control import Control
from kwiken.runtime.gateway.plan_store import PlanStore, stamp_of
from kwiken.runtime.log_events import Event, about
from kwiken.runtime.transport import Replica, wire

LOG = logging.getLogger("kwiken.gateway")
POLL_S: Final = 0.5  # interval of looks at the file
RESOLVE_S: Final = 5.0  # interval of name lookups
LOOKUP_S: Final = 3.0  # timeout of one lookup
MAX_PLAN: Final = 16 << 20  # bytes
MAX_PORT: Final = 65_535
_PORT = re.compile(r"[0-9]{1,5}")


class PlanFile:
    """File whose plan is in force; read again whenever it changes.

    Args:
        path: path of the file.
        control: puts the plan in force.

    Attributes:
        seen: version of the file when it was last read: change time in nanoseconds, size, inode; None before.
        error: message about the last content if it was invalid; None otherwise.
    """

    def __init__(self, path: Path, control: Control) -> None:
        self._path = path
        self._control = control
        self.seen: tuple[int, int, int] | None = None
        self.error: str | None = None

    def load(self) -> None:
        """Read the file and put its plan in force.

        Raises:
            InputError, DefinitionError: the plan is missing or invalid; names the file. The old plan stays.
        """
        self.seen = stamp_of(self._path)
        if self.seen is None:
            raise InputError("there is no such file", where=str(self._path))
        try:
            text = read_file(self._path, MAX_PLAN)
        except OSError as error:
            raise InputError(str(error.strerror), where=str(self._path)) from error
        self._control.apply(text, where=str(self._path))

    def resume(self, kept: PlanStore) -> None:
        """Continue with the plan of another gateway, or with the file's plan if the file has changed since.

        A gateway that takes over has to serve: an error in either plan is logged, and the other one is used.

        Args:
            kept: store of the other gateway.
        """
        note = kept.read()
        if note is None or note.stamp != stamp_of(self._path):
            if self._load():
                return
        else:
            self.seen = note.stamp
        if note is not None:
            kept.restore(note, self._control.apply)

    def _load(self) -> bool:
        """Read the file; returns whether it was valid. An invalid plan is logged, and the old one stays."""
        try:
            self.load()
        except KwikenError as error:
            self.error = str(error)
            LOG.error(  # noqa: TRY400 - an input error needs no traceback
                "bad plan, the old one stays: %s", error, extra=about(Event.PLAN_REFUSED)
            )
            return False
        self.error = None
        return True

    async def watch(self) -> None:
        """Follow the file until cancelled; an invalid plan is logged, and the old one stays."""
        while True:
            await asyncio.sleep(POLL_S)
            stamp = stamp_of(self._path)
            if stamp is None or stamp == self.seen:
                continue
            if self._load():
                LOG.warning("plan read again from %s", self._path, extra=about(Event.PLAN_READ))


class SharedPlan:
    """Plan that several gateways share by the file in which each saves it; a change by one reaches all.

    Args:
        kept: file of all gateways.
        control: puts the plan in force here.
    """

    def __init__(self, kept: PlanStore, control: Control) -> None:
        self._kept = kept
        self._control = control

    async def watch(self) -> None:
        """Follow the file until cancelled. A file that is gone means that no plan could be saved: no plan."""
        seen = self._kept.stamp
        while True:
            await asyncio.sleep(POLL_S)
            stamp = self._kept.stamp
            if stamp == seen:
                continue
            seen = stamp
            note = self._kept.read()
            if note is not None:
                self._kept.restore(note, self._control.adopt)
            elif stamp is None:
                self._control.adopt(b"null", where=str(self._kept.path))


class Endpoint(NamedTuple):
    """Place of one or more replicas.

    Attributes:
        host: name or address; a name may have several addresses.
        port: port.
        scheme: protocol that the replicas speak, as in their addresses.
    """

    host: str
    port: int
    scheme: str = wire.HTTP


def parse_endpoint(text: str) -> Endpoint:
    """Parse `HOST:PORT`, or `grpc://HOST:PORT`; an IPv6 address stands in brackets.

    Args:
        text: text as given by the user.

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


class NameResolver:
    """Resolver of replicas' host names; a name may have several addresses, which may change.

    Args:
        endpoints: endpoints by stage.
        control: receives the replicas.
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
        self._known: dict[tuple[str, int], list[str]] = {}

    async def resolve(self) -> dict[str, list[Replica]]:
        """Look up every name and check health once; a name that is not found keeps its known addresses.

        Returns:
            Replicas by stage.
        """
        wanted = {endpoint[:2] for those in self._endpoints.values() for endpoint in those}
        await asyncio.gather(*(self._look_up(*endpoint) for endpoint in wanted))
        current = {
            # Two names may have the same address.
            stage: list(dict.fromkeys(one for endpoint in those for one in self._replicas(endpoint)))
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

    async def _look_up(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LOOKUP_S):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (
            OSError,
            TimeoutError,
            UnicodeError,
        ) as error:  # UnicodeError: text that cannot be a host name
            if (host, port) not in self._known:
                LOG.warning(
                    "cannot look up %s: %s",
                    host,
                    error or type(error).__name__,
                    extra=about(Event.NAME_NOT_FOUND),
                )
            return
        self._known[host, port] = sorted({str(address[0]) for *_, address in found})

    def _replicas(self, endpoint: Endpoint) -> list[Replica]:
        host, port, scheme = endpoint
        out = []
        for address in self._known.get((host, port), ()):
            shown = f"[{address}]" if ":" in address else address
            out.append(Replica(id=f"{shown}:{port}", node=address, address=f"{scheme}://{shown}:{port}"))
        return out
