"""Hedging around any coroutine: the race and the ledger of the runtime, without a gateway.

Names load on first use: a client library is imported by the adapter that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.hedge.aiohttp_session import HedgedSession as HedgedSession
    from kwiken.hedge.grpc_interceptor import HedgedUnaryCalls as HedgedUnaryCalls
    from kwiken.hedge.hedger import Hedger as Hedger
    from kwiken.hedge.httpx_transport import HedgedTransport as HedgedTransport
    from kwiken.hedge.shared_ledger import HedgeCounts as HedgeCounts

__getattr__ = lazy_names(__name__, __file__)
