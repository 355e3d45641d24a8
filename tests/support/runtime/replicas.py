"""Scripted transport, and builders of services, plans and executors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kwiken.model.plan.accounts import CALL, REQUEST
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, CatchUpPolicy, Costs, PartialPolicy, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.clock import Clock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.testing.virtual_loop import VirtualClock

Behaviour = Callable[[Replica, Call], Awaitable[Any]]


@dataclass
class Sent:
    """Fate of one call."""

    replica: str
    call: Call
    at: float
    ended: float | None = None
    end: str = "running"  # or: answered, cancelled, or the name of an exception's type

    @property
    def parent(self) -> wire.Parent | None:
        """Trace context that the replica got."""
        return wire.parse_traceparent(self.call.traceparent)


@dataclass
class Script:
    """Transport with scripted replicas: `behave` answers calls, and `alive` answers probes."""

    behave: Behaviour
    sent: list[Sent] = field(default_factory=list)
    alive: Callable[[Replica], bool | None] = lambda _: True  # None: the probe gets no result
    asked: list[str] = field(default_factory=list)

    async def call(self, replica: Replica, call: Call) -> Reply:
        loop = asyncio.get_running_loop()
        entry = Sent(replica.id, call, loop.time())
        self.sent.append(entry)
        try:
            value = await self.behave(replica, call)
        except asyncio.CancelledError:
            entry.end = "cancelled"
            raise
        except Exception as error:
            entry.end = type(error).__name__
            raise
        else:
            entry.end = "answered"
            return value if isinstance(value, Reply) else Reply(value)
        finally:
            entry.ended = loop.time()

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        self.asked.append(replica.id)
        alive = self.alive(replica)
        if alive is not None:
            asyncio.get_running_loop().call_soon(heard, alive)

    @property
    def running(self) -> list[Sent]:
        return [entry for entry in self.sent if entry.end == "running"]

    def of(self, stage: str) -> list[Sent]:
        return [entry for entry in self.sent if entry.call.stage == stage]


def after(seconds: float, value: Any = "ok") -> Awaitable[Any]:
    """Answer after some seconds."""
    return asyncio.sleep(seconds, value)


async def raising(error: Exception, seconds: float = 0.0) -> Any:
    """Fail after some seconds."""
    await asyncio.sleep(seconds)
    raise error


def replicas_of(stage: str, count: int, nodes: int | None = None) -> list[Replica]:
    return [
        Replica(f"{stage}-{number}", f"node-{number % (nodes or count)}", f"fake:{number}")
        for number in range(count)
    ]


def service_of(*stages: Stage, name: str = "svc") -> Service:
    return Service.of(name, stages)


def one_stage(
    *, replicas: int = 2, idempotent: bool = True, timeout_ms: float = 5000.0, **settings: Any
) -> Service:
    return service_of(
        Stage(name="s", replicas=replicas, idempotent=idempotent, timeout_ms=timeout_ms, **settings)
    )


def plan_of(
    service: Service,
    reissues: Mapping[str, Reissue] | None = None,
    *,
    budget: float = 0.05,
    partial: Mapping[str, PartialPolicy] | None = None,
    utility_loss: float = 1.0,
    late: Mapping[str, CatchUpPolicy] | None = None,
    catch_up: float = 0.1,
    costs: Mapping[str, float] | None = None,
    ledger: LedgerTerms = LedgerTerms(),  # noqa: B008 - frozen
) -> Plan:
    """Plan; the budgets of utility and catch-up apply only if there are such policies."""
    names = list(service.stages)
    reissues, partial, late = reissues or {}, partial or {}, late or {}
    return Plan(
        version=1,
        service=service.name,
        created="2026-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(
            reissue=budget,
            utility_loss=utility_loss if partial else 0.0,
            catch_up=catch_up if late else 0.0,
        ),
        cost=Costs(model="calls", stages=dict(costs or {name: 1 / len(names) for name in names})),
        stages={
            name: StagePlan(reissue=reissues.get(name), partial=partial.get(name), catch_up=late.get(name))
            for name in {*reissues, *partial, *late}
        },
        ledger=ledger,
    )


def executor_of(
    service: Service,
    transport: Any,
    *,
    seed: int = 1,
    replicas: Mapping[str, Sequence[Replica]] | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> Executor:
    """Executor in virtual time unless a clock is given; without a control share unless given."""
    return Executor(
        service,
        transport,
        replicas=replicas
        or {name: replicas_of(name, stage.replicas) for name, stage in service.stages.items()},
        clock=clock or VirtualClock(),
        rng=random.Random(seed),
        control_share=settings.pop("control_share", 0.0),
        **settings,
    )


def endow(executor: Executor) -> None:
    """Fill every account with work of the last 10 s."""
    now = asyncio.get_running_loop().time()
    ledger = executor.ledger
    for account in (ledger.service, ledger.catch_up, ledger.utility):
        account.earn(10_000 * REQUEST, now)
    for state in executor.states.values():
        state.account.earn(10_000 * CALL, now)
