"""Sibling gateways: the others of one service, asked so that each can tell of all.

A gateway asks its siblings for what each knows alone, by the query `alone=1`, which is answered without
asking further. A sibling that does not answer is left out, and named.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from kwiken.runtime.gateway.control.failed_connections import explained
from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.foreign.http_connection import NoConnectionError, UnreadReplyError, request_bytes
from kwiken.runtime.wire.foreign.http_pool import Pool
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.json_work import excess_work

ALONE: Final = "alone"  # query of a request that a sibling sends
INSTANCE: Final = "kw-gateway-instance"  # header by which a gateway recognises itself among the addresses
GATEWAY_NAME: Final = "kw-gateway"  # header with the name of the gateway that answers
TIMEOUT_S: Final = 2.0
IDLE_S: Final = 10.0  # for which a connection is kept, longer than the rounds of the exchange are apart
MAX_ANSWER: Final = 64 << 20  # bytes
MAX_NAME: Final = 200  # characters of another service's name in a message
MAX_REASON: Final = 500  # characters
OK: Final = 200


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

    def documents(
        self, service: str, merge: Callable[[dict[str, Any]], object]
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Answers in JSON of the gateways of a service, and those that told nothing of it, with the reason.

        Args:
            service: name of the service; a gateway of another one must not be added to these.
            merge: adds an answer to the own one, as a trial: a gateway of another version may have others.
        """
        found, silent = [], list(self.silent)
        for name, body in self.named():
            try:
                if (excess := excess_work(body)) is not None:
                    raise ValueError(excess)  # noqa: TRY301 - reported like the decoder's own
                document = msgspec.json.decode(body, type=dict[str, Any])
                if (other := document.get("service")) != service:
                    raise ValueError(f"serves {repr(other)[:MAX_NAME]}, not {service!r}")  # noqa: TRY301
                merge(document)
            except (
                msgspec.MsgspecError,
                ArithmeticError,
                AttributeError,
                LookupError,
                RecursionError,
                TypeError,
                ValueError,
            ) as error:
                reason = (
                    str(error)
                    if isinstance(error, ValueError | msgspec.MsgspecError)
                    else f"has other figures: {error!r}"
                )
                silent.append(f"{name or 'a gateway'}: {reason[:MAX_REASON]}")
            else:
                found.append(document)
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
        self._pool: Pool | None = None
        self.instance = secrets.token_hex(8)

    def take_token(self, token: str | None) -> None:
        """Send another token from now on; None for none."""
        # Under this name a gateway answers whatever its rules on host names are.
        self._headers = {"host": "localhost", "content-type": wire.JSON}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"

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
                self._one(url, method, f"{path}?{urlencode(query | {ALONE: '1'})}", body or b"", accept)
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
        self, url: str, method: str, target: str, body: bytes, accept: str
    ) -> tuple[str, bytes] | str | None:
        """Gateway and body of an answer, the reason why there is none, or None for this gateway itself."""
        if self._pool is None:
            tls = self._tls
            context = None if tls is None else lambda: tls.peer
            self._pool = Pool(max_body=MAX_ANSWER, idle_s=IDLE_S, tls=context)
        parts = urlsplit(url)
        try:
            request = request_bytes(method, parts.path + target, {**self._headers, "accept": accept}, body)
            place = parts.hostname or "", parts.port or (443 if self._tls is not None else 80)
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._pool.exchange(place, request)
        except (BrokenReplyError, NoConnectionError, UnreadReplyError, TimeoutError, ValueError) as error:
            cause = error.__cause__
            return explained(url, cause if isinstance(cause, OSError) else error, cure=False)
        if answer.headers.get(INSTANCE) == self.instance:
            return None
        if INSTANCE not in answer.headers:
            return f"answered {answer.status}, and is no gateway of kwiken"
        if answer.status != OK:
            return f"answered {answer.status}"
        return answer.headers.get(GATEWAY_NAME, ""), answer.body

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.close()


NO_SIBLINGS: Final = Siblings(lambda: (), None)


def is_alone(query: Any) -> bool:
    """Whether a request is a sibling's, which wants what this gateway knows alone."""
    return bool(query.get(ALONE) == "1")
