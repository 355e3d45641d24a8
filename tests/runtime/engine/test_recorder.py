"""Records of requests: their content, and when they are made."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.service.stage import Reissue, Stage
from kwiken.otel.write.records import AttemptKind, Outcome, RequestRecord
from kwiken.runtime.base.errors import HandlerError, LostError
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.wire import Parent
from kwiken.testing.virtual_loop import START_NS, simulate
from tests.support.runtime.replicas import (
    Script,
    after,
    endow,
    executor_of,
    one_stage,
    plan_of,
    raising,
    service_of,
)


class Collector:
    """Observer that collects records."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def request_finished(self, record: RequestRecord) -> None:
        self.records.append(record)


def noted(script: Script, service: Any, *, plan: Any = None, **run: Any) -> RequestRecord:
    async def main() -> RequestRecord:
        collector = Collector()
        executor = executor_of(service, script, observer=collector)
        executor.apply(plan)
        endow(executor)
        try:
            answer = await executor.run("q", **run)
        except Exception:  # noqa: BLE001 - the record tells
            answer = None
        (record,) = collector.records
        assert answer is None or answer.record is record
        return record

    return simulate(main)


def test_request_stages_and_attempts() -> None:
    service = service_of(
        Stage(name="a", replicas=2),
        Stage(name="f", after=("a",), fanout=3, replicas=2),
        Stage(name="m", after=("f",)),
    )
    record = noted(Script(lambda *_: after(0.1, Reply("x", busy_ms=7.0))), service)
    assert record.service == "svc"
    assert record.error is None
    assert record.plan is None
    assert record.end_ns - record.start_ns == 300_000_000
    assert abs(record.start_ns - START_NS) < 2_000_000_000_000
    assert [(stage.name, stage.after, stage.fanout) for stage in record.stages] == [
        ("a", (), 1),
        ("f", ("a",), 3),
        ("m", ("f",), 1),
    ]
    assert [attempt.shard for attempt in record.stages[1].attempts] == [0, 1, 2]
    for stage in record.stages:
        assert record.start_ns <= stage.start_ns <= stage.end_ns <= record.end_ns
        for attempt in stage.attempts:
            assert stage.start_ns <= attempt.start_ns <= attempt.end_ns <= stage.end_ns
            assert attempt.outcome is Outcome.WON
            assert attempt.kind is AttemptKind.PRIMARY
            assert attempt.busy_ms == 7.0
            assert attempt.replica.startswith(stage.name)
            assert attempt.node.startswith("node-")
    ids = [
        record.span_id,
        *(s.span_id for s in record.stages),
        *(a.span_id for s in record.stages for a in s.attempts),
    ]
    assert len(set(ids)) == len(ids)
    assert all(0 < span < 2**64 for span in ids)
    assert 0 < record.trace_id < 2**128


def test_a_replica_gets_the_span_of_its_attempt() -> None:
    script = Script(lambda *_: after(0.0))
    record = noted(script, one_stage())
    (entry,) = script.sent
    span_id = record.stages[0].attempts[0].span_id
    assert entry.parent == Parent(record.trace_id, span_id, sampled=True)


def test_callers_trace_is_continued() -> None:
    record = noted(Script(lambda *_: after(0.0)), one_stage(), parent=Parent(77, 88, sampled=True))
    assert (record.trace_id, record.parent_span_id) == (77, 88)
    assert record.span_id != 88


def test_ids_come_from_the_injected_generator() -> None:
    first, second = (noted(Script(lambda *_: after(0.0)), one_stage()) for _ in range(2))
    assert (first.trace_id, first.span_id) == (second.trace_id, second.span_id)


def test_every_span_of_a_wide_request_has_an_id_of_its_own_that_its_replica_gets() -> None:
    service = service_of(Stage(name="f", fanout=200, replicas=2), Stage(name="m", after=("f",)))
    script = Script(lambda *_: after(0.01))
    record = noted(script, service)
    sent = [entry.parent.span_id for entry in script.sent if entry.parent is not None]
    noted_ids = [attempt.span_id for stage in record.stages for attempt in stage.attempts]
    assert sorted(sent) == sorted(noted_ids)
    ids = {record.span_id, *sent, *(stage.span_id for stage in record.stages)}
    assert len(ids) == 1 + 201 + 2
    low = sum(span_id < 2**63 for span_id in ids)
    assert 0.4 < low / len(ids) < 0.6, "they look like random ones"


def race(behave: Any, **settings: Any) -> RequestRecord:
    service = one_stage(**settings)
    plan = plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)})
    record = noted(Script(behave), service, plan=plan)
    assert record.plan == plan.digest
    return record


def kinds(record: RequestRecord) -> list[tuple[int, AttemptKind, Outcome]]:
    return [(each.attempt, each.kind, each.outcome) for each in record.stages[0].attempts]


