"""Certificates of clients of a gateway's front door, which variables of the environment name."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

from kwiken.base.errors import InputError
from kwiken.runtime.wire.tls.certificates import Certificates, trust
from kwiken.runtime.wire.tls.files import TlsFiles, read_pem

CERTIFICATE: Final = "KWIKEN_TLS_CERT"
KEY: Final = "KWIKEN_TLS_KEY"
AUTHORITIES: Final = "KWIKEN_TLS_CA"


class ClientTls:
    """Certificate of a client of gateways over TLS, and the authorities that the client trusts.

    With authorities, a gateway's certificate must be of them and hold the host name that is called. Without,
    it must be the client's own certificate, which gateways of one service share. With nothing, the
    system's authorities count.

    Args:
        kind: class of the contexts, as of `Certificates`.

    Raises:
        InputError: a file cannot be used, or only one of certificate and key is named.
    """

    def __init__(
        self, variables: Mapping[str, str] = os.environ, *, kind: type[ssl.SSLContext] = ssl.SSLContext
    ) -> None:
        certificate, key, authorities = (
            variables.get(name) or None for name in (CERTIFICATE, KEY, AUTHORITIES)
        )
        self._own: Certificates | None = None
        self._by_authorities = authorities is not None
        if certificate is not None and key is not None:
            files = TlsFiles(certificate=certificate, key=key, authorities=authorities)
            self._own = Certificates(files, kind=kind)
        elif certificate is not None or key is not None:
            raise InputError(f"{CERTIFICATE} and {KEY} go together", where="environment")
        self._authorities = read_pem(authorities) if authorities is not None else None
        self._plain = kind(ssl.PROTOCOL_TLS_CLIENT)
        if authorities is None or self._authorities is None:
            self._plain.load_default_certs()
        else:
            trust(self._plain, self._authorities, authorities)

    def context(self) -> ssl.SSLContext:
        """Context of the next connection; files that have changed are read again."""
        if self._own is None:
            return self._plain
        self._own.refresh()
        return self._own.client if self._by_authorities else self._own.peer

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Authorities, key and certificate as PEM, for gRPC's core; None for the system's, and for none.

        Raises:
            InputError: there is a certificate and no authorities, and gRPC's core compares no certificates.
        """
        if self._own is None:
            return self._authorities, None, None
        if not self._by_authorities:
            raise InputError(f"{AUTHORITIES} must name the authorities of the server", where="environment")
        certificate, key, authorities = self._own.pem
        return authorities, key, certificate


def client_variables(files: TlsFiles) -> dict[str, str]:
    """Variables for a client beside a gateway, which shows and expects the gateway's own certificate."""
    return {CERTIFICATE: files.certificate, KEY: files.key, AUTHORITIES: ""}
