"""TLS: certificates from files, followed as the files change, for servers, clients and gateways' peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.wire.tls.certificates import Certificates as Certificates
    from kwiken.runtime.wire.tls.clients import (
        ClientTls as ClientTls,
        client_variables as client_variables,
    )
    from kwiken.runtime.wire.tls.files import (
        TlsFiles as TlsFiles,
        keep_looking as keep_looking,
        stamps_of as stamps_of,
    )
    from kwiken.runtime.wire.tls.handshakes import (
        HANDSHAKE_S as HANDSHAKE_S,
        MAX_HANDSHAKES as MAX_HANDSHAKES,
        is_tls as is_tls,
        why_no_tls as why_no_tls,
    )
    from kwiken.runtime.wire.tls.outside import OutsideTls as OutsideTls

__getattr__ = lazy_names(__name__, __file__)
