"""Bodies of calls and answers in any protocol: encoding, checks, and what a replica reports of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.base.errors import HandlerError, LostError, UnfitError
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.msgpack_work import decodable

CHECK_EVERY: Final = 32  # one in so many undecoded answers of a replica is decoded as a check
MAX_ADDRESSES: Final = 65_536
MAX_KIND: Final = 100  # characters
MAX_MESSAGE: Final = 500  # characters; the limit that replicas use themselves


class ReplicaLoad(msgspec.Struct, frozen=True):
    """Load that a replica reports with an answer.

    Attributes:
        busy_ms: processor time of the call, milliseconds.
        inflight: number of calls at the replica when it answered, this one included.
        latency_ms: moving average of the latency of the replica's calls, milliseconds.
    """

    busy_ms: float
    inflight: int
    latency_ms: float


def checked_load(busy_ms: float, inflight: int, latency_ms: float) -> ReplicaLoad:
    """Load report, if its values are ones that a replica can have.

    Raises:
        InputError: a value is out of range.
    """
    longest, most = wire.MAX_BUSY_MS, wire.MAX_INFLIGHT
    if 0.0 <= busy_ms <= longest and 0 <= inflight <= most and 0.0 <= latency_ms <= longest:
        return ReplicaLoad(busy_ms, inflight, latency_ms)
    raise InputError(
        f"must have busy_ms and latency_ms from 0 to {longest:g}, and inflight from 0 to {most}, not "
        f"{busy_ms:g}, {latency_ms:g} and {inflight}",
        where="load report",
    )


class CallBodies:
    """Encoder of calls and decoder of answers.

    Args:
        service: service whose stages are called; the annotations of its handlers give the types of answers.
        raw: whether to leave answers undecoded (`msgspec.Raw`), to be passed on as received. Only a sample is
            decoded as a check: the first answers of a replica and some of the rest. The last stage's answer
            is always decoded, and so are those of stages whose `utility`, `worth` or `accept` inspects them,
            or the `resume` of a stage after them.

    Attributes:
        streams: names of the stages that stream, whose answers have several items.
    """

    def __init__(self, service: Service, *, raw: bool) -> None:
        self._sources = frozenset(service.sources)
        self.streams = frozenset(name for name, stage in service.stages.items() if stage.streams)
        self._codecs = {name: wire.Codec(service, name) for name in service.stages}
        inspected = {parent for stage in service.stages.values() if stage.resume for parent in stage.after}
        self._passed_on = {
            name
            for name, stage in service.stages.items()
            if raw
            and name not in {service.sink, *inspected}
            and all(reads is None for reads in (stage.utility, stage.worth, stage.accept))
        }
        self._unread: dict[str, int] = {}  # by address, number of answers to pass on before the next check
        self._encoder = msgspec.msgpack.Encoder()
        self._last_args: tuple[Any, ...] | None = None
        self._last_body = b""

    def encode(self, call: Call) -> bytes:
        """Body of a call, cached because the shards of a fan-out have the same arguments; notes its size.

        Raises:
            InputError: the request has a whole number of more than 64 bits.
            HandlerError: the body is longer than a replica takes, or an answer has such a number.
        """
        if call.args is not self._last_args:
            try:
                self._last_body = self._encoder.encode(call.args)
            except OverflowError as error:
                reason = "a whole number has more than 64 bits"
                if call.stage in self._sources:
                    raise InputError(reason, where="request") from error
                raise HandlerError(call.stage, "UnfitInput", reason) from error
            self._last_args = call.args
        body = self._last_body
        check_sent_size(call.stage, "input", len(body))
        call.send(len(body))
        return body

    async def reply(self, stage: str, replica: Replica, load: ReplicaLoad, data: bytes) -> Reply:
        """Decode a replica's answer.

        Raises:
            UnfitError: the answer does not have the stage's type.
            HandlerError: the answer takes too long to decode.
        """
        try:
            await decodable(data)
        except InputError as error:
            raise HandlerError(stage, "ReplyTooLarge", f"replica {replica.id}: {error}") from error
        try:
            value = self._read(stage, replica.address, data)
        except InputError as error:
            reason = str(error).removeprefix(f"{error.where}: ")
            raise UnfitError(f"stage {stage!r}: replica {replica.id}: {reason}") from error
        return Reply(value, load.busy_ms, load.inflight, load.latency_ms)

    def item_decoder(self, stage: str) -> Callable[[bytes], Any]:
        """Decoder of one item of a stage that streams; it raises `InputError` for another type."""
        return self._codecs[stage].output

    def _read(self, stage: str, address: str, data: bytes) -> Any:
        """Decode an answer; an answer to pass on is only decoded when a check is due.

        Raises:
            InputError: the answer does not have the stage's type.
        """
        if stage not in self._passed_on:
            return self._codecs[stage].output(data)
        left = self._unread.get(address, 0)
        if left:
            self._unread[address] = left - 1
        else:
            self._codecs[stage].output(data)  # every answer is checked until one passes
            if len(self._unread) >= MAX_ADDRESSES:
                self._unread.clear()
            self._unread[address] = CHECK_EVERY - 1
        return msgspec.Raw(data)


def strange_answer(stage: str, replica: Replica, error: InputError) -> LostError:
    """Error for an answer that no replica gives."""
    return LostError(f"stage {stage!r}: replica {replica.id}: not a replica's answer: {error}")


def failure_of_handler(stage: str, data: bytes) -> HandlerError | None:
    """Error that a replica reports of its handler; None if the report has another form."""
    try:
        error = msgspec.msgpack.decode(data, type=dict[str, str])
        kind, message = error["kind"], error["error"]
    except (ValueError, KeyError, RecursionError):
        return None
    return HandlerError(stage, kind[:MAX_KIND], message[:MAX_MESSAGE])


def check_sent_size(stage: str, what: str, size: int, most: int = wire.MAX_BODY) -> None:
    """Refuse a part of a call that is too long to be sent.

    Args:
        what: name of the part in the message, for example `input`.
        size: length of the part, bytes.

    Raises:
        HandlerError: the part is too long.
    """
    if size > most:
        raise HandlerError(stage, "CallTooLarge", f"its {what} is {size} bytes; at most {most} are sent")
