"""Gate of the lines: requests wait here for their start, up to a longest wait."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.decisions.lines.request_lines import RequestLines, Ticket


class LineGate:
    """Carries out what the lines decide; use it from one event loop.

    Args:
        now: monotonic clock, seconds.

    Attributes:
        lines: lines of all kinds.
        waits: waits of the started requests by kind, those that did not have to wait too.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.lines = RequestLines()
        self.waits: dict[str, LatencyHistogram] = {}
        self._now = now
        self._waiters: dict[Ticket, asyncio.Future[None]] = {}

    async def enter(self, kind: str, *, arrived_s: float, allowed_s: float, priority: int) -> Ticket:
        """Wait until a request may start; give its ticket to `leave` at its end.

        Args:
            arrived_s: moment of its arrival, seconds.
            allowed_s: time that the request may take in all, seconds.
            priority: priority of the request; higher is more urgent.

        Raises:
            OverloadError: the request has waited for too large a share of its time.
        """
        ticket = self.lines.arrive(kind, arrived_s, allowed_s=allowed_s, priority=priority)
        self._start(arrived_s)
        if not ticket.has_started:
            await self._wait(ticket)
        self.waits.setdefault(ticket.kind, LatencyHistogram()).add(ticket.wait_s)
        return ticket

    async def _wait(self, ticket: Ticket) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiters[ticket] = loop.create_future()
        timer = loop.call_later(ticket.budget_s, functools.partial(self._expire, ticket, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if ticket.has_started:  # its start and the end of its caller fell together
                self.leave(ticket, served=False)
            elif not ticket.given_up:  # else the end of its wait and the end of its caller fell together
                self.lines.give_up(ticket, too_long=False)
            raise
        finally:
            timer.cancel()
            self._waiters.pop(ticket, None)
            del waiter  # the future holds its error, whose traceback holds this frame

    def leave(self, ticket: Ticket, *, served: bool) -> None:
        """Record the end of a request, and start those that may run instead.

        Args:
            served: whether the request was answered.
        """
        now_s = self._now()
        self.lines.end(ticket, now_s, served=served)
        self._start(now_s)

    def _start(self, now_s: float) -> None:
        while (ticket := self.lines.start_next(now_s)) is not None:
            waiter = self._waiters.get(ticket)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _expire(self, ticket: Ticket, waiter: asyncio.Future[None]) -> None:
        """Turn a request away that still waits."""
        if waiter.done():
            return
        self.lines.give_up(ticket, too_long=True)
        line = self.lines.lines[ticket.kind]
        waiter.set_exception(
            OverloadError(
                f"requests of kind {ticket.kind!r} wait too long; try again later",
                retry_after_s=max(line.mean_wait_s, 1.0),
            )
        )
