"""Cleaning of span trees as critical-path tools do, counts of misfits, and critical paths."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.read.columns import Batch
from kwiken.otel.read.span_store import SpanStore
from kwiken.otel.trace.forest import MAX_DEPTH, Forest, grow
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.paths import critical_path
from kwiken.otel.trace.traces import Trace, read_traces
from kwiken.otel.write.observer import make_observer
from tests.support.data.public_files import public_file
from tests.support.otel.span_trees import T0, Maker, Span, jaeger_json, otlp_lines, random_dag, record, write


def forest_of(spans: list[Span]) -> Forest:
    """The cleaned trees of spans, without a file in between."""
    store = SpanStore()
    batch: Batch = store.batch
    for span in spans:
        batch.trace_ids.append(f"{span.trace:032x}")
        batch.span_ids.append(f"{span.id:016x}")
        batch.parent_ids.append(f"{span.parent:016x}" if span.parent else "")
        batch.starts.append(span.start)
        batch.ends.append(span.end)
        batch.ops.append(store.names.operation(span.service, span.name))
        batch.own.append(-1)
        batch.flags.append((1 if span.error else 0) | (4 if span.follows else 0))
    return grow(store)


def tree(*spans: tuple[str, int, int, int, int], follows: int = 0) -> list[Span]:
    """One trace of (service, id, parent, start, end) in nanoseconds from T0."""
    return [Span(1, i, p, s, f"o{i}", T0 + a, T0 + b, follows=i == follows) for s, i, p, a, b in spans]


def times(forest: Forest) -> dict[int, tuple[int, int]]:
    """By span, its cleaned times from T0."""
    return {
        int(s): (int(a) - T0, int(b) - T0)
        for s, a, b in zip(forest.spans["span"], forest.start, forest.end, strict=True)
    }


def found(forest: Forest) -> dict[str, int]:
    """Non-zero counts of cleaning."""
    kinds = ("spans_read", "spans_sampled_out", "traces")
    return {k.removeprefix("spans_"): n for k, n in forest.counts.items() if n and k not in kinds}


@pytest.mark.parametrize("number", range(1, 16))
def test_critical_paths_are_those_that_crisp_states(number: int) -> None:
    path = public_file("crisp") / f"{number}.json"
    stated = json.loads(path.read_text())["testing"]
    expected = stated[0] if isinstance(stated, list) else stated["opTimeExclusive"]
    (trace,) = read_traces([path])
    spent: dict[str, float] = {}
    for step in critical_path(trace):
        span = trace.spans[step.span]
        name = f"[{span.service}] {span.operation}"
        spent[name] = spent.get(name, 0.0) + step.self_ms * 1000
    assert {name: round(time, 6) for name, time in spent.items()} == expected


def test_a_child_past_its_parents_end_is_cut_there() -> None:
    forest = forest_of(tree(("a", 1, 0, 0, 100), ("b", 2, 1, 60, 140), ("c", 3, 2, 70, 130)))
    assert times(forest) == {1: (0, 100), 2: (60, 100), 3: (70, 100)}
    assert found(forest) == {"clipped": 2}


def test_a_child_wholly_outside_was_not_waited_for_nor_was_anything_below_it() -> None:
    forest = forest_of(tree(("a", 1, 0, 0, 100), ("b", 2, 1, 110, 140), ("c", 3, 2, 120, 130)))
    assert found(forest) == {"detached": 2}


def test_a_callee_that_began_before_its_caller_has_another_clock() -> None:
    forest = forest_of(tree(("a", 1, 0, 0, 100), ("b", 2, 1, -500, -460), ("b", 3, 2, -490, -470)))
    assert times(forest) == {1: (0, 100), 2: (30, 70), 3: (40, 60)}
    assert found(forest) == {"shifted": 1}, "what is below moves along and is not counted again"


def calls_with_offsets(offsets: list[int], took: int = 40) -> list[Span]:
    """A trace for each offset: a caller of 100, and a callee of another service that begins so much later."""
    return [
        span
        for trace, offset in enumerate(offsets, start=1)
        for span in (
            Span(trace, 1, 0, "a", "caller", T0, T0 + 100),
            Span(trace, 2, 1, "b", "callee", T0 + offset, T0 + offset + took),
            Span(trace, 3, 2, "b", "inner", T0 + offset + 10, T0 + offset + 20),
        )
    ]


def test_a_callee_whose_clock_is_always_ahead_by_the_same_is_moved_back() -> None:
    forest = forest_of(calls_with_offsets([500 + 5 * (trace % 5) for trace in range(30)]))
    assert found(forest) == {"shifted": 30}
    callee = forest.depth == 1
    assert set(forest.start[callee] - T0) == {30}
    assert set(forest.start[forest.depth == 2] - T0) == {40}, "what is below moves along"


@pytest.mark.parametrize(
    ("offsets", "took", "why"),
    [
        ([500] * 10, 40, "too few calls"),
        ([101 + 7 * trace for trace in range(30)], 40, "delays that differ, as in a queue"),
        ([500] * 30, 140, "work longer than its caller, who cannot have waited for it"),
        ([500] * 20 + [30] * 10, 40, "calls that are late now and then"),
    ],
)
def test_a_callee_that_nobody_waits_for_is_not_taken_for_a_skewed_clock(
    offsets: list[int], took: int, why: str
) -> None:
    forest = forest_of(calls_with_offsets(offsets, took))
    outside = sum(offset > 100 for offset in offsets)
    assert found(forest) == {"detached": 2 * outside}, why


def test_a_callee_too_long_for_its_caller_begins_with_it() -> None:
    forest = forest_of(tree(("a", 1, 0, 0, 100), ("b", 2, 1, -500, -300)))
    assert times(forest)[2] == (0, 100)
    assert found(forest) == {"shifted": 1, "clipped": 1}


def test_a_span_of_the_same_process_is_cut_not_moved() -> None:
    forest = forest_of(tree(("a", 1, 0, 50, 100), ("a", 2, 1, 20, 70)))
    assert times(forest)[2] == (50, 70)
    assert found(forest) == {"clipped": 1}


def test_what_only_follows_was_not_waited_for() -> None:
    forest = forest_of(tree(("a", 1, 0, 0, 100), ("b", 2, 1, 10, 90), ("c", 3, 2, 20, 80), follows=2))
    assert found(forest) == {"detached": 2}


def test_the_same_span_twice_counts_once_and_the_longest_stays() -> None:
    spans = tree(("a", 1, 0, 0, 100), ("a", 2, 1, 10, 90), ("a", 2, 1, 20, 80), ("a", 1, 0, 0, 100))
    forest = forest_of(spans)
    assert found(forest) == {"duplicate": 2}
    assert times(forest) == {1: (0, 100), 2: (10, 90)}


def test_two_services_with_one_id_are_the_sides_of_a_call() -> None:
    spans = tree(("a", 1, 0, 0, 100), ("b", 2, 1, 20, 80), ("a", 2, 1, 10, 90), ("b", 2, 1, 20, 70))
    spans += tree(("a", 3, 2, 12, 15), ("b", 4, 2, 30, 40), ("c", 5, 2, 50, 60))
    forest = forest_of(spans)
    assert found(forest) == {"duplicate": 1}
    service = [forest.names.operations[op][0] for op in forest.spans["op"]]
    assert service == ["a", "a", "b", "a", "b", "c"]
    assert forest.parent.tolist() == [-1, 0, 1, 1, 2, 2]


def test_the_same_id_in_another_trace_is_another_span() -> None:
    one = tree(("a", 1, 0, 0, 100), ("a", 2, 1, 10, 90))
    other = tree(("a", 1, 0, 0, 50), ("a", 2, 1, 10, 20))
    for span in other:
        span.trace = 2
    forest = forest_of([*one, *other])
    assert forest.counts["traces"] == 2
    assert not found(forest)


def test_orphans_and_cycles_are_counted_and_the_rest_stays() -> None:
    spans = tree(("a", 1, 0, 0, 100), ("a", 2, 1, 10, 90), ("a", 3, 77, 10, 20), ("a", 4, 3, 12, 18))
    cycle = tree(("a", 5, 6, 0, 1), ("a", 6, 5, 0, 1), ("a", 7, 6, 0, 1), ("a", 8, 8, 0, 1))
    forest = forest_of([*cycle, *spans])
    assert found(forest) == {"orphaned": 1, "cyclic": 4}
    assert sorted(times(forest)) == [1, 2, 3, 4]
    assert forest.depth[forest.spans["span"] == 4] == 1


def test_a_negative_duration_is_counted_and_taken_as_none() -> None:
    forest = forest_of(tree(("a", 1, 0, 0, 100), ("a", 2, 1, 50, 20)))
    assert times(forest)[2] == (50, 50)
    assert found(forest) == {"negative": 1}


def test_chains_without_end_are_cut_off() -> None:
    spans = [Span(1, i, i - 1, "a", "o", T0, T0 + 10) for i in range(1, MAX_DEPTH + 50)]
    forest = forest_of(spans)
    assert found(forest) == {"too_deep": len(spans) - MAX_DEPTH - 1}
    assert forest.depth.max() == MAX_DEPTH


@st.composite
def messes(draw: st.DrawFn) -> list[Span]:
    """Spans of a few traces with any parents and any times."""
    size = draw(st.integers(1, 25))
    return [
        Span(
            draw(st.integers(1, 3)),
            draw(st.integers(0, size)),
            draw(st.integers(0, size)),
            draw(st.sampled_from("ab")),
            draw(st.sampled_from("xyz")),
            T0 + draw(st.integers(-50, 50)),
            T0 + draw(st.integers(-50, 50)),
            error=draw(st.booleans()),
            follows=draw(st.integers(0, 9)) == 0,
        )
        for _ in range(size)
    ]


@given(messes())
def test_cleaned_trees_are_trees_and_children_lie_within_their_parents(spans: list[Span]) -> None:
    forest = forest_of(spans)
    counts = forest.counts
    gone = sum(counts[f"spans_{kind}"] for kind in ("without_id", "duplicate", "cyclic", "too_deep"))
    assert len(forest) + gone == len(spans)
    assert (forest.end >= forest.start).all()
    for row, parent in enumerate(forest.parent.tolist()):
        if parent < 0:
            assert forest.depth[row] == 0
            continue
        assert forest.depth[row] == forest.depth[parent] + 1
        assert forest.trace[row] == forest.trace[parent]
        ids = forest.spans["span"]
        sides = row == parent + 1 and ids[row] == ids[parent]  # of one call
        assert sides or forest.spans["parent"][row] == ids[parent]
        if not forest.state[row] & 1:
            assert forest.start[parent] <= forest.start[row] <= forest.end[row] <= forest.end[parent]


@given(messes())
def test_a_critical_path_explains_the_whole_request(spans: list[Span]) -> None:
    for trace in traces_of(forest_of(spans)):
        steps = critical_path(trace)
        assert steps[0].span == 0
        assert len({step.span for step in steps}) == len(steps)
        assert all(trace.spans[step.span].waited or step.span == 0 for step in steps)
        # Calls in turn may overlap by a hundredth, so the sum may be over by as much.
        assert sum(step.self_ms for step in steps) == pytest.approx(
            trace.latency_ms, rel=0.011 * len(steps), abs=1e-5
        )


def traces_of(forest: Forest) -> list[Trace]:
    from kwiken.base.errors import InputError
    from kwiken.otel.trace.requests import choose
    from kwiken.otel.trace.traces import Traces

    try:
        return list(Traces(forest, choose(forest)))
    except InputError:
        return []


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_the_path_of_a_known_dag_is_its_longest(seed: int, stages: int) -> None:
    rng = random.Random(seed)
    dag = random_dag(rng, stages)
    (trace,) = traces_of(forest_of(Maker(dag, rng).requests(1)))
    steps = critical_path(trace)
    on_path = [int(trace.spans[step.span].operation[1:]) for step in steps if step.span]
    took = {int(s.operation[1:]): s.end_ms - s.start_ms for s in trace.spans[1:]}
    longest: dict[int, float] = {}
    for stage, parents in enumerate(dag.after):
        longest[stage] = took[stage] + max((longest[p] for p in parents), default=0.0)
    # A call that ended a hundredth of itself too late may stand in for the one that was waited for.
    slack = 0.01 * max(longest.values()) + 1e-5
    assert sum(took[stage] for stage in on_path) == pytest.approx(max(longest.values()), abs=slack)
    assert steps[0].self_ms == pytest.approx(2.0, abs=slack), "the request's own time"


def test_the_path_of_our_own_request_goes_by_the_winner(tmp_path: Path) -> None:
    rng = random.Random(8)
    observer = make_observer("shop", traces=tmp_path)
    for _ in range(30):
        observer.request_finished(record(rng, random_dag(rng, 4), widths={1: 3}, copies=0.5))
    observer.close()
    losers = 0
    for trace in read_traces([tmp_path]):
        for step in critical_path(trace):
            own = trace.spans[step.span].own
            assert own is not None
            assert own.outcome in {None, "won"}
        losers += sum(span.own is not None and span.own.outcome == "cancelled" for span in trace.spans)
    assert losers > 30


def test_single_requests_have_the_times_of_their_spans(tmp_path: Path) -> None:
    rng = random.Random(2)
    observer = make_observer("shop", traces=tmp_path)
    request = record(rng, random_dag(rng, 2))
    observer.request_finished(request)
    observer.close()
    (trace,) = read_traces([tmp_path])
    assert trace.trace_id == f"{request.trace_id:032x}"
    assert trace.latency_ms == pytest.approx((request.end_ns - request.start_ns) / 1e6)
    (call,) = [s for s in trace.spans if s.own and s.own.stage == "s0" and s.own.kind is not None]
    assert call.own is not None
    assert (call.own.shard, call.own.attempt, call.own.replica, call.own.node) == (0, 0, "r1", "n1")
    assert call.span_id == f"{request.stages[0].attempts[0].span_id:016x}"
    assert trace.spans[0].parent is None
    assert trace.spans[0].own is not None
    assert trace.spans[0].own.stage is None


def test_the_slowest_requests_come_first(tmp_path: Path) -> None:
    rng = random.Random(2)
    path = write(tmp_path / "a.json", jaeger_json(Maker(random_dag(rng, 3), rng).requests(20)))
    traces = read_traces([path])
    slow = traces.slowest(3)
    assert [t.latency_ms for t in slow] == sorted(traces.latency_ms.tolist(), reverse=True)[:3]
    assert traces[-1].started_s == traces.started_s[-1]
    with pytest.raises(IndexError):
        traces[20]


def test_only_part_of_the_spans_is_kept_past_the_bound_and_whole_traces(tmp_path: Path) -> None:
    rng = random.Random(2)
    spans = Maker(random_dag(rng, 5), rng).requests(500)
    for part in range(5):
        write(tmp_path / f"{part}.jsonl", otlp_lines(spans[part::5]))
    forest = read_forest([tmp_path], max_spans=1000)
    assert 300 < len(forest) <= 1000
    assert len(forest) + forest.counts["spans_sampled_out"] == forest.counts["spans_read"] == 3000
    assert forest.counts["spans_orphaned"] == 0
    assert len(forest) == 6 * forest.counts["traces"]
    assert fit_profile([tmp_path], max_spans=1000).requests == forest.counts["traces"]
