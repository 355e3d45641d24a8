"""Credentials of gRPC's core, from certificates that may be replaced while a server runs."""

from __future__ import annotations

from typing import Any

import grpc

from kwiken.runtime.wire.tls.certificates import Certificates


def server_credentials(certificates: Certificates) -> Any:
    """Credentials of a server; each new connection gets the certificate that is in force then.

    gRPC's core asks for the certificate from threads of its own, before each handshake.
    """
    seen = certificates.version

    def fetch() -> Any:
        nonlocal seen
        if certificates.version == seen:
            return None  # as before
        seen = certificates.version
        return _configuration(certificates)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(certificates),
        fetch,
        require_client_authentication=certificates.files.authorities is not None,
    )


def _configuration(certificates: Certificates) -> Any:
    certificate, key, authorities = certificates.pem
    return grpc.ssl_server_certificate_configuration(((key, certificate),), root_certificates=authorities)
