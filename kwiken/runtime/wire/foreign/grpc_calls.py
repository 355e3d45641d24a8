"""Calls of a foreign gRPC service: messages from templates, answers in JSON form, codes as errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self, TypeVar

import grpc
import grpc.aio
import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from kwiken.base.errors import DefinitionError, InputError
from kwiken.base.printable import printable
from kwiken.model.service.remote import GrpcCall, input_names, templates_of
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, RefusedError, UnfitError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.grpc_ends import Operations, answer_of, end_call
from kwiken.runtime.wire.foreign.grpc_methods import (
    Method,
    MethodError,
    UnreachableError,
    check_types,
    files_in,
    method_in,
    reflected,
)
from kwiken.runtime.wire.foreign.inputs import plain_inputs, unfilled
from kwiken.runtime.wire.tls.outside import OutsideTls
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, ItemStream, Replica, Reply, Stream
from kwiken.runtime.wire.transport.call_bodies import check_sent_size

T = TypeVar("T")
Code = grpc.StatusCode

HEALTH_METHOD: Final = "/grpc.health.v1.Health/Check"
MAX_CHANNELS: Final = 10_000  # of one stage: as many as it may have replicas
LEAVE_S: Final = 60.0  # for calls on a channel whose certificates are no longer in force
MAX_MESSAGES: Final = 100_000  # of one answer's stream
MAX_DETAILS: Final = 300  # characters of a status that are quoted
PREVIOUS_ATTEMPTS: Final = "grpc-previous-rpc-attempts"
RETRY_PUSHBACK: Final = "grpc-retry-pushback-ms"
MAX_DIGITS: Final = 9  # of a pushback
EARLY_S: Final = 0.05  # a deadline error that comes with more time left than this is the service's own
# Text by which gRPC reports that a call was never sent; the code alone does not tell.
NEVER_SENT: Final = ("failed to connect to all addresses", "errors resolving", "empty address list")
TOO_LARGE: Final = "message larger than max"
# The call may have run, or may still run.
GIVEN_UP: Final = frozenset(
    {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE}
)
MAX_MESSAGE: Final = 4 << 20  # bytes of one message: gRPC's own default for clients
ON_LOOP_BYTES: Final = 4096  # of a message that is turned on the event loop, in 20 ms at most
MAX_VALUES: Final = 1_000_000  # of one answer, with each message as `MIN_OF_MESSAGE` values or more
MIN_OF_MESSAGE: Final = 10  # values that take as long as an empty message
ANY: Final = "google.protobuf.Any"  # holds another message in its bytes, which are counted unread


class TooManyValuesError(Exception):
    """The message stands for more values than are taken."""

    def __init__(self) -> None:
        super().__init__(
            f"it has more than {MAX_VALUES} values, with each message as {MIN_OF_MESSAGE} or more"
        )


class ThreadBeside:
    """One thread for work that would hold up the event loop; a thread more would only slow the loop down."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run work after what was given before; a cancelled wait drops what has not begun."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "kwiken-foreign-grpc")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Drop what has not begun. What runs is bounded, and ends by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


# A message of a few bytes can stand for many values: each inner message prints all fields that it could have.
# Turning one into its JSON form costs some microseconds and holds the interpreter, so the values are counted
# first, and a message of more than a few KiB is turned by a thread, beside which the event loop goes on.
def json_form(message: Message, most: int = MAX_VALUES) -> tuple[Any, int]:
    """JSON form of a message, with fields named as in the `.proto`, and the number of its values.

    Raises:
        TooManyValuesError: the message has more.
        json_format.Error, TypeError, ValueError: the message has no JSON form.
    """
    count = _values(message, most)
    form = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return form, count


def _values(message: Message, most: int) -> int:
    """Number of values that the JSON form of a message has; stops at the first that is too many."""
    count = 0
    waiting: list[Any] = [message]
    while waiting:
        each = waiting.pop()
        descriptor = each.DESCRIPTOR
        count += max(MIN_OF_MESSAGE, len(descriptor.fields))
        for field, value in each.ListFields():
            if descriptor.full_name == ANY and field.name == "value":
                count += MIN_OF_MESSAGE * len(value)
            elif isinstance(value, Message):
                waiting.append(value)
            elif not isinstance(value, (bool, bytes, float, int, str)):  # a list or a map
                count += len(value)
                if field.message_type is not None and count <= most:
                    waiting.extend(_messages_in(field, value))
            if count > most:
                raise TooManyValuesError
    return count


