"""The budget of extra work holds by what replicas measure, whatever a plan says that calls cost."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.decisions.admission import Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, ItemStream, Replica, Reply
from kwiken.testing.virtual_loop import VirtualClock, simulate

BUDGET = 0.05
REQUESTS = 3000
BURST = 50.0  # requests whose budget may be spent before it is earned
STAGES = ("light", "heavy")


class Workers:
    """Replicas that work as long as they are told to, and count all their work, cancelled or not.

    Args:
        work_ms: work of a call by its stage and by the request's number, milliseconds.
        stalls: share of first attempts that stall before they work.
        says: whether replicas report the work of the calls that they answer.
        factor: work that replicas report of cancelled calls, as a multiple of what they did.
    """

    def __init__(
        self, work_ms: dict[str, list[float]], stalls: float, *, says: bool = True, factor: float = 1.0
    ) -> None:
        self.work_ms = work_ms
        self._stalls = stalls
        self._says = says
        self.factor = factor
        self._rng = random.Random(7)
        self.done_ms = 0.0
        self.cancelled_ms = self.answered_ms = 0.0
        self.calls = 0

    async def call(self, replica: Replica, call: Call) -> Reply:
        del replica
        (number,) = call.args
        work_ms = self.work_ms[call.stage][number % len(self.work_ms[call.stage])]
        self.calls += 1
        if not call.attempt and self._rng.random() < self._stalls:
            await asyncio.sleep(0.2)
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(work_ms / 1e3)
        except asyncio.CancelledError:
            worked_ms = 1e3 * (asyncio.get_running_loop().time() - began)
            self.cancelled_ms += worked_ms
            asyncio.get_running_loop().call_later(0.001, self._tell, call, worked_ms)
            raise
        finally:
            self.done_ms += 1e3 * (asyncio.get_running_loop().time() - began)
        self.answered_ms += work_ms
        return Reply(number, busy_ms=work_ms if self._says else None)

    def _tell(self, call: Call, worked_ms: float) -> None:
        if call.note_work is not None:
            call.note_work(self.factor * worked_ms)

    def ask(self, replica: Replica, heard: object) -> None:
        """No replica hangs."""


def plan_of(shares: dict[str, float], *, copies: int = 1, after_ms: float = 0.0) -> Plan:
    """Plan that copies every call at once, with shares of cost of its own and no floor."""
    policy = Reissue(after_ms=after_ms, copies=copies, fraction=1.0)
    return Plan(
        version=1,
        service="s",
        created="2026-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=BUDGET),
        cost=Costs(model="busy", stages=shares),
        stages={name: StagePlan(reissue=policy) for name in STAGES},
        ledger=LedgerTerms(floor_per_s=0.0, peak_factor=100.0),
    )


def service() -> Service:
    found = Service("s")
    for place, name in enumerate(STAGES):
        found.add(Stage(name=name, after=STAGES[:place], replicas=3, idempotent=True))
    return found


async def extra_share(workers: Workers, plan: Plan) -> tuple[float, Any]:
    """Work beyond that without copies, as a share of it, by the workers' own count; and the ledger's status."""
    found = service()
    executor = Executor(
        found,
        workers,
        replicas={name: [Replica(f"{name}{n}", f"n{n}", f"{name}{n}") for n in range(3)] for name in STAGES},
        clock=VirtualClock(),
        rng=random.Random(3),
        control_share=0.0,
        limits=Limits(requests=100_000, calm_below=1.0),
    )
    executor.apply(plan)
    for start in range(0, REQUESTS, 20):
        await asyncio.gather(*(executor.run(number) for number in range(start, start + 20)))
    await asyncio.sleep(1.0)  # until replicas have said what cancelled calls had worked
    lone = sum(
        workers.work_ms[name][number % len(workers.work_ms[name])]
        for name in STAGES
        for number in range(REQUESTS)
    )
    return workers.done_ms / lone - 1.0, executor.status()["ledger"]


EVEN = {"light": [2.0], "heavy": [8.0]}
# One request in forty is fifty times as much work, and a copy goes to each call.
MIXED = {"light": [2.0], "heavy": [4.0] * 39 + [200.0]}


@pytest.mark.parametrize("work_ms", [EVEN, MIXED], ids=["even", "mixed"])
@pytest.mark.parametrize(
    "shares",
    [{"light": 0.2, "heavy": 0.8}, {"light": 1 - 1e-6, "heavy": 1e-6}, {"light": 1e-9, "heavy": 1 - 1e-9}],
    ids=["true", "heavy-forged", "light-forged"],
)
@pytest.mark.parametrize("after_ms", [0.0, 3.0])
def test_extra_work_is_within_the_budget_for_any_shares(
    work_ms: dict[str, list[float]], shares: dict[str, float], after_ms: float
) -> None:
    workers = Workers(work_ms, 0.05)
    plan = plan_of(shares, copies=16, after_ms=after_ms)
    extra, ledger = simulate(lambda: extra_share(workers, plan))
    assert workers.calls > 2 * REQUESTS, "some copies are sent"
    assert extra <= BUDGET * (1 + BURST / REQUESTS) + 0.005
    assert ledger["observed_share"] <= ledger["spent_share"] * 1.02 + 0.002


def test_copies_of_stages_whose_work_nobody_reports_are_charged_by_the_plan() -> None:
    workers = Workers(EVEN, 0.05, says=False)
    _, ledger = simulate(lambda: extra_share(workers, plan_of({"light": 0.5, "heavy": 0.5})))
    assert 0 < ledger["spent_share"] <= BUDGET * (1 + BURST / REQUESTS)
    assert ledger["observed_share"] == 0.0


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"light": 0.0, "heavy": 1.0}, "'light' is reissued or caught up but has no cost above 0"),
        ({"heavy": 1.0}, "'light' is reissued or caught up but has no cost above 0"),
    ],
)
def test_a_plan_with_a_copy_that_costs_nothing_is_refused(shares: dict[str, float], message: str) -> None:
    text = msgspec.json.encode(msgspec.to_builtins(plan_of({"light": 0.5, "heavy": 0.5})))
    document = msgspec.json.decode(text)
    document["cost"]["stages"] = shares
    with pytest.raises(InputError, match=message):
        Plan.from_json(msgspec.json.encode(document))


def test_a_floor_that_would_be_a_second_budget_is_refused() -> None:
    plan = plan_of({"light": 0.5, "heavy": 0.5})
    with pytest.raises(InputError, match="floor_per_s: must be from 0 to 10, not 1000"):
        msgspec.structs.replace(plan, ledger=LedgerTerms(floor_per_s=1000.0)).check(service())


def test_a_plan_whose_shares_do_not_add_up_is_refused_by_its_service() -> None:
    with pytest.raises(InputError, match=r"must sum to 1, not 0\.5"):
        plan_of({"light": 0.25, "heavy": 0.25}).check(service())


class Stragglers(Workers):
    """Workers whose first attempt at a call is now and then fifty times as much work."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        if call.attempt or self._rng.random() > 0.01:
            return await super().call(replica, call)
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(0.4)
        except asyncio.CancelledError:
            worked_ms = 1e3 * (asyncio.get_running_loop().time() - began)
            self.cancelled_ms += worked_ms
            asyncio.get_running_loop().call_later(0.001, self._tell, call, worked_ms)
            raise
        self.answered_ms += 400.0
        return Reply(call.args[0], busy_ms=400.0)


