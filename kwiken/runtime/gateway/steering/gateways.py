"""Gateways of one service, as an autopilot sees them: their counts together, and what each has in force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.runtime.gateway.control.client import ControlClient
from kwiken.runtime.gateway.control.steering import PERSON, AutopilotNote
from kwiken.tail.autopilot.arms import ArmCounts


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
    gateways: list[object] = []
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
    """Gateways of one service; an asynchronous context manager.

    Args:
        urls: address of each gateway, one or more.
        token: function that returns the token of their control routes, as it is at a request.

    Attributes:
        clients: client of each gateway, by its address.
    """

    def __init__(self, urls: Sequence[str], token: Callable[[], str]) -> None:
        self.clients = {
            url: ControlClient(url, token) for url in dict.fromkeys(each.rstrip("/") for each in urls)
        }

    @property
    def urls(self) -> tuple[str, ...]:
        """Address of each gateway."""
        return tuple(self.clients)

    async def __aenter__(self) -> Self:
        """Do nothing yet: the first request opens a connection."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        for client in self.clients.values():
            await client.close()

    async def ask(self) -> Answers:
        """Ask every gateway for its status."""
        found = dict(zip(self.urls, await asyncio.gather(*map(_status, self.clients.values())), strict=True))
        figures = {url: each for url, each in found.items() if isinstance(each, Figures)}
        return Answers(figures, {url: each for url, each in found.items() if isinstance(each, str)})

    async def cluster_at(self, url: str) -> ClusterFigures:
        """Status of all gateways together, as one of them tells it.

        Raises:
            InputError: the gateway refuses or does not answer, or its answer is no status.
        """
        try:
            return msgspec.convert(await self.clients[url].status(), ClusterFigures)
        except (msgspec.MsgspecError, ValueError) as error:
            raise InputError(f"answers with another status than a gateway's: {error}", where=url) from error

    async def leave(self, url: str, note: AutopilotNote) -> None:
        """Leave a note at a gateway, if it answers."""
        with contextlib.suppress(KwikenError):
            await self.clients[url].put_note(note)


async def _status(client: ControlClient) -> Figures | str:
    """Status of one gateway, or why there is none."""
    try:
        return msgspec.convert(await client.status(alone=True), Figures, strict=False)
    except (msgspec.MsgspecError, ValueError) as error:
        return f"answers with another status than a gateway's: {error}"
    except InputError as error:
        return error.problem
