"""Gateways of one service, as an autopilot sees them: their counts together, and what each has in force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.plan.plan import Plan
from kwiken.runtime.gateway.control.steering import PERSON, AutopilotNote, SteeredSetting
from kwiken.runtime.wire.tls.clients import ClientTls
from kwiken.tail.autopilot.arms import ArmCounts

TIMEOUT_S: Final = 5.0  # of a request to a gateway
MAX_ANSWER: Final = 64 << 20  # bytes
NO_ANSWER: Final = (KwikenError, aiohttp.ClientError, TimeoutError, OSError)


class _Arm(msgspec.Struct):
    """Counts of an arm in a status."""

    failed: int
    cells: dict[int, int]


class _Recent(msgspec.Struct):
    """Figures of the last seconds in a status."""

    rate_per_s: float | None


class Figures(msgspec.Struct):
    """Fields of a gateway's status that an autopilot needs; the answer has more.

    Attributes:
        plan: digest of the plan in force; None for none.
        author: who put it in force; None for nobody.
        trial: digest of the plan that is tried; None for none.
        trial_share: share of the requests that get it, 0 to 1.
        control_share: share of the requests that have no plan, 0 to 1.
        requests: number of requests since the gateway started.
        arms: counts of each arm since the setting came into force.
    """

    service: str
    plan: str | None
    author: str | None
    trial: str | None
    trial_share: float
    control_share: float
    requests: int
    recent: _Recent
    arms: dict[str, _Arm]

    def arm(self, name: str) -> ArmCounts:
        """Counts of one arm; none where the status lacks it."""
        arm = self.arms.get(name)
        return ArmCounts(cells=arm.cells, failed=arm.failed) if arm is not None else ArmCounts()

    @property
    def by_person(self) -> bool:
        """Whether a person put the plan in force; a plan of nobody is taken for a person's."""
        return self.author == PERSON or (self.author is None and self.plan is not None)


class ClusterFigures(msgspec.Struct):
    """Fields of the status of all gateways together.

    Attributes:
        gateways: line of each gateway that answered; empty where one is alone.
        gateways_silent: siblings that did not answer.
    """

    service: str
    gateways: list[msgspec.Raw] = []
    gateways_silent: list[str] = []

    @property
    def count(self) -> int:
        """Number of gateways, silent ones too."""
        return max(1, len(self.gateways) + len(self.gateways_silent))


@dataclass(frozen=True)
class Answers:
    """Statuses of the gateways that answered, by URL.

    Attributes:
        silent: gateways that did not answer, each with the reason.
    """

    figures: Mapping[str, Figures]
    silent: Mapping[str, str]

    @property
    def requests(self) -> int:
        """Number of requests of all gateways since each started."""
        return sum(each.requests for each in self.figures.values())

    @property
    def rate_per_s(self) -> float:
        """Answered requests a second, of the last seconds."""
        return sum(each.recent.rate_per_s or 0.0 for each in self.figures.values())

    def of(self, service: str) -> Answers:
        """The same without gateways of other services, which are taken for silent.

        Args:
            service: name of the service that is steered.
        """
        other = {
            url: f"serves {each.service!r}, and {service!r} is steered"
            for url, each in self.figures.items()
            if each.service != service
        }
        own = {url: each for url, each in self.figures.items() if url not in other}
        return Answers(own, {**self.silent, **other})

    def arm(self, name: str) -> ArmCounts:
        """Counts of one arm of all gateways together."""
        total = ArmCounts()
        for each in self.figures.values():
            total = total.plus(each.arm(name))
        return total


class Gateways:
    """Client of the gateways' control routes; an asynchronous context manager.

    Args:
        urls: address of each gateway, one or more.
        token: function that returns the token of their control routes, as it is at a request.
        tls: certificates for gateways at https addresses; None if there are none.
    """

    def __init__(
        self, urls: Sequence[str], token: Callable[[], str], *, tls: ClientTls | None = None
    ) -> None:
        self._token = token
        self._tls = tls
        self.urls = tuple(dict.fromkeys(url.rstrip("/") for url in urls))
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the client."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self) -> Answers:
        """Ask every gateway for its status."""
        found = await asyncio.gather(*(self._status(url) for url in self.urls))
        figures = {url: each for url, each in zip(self.urls, found, strict=True) if isinstance(each, Figures)}
        silent = {url: each for url, each in zip(self.urls, found, strict=True) if isinstance(each, str)}
        return Answers(figures, silent)

    async def _status(self, url: str) -> Figures | str:
        """Status of one gateway, or why there is none."""
        try:
            return msgspec.json.decode(
                await self.request("GET", url, "/v1/status?alone=1"), type=Figures, strict=False
            )
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return f"answers with another status than a gateway's: {error}"
        except NO_ANSWER as error:
            return str(error) or type(error).__name__

    async def cluster_at(self, url: str) -> ClusterFigures:
        """Status of all gateways together, as one of them tells it.

        Raises:
            InputError: the gateway refuses, or its answer is no status.
            ClientError, TimeoutError: it does not answer.
        """
        text = await self.request("GET", url, "/v1/status")
        try:
            return msgspec.json.decode(text, type=ClusterFigures)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputError(f"answers with another status than a gateway's: {error}", where=url) from error

    async def plan_of(self, url: str) -> Plan | None:
        """Plan in force at a gateway; None for none.

        Raises:
            InputError: the gateway refuses, or its answer is no plan.
            ClientError, TimeoutError: it does not answer.
        """
        text = await self.request("GET", url, "/v1/plan")
        return None if text.strip() == b"null" else Plan.from_json(text, where=url)

    async def put(self, url: str, setting: SteeredSetting) -> None:
        """Put a setting in force at a gateway.

        Raises:
            InputError: the gateway refuses; with its reason.
            ClientError, TimeoutError: it does not answer.
        """
        await self.request("PUT", url, "/v1/autopilot", msgspec.json.encode(setting))

    async def leave(self, url: str, note: AutopilotNote) -> None:
        """Leave a note at a gateway, if it answers."""
        with contextlib.suppress(*NO_ANSWER):
            await self.request("PUT", url, "/v1/autopilot/note", msgspec.json.encode(note))

    async def let(self, url: str, *, go_on: bool) -> None:
        """Let the autopilot go on from the plan in force, or keep that plan as it is.

        Raises:
            InputError: the gateway refuses; with its reason.
            ClientError, TimeoutError: it does not answer.
        """
        await self.request("PUT", url, "/v1/autopilot/resume" if go_on else "/v1/autopilot/hold")

    async def request(self, method: str, url: str, path: str, body: bytes | None = None) -> bytes:
        """Send a request to a control route; returns the body of the answer.

        Args:
            body: JSON; None for no body.

        Raises:
            InputError: the gateway refuses; with its reason.
            ClientError, TimeoutError: the gateway does not answer.
        """
        assert self._session is not None, "use the gateways as an asynchronous context manager"
        async with self._session.request(
            method,
            url + path,
            data=body,
            headers={"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"},
            allow_redirects=False,
            ssl=self._tls.context() if self._tls is not None else True,
        ) as response:
            data = await _read(response, url)
        if response.ok and response.status < 300:  # noqa: PLR2004 - redirects are not followed
            return data
        with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError, KeyError):
            raise InputError(msgspec.json.decode(data, type=dict[str, str])["error"], where=url)
        raise InputError(f"answered {response.status}", where=url)


async def _read(response: aiohttp.ClientResponse, url: str) -> bytes:
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) > MAX_ANSWER:
            raise InputError(f"answers with more than {MAX_ANSWER} bytes", where=url)
    return bytes(found)
