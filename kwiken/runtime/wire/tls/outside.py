"""TLS of calls to a foreign service, with authorities and a certificate of its own definition."""

from __future__ import annotations

import logging
import ssl
import time

from kwiken.base.errors import InputError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.tls.certificates import show, trust
from kwiken.runtime.wire.tls.files import POLL_S, read_key, read_pem, stamps_of

LOG = logging.getLogger("kwiken.tls")
Pem = tuple[bytes | None, bytes | None, bytes | None]


class OutsideTls:
    """Whose certificates a foreign service may show, and which one is shown to it.

    Files are looked at before a new connection, every two seconds at most, and read again if they have
    changed; ones that cannot be used change nothing, and are logged once.

    Args:
        name: host name that the service's certificates must hold.
        authorities: file with the authorities of the service, as PEM; None for the system's.
        certificate: file with the certificate to show, as PEM; None for none.
        key: file with its key, not encrypted; None without a certificate.

    Attributes:
        version: number of times that the files were read with success, 1 or more.

    Raises:
        InputError: a file cannot be used; names the file.
    """

    def __init__(
        self, name: str, *, authorities: str | None, certificate: str | None, key: str | None
    ) -> None:
        self.name = name
        self.version = 1
        self._authorities, self._certificate, self._key = authorities, certificate, key
        self._paths = [path for path in (authorities, certificate, key) if path is not None]
        self._seen, self._looked = stamps_of(self._paths), time.monotonic()
        self._context, self._pem = self._made()

    @property
    def client(self) -> ssl.SSLContext:
        """Context of the next connection."""
        self.refresh()
        return self._context

    @property
    def pem(self) -> Pem:
        """Authorities, key and certificate as PEM, for gRPC's core; None for the system's, and for none."""
        return self._pem

    def refresh(self) -> None:
        """Look at the files, and read them if they have changed."""
        now = time.monotonic()
        if not self._paths or now - self._looked < POLL_S:
            return
        self._looked = now
        seen = stamps_of(self._paths)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._context, self._pem = self._made()
        except InputError as error:
            LOG.error(  # noqa: TRY400 - the reason says all
                "the certificates for calls of %s stay, because the new files cannot be used: %s",
                self.name,
                error,
                extra=about(Event.CERTIFICATE_REFUSED),
            )
        else:
            self.version += 1

    def _made(self) -> tuple[ssl.SSLContext, Pem]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        authorities = certificate = key = None
        if self._authorities is None:
            context.load_default_certs()
        else:
            authorities = read_pem(self._authorities)
            trust(context, authorities, self._authorities)
        if self._certificate is not None and self._key is not None:
            certificate, key = read_pem(self._certificate), read_key(self._key)
            show(context, self._certificate, self._key)
        return context, (authorities, key, certificate)