@pytest.mark.parametrize("factor", [1.0, float("inf")])
def test_work_of_a_cancelled_straggler_is_charged_as_its_replica_says(factor: float) -> None:
    workers = Stragglers(EVEN, 0.0, factor=factor)
    plan = plan_of({"light": 0.2, "heavy": 0.8}, after_ms=60.0)
    _, ledger = simulate(lambda: extra_share(workers, plan))
    worked = workers.cancelled_ms / workers.answered_ms
    assert worked > 0.02, "stragglers are cancelled"
    assert ledger["observed_share"] == pytest.approx(worked, rel=0.02)


@pytest.mark.parametrize("factor", [float("nan")])
def test_nonsense_of_a_replica_refunds_nothing(factor: float) -> None:
    plan = plan_of({"light": 0.2, "heavy": 0.8}, after_ms=60.0)
    liars, silent = Stragglers(EVEN, 0.0, factor=factor), Stragglers(EVEN, 0.0, factor=0.0)
    _, lied = simulate(lambda: extra_share(liars, plan))
    _, said = simulate(lambda: extra_share(silent, plan))
    assert lied["observed_share"] == said["observed_share"] > 0


class WorkedItems(ItemStream):
    """Items after the first one, each of which is work that the workers count."""

    def __init__(self, workers: Streamers, first_ms: float, rest_ms: list[float]) -> None:
        self._workers = workers
        self._rest_ms = rest_ms
        self._done_ms = first_ms
        self._sent = 0

    async def pull(self) -> list[Any]:
        if self._sent > len(self._rest_ms):
            self.busy_ms = self._done_ms
            return []
        if self._sent:
            await asyncio.sleep(self._rest_ms[self._sent - 1] / 1e3)
            self._workers.rest_ms += self._rest_ms[self._sent - 1]
            self._done_ms += self._rest_ms[self._sent - 1]
        self._sent += 1
        return [self._sent]

    def cancel(self) -> None:
        """A second answer: the replica stops, and what it did before its first item is counted there."""


class Streamers(Stragglers):
    """Stragglers whose last stage streams: the work of `Workers` is for the first item, and more follows."""

    rest_ms = 0.0

    async def call(self, replica: Replica, call: Call) -> Reply:
        reply = await super().call(replica, call)
        if call.stage != STAGES[-1]:
            return reply
        assert reply.busy_ms is not None
        return Reply(WorkedItems(self, reply.busy_ms, [3.0, 5.0]), busy_ms=reply.busy_ms)


@pytest.mark.parametrize(
    "shares",
    [{"light": 0.2, "heavy": 0.8}, {"light": 1 - 1e-6, "heavy": 1e-6}, {"light": 1e-9, "heavy": 1 - 1e-9}],
    ids=["true", "heavy-forged", "light-forged"],
)
def test_copies_of_streams_are_charged_with_the_work_up_to_the_first_item(shares: dict[str, float]) -> None:
    """Of all work, that after the first item too, copies cause no more than the budget, as workers count it."""
    workers = Streamers(EVEN, 0.0)
    _, ledger = simulate(lambda: extra_share(workers, plan_of(shares, after_ms=60.0)))
    answered_ms = workers.answered_ms + workers.rest_ms
    assert workers.rest_ms == REQUESTS * 8.0, "each stream is read once and whole"
    worked = workers.cancelled_ms / answered_ms
    assert worked > 0.01, "stragglers are cancelled"
    assert ledger["observed_share"] == pytest.approx(worked, rel=0.02)
    assert worked <= BUDGET * (1 + BURST / REQUESTS) + 0.005
