"""Pages of a gateway: the service's own page, the live page with its data, and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from kwiken.base.errors import InputError
from kwiken.runtime.gateway.live_page import LivePage
from kwiken.runtime.metrics import MetricsPage

MAX_DIGITS: Final = 15  # of a number in a query


class Pages:
    """Routes that show something and change nothing.

    Args:
        own: the service's page; None for none.
    """

    def __init__(self, own: str | None, live: LivePage, metrics: MetricsPage) -> None:
        self._own = own
        self._live = live
        self._metrics = metrics

    async def own(self, request: web.BaseRequest) -> web.Response:
        """Answer with the service's page; a service without one leads to the live page."""
        del request
        if self._own is None:
            # Relative, so that it holds behind a proxy that adds a path; temporary, because a page may come.
            return web.Response(status=307, headers={"Location": "kwiken"})
        return web.Response(
            text=self._own, content_type="text/html", headers={"X-Content-Type-Options": "nosniff"}
        )

    async def live(self, request: web.BaseRequest) -> web.Response:
        """Answer with the live page, which asks for its data itself."""
        del request
        return web.Response(
            text=self._live.html(),
            content_type="text/html",
            headers={"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"},
        )

    async def live_data(self, request: web.BaseRequest) -> dict[str, Any]:
        """Data of the live page that it does not have yet.

        Raises:
            InputError: `samples_after` or `slow_after` in the query is no whole number.
        """
        query = request.rel_url.query
        return self._live.view(
            samples_after=_number_of(query, "samples_after"), slow_after=_number_of(query, "slow_after")
        )

    async def metrics(self, request: web.BaseRequest) -> web.Response:
        """Answer with the present metrics, in the format that the client accepts."""
        body, headers = await self._metrics.text(
            request.headers.get("Accept", ""), request.headers.get("Accept-Encoding", "")
        )
        return web.Response(body=body, headers=headers)


def _number_of(query: Mapping[str, str], name: str) -> int:
    """Number in a query; 0 without one."""
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise InputError("must be a whole number", where=name)
    return int(text)
