"""Transport of calls to replica servers: one frame connection for each, and replies mapped to our errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Final, NoReturn, Self

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import Clock, SystemClock
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, RefusedError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.wire.frames.client import (
    BrokenConnectionError,
    FrameClientLink,
    LongAnswerError,
    NotConnectedError,
)
from kwiken.runtime.wire.frames.messages import AnswerFrame, CallFrame
from kwiken.runtime.wire.frames.received_items import ReceivedItems
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.call_bodies import (
    CallBodies,
    checked_load,
    failure_of_handler,
    strange_answer,
)

OK: Final = 200
TIMED_OUT: Final = 504
CONNECT_S: Final = 1.0
READY_S: Final = 30.0  # longest time until a replica says its first line: its loop may be at work
# Shorter than the time for which a replica keeps an idle connection, so that no call is sent into a
# connection that is being closed.
IDLE_S: Final = 15.0
MAX_EARLY_S: Final = 0.05  # remaining time from which on a replica's report of a missed deadline is rejected
PROBE_TIMEOUT_S: Final = 5.0  # timeout of a probe
SILENT_S: Final = 1.0  # silence after which a probe's connection replaces one that may be half-open


class FrameTransport:
    """Sends calls to replica servers; use as an asynchronous context manager.

    Args:
        service: service whose stages are called; the annotations of its handlers give the types of answers.
        clock: clock of the executor, by which deadlines are given; None for the system's.
        max_body: longest answer, bytes; a longer one is an error.
        raw: whether to leave answers undecoded, to be passed on as received; see `CallBodies`.
        tls: certificates for calls over TLS; None for calls without.
    """

    def __init__(
        self,
        service: Service,
        *,
        clock: Clock | None = None,
        max_body: int = wire.MAX_BODY,
        raw: bool = False,
        tls: Certificates | None = None,
    ) -> None:
        self._tls = tls
        self._now = (clock if clock is not None else SystemClock()).monotonic
        self._max_body = max_body
        self._bodies = CallBodies(service, raw=raw)
        self._links: dict[str, FrameClientLink] = {}  # by address
        self._old: set[FrameClientLink] = set()  # take no new calls
        self._opening: dict[str, asyncio.Task[FrameClientLink | str]] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        """Begin to take calls."""
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop every probe and close every connection."""
        self._loop = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        await cancel_and_wait((*self._probes, *self._opening.values()))
        for link in (*self._links.values(), *self._old):
            link.cut()
        self._links.clear()
        self._old.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call and wait for its answer; cancelling this cancels the call at the replica.

        Raises:
            RefusedError: the call did not run.
            LostError: the call was sent; whether it ran is unknown.
            UnfitError: the call ran, and the answer does not have the stage's type.
            HandlerError: the handler raised, or the answer is too long.
            DeadlineError: the deadline has passed, here or at the replica.
        """
        remaining_ms = (call.deadline - self._now()) * 1e3
        if remaining_ms <= 0:
            raise DeadlineError(f"stage {call.stage!r}: the deadline passed before the call was sent")
        body = self._bodies.encode(call)
        frame = CallFrame(
            0,
            True,
            0,
            b"",
            call.stage,
            call.shard,
            call.attempt,
            min(remaining_ms, wire.MAX_DEADLINE_MS),
            call.priority,
            call.threads,
            call.traceparent,
        )
        link = self._links.get(replica.address)
        with map_errors(call.stage, replica, self._max_body):
            if link is None or not self._takes_calls(link):
                link = await self._connected(replica)
                frame.remaining_ms = max(0.0, min((call.deadline - self._now()) * 1e3, wire.MAX_DEADLINE_MS))
            if link.is_full:
                raise RefusedError(
                    f"stage {call.stage!r}: replica {replica.id}: its connection is full", full=True
                )
            answer = await link.exchange(frame, body, call)
        if isinstance(answer, ReceivedItems):
            return self._stream(answer, call, replica)
        call.status = answer.status
        if answer.status != OK:
            _raise(answer, call, replica, early=self._now() < call.deadline - MAX_EARLY_S)
        try:
            load = checked_load(answer.busy_ms, answer.inflight, answer.latency_ms)
        except InputError as error:
            raise strange_answer(call.stage, replica, error) from error
        if call.stage in self._bodies.streams:
            return self._stream(ReceivedItems(link, call, answer), call, replica)
        return await self._bodies.reply(call.stage, replica, load, answer.data)

    def _stream(self, items: ReceivedItems, call: Call, replica: Replica) -> Reply:
        """Reply with the first item of a stage that streams, or with the end of a stream without items."""
        at, answer = f"stage {call.stage!r}: replica {replica.id}", items.answer
        call.status = answer.status
        try:
            checked_load(answer.busy_ms, answer.inflight, answer.latency_ms)
        except InputError as error:
            items.cancel()
            raise strange_answer(call.stage, replica, error) from error
        if call.stage not in self._bodies.streams or answer.status != OK:
            items.cancel()
            raise LostError(f"{at}: an answer of several items, and the stage does not stream")
        errors = partial(map_errors, call.stage, replica, self._max_body)
        items.open(self._bodies.item_decoder(call.stage), errors, at)
        if answer.last:
            items.end(answer.data)
        return Reply(items, answer.busy_ms, answer.inflight, answer.latency_ms)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe by a new connection whether the replica's loop answers; see `Transport`.

        A connection that was silent while the replica answered may be half-open: the new one takes its place.
        """
        if self._loop is not None:
            task = self._loop.create_task(self._ask(replica, heard))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    async def _ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                opened = await self._open(replica)
        except TimeoutError:
            opened = "no answer to a probe"
        if not isinstance(opened, str):
            link = self._links.get(replica.address)
            now = asyncio.get_running_loop().time()
            if link is None or link.silent_s(now) > SILENT_S:
                self._adopt(replica.address, opened)
            else:
                opened.close()
        heard(not isinstance(opened, str))

    def _takes_calls(self, link: FrameClientLink) -> bool:
        if not link.is_open or link.leaving:
            return False
        return self._tls is None or link.version == self._tls.version

    async def _connected(self, replica: Replica) -> FrameClientLink:
        """Connection to a replica, which all calls that need it wait for together.

        Raises:
            NotConnectedError: there is none; nothing was sent.
        """
        address = replica.address
        task = self._opening.get(address)
        if task is None:
            assert self._loop is not None, "use the transport as an asynchronous context manager"
            task = self._opening[address] = self._loop.create_task(self._open(replica))
            task.add_done_callback(lambda done: self._opened(address, done))
        opened = await asyncio.shield(task)
        if isinstance(opened, str):
            raise NotConnectedError(opened)
        return opened

    def _opened(self, address: str, task: asyncio.Task[FrameClientLink | str]) -> None:
        del self._opening[address]
        if not task.cancelled() and not isinstance(task.result(), str):
            self._adopt(address, task.result())

    def _adopt(self, address: str, opened: FrameClientLink | str) -> None:
        """Send further calls to an address by a new connection; those of the old one go on."""
        assert not isinstance(opened, str)
        old, self._links[address] = self._links.get(address), opened
        if old is not None:
            self._old.add(old)
        if self._sweeper is None and self._loop is not None:
            self._sweeper = self._loop.call_later(IDLE_S, self._sweep)

    async def _open(self, replica: Replica) -> FrameClientLink | str:
        """Open a connection; returns the reason if there is none."""
        loop = asyncio.get_running_loop()
        try:
            host, port = wire.split_address(replica.address, where=f"replica {replica.id}")
        except InputError as error:
            return str(error)
        version = self._tls.version if self._tls is not None else 0

        def new() -> FrameClientLink:
            return FrameClientLink(loop, self._max_body, self._now, version)

        try:
            async with asyncio.timeout(CONNECT_S):
                if self._tls is None:
                    _, link = await loop.create_connection(new, host, port)
                else:
                    named = self._tls.name or host
                    _, link = await loop.create_connection(
                        new, host, port, ssl=self._tls.client, server_hostname=named
                    )
        except TimeoutError:
            return f"no connection within {CONNECT_S:g} s"
        except OSError as error:
            return error.strerror or str(error)
        except UnicodeError:  # not a valid host name
            return f"{host[:80]!r} is not a host name"
        try:
            async with asyncio.timeout(READY_S):
                return await link.ready or link
        except TimeoutError:
            return f"no first line within {READY_S:g} s"
        finally:
            if not link.end.ready:
                link.cut()

    def _sweep(self) -> None:
        """Close connections that have been idle for too long, and forget those that are closed."""
        assert self._loop is not None
        now = self._loop.time()
        for address, link in list(self._links.items()):
            if not link.is_open or (not link.end.open and now - link.used_at >= IDLE_S):
                del self._links[address]
                link.close()
        for link in list(self._old):
            if not link.is_open or not link.end.open:
                self._old.discard(link)
                link.close()
        again = self._links or self._old
        self._sweeper = self._loop.call_later(IDLE_S, self._sweep) if again else None


