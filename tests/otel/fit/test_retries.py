"""Failed calls merged with their retries into one call, as the caller saw it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.otel.fit.foreign.retries import merge_retries
from tests.otel.fit.test_fit_foreign import edges, learn, many, replayed, short


def merged(*calls: tuple[str, int, int]) -> list[tuple[str, int, int] | None]:
    """Calls of one request as (name, start, end); `!` marks one that failed; None for those joined to others."""
    names = sorted({name.rstrip("!") for name, _, _ in calls})
    op = np.array([names.index(name.rstrip("!")) for name, _, _ in calls])
    start, end = (np.array([call[i] for call in calls], np.int64) for i in (1, 2))
    failed = np.array([name.endswith("!") for name, _, _ in calls])
    found = merge_retries(np.zeros(len(calls), np.int64), op, start, end, failed)
    return [
        None if gone else (name, int(begun), last)
        for (name, _, last), begun, gone in zip(calls, found.start, found.again, strict=True)
    ]


def test_the_next_call_of_the_name_is_the_retry() -> None:
    assert merged(("get!", 0, 5), ("get", 6, 9), ("get", 20, 30)) == [None, ("get", 0, 9), ("get", 20, 30)]


def test_several_tries_are_one_call() -> None:
    assert merged(("get!", 0, 5), ("get!", 6, 9), ("get", 12, 30)) == [None, None, ("get", 0, 30)]


def test_tries_that_never_end_well_stay_failed() -> None:
    assert merged(("get!", 0, 5), ("get!", 6, 9)) == [("get!", 0, 5), ("get!", 6, 9)]


def test_a_call_after_another_whole_call_is_a_new_one() -> None:
    calls = (("get!", 0, 5), ("put", 6, 8), ("get", 9, 12))
    assert merged(*calls) == list(calls)


def test_a_call_that_runs_beside_the_pause_does_not_matter() -> None:
    assert merged(("get!", 0, 5), ("put", 3, 8), ("get", 9, 12)) == [None, ("put", 3, 8), ("get", 0, 12)]
    assert merged(("get!", 0, 5), ("put", 6, 11), ("get", 9, 12)) == [None, ("put", 6, 11), ("get", 0, 12)]


def test_a_call_begun_before_the_failure_is_no_retry() -> None:
    assert merged(("get!", 0, 5), ("get", 4, 12)) == [("get!", 0, 5), ("get", 4, 12)]


def test_each_failed_shard_has_a_retry_of_its_own() -> None:
    found = merged(("get!", 0, 5), ("get", 0, 9), ("get!", 0, 6), ("get", 7, 20), ("get", 7, 15))
    assert found.count(None) == 2
    assert sorted(call for call in found if call) == [("get", 0, 9), ("get", 0, 15), ("get", 0, 20)]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 30), st.integers(0, 9), st.booleans()),
        max_size=40,
    )
)
def test_retries_stay_within_their_request_and_name(calls: list[tuple[int, int, int, int, bool]]) -> None:
    columns = zip(*calls, strict=True) if calls else ((),) * 5
    request, op, start, took, flags = (np.array(column, np.int64) for column in columns)
    failed = flags.astype(bool)
    found = merge_retries(request, op, start, start + took, failed)
    assert not found.again[~failed].any()
    longer = found.start < start
    assert not (longer & failed).any()
    assert longer.sum() <= found.again.sum()
    for row in np.flatnonzero(longer):
        same = (request == request[row]) & (op == op[row]) & found.again
        assert found.start[row] in start[same]
        assert (start + took)[same].min() <= start[row]


def test_a_retried_call_is_one_stage_and_its_time_is_all_tries() -> None:
    def request(n: int) -> list[tuple[str, float, float]]:
        tries = [("get!", 1, 5), ("get!", 6, 8), ("get", 9, 20)] if n % 10 == 0 else [("get", 1, 15)]
        return [*tries, ("put", 30, 40)]

    profile = learn(many(request))
    assert edges(profile) == {("get", "put")}
    times = profile.stage("shop:get").calls_ms[:, 0]
    np.testing.assert_allclose(np.sort(times), [14] * 90 + [19] * 10)
    assert profile.counts["calls_tried_again"] == 20
    assert "calls_failed" not in profile.counts
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)


def test_calls_that_failed_for_good_are_the_callers_own_time() -> None:
    profile = learn(many(lambda n: [("get!" if n == 7 else "get", 1, 15), ("put", 30, 40)]))
    assert [short(s.name) for s in profile.stages[1:]] == ["get", "put"]
    assert profile.counts["calls_failed"] == 1
    assert profile.stage("shop:get").visit_share == pytest.approx(0.99)
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)
