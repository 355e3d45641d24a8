"""Fit of foreign services: known DAGs found again, shards, sequential calls, roots, failures."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import OWN_TIME, Profile
from kwiken.otel.fit.calls.call_matrices import CallMatrix, longest_path
from kwiken.otel.fit.calls.repeated_calls import turns
from kwiken.otel.fit.calls.stage_order import acyclic, closure, order_in_time, reduction
from kwiken.otel.fit.fit import fit_profile, fit_profiles, list_kinds
from kwiken.otel.fit.foreign.foreign import fit_foreign
from kwiken.otel.trace.requests import choose
from tests.otel.trace.test_cleaning import forest_of
from tests.support.data.public_files import public_file
from tests.support.otel.span_trees import MS, T0, Dag, Maker, Span, layered_dag, otlp_lines, random_dag, write


class Node(NamedTuple):
    name: str
    after: tuple[str, ...]


def learn(spans: list[Span], root: str | None = None, service: str | None = None) -> Profile:
    """Profile whose stages are spans; tests of services as stages have a module of their own."""
    forest = forest_of(spans)
    return fit_foreign(forest, choose(forest, root=root, service=service), spans=True)


def edges(profile: Profile) -> set[tuple[str, str]]:
    """Pairs of parent and child, short names, without the own time."""
    return {(short(p), short(s.name)) for s in profile.stages for p in s.after if not p.endswith(OWN_TIME)}


def short(name: str) -> str:
    return name.rsplit(":", maxsplit=1)[-1]


def replayed(profile: Profile) -> np.ndarray:
    return end_to_end(profile.stages, {s.name: s.latency_ms for s in profile.stages})


def numbered(pairs: set[tuple[int, int]]) -> set[tuple[str, str]]:
    return {(f"s{a}", f"s{b}") for a, b in pairs}


@given(
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([{}, {0: 4}, {1: 3}]),
)
def test_a_known_dag_is_found_with_its_own_time_and_replays(
    seed: int, layers: int, pairs: bool, passing: int, widths: dict[int, int]
) -> None:
    rng = random.Random(seed)
    dag = layered_dag(rng, layers)
    if len(dag) == 1:
        dag = Dag([[], [0]])
    maker = Maker(dag, rng, own_ms=2.0, widths=widths, pairs=pairs, passing=passing)
    profile = learn(maker.requests(150))
    assert edges(profile) == numbered({(a, b) for b, parents in enumerate(dag.after) for a in parents})
    assert {short(s.name): s.calls_ms.shape[1] for s in profile.stages[1:]} == {
        f"s{i}": widths.get(i, 1) for i in range(len(dag))
    }
    own = profile.stages[0]
    assert own.own_time
    assert own.name == f"front:op0{OWN_TIME}"
    np.testing.assert_allclose(own.latency_ms, 4.0, atol=1e-5)
    np.testing.assert_allclose(replayed(profile), profile.latency_ms, atol=1e-6)
    assert (np.diff(profile.started_s) >= 0).all()


@given(st.integers(0, 2**32), st.integers(2, 8))
def test_any_dag_is_found_up_to_what_never_happened_to_overlap(seed: int, stages: int) -> None:
    rng = random.Random(seed)
    dag = random_dag(rng, stages)
    spans = Maker(dag, rng, chances={1: 0.6}).requests(120)
    profile = learn(spans)
    found = {name: i for i, name in enumerate(f"s{n}" for n in range(stages))}
    child = np.zeros((stages, stages), np.bool_)
    for a, b in edges(profile):
        child[found[a], found[b]] = True
    reach = {(int(a), int(b)) for a, b in zip(*np.nonzero(closure(child)), strict=True)}
    assert {pair for pair in dag.closure if 1 not in pair} <= reach, "every true order is kept"
    assert all(in_turn(spans, a, b) for a, b in edges(profile)), "no edge without reason"
    np.testing.assert_array_less(profile.latency_ms - 1e-6, replayed(profile))


def in_turn(spans: list[Span], a: str, b: str) -> bool:
    """True if b started after a had ended (but for a hundredth) in 99% of the requests with both."""
    held = both = 0
    first = {s.trace: s for s in spans if s.name == a}
    for other in (s for s in spans if s.name == b and s.trace in first):
        one = first[other.trace]
        allowed = 0.01 * min(one.end - one.start, other.end - other.start) + 1
        both += 1
        held += one.end - other.start <= allowed
    return held >= 0.99 * both


def one_request(*calls: tuple[str, float, float], number: int = 1, latency: float = 100.0) -> list[Span]:
    """A root and its direct calls, (name, start, end) in milliseconds."""
    start = T0 + number * 1000 * MS
    spans = [Span(number, 1, 0, "shop", "buy", start, start + int(latency * MS))]
    for i, (marked, begin, end) in enumerate(calls, 2):
        failed, name = marked.endswith("!"), marked.removesuffix("!")
        spans.append(
            Span(number, i, 1, "shop", name, start + int(begin * MS), start + int(end * MS), error=failed)
        )
    return spans


def many(make: Callable[[int], list[tuple[str, float, float]]], requests: int = 100) -> list[Span]:
    return [s for n in range(1, requests + 1) for s in one_request(*make(n), number=n)]


def test_calls_of_one_name_in_turn_are_told_apart_by_number() -> None:
    profile = learn(
        many(lambda n: [("get", 1, 10), ("get", 11, 20 + n % 3), ("get", 40, 50), ("end", 60, 70)])
    )
    assert [short(s.name) for s in profile.stages[1:]] == ["get", "get#2", "get#3", "end"]
    assert [s.match.occurrence for s in profile.stages[1:]] == [1, 2, 3, 1]
    assert edges(profile) == {("get", "get#2"), ("get#2", "get#3"), ("get#3", "end")}


def test_calls_of_one_name_side_by_side_are_a_fan_out() -> None:
    profile = learn(many(lambda n: [("get", 1, 30), ("get", 2, 20), ("get", 2, 25), ("end", 40, 50)]))
    fan = profile.stages[1]
    assert fan.calls_ms.shape[1] == 3
    np.testing.assert_allclose(fan.calls_ms[0], [29, 18, 23])
    assert edges(profile) == {("get", "end")}


def test_two_fan_outs_in_turn_are_two_stages() -> None:
    def request(n: int) -> list[tuple[str, float, float]]:
        first = [("get", 1.0 + i, 20.0) for i in range(2 + n % 3)]
        return [*first, *(("get", 30.0 + i, 50.0) for i in range(4))]

    profile = learn(many(request))
    assert [(short(s.name), s.calls_ms.shape[1]) for s in profile.stages[1:]] == [("get", 4), ("get#2", 4)]
    assert profile.stages[1].calls_per_request == pytest.approx(3, abs=0.05)


def test_a_fan_out_that_now_and_then_runs_one_after_another_stays_one() -> None:
    def request(n: int) -> list[tuple[str, float, float]]:
        return [("get", 1, 10), ("get", 11 if n % 5 == 0 else 2, 20)]

    profile = learn(many(request))
    assert [(short(s.name), s.calls_ms.shape[1]) for s in profile.stages[1:]] == [("get", 2)]


def test_calls_in_turn_that_overlap_in_one_of_a_hundred_stay_in_turn() -> None:
    def request(n: int) -> list[tuple[str, float, float]]:
        return [("get", 1, 10), ("get", 9 if n == 50 else 11, 20), ("put", 15 if n == 7 else 30, 40)]

    profile = learn([s for n in range(200) for s in one_request(*request(n), number=n + 1, latency=40.0)])
    assert edges(profile) == {("get", "get#2"), ("get#2", "put")}
    assert all(s.calls_ms.shape[1] == 1 for s in profile.stages)
    assert profile.counts["clipped_own_time"] == 1, "the overlap is more than the request took"


def test_a_varying_number_of_calls_in_turn_has_falling_visit_shares() -> None:
    profile = learn(many(lambda n: [("get", 10.0 * i, 10.0 * i + 5.0) for i in range(1 + n % 4)]))
    shares = [s.visit_share for s in profile.stages[1:]]
    assert shares == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert (profile.stages[4].latency_ms == 0).sum() == 75


def test_stages_that_never_meet_have_no_order_and_what_joins_them_comes_after_both() -> None:
    profile = learn(many(lambda n: [("in", 1, 9), (("left", "right")[n % 2], 10, 40), ("out", 50, 60)]))
    assert edges(profile) == {("in", "left"), ("in", "right"), ("left", "out"), ("right", "out")}
    assert [round(s.visit_share, 2) for s in profile.stages] == [1, 1, 0.5, 0.5, 1]
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)


def test_orders_that_go_round_are_cut_where_they_are_weakest() -> None:
    def request(n: int) -> list[tuple[str, float, float]]:
        pairs = [("a", "b"), ("b", "c"), ("c", "a")]
        first, then = pairs[0 if n % 4 < 2 else n % 4 - 1]
        return [(first, 1, 10), (then, 20, 30)]

    profile = learn(many(request))
    assert profile.counts["edges_cut_from_cycles"] == 1
    assert ("a", "b") in edges(profile)
    assert len(edges(profile)) == 2


def test_failed_calls_and_their_retries_are_one_call() -> None:
    def request(n: int) -> list[tuple[str, float, float]]:
        retried = [("get!", 1, 5), ("get", 6, 20)] if n % 10 == 0 else [("get", 1, 15)]
        return [*retried, ("put", 30, 40)]

    profile = learn(many(request))
    assert [short(s.name) for s in profile.stages[1:]] == ["get", "put"]
    assert profile.counts["calls_tried_again"] == 10
    assert "calls_failed" not in profile.counts
    assert profile.stage("shop:get").visit_share == 1.0
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)


def test_an_error_mark_on_most_calls_is_no_failure() -> None:
    profile = learn(many(lambda n: [("cache!" if n % 4 else "cache", 1, 5), ("put", 30, 40)]))
    assert profile.counts["calls_marked_error_kept"] == 75
    assert profile.stage("shop:cache").visit_share == 1.0
    assert "calls_failed" not in profile.counts


def test_failed_requests_and_those_that_end_before_they_begin_are_set_aside() -> None:
    spans = many(lambda n: [("get", 1, 10), ("put", 20, 30)])
    roots = [s for s in spans if not s.parent]
    roots[3].error = True
    roots[4].end = roots[4].start - 5
    profile = learn(spans)
    assert profile.requests == 98
    assert (profile.counts["requests_failed"], profile.counts["requests_negative"]) == (1, 1)


def test_an_error_mark_on_most_requests_is_no_failure_and_counted() -> None:
    spans = many(lambda n: [("get", 1, 10), ("put", 20, 30)])
    roots = [s for s in spans if not s.parent]
    for root in roots[:60]:
        root.error = True
    roots[4].end = roots[4].start - 5
    profile = learn(spans)
    assert profile.requests == 99
    assert profile.counts["requests_marked_error_kept"] == 59
    assert "requests_failed" not in profile.counts


def test_a_call_that_ends_before_it_begins_is_set_aside() -> None:
    profile = learn(many(lambda n: [("get", 10, 5 if n == 1 else 15), ("put", 20, 30)]))
    assert profile.counts["calls_negative"] == 1
    assert np.isnan(profile.stage("shop:get").calls_ms[0, 0])


def test_a_call_without_a_waiting_caller_is_no_stage() -> None:
    profile = learn(many(lambda n: [("get", 1, 10), ("put", 20, 30), ("log", 150, 200)]))
    assert [short(s.name) for s in profile.stages[1:]] == ["get", "put"]
    assert profile.counts["spans_detached"] == 100


def chain(number: int, *names: str, leaves: tuple[str, ...] = ()) -> list[Span]:
    """Spans each inside the one before, and calls in turn below the last."""
    start, spans = T0 + number * 1000 * MS, []
    for depth, name in enumerate(names):
        spans.append(
            Span(number, depth + 1, depth, f"v{depth}", name, start + depth * MS, start + (90 - depth) * MS)
        )
    for i, name in enumerate(leaves):
        begin = start + (20 + 10 * i) * MS
        spans.append(Span(number, 50 + i, len(names), "leaf", name, begin, begin + 5 * MS))
    return spans


def test_spans_that_just_pass_on_are_gone_through() -> None:
    profile = learn([s for n in range(1, 31) for s in chain(n, "web", "client", "server", leaves=("x", "y"))])
    assert [s.name for s in profile.stages] == [f"v0:web{OWN_TIME}", "leaf:x", "leaf:y"]
    np.testing.assert_allclose(profile.stages[0].latency_ms, 80.0)


def test_where_nothing_branches_the_requests_child_is_the_one_stage() -> None:
    profile = learn([s for n in range(1, 31) for s in chain(n, "web", "client", "server")])
    assert [s.name for s in profile.stages] == [f"v0:web{OWN_TIME}", "v1:client"]
    assert profile.stages[1].match.service == "v1"


def test_requests_that_call_otherwise_keep_the_stages_at_the_top() -> None:
    spans = [s for n in range(1, 11) for s in chain(n, "web", "client", "server", leaves=("x", "y"))]
    start = T0 + 5 * 1000 * MS
    spans.append(Span(5, 70, 1, "v1", "other", start + 89 * MS, start + 90 * MS))
    profile = learn(spans)
    assert [s.name for s in profile.stages[1:]] == ["v1:client", "v1:other"]
    spans = [s for n in range(1, 41) for s in chain(n, "web", "client", "server", leaves=("x", "y"))]
    few = learn([*spans, Span(5, 70, 1, "v1", "other", start + 89 * MS, start + 90 * MS)])
    assert [s.name for s in few.stages[1:]] == ["leaf:x", "leaf:y"], "an error in a few stops no descent"


def test_a_request_that_goes_no_further_is_kept_with_its_own_time_alone() -> None:
    spans = [s for n in range(1, 301) for s in chain(n, "web", "client", "server", leaves=("x", "y"))]
    spans += chain(999, "web")
    profile = learn(spans)
    assert [s.name for s in profile.stages[1:]] == ["leaf:x", "leaf:y"]
    assert profile.requests == 301
    assert profile.stages[1].visit_share == pytest.approx(300 / 301)
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)


def test_requests_that_a_gateway_passes_on_to_different_services_are_of_different_kinds() -> None:
    spans = [s for n in range(1, 31) for s in chain(n, "web", "client", "server", leaves=("x", "y"))]
    profile = learn(spans + chain(99, "web", "other"))
    assert (profile.requests, profile.counts["requests_of_other_kinds"]) == (30, 1)


def test_of_several_root_operations_the_most_frequent_counts_unless_asked() -> None:
    buys = many(lambda n: [("get", 1, 10), ("put", 20, 30)])
    looks = many(lambda n: [("scan", 1, 10), ("rank", 20, 30)], 40)
    for span in looks:
        span.trace += 10_000
        if not span.parent:
            span.name, span.service = "look", "site"
    spans = [*buys, *looks]
    profile = learn(spans)
    assert (profile.service, profile.requests, profile.counts["requests_of_other_kinds"]) == ("shop", 100, 40)
    for asked in (
        {"root": "look"},
        {"root": "site:look"},
        {"service": "site"},
        {"root": "look", "service": "site"},
    ):
        assert [short(s.name) for s in learn(spans, **asked).stages[1:]] == ["scan", "rank"]


def test_each_root_operation_may_have_a_profile_of_its_own(tmp_path: Path) -> None:
    buys = many(lambda n: [("get", 1, 10), ("put" if n % 9 else "put!", 20, 30)])
    looks = many(lambda n: [("scan", 1, 10), ("rank", 20, 30)], 40)
    idles = many(lambda n: [], 7)
    for i, (spans, name) in enumerate(((looks, "look"), (idles, "idle")), 1):
        for span in spans:
            span.trace += i * 10_000
            span.name = span.name if span.parent else name
    path = write(tmp_path / "a.jsonl", otlp_lines([*looks, *idles, *buys]))
    fits = fit_profiles([path], every=True)
    assert {kind.label: kind.requests for kind in fits.kinds} == dict(fits.roots)
    assert [kind.stages for kind in fits.kinds] == [3, 3, None]
    assert dict(fits.roots) == {"shop:buy": 100, "shop:look": 40, "shop:idle": 7}
    assert [p.requests for p in fits.profiles] == [100, 40]
    assert "makes a call that ends well" in fits.left_out["shop:idle"]
    assert "calls_failed" not in fits.profiles[1].counts, "each counts its own"
    one = fit_profiles([path])
    assert [p.digest for p in one.profiles] == [fit_profile([path]).digest] == [fits.profiles[0].digest]
    assert (one.roots, one.kinds) == (fits.roots, fits.kinds) == (one.roots, list_kinds([path]).kinds)
    with pytest.raises(InputError, match="there are no stages"):
        fit_profiles([path], every=True, root="idle")


def test_requests_may_lie_deeper_in_a_trace() -> None:
    spans = [s for n in range(1, 31) for s in chain(n, "web", "client", "server", leaves=("x", "y"))]
    profile = learn(spans, service="v2")
    assert [s.name for s in profile.stages] == [f"v2:server{OWN_TIME}", "leaf:x", "leaf:y"]
    np.testing.assert_allclose(profile.latency_ms, 86.0)


def test_of_nested_spans_of_one_operation_the_topmost_is_the_request() -> None:
    spans = [s for n in range(1, 31) for s in chain(n, "web", "run", "run", leaves=("x", "y"))]
    assert learn(spans, root="run").service == "v1"
    assert learn(spans, root="run").requests == 30


def test_a_trace_whose_root_was_lost_still_counts_if_it_hangs_together() -> None:
    spans = many(lambda n: [("get", 1, 10), ("put", 20, 30)])
    for span in spans:
        span.parent += 70 if not span.parent and span.trace == 5 else 0
    pieces = [s for s in many(lambda n: [("get", 1, 10), ("put", 20, 30)], 3) if s.parent]
    for span in pieces:
        span.trace += 5000
    profile = learn([*spans, *pieces])
    assert profile.requests == 100
    assert (profile.counts["traces_without_root"], profile.counts["traces_in_pieces"]) == (4, 3)


def test_several_roots_in_one_trace_are_counted_and_the_first_is_taken() -> None:
    spans = many(lambda n: [("get", 1, 10), ("put", 20, 30)])
    late = [
        Span(n, 90, 0, "cron", "tidy", T0 + (n * 1000 + 500) * MS, T0 + (n * 1000 + 600) * MS) for n in (1, 2)
    ]
    profile = learn([*late, *spans])
    assert (profile.requests, profile.counts["roots_besides_the_first"]) == (100, 2)


def test_too_few_requests_give_a_profile_with_a_warning() -> None:
    spans = many(lambda n: [("get", 1, 10), ("put", 20, 30)], 2)
    assert learn(spans).counts["warning_few_requests"] == 2
    assert "warning_few_requests" not in learn(many(lambda n: [("get", 1, 10), ("put", 20, 30)], 300)).counts


def test_requests_may_be_picked_by_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", otlp_lines(many(lambda n: [("get", 1, 10), ("put", 20, 30)])))
    begin = T0 / 1e9
    profile = fit_profile([path], since_s=begin + 10.5, until_s=begin + 20.5)
    assert profile.requests == 10
    assert profile.counts["requests_of_other_times"] == 90


def test_profiles_from_the_same_spans_in_any_order_are_the_same() -> None:
    rng = random.Random(3)
    spans = Maker(random_dag(rng, 6), rng, chances={2: 0.5}, widths={3: 2}).requests(50)
    one = learn(spans)
    rng.shuffle(spans)
    assert learn(spans).digest == one.digest


def test_a_profile_can_be_kept_as_json() -> None:
    calls = [("get", 1.0, 10.0), ("get", 2.0, 12.0), ("put", 20.0, 30.0)]
    profile = learn(many(lambda n: calls[: 2 + n % 2]))
    assert profile_from_json(profile_to_json(profile)).digest == profile.digest


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=40
    )
)
def test_turns_and_shards_tell_all_calls_of_a_request_apart(calls: list[tuple[int, int, int, int]]) -> None:
    request, op, start, took = (
        (np.array(column, np.int64) for column in zip(*calls, strict=True))
        if calls
        else (np.empty(0, np.int64),) * 4
    )
    found = turns(request, op, start, start + took)
    places = list(zip(request, op, found.turn, found.shard, strict=True))
    assert len(set(places)) == len(places)


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_a_reduction_has_the_same_closure_and_no_edge_too_many(seed: int, stages: int) -> None:
    rng = np.random.default_rng(seed)
    before = np.triu(rng.random((stages, stages)) < 0.4, 1)
    least = reduction(before)
    np.testing.assert_array_equal(closure(least), closure(before))
    for a, b in zip(*np.nonzero(least), strict=True):
        without = least.copy()
        without[a, b] = False
        assert not closure(without)[a, b]
    loose = rng.random((stages, stages)) < 0.3
    np.fill_diagonal(loose, False)
    cut, gone = acyclic(loose, rng.random((stages, stages)))
    assert not closure(cut).diagonal().any()
    assert gone == loose.sum() - cut.sum()


def test_a_large_comparison_looks_at_part_of_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    from kwiken.otel.fit.calls import stage_order

    start = np.arange(1000.0)[:, None] * 100 + np.array([0.0, 10.0])
    monkeypatch.setattr(stage_order, "_MAX_COMPARISONS", 40)
    parts = [(part, part + 5) for part in np.array_split(start, 3)]
    found = order_in_time(parts, np.zeros(2), 1000)
    np.testing.assert_array_equal(found.before, [[False, True], [False, False]])
    np.testing.assert_array_equal(found.together, np.full((2, 2), 1000))
    np.testing.assert_allclose(found.start, start.mean(axis=0))


def test_the_longest_path_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from kwiken.otel.fit.calls import call_matrices

    rng = np.random.default_rng(2)
    shapes = {"a": 1, "b": 3, "c": 1}
    calls = {name: rng.exponential(5.0, (100, width)) for name, width in shapes.items()}
    calls["b"][rng.random((100, 3)) < 0.5] = np.nan
    known = rng.exponential(5.0, 100)  # of a stage whose copies made it shorter than its calls
    stages = {
        name: CallMatrix(
            name=name,
            match=SpanMatch(service=name, operation=name),
            calls_ms=times,
            censored=np.zeros(times.shape, np.bool_),
            seen_ms=known if name == "c" else None,
        )
        for name, times in calls.items()
    }
    nodes = [Node("own", ()), Node("a", ("own",)), Node("b", ("own",)), Node("c", ("a", "b"))]
    monkeypatch.setattr(call_matrices, "REQUESTS_AT_ONCE", 7)
    both = np.maximum(calls["a"][:, 0], np.nan_to_num(calls["b"]).max(axis=1))
    np.testing.assert_array_equal(longest_path(nodes, stages, 100), both + known)


def test_the_social_network_is_read_as_a_reader_would() -> None:
    path = public_file("jaeger/socialnetwork-compose-post.json")
    profile = fit_profile([path], spans=True)
    own = f"POST /wrk2-api/post/compose{OWN_TIME}"
    called = {s.name: f"{s.match.operation}{OWN_TIME * s.own_time}" for s in profile.stages}
    after = {called[s.name]: {called[p] for p in s.after} for s in profile.stages}
    composed = {f"compose_{part}_client" for part in ("text", "media", "creator", "unique_id")}
    assert after == {
        own: set(),
        **{part: {own} for part in composed},
        "store_post_client": composed,
        "write_user_timeline_client": {"store_post_client"},
        "write_home_timeline_client": {"write_user_timeline_client"},
    }
    assert profile.requests == 20
    assert profile.service == "nginx-web-server"
    assert profile.stages[1].match.service == "compose-post-service"
    assert all(s.visit_share == 1.0 and s.calls_ms.shape == (20, 1) for s in profile.stages)
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)
    # The first trace, by hand: 5,303 us in all; text from 2,255 to 3,549; store 353, user 522, home 576.
    first = int(np.argmin(np.abs(profile.latency_ms - 5.303)))
    stage = {called[s.name]: s.latency_ms[first] for s in profile.stages}
    assert stage["compose_text_client"] == pytest.approx(1.294)
    assert stage["write_home_timeline_client"] == pytest.approx(0.576)
    assert stage[own] == pytest.approx(5.303 - 1.294 - 0.353 - 0.522 - 0.576)


def test_the_documentation_draws_the_social_networks_dag_as_it_is_found() -> None:
    path = public_file("jaeger/socialnetwork-compose-post.json")
    text = (Path(__file__).resolve().parents[3] / "docs" / "traces" / "stages.md").read_text(encoding="utf-8")
    drawing = text.split("```mermaid")[1].split("```")[0]
    labels = dict(re.findall(r'(\w+)\["([^"]+)"\]', drawing))
    drawn = {(labels[a], labels[b]) for a, b in re.findall(r"^ *(\w+) --> (\w+)", drawing, re.MULTILINE)}
    assert drawn == {(p, s.name) for s in fit_profile([path]).stages for p in s.after}