@contextlib.contextmanager
def map_errors(stage: str, replica: Replica, max_body: int) -> Iterator[None]:
    """Translate errors of connections into the runtime's errors."""
    try:
        yield
    except NotConnectedError as error:
        raise RefusedError(f"stage {stage!r}: replica {replica.id}: no connection: {error}") from error
    except BrokenConnectionError as error:
        raise LostError(f"stage {stage!r}: replica {replica.id}: {error}") from error
    except LongAnswerError as error:
        reason = f"replica {replica.id}: {error}; at most {max_body} are taken"
        raise HandlerError(stage, "ReplyTooLarge", reason) from error


def _raise(answer: AnswerFrame, call: Call, replica: Replica, *, early: bool) -> NoReturn:
    """Raise the error that an answer stands for. There are three cases.

    1. The replica did not run the call.
    2. The replica dropped the call past its deadline, or says so too early.
    3. The handler raised, in the form of a report.
    """
    at = f"stage {call.stage!r}: replica {replica.id}"
    if answer.refused:
        text = answer.data[:200].decode(errors="replace")
        raise RefusedError(f"{at}: refused with {answer.status}: {text}", full=answer.refused == wire.FULL)
    if answer.status == TIMED_OUT:
        if early:
            raise LostError(f"{at}: dropped the call before its deadline")
        raise DeadlineError(f"{at}: dropped the call past its deadline")
    # Without a name for the error: a frame that names the error that it raises would be in a cycle with it.
    raise failure_of_handler(call.stage, answer.data) or LostError(
        f"{at}: answered {answer.status} in an unknown form"
    )
