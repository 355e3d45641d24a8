"""Sibling gateways: the others of one service, asked so that each can tell of all.

A gateway asks its siblings for what each knows alone, by the query `alone=1`, which is answered without
asking further. A sibling that does not answer is left out, and named.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from kwiken.runtime.gateway.control.failed_connections import explained
from kwiken.runtime.wire.tls.certificates import Certificates

ALONE: Final = "alone"  # query of a request that a sibling sends
INSTANCE: Final = "kw-gateway-instance"  # header by which a gateway recognises itself among the addresses
GATEWAY_NAME: Final = "kw-gateway"  # header with the name of the gateway that answers
TIMEOUT_S: Final = 2.0
MAX_ANSWER: Final = 64 << 20  # bytes


class SiblingAnswers(NamedTuple):
    """Answers of the siblings.

    Attributes:
        bodies: body of each answer, in the order of the addresses.
        names: name of each gateway that answered, empty where it told none.
        silent: addresses of those that did not answer, or refused, with the reason.
    """

    bodies: list[bytes]
    names: list[str]
    silent: list[str]

    def named(self) -> Iterator[tuple[str, bytes]]:
        """Name of each gateway that answered, and the body of its answer."""
        return zip(self.names, self.bodies, strict=True)

    def documents(self, service: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Answers in JSON of the gateways of a service, and those that told nothing of it, with the reason.

        Args:
            service: name of the service; a gateway of another one must not be added to these.
        """
        found, silent = [], list(self.silent)
        for name, body in self.named():
            document = msgspec.json.decode(body, type=dict[str, Any])
            if document.get("service") == service:
                found.append(document)
            else:
                silent.append(f"{name or 'a gateway'}: serves {document.get('service')!r}, not {service!r}")
        return found, silent


class Siblings:
    """The other gateways of a service.

    Args:
        addresses: function that returns their URLs as known now; this gateway's own may be among them.
        token: token of the control routes; None for none.
        tls: certificates of this gateway, which siblings show too; None for calls without TLS.
    """

    def __init__(
        self, addresses: Callable[[], Sequence[str]], token: str | None, *, tls: Certificates | None = None
    ) -> None:
        self._addresses = addresses
        self._tls = tls
        self._headers: dict[str, str] = {}
        self.take_token(token)
        self._session: aiohttp.ClientSession | None = None
        self.instance = secrets.token_hex(8)

    def take_token(self, token: str | None) -> None:
        """Send another token from now on; None for none."""
        # Under this name a gateway answers whatever its rules on host names are.
        self._headers = {"Host": "localhost"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    @property
    def any(self) -> bool:
        """Whether there may be others."""
        return bool(self._addresses())

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        accept: str = "*/*",
        **query: str,
    ) -> SiblingAnswers:
        """Send a request to every sibling at once.

        Args:
            body: JSON; None for no body.
            accept: type of the answer that is asked for.
            query: further parts of the query, beside `alone`.
        """
        addresses = list(dict.fromkeys(self._addresses()))
        found = await asyncio.gather(
            *(
                self._one(url + path, method, body, query | {ALONE: "1"}, {"Accept": accept})
                for url in addresses
            )
        )
        answered = [answer for answer in found if isinstance(answer, tuple)]
        return SiblingAnswers(
            [body for _, body in answered],
            [name for name, _ in answered],
            [
                f"{url}: {answer}"
                for url, answer in zip(addresses, found, strict=True)
                if isinstance(answer, str)
            ],
        )

    async def _one(
        self, url: str, method: str, body: bytes | None, query: dict[str, str], headers: dict[str, str]
    ) -> tuple[str, bytes] | str | None:
        """Gateway and body of an answer, the reason why there is none, or None for this gateway itself."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        try:
            async with self._session.request(
                method,
                url,
                params=query,
                data=body,
                headers=self._headers | headers,
                ssl=self._tls.peer if self._tls is not None else True,
            ) as answer:
                if answer.headers.get(INSTANCE) == self.instance:
                    return None
                if INSTANCE not in answer.headers:
                    return f"answered {answer.status}, and is no gateway of kwiken"
                text = await whole_body(answer, MAX_ANSWER)
                if not answer.ok:
                    return f"answered {answer.status}"
                return answer.headers.get(GATEWAY_NAME, ""), text
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return explained(url, error, cure=False)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


async def whole_body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Body of an answer to its end.

    Args:
        most: length of the longest body that is read, bytes.

    Raises:
        ValueError: it is longer.
    """
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > most:
            raise ValueError(f"the answer is longer than {most} bytes")
    return bytes(body)


NO_SIBLINGS: Final = Siblings(lambda: (), None)


def is_alone(query: Any) -> bool:
    """Whether a request is a sibling's, which wants what this gateway knows alone."""
    return bool(query.get(ALONE) == "1")
