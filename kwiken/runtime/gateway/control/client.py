"""Client of a gateway's control routes, for every verb and process that asks or changes a running gateway."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.runtime.engine.status_document import Status
from kwiken.runtime.gateway.control.failed_connections import explained
from kwiken.runtime.gateway.control.siblings import whole_body
from kwiken.runtime.gateway.control.steering import AutopilotNote, SteeredSetting
from kwiken.runtime.wire.tls.clients import ClientTls
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Replica

SILENCE_S: Final = 5.0  # longest wait for a connection, and for the next bytes of an answer
WHOLE_ANSWER_S: Final = 15.0  # longest time of a whole request
MAX_ANSWER: Final = 64 << 20  # bytes
OK: Final = 200
READY_S: Final = 30.0  # for a gateway to become ready
READY_INTERVAL_S: Final = 0.02  # between two checks of whether it is
UNAUTHORISED: Final = 401


class NoAnswerError(InputError):
    """A gateway did not answer, or not as gateways do."""


class ControlClient:
    """Client of one gateway; use it in a running event loop, and close it.

    Every request raises `NoAnswerError` if there is no answer of a gateway, with what failed and what to set,
    and InputError with the gateway's reason if the gateway refuses.

    Args:
        url: address of the gateway.
        token: token of the control routes, or a function that returns the token at each request.
        tls: function that returns the context of the next connection over TLS; None for the context that the
            variables of the environment describe.

    Raises:
        InputError: the address is none of HTTP, or a file of TLS cannot be used.
    """

    def __init__(
        self, url: str, token: str | Callable[[], str], *, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError("is not an http or https address", where=url)
        self.url = url.rstrip("/")
        self._token = token
        self._tls = tls or (ClientTls().context if url.startswith("https:") else None)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Do nothing yet: the first request opens a connection."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """Connections to this gateway, and to other processes whose liveness is checked."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(WHOLE_ANSWER_S, sock_connect=SILENCE_S, sock_read=SILENCE_S),
                connector=aiohttp.TCPConnector(limit=0),  # a process that hangs must not delay others
            )
        return self._session

    @property
    def context(self) -> ssl.SSLContext | bool:
        """Context of the next connection over TLS; True for the system's."""
        return self._tls() if self._tls is not None else True

    async def status(self, *, alone: bool = False) -> Status:
        """Figures of all gateways of the service together.

        Args:
            alone: whether to leave the siblings of this gateway out.
        """
        text = await self._request("GET", "/v1/status?alone=1" if alone else "/v1/status")
        try:
            status = msgspec.json.decode(text, type=Status)
            msgspec.convert(status["autopilot"], AutopilotNote | None)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise NoAnswerError(
                f"answers with another status than a gateway of this version: {error}", where=self.url
            ) from error
        return status

    async def plan(self) -> Plan | None:
        """Plan in force; None for none."""
        text = await self._request("GET", "/v1/plan")
        return None if text.strip() == b"null" else Plan.from_json(text, where=self.url)

    async def put_plan(self, plan: Plan | None, *, keeps: bool = False) -> None:
        """Put a plan in force, or none.

        Args:
            keeps: whether this client puts the plan in force again at a gateway that takes over, so that the
                gateway need not save the plan.
        """
        headers = {wire.KEEPS: "1"} if keeps else {}
        await self._request("PUT", "/v1/plan", plan, headers)

    async def put_replicas(self, replicas: Mapping[str, Sequence[Replica]]) -> None:
        """Replace the replicas of the stages named."""
        await self._request("PUT", "/v1/replicas", replicas)

    async def put_crowded_nodes(self, nodes: Collection[str]) -> None:
        """Name the nodes without headroom, all of them."""
        await self._request("PUT", "/v1/crowded-nodes", sorted(nodes))

    async def steer(self, setting: SteeredSetting) -> None:
        """Put a setting of an autopilot in force."""
        await self._request("PUT", "/v1/autopilot", setting)

    async def put_note(self, note: AutopilotNote) -> None:
        """Leave a note of an autopilot."""
        await self._request("PUT", "/v1/autopilot/note", note)

    async def let_autopilot(self, *, go_on: bool) -> None:
        """Let an autopilot go on from the plan in force, or keep that plan as it is."""
        await self._request("PUT", "/v1/autopilot/resume" if go_on else "/v1/autopilot/hold")

    async def until_ready(self) -> None:
        """Wait until the gateway is ready.

        Raises:
            NoAnswerError: it was not ready in time; says what it answered last.
        """
        last = "no answer"
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                await self._request("GET", "/readyz")
            except InputError as error:
                last = str(error)
                await asyncio.sleep(READY_INTERVAL_S)
            else:
                return
        raise NoAnswerError(f"was not ready within {READY_S:g} s: {last}", where="gateway")

    async def _request(
        self, method: str, path: str, body: Any = msgspec.UNSET, headers: Mapping[str, str] = {}
    ) -> bytes:
        """Body of the answer to a request; `body` is sent as JSON."""
        token = self._token if isinstance(self._token, str) else self._token()
        try:
            async with self.session.request(
                method,
                self.url + path,
                data=msgspec.json.encode(body) if body is not msgspec.UNSET else None,
                headers={"Authorization": f"Bearer {token}", "Content-Type": wire.JSON, **headers},
                allow_redirects=False,
                ssl=self.context,
            ) as answer:
                text = await whole_body(answer, MAX_ANSWER)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswerError(
                f"the gateway does not answer: {explained(self.url, error)}", where=self.url
            ) from error
        if answer.status == OK:
            return text
        try:
            reason = msgspec.json.decode(text, type=dict[str, str])["error"]
        except (msgspec.MsgspecError, ValueError, RecursionError, KeyError):
            raise NoAnswerError(
                f"answered {answer.status} in a form that no gateway has; is the address right?",
                where=self.url,
            ) from None
        wrong = "; is the token right? Set KWIKEN_TOKEN, or give --token-file"
        raise InputError(reason + wrong * (answer.status == UNAUTHORISED), where=self.url)