def test_copy_that_wins() -> None:
    record = race(lambda _, call: after(0.01 if call.attempt else 9.0))
    assert kinds(record) == [
        (0, AttemptKind.PRIMARY, Outcome.CANCELLED),
        (1, AttemptKind.REISSUE, Outcome.WON),
    ]
    primary, copy = record.stages[0].attempts
    assert copy.start_ns - primary.start_ns == 100_000_000
    assert primary.end_ns == copy.end_ns == record.stages[0].end_ns


def test_copy_that_loses() -> None:
    record = race(lambda _, call: after(9.0 if call.attempt else 0.2))
    assert kinds(record) == [
        (0, AttemptKind.PRIMARY, Outcome.WON),
        (1, AttemptKind.REISSUE, Outcome.CANCELLED),
    ]


def test_copy_that_answers_too_late_to_be_cancelled_has_lost() -> None:
    async def stubborn(_: Replica, call: Call) -> Any:
        if not call.attempt:
            return await after(0.2)
        try:
            await asyncio.sleep(9.0)
        except asyncio.CancelledError:
            return "anyway"

    assert kinds(race(stubborn))[1] == (1, AttemptKind.REISSUE, Outcome.LOST)


def test_retry() -> None:
    record = race(lambda _, call: after(0.01) if call.attempt else raising(LostError("reset"), 0.05))
    assert kinds(record) == [(0, AttemptKind.PRIMARY, Outcome.FAILED), (1, AttemptKind.RETRY, Outcome.WON)]
    assert record.stages[0].attempts[0].error == "LostError: reset"


def test_failure_is_noted_at_every_level() -> None:
    record = race(lambda *_: raising(HandlerError("s", "KeyError", "'x'"), 0.01))
    assert record.error == "HandlerError: stage 's': KeyError: 'x'"
    assert record.stages[0].error == record.error
    assert record.stages[0].attempts[0].error == record.error


def test_partial_answer_is_noted() -> None:
    service = service_of(Stage(name="f", fanout=4), Stage(name="m", after=("f",)))
    policy = PartialPolicy(cutoff_ms=50.0, wait_ms=None, progress=1.0, loss=0.0)
    record = noted(
        Script(lambda _, call: after(9.0 if call.shard == 1 else 0.01)),
        service,
        plan=plan_of(service, partial={"f": policy}),
    )
    stage = record.stages[0]
    assert (stage.partial, stage.utility) == (True, 0.75)
    assert [attempt.outcome for attempt in stage.attempts].count(Outcome.CANCELLED) == 1
    assert all(attempt.end_ns >= attempt.start_ns for attempt in stage.attempts)


def test_cancelled_request_is_noted_and_complete() -> None:
    async def main() -> RequestRecord:
        collector = Collector()
        executor = executor_of(one_stage(), Script(lambda *_: after(9.0)), observer=collector)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await executor.run("q")
        (record,) = collector.records
        return record

    record = simulate(main)
    assert record.error is not None
    assert record.error.startswith("CancelledError")
    assert record.end_ns - record.start_ns == 500_000_000
    assert record.stages[0].end_ns == record.end_ns
    assert kinds(record) == [(0, AttemptKind.PRIMARY, Outcome.CANCELLED)]


def test_nothing_is_noted_unless_asked_for() -> None:
    async def main() -> None:
        script = Script(lambda *_: after(0.0))
        executor = executor_of(one_stage(), script)
        assert (await executor.run("q")).record is None
        assert (await executor.run("q", parent=Parent(5, 6, sampled=True))).record is None
        assert [entry.parent for entry in script.sent] == [None, Parent(5, 6, sampled=True)]
        assert (await executor.run("q", note=True)).record is not None

    simulate(main)


def test_observer_that_raises_fails_no_request(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def request_finished(self, record: RequestRecord) -> None:
            raise RuntimeError("disk full")

    async def main() -> Any:
        executor = executor_of(one_stage(), Script(lambda *_: after(0.0, "fine")), observer=Broken())
        return (await executor.run("q")).value

    assert simulate(main) == "fine"
    assert "disk full" in caplog.text


def test_no_record_ends_before_its_start_when_the_wall_clock_is_set_back() -> None:
    from kwiken.runtime.engine.executor import Executor
    from tests.support.runtime.replicas import replicas_of

    class Jumpy:
        def monotonic(self) -> float:
            return asyncio.get_running_loop().time()

        def time_ns(self) -> int:
            return 2 * 10**18 - round(self.monotonic() * 10**12)

    async def main() -> RequestRecord:
        executor = Executor(
            one_stage(),
            Script(lambda *_: after(0.1)),
            replicas={"s": replicas_of("s", 2)},
            clock=Jumpy(),
            rng=random.Random(1),
        )
        record = (await executor.run("q", note=True)).record
        assert record is not None
        return record

    record = simulate(main)
    assert record.end_ns - record.start_ns == 100_000_000
