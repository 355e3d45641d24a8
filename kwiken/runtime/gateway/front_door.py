"""Front door of the gateway: takes in requests of every protocol, counts them, and waits for the last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from kwiken.model.service.request_kinds import OTHER, RequestKinds
from kwiken.model.service.service import Service
from kwiken.otel.write.records import Entrance
from kwiken.runtime.base.errors import OverloadError, StoppingError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.engine.executor import Answer, Executor
from kwiken.runtime.engine.hedged_call.context import Deliver
from kwiken.runtime.gateway.responses import OK, RETRY_SOON_S, UNAVAILABLE, status_of
from kwiken.runtime.wire.http_server.byte_budget import (
    GATEWAY_SHARE,
    ByteBudget,
    HeldBytes,
    share_of_memory,
)
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.peer_reader import own_turn

USUAL_GAIN: Final = 0.05  # weight of one request in the moving average of the bytes held for a request
LOG = logging.getLogger("kwiken.gateway")


class FrontDoor:
    """Takes requests in until it is closed.

    Args:
        kinds: place in which requests name the kind by which they wait in lines; None for no lines.
        budget: budget of the bytes that are held for all requests; None for a share of the memory.

    Attributes:
        answered: number of requests by HTTP status, whatever protocol they came by.
        budget: the budget of bytes, which the doors charge for requests and unread answers too.
        streams: whether the answers of the service stream.
        inflight: number of requests that hold the door's closing.

    Raises:
        DefinitionError: requests of the service cannot be read.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        kinds: RequestKinds | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        self.budget = budget if budget is not None else ByteBudget(share_of_memory(GATEWAY_SHARE))
        self.streams = service[service.sink].streams
        self._usual_bytes = 0.0
        self._kinds = kinds
        self._executor = executor
        self._reader = wire.RequestReader(service)
        self.answered: Counter[int] = Counter()
        self.inflight = 0
        self._idle = asyncio.Event()
        self._closed = False

    def enter(self) -> None:
        """Hold the door's closing until `leave`."""
        self.inflight += 1

    def leave(self) -> None:
        """End what `enter` began."""
        self.inflight -= 1
        if not self.inflight:
            self._idle.set()

    def turn_away(self, *, deadline_ms: float | None, priority: int, parent: wire.Parent | None) -> None:
        """Refuse a request that `answer` would turn away, before its body is read.

        Args:
            deadline_ms: milliseconds until the answer is useless; None for no deadline.
            priority: priority of the request; higher is more important.
            parent: trace context of the client; None for none.

        Raises:
            OverloadError: the door is closed, or the request was turned away.
        """
        if self._closed:
            raise StoppingError("the gateway is stopping", retry_after_s=RETRY_SOON_S)
        try:
            self._executor.turn_away(deadline_ms=deadline_ms, priority=priority)
            self._check_room(priority)
        except OverloadError as error:
            self.answered[UNAVAILABLE] += 1
            _log_refusal(error, parent)
            raise

    def _check_room(self, priority: int) -> None:
        """Turn a request away whose answers will find no room, as far as earlier requests show."""
        if self.budget.left < self._usual_bytes:
            self._executor.count_shed(priority)
            raise OverloadError(
                "too many bytes of requests and answers are held; try again later", retry_after_s=RETRY_SOON_S
            )

    def note_unread(self, error: Exception, *, priority: int, parent: wire.Parent | None) -> None:
        """Count a request whose body was not read, by the error that its client is told of.

        Args:
            error: why the body was not read; an `OverloadError` counts as turned away.
            parent: trace context of the client; None for none.
        """
        self.answered[status_of(error)] += 1
        if isinstance(error, OverloadError):
            self._executor.count_shed(priority)
            _log_refusal(error, parent)

    async def answer(
        self,
        body: bytes,
        *,
        deadline_ms: float | None,
        priority: int,
        parent: wire.Parent | None,
        timing: bool,
        headers: Mapping[str, str],
        entry: Entrance | None = None,
        deliver: Deliver | None = None,
    ) -> Answer:
        """Answer one request; call `turn_away` before its body is read.

        Args:
            deadline_ms: milliseconds until the answer is useless; None for no deadline.
            priority: priority of the request; higher is more important.
            parent: trace context of the client; None for none.
            timing: whether to record where the time goes.
            headers: headers or metadata of the request, by their names in small letters.
            entry: server that the request came to, for its spans; None for none.
            deliver: takes the items of a service that streams as they come; None to answer with their list.

        Raises:
            OverloadError: the request was turned away.
            InputError: the body is not a request of the service.
            KwikenError: the request failed.
        """
        await own_turn(len(body))
        request = self._reader.read(body)
        held = HeldBytes(self.budget)
        try:
            answer = await self._executor.run(
                request,
                deadline_ms=deadline_ms,
                priority=priority,
                parent=parent,
                note=timing,
                kind=self._kinds.of(request, headers) if self._kinds is not None else OTHER,
                entry=entry,
                held=held,
                deliver=deliver,
            )
        except Exception as error:
            status = status_of(error)
            self.answered[status] += 1
            if status == UNAVAILABLE:
                _log_refusal(error, parent)
            raise
        finally:
            self._usual_bytes += USUAL_GAIN * (held.count - self._usual_bytes)
            held.release()
        self.answered[OK] += 1
        return answer

    def close(self) -> None:
        """Refuse requests from now on."""
        self._closed = True
        self._idle.clear()

    async def emptied(self, within_s: float) -> None:
        """Wait for what is inside."""
        if self.inflight:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), within_s)


def _log_refusal(error: Exception, parent: wire.Parent | None) -> None:
    """Log that a request got 503; the limits on lines keep a flood of them short."""
    trace_id = parent.trace_id if parent is not None else 0
    LOG.warning("a request got 503: %s", error, extra=about(Event.REQUEST_TURNED_AWAY, trace_id=trace_id))
