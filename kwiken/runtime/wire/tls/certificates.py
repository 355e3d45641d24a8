"""Certificates in force: contexts of TLS, made anew when their files change.

Connections that are open go on with the context that they began with. A file that cannot be used keeps the
contexts as they are, and is logged once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.tls.files import (
    Stamps,
    TlsFiles,
    expiry_s,
    keep_looking,
    read_key,
    read_pem,
    stamps_of,
)

LOG = logging.getLogger("kwiken.tls")
DAY_S: Final = 86_400.0
WARN_DAYS: Final = 14  # before the end of a certificate


@dataclass(frozen=True)
class _InForce:
    """What was made of the files at one moment.

    Attributes:
        server: context of connections that clients open to this side.
        client: context of connections that this side opens to servers of the authorities.
        peer: context of connections to servers that show this side's own certificate, or the one before.
    """

    server: ssl.SSLContext
    client: ssl.SSLContext
    peer: ssl.SSLContext
    certificate: bytes
    key: bytes
    authorities: bytes | None


class Certificates:
    """Certificates of one side, as its files were when they were last read.

    Args:
        kind: class of the contexts; another than the system's own for sockets of another kind.
        now: clock of the certificates' ends, seconds since 1970.

    Attributes:
        version: number of times that the files were read with success, 1 or more.

    Raises:
        InputError: a file cannot be used; names the file.
    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        kind: type[ssl.SSLContext] = ssl.SSLContext,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.files = files
        self.version = 1
        self._kind = kind
        self._seen = stamps_of(files.paths)
        self._in_force = _made(files, b"", kind)
        self._tried = self._seen
        self._now = now
        self._warned_days: float = WARN_DAYS
        self._warn()

    @property
    def days_left(self) -> float:
        """Days until the certificate in force expires; below 0 if it has expired."""
        return (expiry_s(self._in_force.certificate) - self._now()) / DAY_S

    @property
    def name(self) -> str | None:
        """Host name that certificates of servers must hold; None for the address that is called."""
        return self.files.name

    @property
    def server(self) -> ssl.SSLContext:
        """Context for the next connection that a client opens."""
        return self._in_force.server

    @property
    def client(self) -> ssl.SSLContext:
        """Context for the next connection to a server whose certificate is of the authorities."""
        return self._in_force.client

    @property
    def peer(self) -> ssl.SSLContext:
        """Context for the next connection to a server that shows this side's own certificate.

        So it is among the gateways of one service. Their addresses may be those of machines that come and
        go, which no certificate holds, so the name is not compared: the certificate itself is.
        """
        return self._in_force.peer

    @property
    def pem(self) -> tuple[bytes, bytes, bytes | None]:
        """Certificate, key and authorities as PEM, for gRPC's core."""
        return self._in_force.certificate, self._in_force.key, self._in_force.authorities

    def refresh(self) -> bool:
        """Look at the files, and read them if they have changed; returns whether others are in force now."""
        self._warn()
        seen = stamps_of(self.files.paths)
        if seen in {self._seen, self._tried}:
            return False
        try:
            fresh = _made(self.files, self._in_force.certificate, self._kind)
        except InputError as error:
            return self._keep(seen, str(error))
        if expiry_s(fresh.certificate) <= self._now() and self.days_left > 0:
            return self._keep(seen, f"{self.files.certificate}: has expired, and the one in force has not")
        if stamps_of(self.files.paths) != seen:
            return False  # they are being written: the next look decides
        self._in_force = fresh
        self._seen = self._tried = seen
        self.version += 1
        self._warned_days = WARN_DAYS
        LOG.warning(
            "new connections use the certificate that %s holds now",
            self.files.certificate,
            extra=about(Event.CERTIFICATE_READ),
        )
        return True

    def _warn(self) -> None:
        """Warn of the end of the certificate in force, once a day in its last days."""
        days = math.floor(self.days_left)
        if days >= self._warned_days:
            return
        self._warned_days = days
        LOG.warning(
            "the certificate %s %s",
            self.files.certificate,
            "has expired" if days < 0 else f"expires in {days} to {days + 1} days",
            extra=about(Event.CERTIFICATE_EXPIRES),
        )

    def _keep(self, seen: Stamps, reason: str) -> bool:
        self._tried = seen
        LOG.error(
            "the certificate in force stays, because the new files cannot be used: %s",
            reason,
            extra=about(Event.CERTIFICATE_REFUSED),
        )
        return False

    async def watch(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look at the files at intervals, until cancelled.

        Args:
            sleep: waits for a number of seconds.
        """
        await keep_looking(self.refresh, sleep)


def _made(files: TlsFiles, before: bytes, kind: type[ssl.SSLContext]) -> _InForce:
    """Read the files.

    Args:
        before: certificates that were in force until now, as PEM, which peers may still show.

    Raises:
        InputError: a file cannot be used; names the file.
    """
    certificate, key = read_pem(files.certificate), read_key(files.key)
    authorities = read_pem(files.authorities) if files.authorities is not None else None
    server = kind(ssl.PROTOCOL_TLS_SERVER)
    client = kind(ssl.PROTOCOL_TLS_CLIENT)
    peer = kind(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client, peer):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        show(context, files.certificate, files.key)
    if authorities is None:
        client.load_default_certs()
    else:
        for context in (server, client):
            trust(context, authorities, str(files.authorities))
        server.verify_mode = ssl.CERT_REQUIRED
    peer.check_hostname = False
    peer.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is what is trusted
    trust(peer, _first(certificate) + _first(before), files.certificate)
    return _InForce(server, client, peer, certificate, key, authorities)


def _first(pem: bytes) -> bytes:
    """Certificate of this side alone, without those of the authorities that follow."""
    end = b"-----END CERTIFICATE-----"
    before, found, _ = pem.partition(end)
    return before + found + b"\n" if found else b""


def show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Show a certificate to the other side.

    Raises:
        InputError: they do not go together; names the file.
    """
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"is no certificate of the key in {key}: {reason.lower().replace('_', ' ')}",
            where=certificate,
        ) from error


def trust(context: ssl.SSLContext, pem: bytes, path: str) -> None:
    """Take certificates of the other side that these have signed.

    Args:
        pem: certificates of authorities, as PEM.
        path: file that they were read from, for errors.

    Raises:
        InputError: they cannot be read; names the file.
    """
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (OSError, ValueError) as error:
        raise InputError("holds no certificate that can be read", where=path) from error
