"""Local transport: calls within one process, for tests, notebooks and services without replicas."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service
from kwiken.runtime.base.errors import DeadlineError, HandlerError
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.handler_errors import is_own, kind_and_message, setup_failed
from kwiken.runtime.wire.transport.local_items import LocalItems
from kwiken.runtime.wire.transport.wire import Codec


class LocalStage(NamedTuple):
    """Stage as this process runs it.

    Attributes:
        sharded: whether the handler takes the keyword `shard`.
        threaded: whether the handler takes the keyword `threads`.
        codec: checks the types of its answers; None if the types cannot be encoded, so that only this
            transport can run the stage.
        unchecked: class whose instances need no check of their types; None for none.
        streams: whether the handler is a generator of items, which `codec` and `unchecked` are for.
    """

    handler: Callable[..., Any]
    sharded: bool
    threaded: bool
    codec: Codec | None
    unchecked: type | None
    streams: bool = False

    def begin(self, call: Call) -> AsyncGenerator[Any]:
        """Generator of the items of a call, where the handler streams."""
        words = {"threads": call.threads} if self.threaded else {}
        generator: AsyncGenerator[Any] = self.handler(*call.args, **words)
        return generator

    def fit(self, item: Any) -> Any:
        """Convert an item to its annotated type as a call over the wire would.

        Raises:
            TypeError: the item has another type.
        """
        return item if type(item) is self.unchecked or self.codec is None else self.codec.fit(item)


class LocalTransport:
    """Calls handlers directly, in the caller's task; every replica is this process.

    Args:
        service: service to run; every stage needs a handler, but for those of foreign services: their calls
            are left to a `ForeignTransport` around this one.
        now: clock of the calls' deadlines, seconds.
        report: called with the stage, the trace id (0 for none) and the exception of a handler that raised;
            None to report nothing: the caller of a request gets the exception as the cause of its error.

    Raises:
        DefinitionError: a stage has no handler.
    """

    def __init__(
        self,
        service: Service,
        *,
        now: Callable[[], float] = time.monotonic,
        report: Callable[[str, int, BaseException], None] | None = None,
    ) -> None:
        self._service = service
        self._now = now
        self._report = report
        self._stages: dict[str, LocalStage] = {}
        for name, stage in service.stages.items():
            if stage.remote_call is not None:
                continue
            if stage.handler is None:
                raise DefinitionError("has no handler, so it cannot run here", stage=name)
            self._stages[name] = LocalStage(
                stage.handler,
                sharded=stage.fanout > 1,
                threaded=stage.threads > 1,
                codec=codec_of(service, name),
                unchecked=_unchecked_class(service.signature(name).output),
                streams=stage.streams,
            )

    async def setup(self) -> None:
        """Run the `setup` of every stage, once.

        Raises:
            DefinitionError: a `setup` raises; names the stage.
        """
        for name, stage in self._service.stages.items():
            if stage.setup is None:
                continue
            try:
                done = stage.setup()
                if inspect.isawaitable(done):
                    await done
            except (Exception, SystemExit) as error:
                raise setup_failed(name, error) from error

    async def call(self, replica: Replica, call: Call) -> Reply:  # noqa: ARG002 - all replicas are this process
        """Run the handler, and convert its answer to the annotated type as a call over the wire would.

        Raises:
            DefinitionError: a foreign service serves the stage.
            DeadlineError: the deadline of the call has passed.
            HandlerError: the handler raised, or its answer does not have its type.
        """
        started = self._now()
        if started >= call.deadline:
            raise DeadlineError(f"stage {call.stage!r}: its deadline had passed before it ran")
        if call.stage not in self._stages:
            raise DefinitionError(
                "a foreign service serves it; put a ForeignTransport around this one", stage=call.stage
            )
        handler, sharded, threaded, codec, unchecked, streams = self._stages[call.stage]
        if streams:
            return await self._stream(self._stages[call.stage], call)
        try:
            if threaded:
                told = {"shard": call.shard} if sharded else {}
                value = await handler(*call.args, **told, threads=call.threads)
            else:
                value = await (handler(*call.args, shard=call.shard) if sharded else handler(*call.args))
            if type(value) is not unchecked and codec is not None:
                value = codec.fit(value)
        except BaseException as error:
            if not is_own(error):
                raise
            raise self._failure(call, error) from error
        # Elapsed time does not measure the work of several threads.
        return Reply(value, (self._now() - started) * 1000 if call.threads == 1 else None)

    async def _stream(self, stage: LocalStage, call: Call) -> Reply:
        """Run a handler that streams to its first item."""
        stream = LocalItems(stage.begin(call), stage.fit, partial(self._failure, call), self._now)
        await stream.begin()
        return Reply(stream, stream.busy_ms if call.threads == 1 else None)

    def _failure(self, call: Call, error: BaseException) -> HandlerError:
        """Report an error of a handler; returns the one to raise from it."""
        if self._report is not None:
            self._report(call.stage, call.trace_id, error)
        return HandlerError(call.stage, *kind_and_message(error))

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:  # noqa: ARG002 - this process
        """Report the replica as alive: it is this process."""
        heard(True)


def _unchecked_class(answer: Any) -> type | None:
    """Annotated class of an answer whose instances need no check; None where a part may have a wrong type."""
    if answer in (bool, int, float, str, bytes):
        return cast("type", answer)
    # An instance of a Struct passes too: msgspec checks its fields only when it decodes one.
    return answer if isinstance(answer, type) and issubclass(answer, msgspec.Struct) else None


def codec_of(service: Service, stage: str) -> Codec | None:
    """Codec that checks the answers of a stage; None if its types cannot be encoded."""
    try:
        return Codec(service, stage)
    except DefinitionError:
        return None


def local_replicas(service: Service) -> dict[str, list[Replica]]:
    """Replicas of a service for `LocalTransport`: for each stage as many as it asks for, all in this process.

    A stage of a foreign service gets none.
    """
    return {
        name: [
            Replica(f"{name}-{number}", "local", "local")
            for number in range(stage.replicas if stage.remote_call is None else 0)
        ]
        for name, stage in service.stages.items()
    }
