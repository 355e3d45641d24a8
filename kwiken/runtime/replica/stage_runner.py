"""Runner of one stage's calls: decodes the inputs, runs the handler and encodes its answer or its error."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.service import Service
from kwiken.otel.write import ExceptionRecord
from kwiken.runtime.base.tracebacks import ExceptionRecorder
from kwiken.runtime.wire.transport import is_own, kind_and_message, log_handler_error, wire

LOG = logging.getLogger("kwiken.replica")
MAX_MESSAGE: Final = 500  # characters


class RanCall(msgspec.Struct, frozen=True):
    """Result of a call.

    Attributes:
        body: the encoded answer, or the encoded kind and message of an error.
        error: description of the error, for the span; None for an answer.
        exception: the handler's exception, for the span; None for none.
    """

    body: bytes
    error: str | None = None
    exception: ExceptionRecord | None = None


class StageRunner:
    """Runs the handler of one stage.

    Raises:
        DefinitionError: unknown stage, or one that cannot be served.
    """

    def __init__(self, service: Service, stage: str, *, recorded: bool) -> None:
        self._name = service[stage].name
        self._codec = wire.Codec(service, stage)
        handler = service[stage].handler
        assert handler is not None  # the codec has read its annotations
        self._handler = handler
        self._exceptions = ExceptionRecorder() if recorded else None
        self._encoder = msgspec.msgpack.Encoder()

    async def run(self, body: bytes, *, shard: int, threads: int, traceparent: str | None) -> RanCall:
        """Run one call; an error of the handler is logged and becomes the result.

        Args:
            body: inputs of the handler, encoded.
            shard: number of the shard, from 0.
            threads: number of threads that the handler may use, 1 or more.
            traceparent: trace context of the caller, as it was sent; None if the caller sent none.
        """
        try:
            inputs = self._codec.inputs(body)
        except InputError as error:
            return self._failed(error, None)
        words = {}
        if self._codec.takes_shard:
            words["shard"] = shard
        if self._codec.takes_threads:
            words["threads"] = threads
        try:
            return RanCall(self._encoder.encode(await self._handler(*inputs, **words)))
        except BaseException as error:  # reported to the caller
            if not is_own(error):
                raise
            parent = wire.parse_traceparent(traceparent)
            log_handler_error(LOG, self._name, parent.trace_id if parent is not None else 0, error)
            record = None
            if self._exceptions is not None and parent is not None and parent.sampled:
                record = self._exceptions.record(error)
            return self._failed(error, record)

    def _failed(self, error: BaseException, record: ExceptionRecord | None) -> RanCall:
        kind, message = kind_and_message(error)
        return RanCall(self.failure(error), f"{kind}: {message[:MAX_MESSAGE]}", record)

    def failure(self, error: BaseException) -> bytes:
        """Body of a response that stands for an error: its kind and message, without any traceback."""
        kind, message = kind_and_message(error)
        return self._encoder.encode({"kind": kind, "error": message[:MAX_MESSAGE]})
