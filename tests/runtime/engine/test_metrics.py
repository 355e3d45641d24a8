"""Metrics of an executor say what happened: outcomes, attempts, budgets, replicas and the plan."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from kwiken.base.errors import KwikenError
from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.service.stage import Reissue, Stage
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import MAX_PIECE, Distribution, Family
from kwiken.otel.write.labels import OTHER
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError
from kwiken.runtime.decisions.stage_state import ATTEMPT_KINDS, ATTEMPT_OUTCOMES
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.metrics.reading import read_in_turns
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import (
    Script,
    after,
    endow,
    executor_of,
    one_stage,
    plan_of,
    raising,
    replicas_of,
    service_of,
)


def read(executor: Executor) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric and labels; a histogram's is its number of samples."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for each in executor.metrics():
        values = found.setdefault(each.metric.name, {})
        before = len(values)
        for point in each.points:
            values[point.labels] = point.value.size if isinstance(point.value, Distribution) else point.value
        assert len(values) - before == len(each.points), each.metric.name
    return found


def test_every_metric_of_the_catalogue_is_read_once() -> None:
    async def main() -> list[Family]:
        return list(executor_of(one_stage(), Script(lambda *_: after(0))).metrics())

    names = [each.metric.name for each in simulate(main)]
    elsewhere = {
        metric.name
        for metric in (
            *(catalog.LOOP_LAG, catalog.PLAN_EXPECTED, catalog.HTTP_DURATION, catalog.HTTP_ACTIVE),
            *(catalog.PLAN_TRIAL, catalog.AUTOPILOT_DECISIONS, catalog.AUTOPILOT_LAST),
            catalog.CERTIFICATE_VALIDITY,
        )
    }
    assert sorted(names) == sorted({metric.name for metric in catalog.GATEWAY} - elsewhere)


def test_outcomes_of_requests_and_of_attempts() -> None:
    async def serve(replica: Replica, call: Call) -> Any:
        first = call.args[0]
        if first == "late":
            await asyncio.sleep(9)
        if first == "bad":
            await raising(HandlerError("s", "ValueError", "bad"))
        return await after(0.02, "ok")

    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        executor = executor_of(one_stage(), Script(serve))
        await executor.run("good")
        with pytest.raises(DeadlineError):
            await executor.run("late", deadline_ms=50)
        with pytest.raises(KwikenError):
            await executor.run("bad")
        given_up = asyncio.ensure_future(executor.run("late"))
        await asyncio.sleep(0.1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        return read(executor)

    found = simulate(main)
    assert found["kw.request.duration"] == {
        ("answered",): 1,
        ("failed",): 1,
        ("deadline",): 1,
        ("full",): 0,
        ("cancelled",): 1,
    }
    attempts = {labels: count for labels, count in found["kw.stage.attempts"].items() if count}
    assert attempts == {
        ("s", "primary", "won"): 1,
        ("s", "primary", "failed"): 1,
        ("s", "primary", "cancelled"): 2,
    }
    assert found["kw.stage.call.duration"] == {("s",): 1}
    assert found["kw.stage.calls.failed"] == {("s",): 2}
    assert found["kw.requests.active"] == {(): 0}


def test_copies_granted_and_denied_and_what_they_cost() -> None:
    async def main() -> list[dict[str, dict[tuple[str, ...], float]]]:
        service = one_stage(replicas=3)
        executor = executor_of(service, Script(lambda _, call: after(0.01 if call.attempt else 1.0)))
        reissue = {"s": Reissue(after_ms=100, fraction=0.1)}
        executor.apply(plan_of(service, reissue, budget=0.0))
        await executor.run("q")
        denied = read(executor)
        executor.apply(plan_of(service, reissue, budget=0.5))
        endow(executor)
        await executor.run("q")
        return [denied, read(executor)]

    denied, granted = simulate(main)
    assert sum(denied["kw.copies.denied"].values()) > 0
    assert sum(denied["kw.budget.denied"].values()) == sum(denied["kw.copies.denied"].values())
    assert denied["kw.copies.granted"]["s", "reissue"] == 0
    assert granted["kw.copies.granted"]["s", "reissue"] == 1
    assert granted["kw.stage.attempts"]["s", "reissue", "won"] == 1
    assert granted["kw.stage.attempts"]["s", "primary", "cancelled"] == 1
    assert granted["kw.budget.spent"]["reissue",] == pytest.approx(1.0)
    earned, spent = granted["kw.budget.earned"]["reissue",], granted["kw.budget.spent"]["reissue",]
    assert granted["kw.budget.left"]["reissue",] > earned - spent - 1e-6  # the burst comes on top
    assert granted["kw.budget.fraction"]["reissue",] == pytest.approx(0.49)  # a fiftieth is kept for rounding
    assert granted["kw.plan.reissue.after"] == {("s",): 0.1}
    assert granted["kw.plan.changes"] == {(): 2}
    ((service, digest, created),) = granted["kw.plan"]
    assert (service, created) == ("svc", "2026-01-01T00:00:00Z")
    assert len(digest) == 12


def test_a_copy_without_a_replica_is_denied_for_that_reason() -> None:
    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        service = one_stage(replicas=1)
        executor = executor_of(service, Script(lambda *_: after(1.0)))
        executor.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)}, budget=0.5))
        endow(executor)
        await executor.run("q")
        return read(executor)

    assert simulate(main)["kw.copies.denied"]["s", "no_replica"] > 0


def test_partial_answers_and_their_lost_utility() -> None:
    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        service = service_of(
            Stage(name="f", fanout=4, replicas=2, idempotent=True), Stage(name="m", after=("f",))
        )
        executor = executor_of(service, Script(lambda _, call: after(5.0 if call.shard == 3 else 0.01)))
        cut = PartialPolicy(cutoff_ms=100.0, wait_ms=None, progress=1.0, loss=0.01)
        executor.apply(plan_of(service, partial={"f": cut}))
        endow(executor)
        answer = await executor.run("q")
        assert answer.partial
        return read(executor)

    found = simulate(main)
    assert found["kw.requests.partial"] == {(): 1}
    assert found["kw.utility.lost"]["chosen",] == pytest.approx(0.25)
    assert found["kw.utility.lost"]["failures",] == 0.0
    assert found["kw.stage.stops"]["f", "true"] == 1
    assert found["kw.budget.spent"]["utility",] == pytest.approx(0.25)


def test_utility_that_failures_cost_is_told_from_what_a_stop_rule_chose() -> None:
    async def serve(replica: Replica, call: Call) -> Any:
        if call.shard in {1, 3}:
            raise HandlerError("f", "ValueError", "broken")
        return 1

    async def main() -> tuple[dict[str, dict[tuple[str, ...], float]], Any, float]:
        service = service_of(
            Stage(name="f", fanout=4, replicas=2, idempotent=True, optional=True),
            Stage(name="m", after=("f",)),
        )
        executor = executor_of(service, Script(serve))
        answer = await executor.run("q")
        return read(executor), executor.status(), answer.utility

    found, status, utility = simulate(main)
    assert found["kw.utility.lost"] == {("chosen",): 0.0, ("failures",): pytest.approx(1.0 - utility)}
    assert status["lost_utility"] == {"chosen": 0.0, "failures": pytest.approx(1.0 - utility)}


def test_an_ejected_replica_is_seen() -> None:
    async def serve(replica: Replica, call: Call) -> Any:
        if replica.id == "s-0":
            raise LostError("gone")
        return await after(0.01, "ok")

    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        executor = executor_of(one_stage(replicas=2), Script(serve))
        for _ in range(8):
            await executor.run("q")
        return read(executor)

    found = simulate(main)
    assert found["kw.replica.ejected"] == {("s", "s-0", "node-0"): 1, ("s", "s-1", "node-1"): 0}
    assert found["kw.stage.replicas"] == {("s", "live"): 1, ("s", "ejected"): 1}


def odd_names(count: int, rng: random.Random) -> Iterable[str]:
    for number in range(count):
        yield f"{number}-" + "".join(
            chr(rng.choice((0, 10, 34, 92, 955, 0x1F600))) for _ in range(rng.randint(0, 300))
        )


def test_ten_thousand_replicas_with_odd_names_become_a_bounded_number_of_series() -> None:
    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        names = odd_names(10_000, random.Random(1))
        many = [Replica(name, name[::-1], "fake:1") for name in names]
        executor = executor_of(one_stage(), Script(lambda *_: after(0)), replicas={"s": many})
        return read(executor)

    found = simulate(main)
    assert found["kw.stage.replicas"] == {("s", "live"): 10_000, ("s", "ejected"): 0}
    for name in ("kw.replica.ejected", "kw.replica.calls.active", "kw.replica.latency"):
        assert len(found[name]) == 201
        assert ("s", OTHER, OTHER) in found[name]


def test_shed_requests_by_priority() -> None:
    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        executor = executor_of(one_stage(), Script(lambda *_: after(0)))
        executor.note_line(100.0)
        for priority in (0, 0, -3, 10**6):
            with pytest.raises(KwikenError):
                executor.turn_away(priority=priority)
        return read(executor)

    assert simulate(main)["kw.requests.shed"] == {("-3",): 1, ("0",): 2, ("9",): 1}


def test_the_stages_and_their_order() -> None:
    service = service_of(Stage(name="a", idempotent=True), Stage(name="b", after=("a",), threads=2))

    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        replicas = {name: replicas_of(name, 1) for name in service.stages}
        return read(executor_of(service, Script(lambda *_: after(0)), replicas=replicas))

    assert list(simulate(main)["kw.stage"]) == [
        ("svc", "a", "", "1", "true", "1"),
        ("svc", "b", "a", "1", "false", "2"),
    ]


def test_metrics_of_many_stages_are_built_in_pieces_and_joined_for_the_reader() -> None:
    stages = [Stage(name=f"s{n}", replicas=2, after=(f"s{n - 1}",) if n else ()) for n in range(350)]

    async def main() -> tuple[list[Family], list[Family]]:
        executor = executor_of(service_of(*stages), Script(lambda *_: after(0)))
        return list(executor.metrics()), await read_in_turns(executor.metrics())

    pieces, joined = simulate(main)
    assert max(len(each.points) for each in pieces) <= MAX_PIECE + 1
    found = {each.metric.name: [point.labels for point in each.points] for each in joined}
    assert len(found) == len(joined)
    assert found[catalog.CALL_DURATION.name] == [(f"s{n}",) for n in range(350)]
    assert {name: len(labels) for name, labels in found.items() if len(labels) > 1000} == {
        catalog.ATTEMPTS.name: 350 * len(ATTEMPT_KINDS) * len(ATTEMPT_OUTCOMES),
        catalog.COPIES_DENIED.name: sum(
            len(each.points) for each in pieces if each.metric is catalog.COPIES_DENIED
        ),
    }
