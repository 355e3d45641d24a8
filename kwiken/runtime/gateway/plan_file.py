"""What a gateway watches: the plan's file, and the addresses behind its replicas' host names."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kwiken.errors import InputError, KwikenError
from kwiken.runtime.files import read_file
from kwiken.runtime.gateway.control import Control
from kwiken.runtime.gateway.plan_store import PlanStore
from kwiken.runtime.transport import Replica

LOG = logging.getLogger("kwiken.gateway")
POLL_S: Final = 0.5
RESOLVE_S: Final = 5.0
LOOKUP_S: Final = 3.0
MAX_PLAN: Final = 16 << 20
MAX_PORT: Final = 65_535
_PORT = re.compile(r"[0-9]{1,5}")


class PlanFile:
    """A file whose plan is in force; read again whenever it changes.

    Args:
        path: the file.
        control: puts the plan in force.

    Attributes:
        seen: when the file was last changed as it was read, and more that tells its versions apart.
        error: what is wrong with the file since then; None for nothing.
    """

    def __init__(self, path: Path, control: Control) -> None:
        self._path = path
        self._control = control
        self.seen: tuple[int, int, int] | None = None
        self.error: str | None = None

    def load(self) -> None:
        """Read the file and put its plan in force.

        Raises:
            InputError, DefinitionError: names the file; the plan in force stays.
        """
        self.seen = self._stamp()
        if self.seen is None:
            raise InputError("there is no such file", where=str(self._path))
        try:
            text = read_file(self._path, MAX_PLAN)
        except OSError as error:
            raise InputError(str(error.strerror), where=str(self._path)) from error
        self._control.apply(text, where=str(self._path))

    def resume(self, kept: PlanStore) -> None:
        """Go on with the plan that another gateway had in force, or the file's if it was changed since.

        A gateway that takes over has to serve: what is wrong with either is logged, and the other one counts.

        Args:
            kept: what the other gateway noted.
        """
        note = kept.read()
        if note is None or note.stamp != self._stamp():
            if self._load():
                return
        else:
            self.seen = note.stamp
        if note is not None:
            kept.restore(note, self._control.apply)

    def _load(self) -> bool:
        """Read the file as far as it is good; a bad plan is logged, and the old one stays."""
        try:
            self.load()
        except KwikenError as error:
            self.error = str(error)
            LOG.error("bad plan, the old one stays: %s", error)  # noqa: TRY400 - an input's fault has no trace
            return False
        self.error = None
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - of a path read twice a second
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    async def watch(self) -> None:
        """Follow the file for ever; a bad plan is logged, and the old one stays."""
        while True:
            await asyncio.sleep(POLL_S)
            stamp = self._stamp()
            if stamp is None or stamp == self.seen:
                continue
            if self._load():
                LOG.warning("plan read again from %s", self._path)


def parse_endpoint(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host stands in brackets.

    Args:
        text: as it was given.

    Raises:
        InputError: when it is anything else.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and _PORT.fullmatch(port) and 0 < int(port) <= MAX_PORT):
        raise InputError("must be HOST:PORT, for example 127.0.0.1:9001", where=repr(text))
    return host, int(port)


class Names:
    """Replicas behind host names; a name may stand for several addresses, which come and go.

    Args:
        endpoints: by stage, host and port.
        control: is told the replicas.
    """

    def __init__(self, endpoints: Mapping[str, Sequence[tuple[str, int]]], control: Control) -> None:
        self._endpoints = endpoints
        self._control = control
        self._known: dict[tuple[str, int], list[str]] = {}

    async def resolve(self) -> None:
        """Look every name up once; a name that cannot be found keeps the addresses that it had."""
        wanted = {endpoint for those in self._endpoints.values() for endpoint in those}
        await asyncio.gather(*(self._look_up(*endpoint) for endpoint in wanted))
        current = {
            # Two names may stand for the same address.
            stage: list(dict.fromkeys(one for endpoint in those for one in self._replicas(*endpoint)))
            for stage, those in self._endpoints.items()
        }
        self._control.set_replicas(current)

    async def watch(self) -> None:
        """Look the names up again and again."""
        while True:
            await asyncio.sleep(RESOLVE_S)
            await self.resolve()

    async def _look_up(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LOOKUP_S):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError) as error:  # the last for what cannot be a host's name
            if (host, port) not in self._known:
                LOG.warning("cannot look up %s: %s", host, error or type(error).__name__)
            return
        self._known[host, port] = sorted({str(address[0]) for *_, address in found})

    def _replicas(self, host: str, port: int) -> list[Replica]:
        out = []
        for address in self._known.get((host, port), ()):
            shown = f"[{address}]" if ":" in address else address
            out.append(Replica(id=f"{shown}:{port}", node=address, address=f"http://{shown}:{port}"))
        return out