def _messages_in(field: Any, value: Any) -> Any:
    """Messages of a repeated field, or those that are values of a map."""
    if not field.message_type.GetOptions().map_entry:
        return value
    return value.values() if field.message_type.fields_by_name["value"].message_type is not None else ()


class GrpcCaller:
    """Calls one stage's foreign gRPC service.

    Args:
        stage: stage whose `remote` is a `GrpcCall`.
        max_body: longest answer, bytes; a longer one is an error.
        now: clock of the calls' deadlines, seconds.
        tls: certificates for calls over TLS; None for calls without.

    Raises:
        DefinitionError: the method's descriptors are wrong, or the stage's types do not fit them.
    """

    def __init__(
        self,
        service: Service,
        stage: Stage,
        max_body: int,
        now: Callable[[], float],
        tls: OutsideTls | None = None,
    ) -> None:
        remote = stage.remote_call
        assert isinstance(remote, GrpcCall)
        self._stage = stage
        self._remote = remote
        self._max_body = max_body
        self.now = now
        self._templates = templates_of(remote, input_names(stage.after, stage.fanout))
        signature = service.signature(stage.name)
        self._inputs, self._answer = signature.inputs, signature.output
        self._beside = ThreadBeside()
        self._tls = tls
        self._version = tls.version if tls is not None else 0
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._leaving: dict[asyncio.Task[None], grpc.aio.Channel] = {}
        self._method: Method | None = None
        self._learning = asyncio.Lock()
        if remote.descriptors is not None:
            try:
                self._use(method_in(files_in(remote.descriptors), remote.method))
            except MethodError as error:
                raise DefinitionError(f"remote: {error}", stage=stage.name) from error

    @property
    def checks_health(self) -> bool:
        """Whether replicas can be asked for their health: any gRPC server answers the question."""
        return True

    async def close(self) -> None:
        """Close every connection."""
        self._beside.close()
        leaving, channels = dict(self._leaving), self._channels
        self._channels = {}
        await cancel_and_wait(tuple(leaving))
        await asyncio.gather(*(channel.close() for channel in (*leaving.values(), *channels.values())))

    async def check(self, replicas: Sequence[Replica]) -> str | None:
        """Learn the method's types from the first replica that answers.

        Returns:
            Why no replica could be asked; None if the types are known.

        Raises:
            DefinitionError: there is no such method, or the stage's types do not fit it.
        """
        reason = "it has no replica"
        for replica in replicas:
            try:
                await self._learn(replica)
            except UnreachableError as error:
                reason = f"replica {replica.id}: {error}"
            except MethodError as error:
                raise DefinitionError(
                    f"remote: {error} (asked {replica.id})", stage=self._stage.name
                ) from error
            else:
                return None
        return None if self._method is not None else reason

    async def _learn(self, replica: Replica) -> Method:
        async with self._learning:
            if self._method is None:
                self._use(await reflected(self._channel(replica), self._remote.method))
        assert self._method is not None
        return self._method

    def _use(self, method: Method) -> None:
        check_types(method, self._templates, self._inputs, self._answer, streams=self._remote.stream)
        self._method = method

    def _channel(self, replica: Replica) -> grpc.aio.Channel:
        if self._tls is not None:
            self._tls.refresh()
            if self._tls.version != self._version:
                self._leave(self._tls.version)
        channel = self._channels.get(replica.address)
        if channel is None:
            if len(self._channels) >= MAX_CHANNELS:
                raise RefusedError(f"{self._at(replica)}: more than {MAX_CHANNELS} connections")
            channel = self._channels[replica.address] = self._open(replica.address.partition("://")[2])
        return channel

    def _open(self, target: str) -> grpc.aio.Channel:
        options = [
            ("grpc.default_authority", self._remote.authority),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),  # the runtime decides on attempts
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_receive_message_length", min(MAX_MESSAGE, self._max_body)),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.primary_user_agent", "kwiken"),
        ]
        if self._tls is None:
            return grpc.aio.insecure_channel(target, options=options)
        options.append(("grpc.ssl_target_name_override", self._tls.name))
        credentials = grpc.ssl_channel_credentials(*self._tls.pem)
        return grpc.aio.secure_channel(target, credentials, options=options)

    def _leave(self, version: int) -> None:
        """Let go of all channels, which keep the certificates that they began with; calls on them may end."""
        channels, self._channels = self._channels, {}
        self._version = version
        for channel in channels.values():
            task = asyncio.get_running_loop().create_task(channel.close(LEAVE_S))
            self._leaving[task] = channel
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        del self._leaving[task]

    def _at(self, replica: Replica) -> str:
        return f"stage {self._stage.name!r}: replica {replica.id}"

    async def call(self, replica: Replica, call: Call, remaining_s: float) -> Reply:
        """Send one call; see `Transport`. Cancelling resets the call's stream.

        Args:
            remaining_s: time until the deadline, seconds, which the service is told.
        """
        method = self._method
        if method is None:
            try:
                method = await self._learn(replica)
            except UnreachableError as error:
                raise RefusedError(f"{self._at(replica)}: its types are unknown: {error}") from error
            except MethodError as error:
                raise HandlerError(self._stage.name, "UnfitMethod", str(error)) from error
        message = self._message(method, call)
        call.send(len(message))
        told = metadata_of(call)
        channel = self._channel(replica)
        call.sent = self.now()
        if method.streams:
            begun = channel.unary_stream(method.path)(message, timeout=remaining_s, metadata=told)
            if self._remote.stream:
                return Reply(await GrpcItems(self, replica, method, begun, call).begin())
            stream = GrpcStream(self, replica, method, begun, call.deadline, self._max_body)
            return Reply(await stream.begin())
        rpc = channel.unary_unary(method.path)(message, timeout=remaining_s, metadata=told)
        data = await self.outcome(answer_of(rpc), replica, call.deadline, call)
        call.status = Code.OK.name
        call.hold(len(data))
        plain, _ = await self.plain(replica, method, data)
        return Reply(await self.fit(replica, plain, len(data)))

    def _message(self, method: Method, call: Call) -> bytes:
        """Serialised request message of a call.

        Raises:
            InputError, HandlerError: the template cannot be filled, or its values do not fit the message.
        """
        stage, template = self._stage, self._templates.body
        assert template is not None
        inputs = plain_inputs(stage, call)
        try:
            filled = template.fill(inputs)
            message = json_format.ParseDict(filled, method.request())
        except InputError as error:
            raise unfilled(stage, error) from error
        except (json_format.ParseError, TypeError, ValueError, AttributeError) as error:
            name = method.request.DESCRIPTOR.full_name
            unfit = InputError(f"does not fit message {name}: {error}", where="its input")
            raise unfilled(stage, unfit) from error
        data: bytes = message.SerializeToString()
        check_sent_size(stage.name, "message", len(data))
        return data

    async def outcome(
        self, answer: Awaitable[T], replica: Replica, deadline: float, call: Call | None = None
    ) -> T:
        """Wait for an answer; errors of gRPC become errors of the runtime.

        Args:
            deadline: moment of the call's deadline, seconds of the injected clock.
            call: call whose status an error sets; None for none.
        """
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            return await answer
        except asyncio.CancelledError:
            if task.cancelling() > before:
                raise
            # gRPC raises this too if the service ended the call with the code CANCELLED.
            raise LostError(f"{self._at(replica)}: the service cancelled the call") from None
        except grpc.aio.AioRpcError as error:
            if call is not None:
                call.status = error.code().name
            raise self._error(error, replica, deadline) from error
        finally:
            del task  # a frame that names the task and ends by its error would be in a cycle with that error

    def _error(self, error: grpc.aio.AioRpcError, replica: Replica, deadline: float) -> Exception:
        """Error that a status stands for. There are six cases.

        1. The call was never sent, or the server has no such method: it did not run.
        2. The answer is too large.
        3. The service has no room: another replica may take the call. It may have run all the same, so only
           an idempotent stage's call goes elsewhere free of charge.
        4. The deadline passed.
        5. The service or the connection gave the call up: whether it ran is unknown.
        6. Any other code is the service's own answer, which another replica would give as well. So is an
           answer of case 3 or 5 with which the service asks for no further attempt.
        """
        stage, code, at = self._stage, error.code(), self._at(replica)
        details = printable(" ".join((error.details() or "no details").split())[:MAX_DETAILS])
        if (code is Code.UNAVAILABLE and details.startswith(NEVER_SENT)) or code is Code.UNIMPLEMENTED:
            return RefusedError(f"{at}: {code.name}: {details}")
        if code is Code.RESOURCE_EXHAUSTED and TOO_LARGE in details:
            return HandlerError(stage.name, "ReplyTooLarge", f"replica {replica.id}: {details}")
        pause_s = pushback_s(error.trailing_metadata() or ())
        if code is Code.RESOURCE_EXHAUSTED and stage.idempotent and pause_s is not None:
            return RefusedError(f"{at}: {code.name}: {details}", full=True, pause_s=pause_s)
        if code is Code.DEADLINE_EXCEEDED and self.now() >= deadline - EARLY_S:
            return DeadlineError(f"{at}: no answer in time")
        if code in GIVEN_UP and pause_s is not None:
            return LostError(f"{at}: {code.name}: {details}", pause_s=pause_s)
        return HandlerError(stage.name, code.name, details)

    def too_large(self, replica: Replica, most: str) -> HandlerError:
        """Error of a stream that is longer than allowed."""
        message = f"replica {replica.id}: the stream has more than {most}"
        return HandlerError(self._stage.name, "ReplyTooLarge", message)

    async def plain(
        self, replica: Replica, method: Method, data: bytes, most: int = MAX_VALUES
    ) -> tuple[Any, int]:
        """Reply message in its JSON form, and the number of its values.

        Raises:
            UnfitError: the bytes are no such message.
            HandlerError: the message has too many values.
        """
        try:
            return await self._turned(lambda: json_form(method.reply.FromString(data), most), len(data))
        except TooManyValuesError as error:
            raise HandlerError(self._stage.name, "ReplyTooLarge", f"replica {replica.id}: {error}") from error
        except (DecodeError, json_format.Error, TypeError, ValueError) as error:
            name = method.reply.DESCRIPTOR.full_name
            raise UnfitError(f"{self._at(replica)}: its answer is no {name}: {error}") from error

    async def _turned(self, turn: Callable[[], T], size: int) -> T:
        """Result of a function of an answer of that many bytes, by the thread if there are many."""
        return turn() if size <= ON_LOOP_BYTES else await self._beside.run(turn)

    async def fit(self, replica: Replica, value: Any, size: int) -> Any:
        """Answer in the stage's type; numbers of 64 bits, which JSON has as text, become numbers.

        Args:
            size: bytes of the answer on the wire.

        Raises:
            UnfitError: the answer does not have that type.
        """
        try:
            return await self._turned(lambda: msgspec.convert(value, self._answer, strict=False), size)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
            raise UnfitError(f"{self._at(replica)}: its answer does not fit: {error}") from error

    async def healthy(self, replica: Replica) -> bool:
        """Whether a replica reports that it serves; one without a health service has to answer at all."""
        check = self._channel(replica).unary_unary(
            HEALTH_METHOD,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            reply = await answer_of(check(health_pb2.HealthCheckRequest(service=self._remote.health)))
        except grpc.aio.AioRpcError as error:
            return error.code() is Code.UNIMPLEMENTED
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


class GrpcStream(Stream):
    """Answer that comes as a stream of messages.

    Args:
        rpc: the call, just sent.
        deadline: moment of the call's deadline, seconds of the injected clock.
        max_body: most bytes of all messages together.
    """

    def __init__(
        self, caller: GrpcCaller, replica: Replica, method: Method, rpc: Any, deadline: float, max_body: int
    ) -> None:
        self._max_body = max_body
        self._caller = caller
        self._replica = replica
        self._method = method
        self._rpc = rpc
        self._operations = Operations()
        self._deadline = deadline
        self._messages: list[Any] = []
        self._size = 0
        self._values = 0

    async def begin(self) -> GrpcStream:
        """Wait for the first message, or for the end of an empty stream; cancelling this cancels the call."""
        try:
            await self._read()
        except BaseException:
            self.cancel()
            raise
        return self

    async def rest(self) -> Any:
        """Wait for all messages; see `Stream`."""
        try:
            while await self._read():
                pass
        finally:
            self.cancel()
        return await self._caller.fit(self._replica, self._messages, self._size)

    def cancel(self) -> None:
        """End the call, if it has not ended; see `Stream`."""
        end_call(self._rpc)

    async def _read(self) -> bool:
        """Read the next message; returns whether there was one."""
        data = await self._caller.outcome(
            self._operations.outcome(self._rpc.read()), self._replica, self._deadline
        )
        if data is grpc.aio.EOF:
            return False
        self._size += len(data)
        if self._size > self._max_body or len(self._messages) >= MAX_MESSAGES:
            raise self._caller.too_large(self._replica, f"{MAX_MESSAGES} messages or {self._max_body} bytes")
        room = MAX_VALUES - self._values
        message, count = await self._caller.plain(self._replica, self._method, data, room)
        self._values += count
        self._messages.append(message)
        return True


class GrpcItems(ItemStream):
    """Answer of a streaming method whose messages are items; the next one is read when it is wanted.

    Args:
        rpc: the call, just sent.
        call: call whose request the messages are charged to.
    """

    def __init__(self, caller: GrpcCaller, replica: Replica, method: Method, rpc: Any, call: Call) -> None:
        self._caller = caller
        self._replica = replica
        self._method = method
        self._rpc = rpc
        self._call = call
        self._operations = Operations()
        self._first: list[Any] = []
        self._lent = 0  # bytes of the message that was taken last

    async def begin(self) -> Self:
        """Wait for the first message, or for the end of an empty stream; cancelling this cancels the call."""
        self._first = await self._next()
        return self

    async def pull(self) -> list[Any]:
        """Wait for the next message; see `ItemStream`."""
        if self._first:
            items, self._first = self._first, []
            return items
        self._release()
        return await self._next()

    async def _next(self) -> list[Any]:
        caller, replica, call = self._caller, self._replica, self._call
        try:
            read = self._operations.outcome(self._rpc.read())
            data = await caller.outcome(read, replica, call.deadline, call)
            call.first_byte = call.first_byte or caller.now()
            if data is grpc.aio.EOF:
                call.status = Code.OK.name
                return []
            call.hold(len(data))
            self._lent = len(data)
            plain, _ = await caller.plain(replica, self._method, data)
            return [await caller.fit(replica, plain, len(data))]
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End the call, if it has not ended."""
        end_call(self._rpc)
        self._release()

    def _release(self) -> None:
        """Release the bytes of the message that was taken last, unless it is kept."""
        lent, self._lent = self._lent, 0
        if lent and not self.kept and self._call.held is not None:
            self._call.held.add(-lent)


def metadata_of(call: Call) -> tuple[tuple[str, str], ...] | None:
    """Metadata of a call: its trace context; of a copy or retry how many attempts went before (gRFC A6)."""
    told = ((wire.TRACEPARENT, call.traceparent),) if call.traceparent else ()
    return (*told, (PREVIOUS_ATTEMPTS, str(call.attempt))) if call.attempt else told or None


def pushback_s(trailing: Iterable[tuple[str, str | bytes]]) -> float | None:
    """Seconds during which a service asks for no calls; 0 if it does not ask, None for no further attempt.

    gRPC's proposal A6 takes a value that is negative, or no number, for a request not to try again.
    """
    for name, value in trailing:
        if name == RETRY_PUSHBACK:
            known = (
                isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS
            )
            return int(value) / 1000 if known else None
    return 0.0
