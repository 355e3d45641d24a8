"""Client of a service that runs in the test's own process: it asks, holds the clock, and counts."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from kwiken.model.plan.plan import Plan
from kwiken.model.service.service import Service
from kwiken.otel.write.records import AttemptRecord, RequestRecord
from kwiken.runtime.base.clock import Clock, SystemClock
from kwiken.runtime.decisions.admission import Limits
from kwiken.runtime.engine.executor import Answer, Executor
from kwiken.runtime.engine.status_document import ExecutorStatus
from kwiken.testing.fake_replica import FakeReplica, FakeTransport
from kwiken.testing.virtual_loop import VirtualClock, VirtualLoop

SETTLING_TURNS: Final = 50  # iterations of the event loop: a stage of a request takes a handful


class ServiceClient:
    """Client of a running service; `running` makes it.

    Attributes:
        requests: record of each request that has ended, in the order of their ends: its stages, and their
            attempts with replica, kind, outcome and times.
    """

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self.requests: list[RequestRecord] = []
        self._executor = executor
        self._clock = clock

    def request_finished(self, record: RequestRecord) -> None:
        """Keep the record of one request."""
        self.requests.append(record)

    async def ask(
        self,
        request: Any,
        *,
        deadline_ms: float | None = None,
        priority: int = 0,
        deliver: Callable[[list[Any]], Awaitable[None]] | None = None,
    ) -> Answer:
        """Run one request: `value` is the answer of the last stage, `partial` says whether parts are missing.

        Args:
            deadline_ms: time allowed, milliseconds; None for the default of the limits.
            priority: 0 is normal, higher is more important; requests below 0 are turned away first.
            deliver: takes the items of a last stage that streams as they come; None to have their list as the
                answer.

        Raises:
            OverloadError: turned away before any work was done.
            DeadlineError: the time allowed was over.
            KwikenError: a stage that the answer needs has failed; the message names it.
        """
        return await self._executor.run(request, deadline_ms=deadline_ms, priority=priority, deliver=deliver)

    def apply(self, plan: Plan | None) -> None:
        """Put a plan in force for new requests, or none.

        Raises:
            InputError, DefinitionError: the plan does not fit the service.
        """
        self._executor.apply(plan)

    @property
    def now_ms(self) -> float:
        """Present moment, milliseconds since a fixed one."""
        return self._clock.monotonic() * 1000

    async def advance(self, ms: float) -> None:
        """Let time pass, and everything happen that is due by then; in virtual time it takes none.

        Args:
            ms: time to pass, milliseconds.
        """
        await asyncio.sleep(ms / 1000)
        for _ in range(SETTLING_TURNS):
            await asyncio.sleep(0)

    def copies(self, stage: str | None = None) -> int:
        """Number of copies that were sent so far, those of running requests included.

        Args:
            stage: stage whose calls were copied; None for all stages.
        """
        return self._count("reissues", stage)

    def retries(self, stage: str | None = None) -> int:
        """Number of calls that were sent again after a failure.

        Args:
            stage: stage whose calls were sent again; None for all stages.
        """
        status = self.status()
        if stage is None:
            return int(status["retries"])
        return int(status["stages"][stage]["retries"] + status["stages"][stage]["resends"])

    def refused(self) -> int:
        """Number of requests that were turned away before any work was done."""
        return int(self.status()["shed"])

    def partial(self) -> int:
        """Number of requests whose answer lacks a part."""
        return int(self.status()["partial"])

    def attempts(self, stage: str) -> list[AttemptRecord]:
        """Attempts of a stage's calls in the requests that have ended: replica, kind, outcome, times."""
        return [
            attempt
            for request in self.requests
            for visit in request.stages
            if visit.name == stage
            for attempt in visit.attempts
        ]

    def status(self) -> ExecutorStatus:
        """All counters, budgets and states of replicas, as of `kwiken status --json`."""
        return self._executor.status()

    def _count(self, what: str, stage: str | None) -> int:
        status: Any = self.status()
        return int(status[what] if stage is None else status["stages"][stage][what])


@contextlib.asynccontextmanager
async def running(
    service: Service,
    *,
    replicas: Mapping[str, Sequence[FakeReplica]] | None = None,
    plan: Plan | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    seed: int = 1,
) -> AsyncIterator[ServiceClient]:
    """Run a service in this process, without gateway, processes and network, until the block ends.

    Args:
        service: service whose stages have handlers, or fakes that answer.
        replicas: fake replicas of each stage, by the stage's name; a stage that is left out has
            `Stage.replicas` of them, each quick and sound.
        plan: plan in force; None for none. What stages themselves say of reissues holds anyway. No request is
            kept free of it as a control.
        limits: hard limits of requests at once, deadlines and load.
        seed: seed of the choices of replicas and of coins.

    Raises:
        DefinitionError: the service cannot be run, there is no such stage, or a `setup` fails.
        InputError: the plan does not fit the service.
    """
    service.check()
    virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    clock: Clock = VirtualClock() if virtual else SystemClock()
    transport = FakeTransport(service, replicas or {}, now=clock.monotonic)
    executor = Executor(
        service,
        transport,
        replicas=transport.replicas,
        clock=clock,
        rng=random.Random(seed),  # noqa: S311 - no secrets
        control_share=0.0,
        limits=limits,
    )
    executor.apply(plan)
    client = ServiceClient(executor, clock)
    executor.watcher = client
    await transport.setup()
    yield client
