"""Hedged requests of an HTTPX client: a transport around another one."""

from __future__ import annotations

from httpx import AsyncBaseTransport, AsyncByteStream, AsyncHTTPTransport, ByteStream, Request, Response

from kwiken.hedge.hedger import Hedger
from kwiken.hedge.routes import Routes, is_answer


class HedgedTransport(AsyncBaseTransport):
    """Transport of an `httpx.AsyncClient`, with copies by a plan.

    Requests that are no stage's, that write, or whose body cannot be sent twice, go out as they are. The race
    is for the head of the response; its body is then read from the winner.

    Args:
        inner: transport that sends the requests; None for HTTPX's own. It is closed with this one.

    Raises:
        InputError: no stage of the plan denotes a call.
    """

    def __init__(self, hedger: Hedger, inner: AsyncBaseTransport | None = None) -> None:
        self._hedger = hedger
        self._routes = Routes(lambda: hedger.plan)
        self._inner = inner or AsyncHTTPTransport()

    async def handle_async_request(self, request: Request) -> Response:
        """Send a request, hedged if it is a stage's."""
        found = self._routes.find(request.method.upper(), request.url.path, request.url.host)
        if found is None:
            return await self._inner.handle_async_request(request)
        stage, read = found

        async def send(number: int) -> Response:  # noqa: ARG001 - the URL says where to
            return await self._inner.handle_async_request(request)

        return await self._hedger.call(
            stage,
            send,
            read=read and isinstance(request.stream, ByteStream),
            accept=lambda response: is_answer(response.status_code),
            discard=_close,
            body_bytes=int(request.headers.get("content-length", 0)),
        )

    async def aclose(self) -> None:
        """Close the transport around which this one is."""
        await self._inner.aclose()


async def _close(response: Response) -> None:
    if isinstance(response.stream, AsyncByteStream):
        await response.stream.aclose()
