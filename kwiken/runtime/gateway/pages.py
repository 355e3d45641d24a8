"""Pages of a gateway: the service's own page, the live page with its data, and the metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from kwiken.base.errors import InputError
from kwiken.otel.metrics.model import Family
from kwiken.otel.metrics.several import by_gateway, families_from_bytes, families_to_bytes
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.siblings import SiblingAnswers, is_alone
from kwiken.runtime.gateway.live_page.merged import merged_view
from kwiken.runtime.gateway.live_page.page import LivePage
from kwiken.runtime.metrics.page import METRICS_PATH, MetricsPage
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.msgpack_work import decodable

MAX_LISTS: Final = 1_000_000  # in the metrics of a sibling: a stage takes about 150
MAX_DIGITS: Final = 15  # of a number in a query


class Pages:
    """Routes that show something and change nothing.

    Args:
        own: the service's page; None for none.
        control: control of the gateway, which knows its siblings.
        name: name of this gateway, by which its metrics are told from theirs.
    """

    def __init__(
        self, own: str | None, live: LivePage, metrics: MetricsPage, control: Control, name: str
    ) -> None:
        self._own = own
        self._control = control
        self._name = name
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
        """Data of the live page that it does not have yet, of all gateways.

        Raises:
            InputError: `samples_after` or `slow_after` in the query is no whole number.
        """
        query = request.rel_url.query
        after = _number_of(query, "samples_after")
        own = self._live.view(samples_after=after, slow_after=_number_of(query, "slow_after"))
        own["gateway"] = self._name
        if not self._control.siblings.any or is_alone(query):
            return own
        answers = await self._control.siblings.ask("/v1/live", samples_after=str(after))
        others, silent = answers.documents(own["service"], lambda one: merged_view(own, [one]))
        return merged_view(own, others) | {"gateways_silent": silent}

    async def metrics(self, request: web.BaseRequest) -> web.Response:
        """Answer with the present metrics, in the format that the client accepts.

        Those of all gateways, told apart by a label; of this one alone, without the label, if told so.
        """
        siblings, accept = self._control.siblings, request.headers.get("Accept", "")
        alone = is_alone(request.rel_url.query)
        if alone and accept == wire.MSGPACK:
            return web.Response(
                body=families_to_bytes(await self._metrics.families()),
                content_type=wire.MSGPACK,
            )
        families = None
        if siblings.any and not alone:
            own = await self._metrics.families()
            answers = await siblings.ask(METRICS_PATH, accept=wire.MSGPACK)
            families = by_gateway({self._name: own, **await _readable(answers)})
        body, headers = await self._metrics.text(accept, request.headers.get("Accept-Encoding", ""), families)
        return web.Response(body=body, headers=headers)


async def _readable(answers: SiblingAnswers) -> dict[str, list[Family]]:
    """Metrics of the siblings, by name; those that cannot be read are left out."""
    found: dict[str, list[Family]] = {}
    for name, body in answers.named():
        with contextlib.suppress(msgspec.MsgspecError, InputError):
            found[name] = families_from_bytes(await decodable(body, MAX_LISTS))
    return found


def _number_of(query: Mapping[str, str], name: str) -> int:
    """Number in a query; 0 without one."""
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise InputError("must be a whole number", where=name)
    return int(text)
