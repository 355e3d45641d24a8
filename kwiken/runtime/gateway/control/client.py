"""Client of a gateway's control routes, for every verb and process that asks or changes a running gateway."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.runtime.engine.status_document import Status
from kwiken.runtime.gateway.control.failed_connections import explained
from kwiken.runtime.gateway.control.steering import AutopilotNote, SteeredSetting
from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.foreign.http_connection import (
    HttpConnection,
    HttpReply,
    NoConnectionError,
    UnreadReplyError,
    request_bytes,
)
from kwiken.runtime.wire.tls.clients import ClientTls
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Replica

REQUEST_S: Final = 5.0  # longest time of a whole request
MAX_ANSWER: Final = 64 << 20  # bytes
OK: Final = 200
READY_S: Final = 30.0  # for a gateway to become ready
READY_INTERVAL_S: Final = 0.02  # between two checks of whether it is
UNAUTHORISED: Final = 401


class NoAnswerError(InputError):
    """A gateway did not answer, or not as gateways do."""


class ControlClient:
    """Client of one gateway, for use in a running event loop.

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
        parts = urlsplit(url)
        try:
            self._port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            self._port = 0
        if parts.scheme not in {"http", "https"} or not parts.hostname or not self._port:
            raise InputError("is not an http or https address", where=url)
        self.url = url.rstrip("/")
        self._host, self._path = parts.hostname, parts.path.rstrip("/")
        self._name = parts.netloc.rpartition("@")[2]
        self._token = token
        self._tls = tls or (ClientTls().context if parts.scheme == "https" else None)

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

    async def put_plan(self, plan: Plan | None, *, keeps: bool = False, dry: bool = False) -> None:
        """Put a plan in force, or none.

        Args:
            dry: whether the gateway only says whether it would refuse the plan.
            keeps: whether this client puts the plan in force again at a gateway that takes over, so that the
                gateway need not save the plan.
        """
        headers = {wire.KEEPS: "1"} if keeps else {}
        # A path of its own: a gateway of before would take a plan whatever a header says.
        await self._request("PUT", "/v1/plan/check" if dry else "/v1/plan", plan, headers)

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
        if not token.isprintable():
            raise InputError("the token must be one line", where=self.url)
        data = msgspec.json.encode(body) if body is not msgspec.UNSET else b""
        named = {"host": self._name, "authorization": f"Bearer {token}", "content-type": wire.JSON, **headers}
        try:
            request = request_bytes(method, self._path + path, named | {"connection": "close"}, data)
            async with asyncio.timeout(REQUEST_S):
                answer = await self._exchange(request)
        except (OSError, ValueError, BrokenReplyError, NoConnectionError, UnreadReplyError) as error:
            raise NoAnswerError(
                f"the gateway does not answer: {explained(self.url, error)}", where=self.url
            ) from error
        if answer.status == OK:
            return answer.body
        try:
            reason = msgspec.json.decode(answer.body, type=dict[str, str])["error"]
        except (msgspec.MsgspecError, ValueError, RecursionError, KeyError):
            raise NoAnswerError(
                f"answered {answer.status} in a form that no gateway has; is the address right?",
                where=self.url,
            ) from None
        wrong = "; is the token right? Set KWIKEN_TOKEN, or give --token-file"
        raise InputError(reason + wrong * (answer.status == UNAUTHORISED), where=self.url)

    async def _exchange(self, request: bytes) -> HttpReply:
        """Answer to a request, on a connection of its own: requests are rare."""
        loop = asyncio.get_running_loop()
        tls = self._tls() if self._tls is not None else None
        _, connection = await loop.create_connection(
            lambda: HttpConnection(loop, MAX_ANSWER),
            self._host,
            self._port,
            ssl=tls,
            server_hostname=self._host if tls is not None else None,
        )
        try:
            return await connection.exchange(request)
        finally:
            connection.cut()
