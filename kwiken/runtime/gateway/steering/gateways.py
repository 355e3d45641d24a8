"""Gateways of one service, as an autopilot sees them: their counts together, and what each has in force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwiken.base.errors import InputError, KwikenError
from kwiken.runtime.engine.status_document import Status
from kwiken.runtime.gateway.control.client import ControlClient
from kwiken.runtime.gateway.control.steering import PERSON, AutopilotNote
from kwiken.tail.autopilot.arms import ArmCounts


def arm_of(status: Status, name: str) -> ArmCounts:
    """Counts of one arm; none where the status lacks it."""
    arm = status["arms"].get(name)
    if arm is None:
        return ArmCounts()
    return ArmCounts(cells={int(cell): count for cell, count in arm["cells"].items()}, failed=arm["failed"])


def by_person(status: Status) -> bool:
    """Whether a person put the plan in force; a plan of nobody is taken for a person's."""
    return status["author"] == PERSON or (status["author"] is None and status["plan"] is not None)


@dataclass(frozen=True)
class Answers:
    """Statuses of the gateways that answered, by URL.

    Attributes:
        silent: gateways that did not answer, each with the reason.
    """

    figures: Mapping[str, Status]
    silent: Mapping[str, str]

    @property
    def requests(self) -> int:
        """Number of requests of all gateways since each started."""
        return sum(each["requests"] for each in self.figures.values())

    @property
    def rate_per_s(self) -> float:
        """Answered requests a second, of the last seconds."""
        return sum(each["recent"]["rate_per_s"] or 0.0 for each in self.figures.values())

    def of(self, service: str) -> Answers:
        """The same without gateways of other services, which are taken for silent.

        Args:
            service: name of the service that is steered.
        """
        other = {
            url: f"serves {each['service']!r}, and {service!r} is steered"
            for url, each in self.figures.items()
            if each["service"] != service
        }
        own = {url: each for url, each in self.figures.items() if url not in other}
        return Answers(own, {**self.silent, **other})

    def arm(self, name: str) -> ArmCounts:
        """Counts of one arm of all gateways together."""
        total = ArmCounts()
        for each in self.figures.values():
            total = total.plus(arm_of(each, name))
        return total


class Gateways:
    """Gateways of one service.

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

    async def ask(self) -> Answers:
        """Ask every gateway for its status."""
        found = dict(zip(self.urls, await asyncio.gather(*map(_status, self.clients.values())), strict=True))
        silent = {url: each for url, each in found.items() if isinstance(each, str)}
        return Answers({url: each for url, each in found.items() if not isinstance(each, str)}, silent)

    async def leave(self, url: str, note: AutopilotNote) -> None:
        """Leave a note at a gateway, if it answers."""
        with contextlib.suppress(KwikenError):
            await self.clients[url].put_note(note)


async def _status(client: ControlClient) -> Status | str:
    """Status of one gateway, or why there is none."""
    try:
        return await client.status(alone=True)
    except InputError as error:
        return error.problem
