"""Tail sampling of requests by the executor: what the observer receives and what replicas are told."""

from __future__ import annotations

import contextlib
from typing import Any

from kwiken.otel.write import RequestRecord
from kwiken.runtime import HandlerError
from kwiken.runtime.decisions import KeepReason, TraceSampler
from kwiken.runtime.decisions.trace_sampling import MIN_REQUESTS_FOR_SLOW
from kwiken.runtime.transport.wire import Parent
from kwiken.service import Reissue
from tests.support.replicas import Script, after, endow, executor_of, one_stage, plan_of, raising
from tests.support.virtual import simulate

NEVER = (1 << 64) - 1  # trace id that no draw takes
ALWAYS = 1


class Collector:
    """Observer that collects records."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def request_finished(self, record: RequestRecord) -> None:
        self.records.append(record)


def run(behave: Any, *, trace_id: int, sampled: bool = False, **executor: Any) -> tuple[Collector, Script]:
    """Run one request after so many that the sampler knows what is slow."""
    service = one_stage(replicas=3)
    script, collector = Script(behave), Collector()

    async def main() -> None:
        sampler = TraceSampler()
        for _ in range(MIN_REQUESTS_FOR_SLOW):
            request = sampler.begin(NEVER, asked=False, control=False)
            sampler.end(request, 0.1, failed=False, partial=False)
        made = executor_of(service, script, observer=collector, sampler=sampler, **executor)
        made.apply(plan_of(service, {"s": Reissue(after_ms=100, fraction=0.1)}))
        endow(made)
        with contextlib.suppress(HandlerError):
            await made.run("q", parent=Parent(trace_id, 2, sampled=sampled))

    simulate(main)
    return collector, script


def test_an_ordinary_request_is_dropped_and_replicas_are_told() -> None:
    collector, script = run(lambda *_: after(0.05), trace_id=NEVER)
    assert collector.records == []
    assert [entry.call.sampled for entry in script.sent] == [False]


def test_a_drawn_request_is_kept_with_its_share_and_replicas_are_told() -> None:
    collector, script = run(lambda *_: after(0.05), trace_id=ALWAYS)
    (record,) = collector.records
    assert record.sample is not None
    assert (record.sample.reason, record.sample.share) == (KeepReason.DRAWN, 0.04)
    assert record.parent_span_id is None, "the caller does not record its span, so this one is the root"
    assert [entry.call.sampled for entry in script.sent] == [True]


def test_a_callers_sampled_flag_is_honoured() -> None:
    collector, script = run(lambda *_: after(0.05), trace_id=NEVER, sampled=True)
    (record,) = collector.records
    assert record.sample is not None
    assert (record.sample.reason, record.parent_span_id) == (KeepReason.ASKED, 2)
    assert [entry.call.sampled for entry in script.sent] == [True]


def test_a_copy_makes_the_request_kept_from_then_on() -> None:
    collector, script = run(lambda _, call: after(0.01 if call.attempt else 0.5), trace_id=NEVER)
    assert [entry.call.attempt for entry in script.sent] == [0, 1]
    assert [entry.call.sampled for entry in script.sent] == [False, True]
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
