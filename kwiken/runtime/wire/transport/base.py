"""Transport interface: the boundary between the executor and the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from kwiken.runtime.base.errors import OverloadError

RETRY_S: Final = 1.0
MAX_PRIORITY: Final = 9


class Replica(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server process of a stage.

    Attributes:
        id: name of the replica, unique among the replicas of a service.
        node: name of the machine that the replica runs on; copies prefer another machine.
        address: address in the form that the transport needs, for example a URL.
    """

    id: str
    node: str
    address: str


class Held(Protocol):
    """Bytes that are held for one request, charged to a budget."""

    def add(self, count: int) -> bool:
        """Hold more bytes, or fewer if negative; returns whether the budget has room for them."""


class Call(msgspec.Struct):
    """One call of one stage, as sent to one replica.

    Attributes:
        args: answers of the parents in the order of `after`; for a source, the request alone.
        shard: number of the shard, from 0; 0 if the stage is no fan-out.
        attempt: number of the attempt, from 0; 0 is the primary.
        deadline: moment after which the answer is useless, seconds of the injected clock's `monotonic`.
        priority: priority of the call; higher is more important.
        trace_id: trace id of the request, as OpenTelemetry's integer, for reports of errors; 0 for none.
        traceparent: trace context for the replica, as W3C's header; empty for none.
        threads: number of threads that the handler may use, 1 or more.
        sent_bytes: size of the body that the transport sends, bytes; 0 for none, and within one process. Set
            by the transport.
        sent: moment at which the transport wrote the call to a connection, seconds of the injected clock; 0
            until then. Set by the transport.
        first_byte: moment at which the first byte of the answer came, seconds; 0 until then. Set by the
            transport.
        status: status of the answer: a number over HTTP, the code's name over gRPC; None until then. Set by
            the transport.
        note_work: called later, if the call was cancelled and its replica says so, with the processor time
            that it had taken there, milliseconds; None to note nothing.
        held: bytes that are held for the call's request; None where nobody counts them.
    """

    stage: str
    args: tuple[Any, ...]
    shard: int
    attempt: int
    deadline: float
    priority: int
    trace_id: int
    traceparent: str
    threads: int = 1
    sent_bytes: int = 0
    sent: float = 0.0
    first_byte: float = 0.0
    status: int | str | None = None
    note_work: Callable[[float], object] | None = None
    held: Held | None = None

    def send(self, count: int) -> None:
        """Charge the bytes of the call's body before it is sent; they are held until the attempt ends.

        Raises:
            OverloadError: the budget has no room for them.
        """
        self.hold(count)
        self.sent_bytes = count

    def end(self) -> None:
        """Release the body when the attempt has ended."""
        if self.held is not None:
            self.held.add(-self.sent_bytes)

    def hold(self, count: int) -> None:
        """Charge bytes of the answer, as soon as their number is known; they are held until the request ends.

        Raises:
            OverloadError: the budget has no room for them.
        """
        if self.held is not None and not self.held.add(count):
            raise OverloadError(
                f"stage {self.stage!r}: too many bytes of answers are held; try again later",
                retry_after_s=RETRY_S,
            )


class Stream:
    """Answer that has begun and goes on: the first message wins the race, the rest follows."""

    async def rest(self) -> Any:
        """Wait for the end, and return the whole answer; cancelling this cancels the call at the replica.

        Raises:
            LostError: the connection broke off before the end of the answer.
            UnfitError: the answer does not have the stage's type.
            HandlerError: the replica ended the answer with an error.
            DeadlineError: the deadline passed before the end.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Cancel the call at the replica, if it has not ended."""
        raise NotImplementedError


class ItemStream(Stream):
    """Answer of a stage that streams: the first item wins the race, and each is handed on as it comes.

    Attributes:
        busy_ms: working time of the whole call, milliseconds; known at its end, None where unknown.
        kept: whether items that were pulled stay in memory, and their bytes charged to the request.
        reached: items that were pulled by `reach`, for the next reader.
    """

    busy_ms: float | None = None
    kept: bool = False
    reached: Sequence[Any] = ()

    async def reach(self, counts: Callable[[Any], bool]) -> None:
        """Wait for the first item that counts, or the end; an error ends the call.

        Raises:
            Exception: as of `pull`, or as `counts` raised it.
        """
        items, self.kept = list[Any](), True
        try:
            while more := await self.pull():
                items += more
                if any(map(counts, more)):
                    break
        except BaseException:
            self.cancel()
            raise
        self.reached, self.kept = items, False

    async def pull(self) -> list[Any]:
        """Wait for further items and take all that are there; none at the end.

        The items of the last `pull` are done with by then: their bytes are released, unless `kept`.

        Raises:
            LostError, UnfitError, HandlerError: as of `rest`.
            OverloadError: the budget of held bytes has no room for an item.
        """
        raise NotImplementedError

    async def rest(self) -> list[Any]:
        """Wait for the end, and return all items."""
        items: list[Any] = []
        while more := await self.pull():
            items += more
        return items

    async def close(self) -> None:
        """Cancel the call, if it has not ended, and wait for its end where it runs in this process."""
        self.cancel()


class Reply(msgspec.Struct):
    """Answer of a replica.

    Attributes:
        value: return value of the handler; a `Stream` if only its first message is there.
        busy_ms: working time of the handler, milliseconds (on replica servers, CPU time); None where unknown.
        inflight: number of calls at the replica when it answered, this one included; None where unknown.
        latency_ms: the replica's own estimate of its latency, milliseconds; None where unknown.
    """

    value: Any
    busy_ms: float | None = None
    inflight: int | None = None
    latency_ms: float | None = None


class Transport(Protocol):
    """Sends calls to replicas."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call and wait for its answer; cancelling this cancels the call at the replica at once.

        Raises:
            RefusedError: the call did not run.
            LostError: the call was sent; whether it ran is unknown.
            UnfitError: the call ran, and the answer does not have the stage's type.
            HandlerError: the handler raised.
            DeadlineError: the replica dropped the call because its deadline had passed.
        """

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe whether a replica is alive; returns at once.

        The transport owns the probe, and drops it when the transport is closed.

        Args:
            heard: called later with whether the replica answered, unless the transport is closed before.
        """
