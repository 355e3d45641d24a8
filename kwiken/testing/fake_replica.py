"""Fake replicas in the process of a test: slow, failing and paused as the test says."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from kwiken.base.errors import DefinitionError, KwikenError
from kwiken.model.service.service import Service
from kwiken.runtime.base.errors import HandlerError
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.handler_errors import kind_and_message
from kwiken.runtime.wire.transport.local import LocalTransport, codec_of
from kwiken.runtime.wire.transport.local_items import LocalItems

BY_HANDLER: Final[Any] = object()  # in place of an answer


def _unchanged(value: Any) -> Any:
    return value


async def _each(items: Iterable[Any]) -> AsyncGenerator[Any]:
    for item in items:
        yield item


class FakeReplica:
    """One replica of a stage, for `running`: it runs the stage's handler, or answers what the test says.

    Args:
        latency_ms: wait before each call is answered, milliseconds; of a sequence, call k takes entry k, and
            those after the last entry take the last.
        failures: error that each call ends with after its wait; of a sequence, call k takes entry k, where
            None is no error, and those after the last entry do not fail. Errors of kwiken reach the gateway
            as they are: `RefusedError` (another replica may take the call), `LostError` (the replica died).
            All others count as errors of the handler.
        answer: answer instead of the handler's; a function is called with the stage's inputs. Of a stage that
            streams, a list of its items, or an asynchronous generator of them.
        node: name of the machine it runs on; copies prefer another machine.

    Attributes:
        calls: calls that reached the replica, in their order, running ones included.
        cancelled: number of calls that were given up before their answer.

    Raises:
        ValueError: a latency is negative or not finite, or there is none.
    """

    def __init__(
        self,
        *,
        latency_ms: float | Sequence[float] = 0.0,
        failures: Exception | Sequence[Exception | None] = (),
        answer: Any = BY_HANDLER,
        node: str = "local",
    ) -> None:
        self._latencies_ms = (latency_ms,) if isinstance(latency_ms, int | float) else tuple(latency_ms)
        if not self._latencies_ms or not all(0 <= each < math.inf for each in self._latencies_ms):
            raise ValueError(f"latency_ms must be 0 or more and finite, one or several, not {latency_ms!r}")
        self._failures = failures
        self.answer = answer
        self.node = node
        self.calls: list[Call] = []
        self.cancelled = 0
        self._resumed: asyncio.Event | None = None  # None while it is not paused
        self._probes: list[Callable[[bool], None]] = []

    def pause(self) -> None:
        """Answer nothing from now on until `resume`, neither calls nor probes, like a stopped process."""
        if self._resumed is None:
            self._resumed = asyncio.Event()

    def resume(self) -> None:
        """End a pause: calls whose wait is over are answered at once."""
        resumed, self._resumed = self._resumed, None
        probes, self._probes = self._probes, []
        if resumed is not None:
            resumed.set()
        for heard in probes:
            heard(True)

    def probe(self, heard: Callable[[bool], None]) -> None:
        """Answer a probe of the gateway: now, or when the pause ends."""
        if self._resumed is None:
            heard(True)
        else:
            self._probes.append(heard)

    async def wait(self, call: Call) -> None:
        """Take a call: return after its wait, or raise its failure."""
        number = len(self.calls)
        self.calls.append(call)
        await asyncio.sleep(self._latencies_ms[min(number, len(self._latencies_ms) - 1)] / 1000)
        while self._resumed is not None:
            await self._resumed.wait()
        if isinstance(self._failures, Exception):
            raise self._failures.with_traceback(
                None
            )  # else each raise would add to the traceback of the last
        failure = self._failures[number] if number < len(self._failures) else None
        if failure is not None:
            raise failure


class FakeTransport:
    """Transport to fake replicas; values are converted between stages as they would be between processes.

    Args:
        service: service to run; a stage without a handler here needs answers of its fakes.
        fakes: replicas of each stage, by the stage's name; those of `Stage.replicas` where it is left out.
        now: clock of the calls' deadlines, seconds.

    Raises:
        DefinitionError: there is no such stage, or nothing would answer its calls.
    """

    def __init__(
        self, service: Service, fakes: Mapping[str, Sequence[FakeReplica]], *, now: Callable[[], float]
    ) -> None:
        self._now = now
        self._local = LocalTransport(service, now=now)
        self._codecs = {name: codec_of(service, name) for name in service.stages}
        self._fakes: dict[str, FakeReplica] = {}
        self._streams = {name for name, stage in service.stages.items() if stage.streams}
        self.replicas: dict[str, list[Replica]] = {}
        for name in fakes:
            service[name]  # raises for an unknown stage
        for name, stage in service.stages.items():
            chosen = fakes.get(name) or [FakeReplica() for _ in range(stage.replicas)]
            if stage.remote_call is not None and any(fake.answer is BY_HANDLER for fake in chosen):
                raise DefinitionError(
                    "a foreign service serves it; give each fake replica of it an answer", stage=name
                )
            self.replicas[name] = [
                Replica(f"{name}-{number}", fake.node, "local") for number, fake in enumerate(chosen)
            ]
            self._fakes |= {f"{name}-{number}": fake for number, fake in enumerate(chosen)}

    async def setup(self) -> None:
        """Run the `setup` of every stage, once.

        Raises:
            DefinitionError: a `setup` raises; names the stage.
        """
        await self._local.setup()

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Let a fake replica serve a call.

        Raises:
            DeadlineError: the deadline of the call has passed.
            HandlerError: the handler or the fake's answer raised, or the answer does not have its type.
            KwikenError: the failure that the fake was given.
        """
        fake = self._fakes[replica.id]
        try:
            await fake.wait(call)
            if fake.answer is BY_HANDLER:
                return await self._local.call(replica, call)
            value = fake.answer(*call.args) if callable(fake.answer) else fake.answer
            codec = self._codecs[call.stage]
            fit = codec.fit if codec is not None else _unchanged
            if call.stage in self._streams:
                items = cast("AsyncGenerator[Any]", value) if inspect.isasyncgen(value) else _each(value)
                failure = partial(HandlerError, call.stage)
                stream = LocalItems(items, fit, lambda error: failure(*kind_and_message(error)), self._now)
                return Reply(await stream.begin(), stream.busy_ms)
            if inspect.isawaitable(value):
                value = await value
            return Reply(fit(value))
        except asyncio.CancelledError:
            fake.cancelled += 1
            raise
        except KwikenError:
            raise
        except Exception as error:
            raise HandlerError(call.stage, *kind_and_message(error)) from error

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe a fake replica."""
        self._fakes[replica.id].probe(heard)
