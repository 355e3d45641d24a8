"""Local transport: calls within one process, for tests, notebooks and services without replicas."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from kwiken.errors import DefinitionError
from kwiken.runtime.errors import DeadlineError, HandlerError
from kwiken.runtime.transport.base import Call, Replica, Reply
from kwiken.runtime.transport.handler_errors import is_own, kind_and_message, setup_failed
from kwiken.service import Service


class LocalTransport:
    """Calls handlers directly, in the caller's task; every replica is this process.

    Args:
        service: service to run; every stage needs a handler.
        now: clock of the calls' deadlines, seconds.

    Raises:
        DefinitionError: a stage has no handler.
    """

    def __init__(self, service: Service, *, now: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._now = now
        self._handlers: dict[str, tuple[Callable[..., Any], bool, bool]] = {}
        for name, stage in service.stages.items():
            if stage.handler is None:
                raise DefinitionError("has no handler, so it cannot run here", stage=name)
            self._handlers[name] = (stage.handler, stage.fanout > 1, stage.threads > 1)

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
        """Run the handler.

        Raises:
            DeadlineError: the deadline of the call has passed.
            HandlerError: the handler raised.
        """
        started = self._now()
        if started >= call.deadline:
            raise DeadlineError(f"stage {call.stage!r}: its deadline had passed before it ran")
        handler, sharded, threaded = self._handlers[call.stage]
        try:
            if threaded:
                told = {"shard": call.shard} if sharded else {}
                value = await handler(*call.args, **told, threads=call.threads)
            else:
                value = await (handler(*call.args, shard=call.shard) if sharded else handler(*call.args))
        except BaseException as error:
            if not is_own(error):
                raise
            raise HandlerError(call.stage, *kind_and_message(error)) from error
        # Elapsed time does not measure the work of several threads.
        return Reply(value, (self._now() - started) * 1000 if call.threads == 1 else None)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:  # noqa: ARG002 - this process
        """Report the replica as alive: it is this process."""
        heard(True)


def local_replicas(service: Service) -> dict[str, list[Replica]]:
    """Replicas of a service for `LocalTransport`: for each stage as many as it asks for, all in this process.

    Args:
        service: service whose stages get replicas.
    """
    return {
        name: [Replica(f"{name}-{number}", "local", "local") for number in range(stage.replicas)]
        for name, stage in service.stages.items()
    }
