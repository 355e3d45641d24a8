"""Tail sampling of requests by the executor: what the observer receives and what replicas are told."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

import pytest

from kwiken.model.service.stage import Partial, Reissue, Stage
from kwiken.otel.write.records import RequestRecord
from kwiken.runtime.base.errors import HandlerError
from kwiken.runtime.decisions.trace_sampling import MIN_REQUESTS_FOR_SLOW, KeepReason, TraceSampler
from kwiken.runtime.engine import executor as executor_module
from kwiken.runtime.wire.transport.wire import Parent
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import (
    Script,
    Sent,
    after,
    endow,
    executor_of,
    one_stage,
    plan_of,
    raising,
    service_of,
)

NEVER = (1 << 64) - 1  # trace id that no draw takes
ALWAYS = 1


def sampled(entry: Sent) -> bool:
    """Whether a replica was told to record its spans."""
    assert entry.parent is not None
    return entry.parent.sampled


class Collector:
    """Observer that collects records."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def request_finished(self, record: RequestRecord) -> None:
        self.records.append(record)


def learned_sampler() -> TraceSampler:
    """A sampler that has seen so many requests that it knows what is slow."""
    sampler = TraceSampler()
    for _ in range(MIN_REQUESTS_FOR_SLOW):
        request = sampler.begin(NEVER, asked=False, control=False)
        sampler.end(request, 0.1, failed=False, partial=False)
    return sampler


def run(behave: Any, *, trace_id: int, sampled: bool = False, **executor: Any) -> tuple[Collector, Script]:
    """Run one request after so many that the sampler knows what is slow."""
    service = one_stage(replicas=3)
    script, collector = Script(behave), Collector()

    async def main() -> None:
        made = executor_of(service, script, observer=collector, sampler=learned_sampler(), **executor)
        made.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)}))
        endow(made)
        with contextlib.suppress(HandlerError):
            await made.run("q", parent=Parent(trace_id, 2, sampled=sampled))

    simulate(main)
    return collector, script


def test_an_ordinary_request_is_dropped_and_replicas_are_told() -> None:
    collector, script = run(lambda *_: after(0.05), trace_id=NEVER)
    assert collector.records == []
    assert [sampled(entry) for entry in script.sent] == [False]


def test_no_record_is_made_of_a_request_that_nobody_wants() -> None:
    made: list[Any] = []
    with mock.patch.object(executor_module, "record_of", lambda *words, **_: made.append(words)):
        collector, _ = run(lambda *_: after(0.05), trace_id=NEVER)
    assert (collector.records, made) == ([], [])


@pytest.mark.parametrize("watched", [False, True])
def test_a_dropped_request_has_a_record_for_its_caller_and_for_a_watcher(*, watched: bool) -> None:
    async def main() -> None:
        kept, watcher = Collector(), Collector()
        made = executor_of(
            one_stage(), Script(lambda *_: after(0.05)), observer=kept, sampler=learned_sampler()
        )
        if watched:
            made.watcher = watcher
        answer = await made.run("q", parent=Parent(NEVER, 2, sampled=False), note=not watched)
        assert kept.records == []
        assert answer.record is not None
        assert answer.record.sample is None
        assert watcher.records == ([answer.record] if watched else [])

    simulate(main)


@pytest.mark.parametrize(("trace_id", "judged"), [(NEVER, 0), (ALWAYS, 1)])
def test_the_worth_of_shards_is_judged_for_records_alone(trace_id: int, judged: int) -> None:
    calls: list[int] = []

    def worth(hits: Partial[str]) -> list[float]:
        calls.append(len(hits.values))
        return [1.0, 3.0]

    service = service_of(Stage(name="f", fanout=2, worth=worth), Stage(name="m", after=("f",)))
    collector = Collector()

    async def main() -> None:
        executor = executor_of(
            service, Script(lambda *_: after(0.01)), observer=collector, sampler=learned_sampler()
        )
        await executor.run("q", parent=Parent(trace_id, 2, sampled=False))

    simulate(main)
    assert len(calls) == len(collector.records) == judged
    for record in collector.records:
        assert [attempt.worth for attempt in record.stages[0].attempts] == [0.25, 0.75]


