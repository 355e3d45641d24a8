"""Fit of our own runtime's spans: the DAG as defined, and every call by its outcome."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.model.latency import end_to_end
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.profile import OWN_TIME, Profile
from kwiken.otel.fit.fit import fit_forest, fit_profile
from kwiken.otel.trace.load import read_forest
from kwiken.otel.trace.recorded_requests import requests_in
from kwiken.otel.write.observer import ServerSpans, make_observer
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.otel.write.span_model import CallRecord
from kwiken.tail.planning.planner import make_plan
from kwiken.tail.simulation.trace_driven import simulate
from tests.support.otel.span_trees import MS, T0, Dag, Maker, jaeger_json, random_dag, record, write


def learn(requests: list[RequestRecord], **settings: Any) -> Profile:
    with tempfile.TemporaryDirectory() as name:
        observer = make_observer(requests[0].service, traces=Path(name))
        for request in requests:
            observer.request_finished(request)
        observer.close()
        assert observer.counts().bad == 0
        return fit_profile([name], **settings)


def replayed(profile: Profile) -> np.ndarray:
    return end_to_end(profile.stages, {s.name: s.latency_ms for s in profile.stages})


@given(st.integers(0, 2**32), st.integers(1, 7))
def test_the_dag_is_the_one_defined_and_rows_replay(seed: int, stages: int) -> None:
    rng = random.Random(seed)
    dag = random_dag(rng, stages)
    widths = {0: 5, 3: 2}
    requests = [record(rng, dag, start=T0 + i * 50 * MS, widths=widths) for i in range(25)]
    shuffled = rng.sample(requests, len(requests))
    profile = learn(shuffled)
    own = profile.stages[0]
    assert own.name == f"shop:request{OWN_TIME}"
    assert {s.name: set(s.after) for s in profile.stages[1:]} == {
        f"s{i}": {f"s{p}" for p in parents} or {own.name} for i, parents in enumerate(dag.after)
    }
    for number in range(stages):
        stage = profile.stage(f"s{number}")
        took = [[(a.end_ns - a.start_ns) / MS for a in r.stages[number].attempts] for r in requests]
        np.testing.assert_allclose(stage.calls_ms, took)
        assert not stage.censored.any()
        assert stage.busy_ms == pytest.approx(np.mean(took) / 2)
        assert stage.busy_variation == pytest.approx(np.std(took) / np.mean(took))
        seen = {a.replica for r in requests for a in r.stages[number].attempts}
        assert stage.replicas == len(seen)
        assert stage.asked is not None
        named = [[stage.replica_names[place] for place in row] for row in stage.asked.tolist()]
        assert named == [[a.replica for a in r.stages[number].attempts] for r in requests]
        assert stage.match.service == f"shop-s{number}"
        assert (stage.match.operation, stage.match.occurrence, stage.reissuable) == (f"s{number}", 1, True)
    np.testing.assert_allclose(own.latency_ms, 1.5, atol=1e-6)
    np.testing.assert_allclose(profile.latency_ms, [(r.end_ns - r.start_ns) / MS for r in requests])
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)


@given(st.integers(0, 2**32))
def test_a_primary_cut_by_its_copy_is_a_lower_bound(seed: int) -> None:
    rng = random.Random(seed)
    requests = [record(rng, Dag([[], [0]]), start=T0 + i * 50 * MS, copies=0.4) for i in range(30)]
    profile = learn(requests)
    copied = 0
    for number in range(2):
        stage = profile.stage(f"s{number}")
        for row, request in enumerate(requests):
            primary, *copies = request.stages[number].attempts
            copied += bool(copies)
            cut = primary.outcome is Outcome.CANCELLED
            assert stage.censored[row, 0] == cut
            ran = (primary.end_ns - primary.start_ns) / MS
            if cut:
                assert ran - 0.03 < stage.calls_ms[row, 0] <= ran
            else:
                assert stage.calls_ms[row, 0] == pytest.approx(ran)
    assert profile.counts["calls_with_copies"] == copied
    # Without copies a request would have taken at least as long.
    assert (replayed(profile) >= profile.latency_ms - 0.05).all()


def attempt(
    start: float, end: float, outcome: Outcome, kind: AttemptKind = AttemptKind.PRIMARY, *, shard: int = 0
) -> AttemptRecord:
    """An attempt, its times in milliseconds."""
    begin, over = T0 + int(start * MS), T0 + int(end * MS)
    return AttemptRecord(random.getrandbits(63) + 1, shard, 0, kind, "r", "n", begin, over, outcome)


def look(*attempts: AttemptRecord, fanout: int = 1, latency: float = 50.0, **more: Any) -> RequestRecord:
    stage = StageRecord(7, "look", (), fanout, T0, T0 + int(latency * MS), attempts=list(attempts), **more)
    return RequestRecord(
        random.getrandbits(127) + 1, 5, None, "shop", T0, T0 + int(latency * MS), stages=[stage]
    )


WON, LOST, CANCELLED, FAILED = Outcome.WON, Outcome.LOST, Outcome.CANCELLED, Outcome.FAILED
COPY, RETRY = AttemptKind.REISSUE, AttemptKind.RETRY

# Attempts of one call, the latency learned, whether it is a bound, and the own time left of 50 ms.
FATES: dict[str, tuple[list[AttemptRecord], float | None, bool, float]] = {
    "won": ([attempt(0, 20, WON)], 20, False, 30),
    "won before a copy": ([attempt(0, 20, WON), attempt(10, 20.1, CANCELLED, COPY)], 20, False, 30),
    "lost to a copy, but seen to its end": (
        [attempt(0, 40, LOST), attempt(10, 20, WON, COPY)],
        40,
        False,
        30,
    ),
    "cut by its copy": ([attempt(0, 20, CANCELLED), attempt(10, 20, WON, COPY)], 20, True, 30),
    "failed beside a copy": ([attempt(0, 12, FAILED), attempt(10, 20, WON, COPY)], None, False, 30),
    "retried": ([attempt(0, 5, FAILED), attempt(6, 20, WON, RETRY)], 20, False, 30),
    "retried because it hung": ([attempt(0, 30, CANCELLED), attempt(20, 30, WON, RETRY)], 30, False, 20),
    "retried, then cut by a copy": (
        [attempt(0, 5, FAILED), attempt(6, 30, CANCELLED, RETRY), attempt(20, 30, WON, COPY)],
        None,
        False,
        20,
    ),
    "given up": ([attempt(0, 20, CANCELLED)], 20, True, 30),
    "failed for good": ([attempt(0, 20, FAILED)], None, False, 50),
    "failed twice": ([attempt(0, 5, FAILED), attempt(6, 20, FAILED, RETRY)], None, False, 50),
}


@pytest.mark.parametrize("fate", FATES)
def test_a_call_is_reconstructed_from_its_attempts(fate: str) -> None:
    attempts, latency, bound, own = FATES[fate]
    profile = learn([look(*attempts)])
    stage = profile.stage("look")
    if latency is None:
        assert np.isnan(stage.calls_ms[0, 0])
        assert profile.counts["calls_failed"] == 1
    else:
        assert stage.calls_ms[0, 0] == pytest.approx(latency, abs=0.004)
        assert "calls_failed" not in profile.counts
    assert stage.censored[0, 0] == bound
    assert profile.stages[0].latency_ms[0] == pytest.approx(own, abs=0.004)


def test_a_shard_that_did_not_answer_in_time_is_a_lower_bound() -> None:
    late = look(
        attempt(0, 10, WON),
        attempt(0, 25, CANCELLED, shard=1),
        attempt(0, 12, WON, shard=2),
        fanout=4,
        partial=True,
    )
    stage = learn([late]).stage("look")
    np.testing.assert_array_equal(np.isnan(stage.calls_ms[0]), [False, False, False, True])
    np.testing.assert_array_equal(stage.censored[0], [False, True, False, False])
    assert stage.latency_ms[0] == pytest.approx(25)


def test_a_stage_that_may_not_run_twice_is_not_reissued() -> None:
    requests = [look(attempt(0, 20, WON), idempotent=False) for _ in range(3)]
    assert not learn(requests).stage("look").reissuable


def test_failed_requests_are_set_aside_and_controls_counted() -> None:
    requests = [look(attempt(0, 20, WON)) for _ in range(10)]
    requests[0].error = "boom"
    requests[1].control = True
    profile = learn(requests)
    assert (profile.requests, profile.counts["requests_failed"], profile.counts["requests_control"]) == (
        9,
        1,
        1,
    )


def test_a_stage_that_is_skipped_has_a_visit_share() -> None:
    rng = random.Random(1)
    requests = [record(rng, Dag([[], [0], [0, 1]])) for _ in range(20)]
    for request in requests[::4]:
        del request.stages[1]
        request.stages[1].after = ("s0",)
    profile = learn(requests)
    assert profile.stage("s1").visit_share == pytest.approx(0.75)
    assert set(profile.stage("s2").after) == {"s0", "s1"}


def test_a_dag_that_changed_is_what_mostly_held() -> None:
    rng = random.Random(1)
    old = [record(rng, Dag([[], [], [0]])) for _ in range(5)]
    new = [record(rng, Dag([[], [0], [1]])) for _ in range(20)]
    profile = learn([*old, *new])
    assert profile.stage("s1").after == ("s0",)
    assert profile.stage("s2").after == ("s1",)


def test_a_request_within_a_callers_trace_is_found_there() -> None:
    rng = random.Random(1)
    requests = [record(rng, Dag([[], [0]])) for _ in range(10)]
    for request in requests:
        request.trace_id, request.parent_span_id = requests[0].trace_id, 4711
    assert learn(requests).requests == 10


def test_the_replicas_own_spans_tell_the_lag_and_change_nothing_else(tmp_path: Path) -> None:
    rng = random.Random(1)
    requests = [record(rng, Dag([[], [0]])) for _ in range(10)]
    observer = make_observer("shop", traces=tmp_path)
    for request in requests:
        observer.request_finished(request)
    observer.close()
    before = fit_profile([tmp_path])
    replica = ServerSpans("shop", "s0", "r1", "n1", traces=tmp_path)
    for request in requests:
        for one in request.stages[0].attempts:
            replica.record(
                CallRecord(request.trace_id, one.span_id, 0, one.start_ns, one.end_ns, busy_ms=99.0)
            )
    replica.close()
    after = fit_profile([tmp_path])
    assert after.stage("s0").lag_ms is not None
    same = tuple(replace(stage, lag_ms=None) for stage in after.stages)
    assert replace(after, stages=same).digest == before.digest
    assert after.counts["spans_read"] == before.counts["spans_read"] + 10


def test_of_several_services_the_most_frequent_counts_unless_asked(tmp_path: Path) -> None:
    rng = random.Random(1)
    observer = make_observer("shop", traces=tmp_path)
    for _ in range(5):
        observer.request_finished(record(rng, Dag([[], [0]])))
    observer.close()
    other = make_observer("site", traces=tmp_path)
    for _ in range(9):
        other.request_finished(record(rng, Dag([[]]), service="site"))
    other.close()
    foreign = Maker(Dag([[], [0]]), rng).requests(3)
    write(tmp_path / "foreign.json", jaeger_json(foreign))
    assert (fit_profile([tmp_path]).service, fit_profile([tmp_path], service="shop").service) == (
        "site",
        "shop",
    )
    assert fit_profile([tmp_path], root="shop:request").requests == 5
    assert fit_profile([tmp_path], root="op0").service == "front"


def test_traces_that_are_read_once_can_be_fitted_again_and_read_as_requests(tmp_path: Path) -> None:
    rng = random.Random(4)
    requests = [record(rng, random_dag(random.Random(5), 3), start=T0 + i * 50 * MS) for i in range(20)]
    observer = make_observer("shop", traces=tmp_path)
    for request in requests:
        observer.request_finished(request)
    observer.close()
    forest = read_forest([tmp_path])
    counts = dict(forest.counts)
    middle_s = (T0 + 10 * 50 * MS) / 1e9
    for since_s, until_s in ((None, None), (None, middle_s), (middle_s, None), (None, None)):
        found = fit_forest(forest, since_s=since_s, until_s=until_s)
        expected = fit_profile([tmp_path], since_s=since_s, until_s=until_s)
        assert profile_to_json(found) == profile_to_json(expected)
    assert forest.counts == counts
    assert [found.span_id for found in requests_in(forest)] == [each.span_id for each in requests]


def test_a_plan_can_be_made_of_what_was_learned() -> None:
    rng = random.Random(1)
    requests = [
        record(rng, Dag([[], [0]]), start=T0 + i * 50 * MS, widths={1: 3}, copies=0.2) for i in range(300)
    ]
    profile = learn(requests)  # copies went to a second replica
    from kwiken.model.plan.plan import Budgets

    plan = make_plan(profile, budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
    assert any(stage.reissue is not None for stage in plan.stages.values())
    found = simulate(profile, plan, requests=500, seed=1)
    assert found.before.p99_ms > 0


def test_calls_and_their_copies_are_kept_as_pairs() -> None:
    fates = ("won before a copy", "lost to a copy, but seen to its end", "cut by its copy", "won")
    profile = learn([look(*FATES[fate][0]) for fate in (*fates, "failed beside a copy")])
    stage = profile.stage("look")
    assert stage.pairs_ms is not None
    assert stage.pairs_cut is not None
    order = np.lexsort((stage.pairs_cut[:, 1], stage.pairs_ms[:, 0].round(1)))
    wanted = np.array([[20.0, 10.0], [20.0, 10.0], [40.0, 10.0]])
    np.testing.assert_allclose(stage.pairs_ms[order], wanted, rtol=0, atol=0.05)
    assert stage.pairs_cut[order].tolist() == [[True, False], [False, True], [False, False]]
    assert learn([look(*FATES["won"][0])]).stage("look").pairs_ms is None


# Partial answers and catch-up.


def judged(*worths: float | None, latency: float = 50.0) -> RequestRecord:
    """A whole fan-out, its answers judged."""
    attempts = [attempt(0, 10 + shard, WON, shard=shard) for shard in range(len(worths))]
    for one, worth in zip(attempts, worths, strict=True):
        one.worth = worth
        one.busy_ms = random.uniform(1, 2)
    return look(*attempts, fanout=len(worths), latency=latency)


@given(
    st.lists(st.one_of(st.none(), st.lists(st.floats(0, 1), min_size=3, max_size=3)), min_size=2, max_size=20)
)
def test_what_answers_were_worth_is_learned_request_by_request(rows: list[list[float] | None]) -> None:
    unknown = (None, None, None)
    requests = [judged(*(row or unknown)) for row in rows]
    for number, request in enumerate(requests):
        request.start_ns += number * 60 * MS
        request.end_ns += number * 60 * MS
    found = learn(requests).stage("look").worth
    if not any(row is not None for row in rows):
        assert found is None
        return
    assert found is not None
    wanted = np.array([row if row is not None else [np.nan] * 3 for row in rows])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_worth_is_that_of_the_winning_attempt() -> None:
    request = judged(0.0, 0.75, 0.25)
    request.stages[0].attempts[1].outcome = CANCELLED
    request.stages[0].attempts[1].worth = None
    request.stages[0].attempts.append(attempt(5, 11, WON, COPY, shard=1))
    request.stages[0].attempts[-1].worth = 0.75
    request.stages[0].attempts[-1].catch_up = True
    np.testing.assert_array_equal(learn([request]).stage("look").worth, [[0.0, 0.75, 0.25]])


def test_a_plan_keeps_what_answers_were_worth_through_a_file() -> None:
    from kwiken.model.profile.codec import profile_from_json, profile_to_json

    profile = learn([judged(1.0, 0.0), judged(None, None)])
    again = profile_from_json(profile_to_json(profile))
    np.testing.assert_array_equal(again.stage("look").worth, profile.stage("look").worth)


def test_a_call_with_threads_is_a_lower_bound_and_no_measure_of_work_or_copies() -> None:
    helped = look(attempt(0, 20, WON), attempt(10, 20.1, CANCELLED, COPY), threads=4)
    helped.stages[0].attempts[0].threads = 3
    helped.stages[0].attempts[0].catch_up = True
    helped.stages[0].attempts[0].busy_ms = 60.0
    plain = look(attempt(0, 30, WON), threads=4)
    plain.stages[0].attempts[0].busy_ms = 25.0
    profile = learn([helped, plain])
    stage = profile.stage("look")
    assert (stage.threads, stage.busy_ms, stage.pairs_ms) == (4, 25.0, None)
    assert sorted(zip(stage.calls_ms[:, 0].round(1), stage.censored[:, 0], strict=True)) == [
        (20.0, True),
        (30.0, False),
    ]
    assert profile.counts["calls_with_threads"] == 1


@pytest.mark.parametrize(
    ("key", "value"), [("kw.worth", 1.5), ("kw.worth", -0.1), ("kw.worth", "much"), ("kw.threads", 0)]
)
def test_odd_worths_and_threads_are_refused_by_name(tmp_path: Path, key: str, value: Any) -> None:
    from kwiken.otel.read.columns import Names
    from kwiken.otel.read.kw_attributes import own_note, worth

    attributes = {
        "kw.service": "shop",
        "kw.stage": "look",
        "kw.attempt.kind": "primary",
        "kw.outcome": "won",
        key: value,
    }
    with pytest.raises(ValueError, match=key):
        worth(value) if key == "kw.worth" else own_note(attributes, Names())
