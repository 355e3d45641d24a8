"""gRPC transport: sends calls to replica servers and maps their statuses to the runtime's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from grpc import StatusCode, aio

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import Clock, SystemClock
from kwiken.runtime.base.errors import DeadlineError, RefusedError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.grpc_ends import answer_of
from kwiken.runtime.wire.grpc.messages import stage_answer_of, stage_inputs_message
from kwiken.runtime.wire.grpc.settings import CALL_METHOD, HEALTH_METHOD, client_options
from kwiken.runtime.wire.grpc.statuses import failure_of, status_of
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.call_bodies import CallBodies, strange_answer

MAX_EARLY_S: Final = 0.05  # remaining time from which on a replica's report of a missed deadline is rejected
MAX_DEADLINE_S: Final = wire.MAX_DEADLINE_MS / 1e3
PROBE_TIMEOUT_S: Final = 5.0  # timeout of a probe
OK: Final = StatusCode.OK.name
KEEP_UNUSED_S: Final = 300.0  # time after which the channel of an address without calls is closed


class Channel:
    """Connection to one replica, for any number of calls at once.

    Attributes:
        last_used: moment of the last call, seconds of the transport's clock.
        running: number of calls without an end.
        version: version of the certificates that it was opened with; 0 without TLS.
    """

    __slots__ = ("_channel", "call", "last_used", "probe", "running", "version")

    def __init__(self, target: str, *, max_body: int, tls: Certificates | None) -> None:
        options = client_options(max_body=max_body)
        if tls is None:
            self._channel = aio.insecure_channel(target, options=options)
            self.version = 0
        else:
            from kwiken.runtime.wire.grpc.credentials import client_credentials

            credentials, named = client_credentials(tls)
            self._channel = aio.secure_channel(target, credentials, options=(*options, *named))
            self.version = tls.version
        self.call = self._channel.unary_unary(CALL_METHOD)
        self.probe = self._channel.unary_unary(HEALTH_METHOD)
        self.last_used = 0.0
        self.running = 0

    async def close(self) -> None:
        """Cancel all calls and close the connection."""
        await self._channel.close()


class GrpcTransport:
    """Sends calls to replica servers over gRPC; use as an asynchronous context manager.

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
        self._old: list[Channel] = []  # of certificates before, with calls that go on
        self._now = (clock if clock is not None else SystemClock()).monotonic
        self._max_body = max_body
        self._bodies = CallBodies(service, raw=raw)
        self._channels: dict[str, Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        """Take calls until the end of the context."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop every probe and close every channel."""
        self._closed = True
        await cancel_and_wait(tuple(self._tasks))
        channels, self._channels = [*self._channels.values(), *self._old], {}
        for channel in channels:
            await channel.close()

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call and wait for its answer. Cancelling resets the stream, which cancels at the replica.

        Raises:
            RefusedError: the call did not run.
            LostError: the call was sent; whether it ran is unknown.
            UnfitError: the call ran, and the answer does not have the stage's type.
            HandlerError: the handler raised.
            DeadlineError: the deadline has passed, here or at the replica.
        """
        assert not self._closed, "use the transport within its context"
        now = self._now()
        remaining_s = call.deadline - now
        if remaining_s <= 0:
            raise DeadlineError(f"stage {call.stage!r}: the deadline passed before the call was sent")
        try:
            channel = self._open(replica, now)
        except InputError as error:
            raise RefusedError(str(error)) from error
        message = stage_inputs_message(self._bodies.encode(call), call.stage)
        channel.last_used = now
        channel.running += 1
        call.sent = self._now()
        try:
            answer = await answer_of(
                channel.call(message, timeout=min(remaining_s, MAX_DEADLINE_S), metadata=_metadata(call))
            )
        except aio.AioRpcError as error:
            call.status = error.code().name
            raise await self._failure(error, replica, call) from error
        finally:
            channel.running -= 1
        call.status = OK
        try:
            body, load = stage_answer_of(answer)
        except InputError as error:
            raise strange_answer(call.stage, replica, error) from error
        return self._bodies.reply(call.stage, replica, load, body)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe the health service, any of whose answers is a sign of life; returns at once.

        Args:
            heard: called later with whether the replica answered, unless the transport is closed before.
        """
        if not self._closed:
            self._own(self._ask(replica, heard))

    async def _ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        alive = False
        try:
            channel = self._open(replica, self._now())
            await answer_of(channel.probe(b"", timeout=PROBE_TIMEOUT_S))
            alive = True
        except InputError:
            pass
        except aio.AioRpcError as error:
            alive = error.code() not in {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED}
        heard(alive)

    def _open(self, replica: Replica, now: float) -> Channel:
        """Channel to a replica, with the certificates in force."""
        channel = self._channels.get(replica.address)
        if channel is not None and (self._tls is None or channel.version == self._tls.version):
            return channel
        if channel is not None:
            del self._channels[replica.address]
            self._old.append(channel)
        for old in [one for one in self._old if not one.running]:
            self._old.remove(old)
            self._own(old.close())
        return self._channel(replica, now)

    def _channel(self, replica: Replica, now: float) -> Channel:
        """Open a channel to a replica, and close those that nobody has used for long."""
        where = f"replica {replica.id}"
        host, port = wire.split_address(replica.address, where=where, schemes=(wire.GRPC,))
        for address, channel in list(self._channels.items()):
            if not channel.running and now - channel.last_used > KEEP_UNUSED_S:
                del self._channels[address]
                self._own(channel.close())
        opened = self._channels[replica.address] = Channel(
            target_of(host, port), max_body=self._max_body, tls=self._tls
        )
        opened.last_used = now
        return opened

    def _own(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _failure(self, error: aio.AioRpcError, replica: Replica, call: Call) -> Exception:
        """Error that a call ended with."""
        early = self._now() < call.deadline - MAX_EARLY_S
        failure = failure_of(status_of(error), call.stage, replica.id, early=early)
        if isinstance(failure, DeadlineError):
            # The race has a timer for the same moment, and learns more from a call that it ends itself.
            await asyncio.sleep(MAX_EARLY_S)
        return failure


def target_of(host: str, port: int) -> str:
    """Name of a server for gRPC's core, which resolves names itself."""
    if ":" in host:
        return f"ipv6:[{host}]:{port}"
    is_address = host.replace(".", "").isdigit()
    return f"ipv4:{host}:{port}" if is_address else f"dns:///{host}:{port}"


class SentMetadata(tuple[tuple[str, str], ...], aio.Metadata):  # type: ignore[misc]  # grpcio has no types
    """Metadata of one call, which gRPC only tests for being empty and converts to a tuple.

    The base class builds a dictionary of lists, which costs about as much as the rest of a call's metadata.
    """

    __slots__ = ()

    __init__ = object.__init__  # not that of `aio.Metadata`


def _metadata(call: Call) -> SentMetadata | None:
    """Metadata of a call, None for none; its deadline is gRPC's own.

    What has its default is left out: an entry costs each side about as much as decoding the message.
    """
    entries = []
    if call.shard:
        entries.append((wire.SHARD, str(call.shard)))
    if call.attempt:
        entries.append((wire.ATTEMPT, str(call.attempt)))
    if call.priority:
        entries.append((wire.PRIORITY, str(call.priority)))
    if call.threads > 1:
        entries.append((wire.THREADS, str(call.threads)))
    if call.traceparent:
        entries.append((wire.TRACEPARENT, call.traceparent))
    return SentMetadata(entries) if entries else None