def test_a_drawn_request_is_kept_with_its_share_and_replicas_are_told() -> None:
    collector, script = run(lambda *_: after(0.05), trace_id=ALWAYS)
    (record,) = collector.records
    assert record.sample is not None
    assert (record.sample.reason, record.sample.share) == (KeepReason.DRAWN, 0.04)
    assert record.parent_span_id is None, "the caller does not record its span, so this one is the root"
    assert [sampled(entry) for entry in script.sent] == [True]


def test_a_callers_sampled_flag_is_honoured() -> None:
    collector, script = run(lambda *_: after(0.05), trace_id=NEVER, sampled=True)
    (record,) = collector.records
    assert record.sample is not None
    assert (record.sample.reason, record.parent_span_id) == (KeepReason.ASKED, 2)
    assert [sampled(entry) for entry in script.sent] == [True]


def test_a_copy_makes_the_request_kept_from_then_on() -> None:
    collector, script = run(lambda _, call: after(0.01 if call.attempt else 0.5), trace_id=NEVER)
    assert [entry.call.attempt for entry in script.sent] == [0, 1]
    assert [sampled(entry) for entry in script.sent] == [False, True]
    (record,) = collector.records
    assert record.sample is not None
    assert record.sample.reason in (KeepReason.COPIED, KeepReason.SLOW)


def test_a_failed_request_is_kept() -> None:
    collector, _ = run(lambda *_: raising(HandlerError("s", "ValueError", "boom"), 0.05), trace_id=NEVER)
    (record,) = collector.records
    assert record.sample is not None
    assert record.sample.reason is KeepReason.FAILED


def test_the_status_counts_kept_and_dropped_requests() -> None:
    async def main() -> dict[str, Any]:
        made = executor_of(
            one_stage(), Script(lambda *_: after(0.05)), observer=Collector(), sampler=TraceSampler()
        )
        await made.run("q")
        traces: dict[str, Any] = made.status()["traces"]
        return traces

    traces = simulate(main)
    assert (traces["kept"]["first"], traces["dropped"]) == (1, 0)


def test_calls_of_a_request_that_is_dropped_share_one_context_of_its_trace() -> None:
    service = service_of(Stage(name="f", fanout=3), Stage(name="m", after=("f",)))
    script, collector = Script(lambda *_: after(0.01)), Collector()

    async def main() -> None:
        executor = executor_of(service, script, observer=collector, sampler=learned_sampler())
        await executor.run("q", parent=Parent(NEVER, 2, sampled=False))

    simulate(main)
    assert collector.records == []
    (context,) = {entry.parent for entry in script.sent}
    assert len(script.sent) == 4
    assert context is not None
    assert (context.trace_id, context.sampled) == (NEVER, False)
    assert context.span_id != 2, "the caller's span is not the parent of calls"


def test_attempts_that_no_replica_records_get_ids_of_their_own_with_the_record() -> None:
    service = service_of(Stage(name="f", fanout=3), Stage(name="m", after=("f",)))
    script, collector = Script(lambda *_: after(0.2)), Collector()  # slow, which shows at the end alone

    async def main() -> None:
        executor = executor_of(service, script, observer=collector, sampler=learned_sampler())
        await executor.run("q", parent=Parent(NEVER, 2, sampled=False))

    simulate(main)
    (record,) = collector.records
    assert record.sample is not None
    assert record.sample.reason is KeepReason.SLOW
    assert {entry.parent for entry in script.sent} == {Parent(NEVER, record.span_id, sampled=False)}
    attempts = [attempt.span_id for stage in record.stages for attempt in stage.attempts]
    ids = {record.span_id, *attempts, *(stage.span_id for stage in record.stages)}
    assert len(ids) == 1 + 4 + 2
    assert 0 not in ids


def test_a_copy_of_a_request_that_is_kept_for_it_has_the_context_of_its_own_span() -> None:
    collector, script = run(lambda _, call: after(0.01 if call.attempt else 0.5), trace_id=NEVER)
    (record,) = collector.records
    primary, copy = record.stages[0].attempts
    sent = [entry.parent.span_id for entry in script.sent if entry.parent is not None]
    assert sent == [record.span_id, copy.span_id]
    assert primary.span_id not in (0, copy.span_id, record.span_id)
