"""Hedged requests of an aiohttp client session."""

from __future__ import annotations

from math import inf
from typing import Any

from aiohttp import ClientResponse, ClientSession
from yarl import URL

from kwiken.hedge.hedger import Hedger, Opened
from kwiken.hedge.routes import Routes, is_answer


class HedgedSession:
    """Requests of an aiohttp session, with copies by a plan. The session stays the caller's to close.

    Requests that are no stage's, that write, or whose body cannot be sent twice, go out as they are.

    Raises:
        InputError: no stage of the plan denotes a call.
    """

    def __init__(self, hedger: Hedger, session: ClientSession) -> None:
        self.session = session
        self._hedger = hedger
        self._routes = Routes(lambda: hedger.plan)

    def request(self, method: str, url: str | URL, **settings: Any) -> Opened[ClientResponse]:
        """Send a request, for `await` or `async with` as with aiohttp's own session.

        The race is for the head of the response; its body is then read from the winner.

        Args:
            url: URL; one that is relative to the session's base is recognised by its own path.
        """
        whole = URL(url)
        found = self._routes.find(method.upper(), whole.path, whole.host or "")
        if found is None:
            return Opened(self.session.request(method, url, **settings))
        stage, read = found
        resent = settings.get("data") is None or isinstance(settings["data"], bytes | str)
        body_bytes = 0
        if read and resent and self._hedger.max_body_bytes(stage) < inf:
            body_bytes = self._size(settings.get("data"), settings.get("json"))

        async def send(number: int) -> ClientResponse:  # noqa: ARG001 - the URL says where to
            return await self.session.request(method, url, **settings)

        return self._hedger.open(
            stage,
            send,
            read=read and resent,
            accept=lambda response: is_answer(response.status),
            body_bytes=body_bytes,
        )

    def _size(self, data: bytes | str | None, json: Any) -> int:
        """Size of a body as the session sends it, bytes."""
        if data is not None:
            return len(data if isinstance(data, bytes) else data.encode())
        return len(self.session.json_serialize(json).encode()) if json is not None else 0

    def get(self, url: str | URL, **settings: Any) -> Opened[ClientResponse]:
        """Send a GET request, as `request` does."""
        return self.request("GET", url, **settings)

    def post(self, url: str | URL, **settings: Any) -> Opened[ClientResponse]:
        """Send a POST request, as `request` does: without copies, unless the plan says that it reads."""
        return self.request("POST", url, **settings)
