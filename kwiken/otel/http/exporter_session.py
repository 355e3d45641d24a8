"""HTTP session for the exporters of the OpenTelemetry SDK, whose answers have bounds."""

from __future__ import annotations

from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import HTTPResponse

from kwiken.otel.http.bounded_answers import COLLECTOR, bounded_by


class _Bounded(HTTPConnection):
    """Connection of either kind whose answers are bounded and stay as sent.

    Unpacked, a few bytes could become gigabytes.
    """

    def response_class(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]
        """Answer that the connection reads next."""
        return bounded_by(COLLECTOR)(*args, **more)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3's own
        """Answer to the request that was sent last."""
        answer = super().getresponse()
        answer.headers.discard("content-encoding")
        return answer


class _BoundedSecure(_Bounded, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Bounded


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _BoundedSecure


_POOLS: Final = {"http": _Pool, "https": _SecurePool}


class _Adapter(HTTPAdapter):
    """Adapter whose connections, direct or by a proxy of the environment, bound their answers."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        self.poolmanager: PoolManager
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **more: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(proxy, **more)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def collector_session() -> requests.Session:
    """Session for `OTLPSpanExporter` and `OTLPMetricExporter`; an answer beyond `COLLECTOR` is an error."""
    session = requests.Session()
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session
