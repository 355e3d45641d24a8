"""Reading our own gateway's traces back into the records that they were written from."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from kwiken.base.errors import InputError
from kwiken.otel.trace.recorded_requests import read_requests
from kwiken.otel.write.observer import make_observer
from kwiken.otel.write.records import AttemptRecord, Outcome, RequestRecord
from tests.support.otel.span_trees import MS, T0, Dag, record, write
from tests.support.otel.traces import many


def written(folder: Path, requests: list[RequestRecord]) -> Path:
    observer = make_observer(requests[0].service, traces=folder)
    for request in requests:
        observer.request_finished(request)
    observer.close()
    return folder


def drawn(seed: int, number: int = 12) -> list[RequestRecord]:
    rng = random.Random(seed)
    dag = Dag([[], [0], [0], [1, 2]])
    return [record(rng, dag, start=T0 + i * 50 * MS, copies=0.3, widths={1: 3}) for i in range(number)]


def comparable(attempt: AttemptRecord) -> AttemptRecord:
    """Record without the fields that are not written: end of a cancelled attempt, text of an error."""
    lost = attempt.outcome in {Outcome.CANCELLED, Outcome.LOST}
    return structs.replace(attempt, error=None, busy_ms=None, end_ns=0 if lost else attempt.end_ns)


@given(st.integers(0, 2**32))
def test_records_come_back_in_order_of_their_start(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    requests = drawn(seed)
    requests[3] = structs.replace(requests[3], plan="p1", control=True)
    random.Random(seed).shuffle(requests)
    back = list(read_requests([written(tmp_path_factory.mktemp("traces"), requests)]))
    requests.sort(key=lambda request: request.start_ns)
    assert [each.trace_id for each in back] == [each.trace_id for each in requests]
    for ours, theirs in zip(back, requests, strict=True):
        assert (ours.service, ours.plan, ours.control) == (theirs.service, theirs.plan, theirs.control)
        assert (ours.start_ns, ours.end_ns) == (theirs.start_ns, theirs.end_ns)
        assert {s.name: set(s.after) for s in ours.stages} == {s.name: set(s.after) for s in theirs.stages}
        stages = {stage.name: stage for stage in ours.stages}
        for stage in theirs.stages:
            told = stages[stage.name]
            assert (told.start_ns, told.end_ns, told.fanout) == (stage.start_ns, stage.end_ns, stage.fanout)
            kept = sorted(stage.attempts, key=lambda attempt: (attempt.start_ns, attempt.span_id))
            found = sorted(told.attempts, key=lambda attempt: (attempt.start_ns, attempt.span_id))
            assert [comparable(attempt) for attempt in found] == [comparable(attempt) for attempt in kept]


def test_only_what_is_wanted_comes_back(tmp_path: Path) -> None:
    requests = drawn(1)
    wanted = {requests[2].trace_id, requests[5].trace_id}
    back = read_requests([written(tmp_path / "traces", requests)], wanted=wanted.__contains__)
    assert {request.trace_id for request in back} == wanted


def test_failed_requests_are_counted(tmp_path: Path) -> None:
    requests = drawn(2, 2)
    requests[0] = structs.replace(requests[0], error="no replica of s1 answered")
    first, second = read_requests([written(tmp_path / "traces", requests)])
    assert first.error == "failed"
    assert second.error is None


def test_a_line_that_is_being_written_is_passed_over_and_damage_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "traces", drawn(3))
    (file,) = folder.iterdir()
    growing = file.with_name(file.name + ".part")
    growing.write_bytes(file.read_bytes() + b'{"resourceSpans":[{"scopeSp')
    file.unlink()
    assert len(list(read_requests([folder]))) == 12
    lines = growing.read_bytes().splitlines(keepends=True)[:-1]
    growing.unlink()
    file.write_bytes(lines[0] + b'{"torn": 1\n' + b"".join(lines[1:]))
    with pytest.raises(InputError, match=r"jsonl:2"):
        list(read_requests([folder]))


def test_traces_of_others_hold_none(tmp_path: Path) -> None:
    file = write(tmp_path / "foreign.json", many(5))
    assert list(read_requests([file])) == []
