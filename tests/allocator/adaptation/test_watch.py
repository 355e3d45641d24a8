"""Watch over one workload: from which window, at which value and after which pause it calls for what."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from kwiken.allocator.adaptation.adaptation import Retries
from kwiken.allocator.adaptation.drift import WorkDrift
from kwiken.allocator.adaptation.watch import WINDOW_S, Need, Observation, WorkloadWatch

TARGET_MS = 100.0


def seen(
    p99_ms: float | None,
    requests: int = 100,
    away: float = 0.0,
    latency_ms: Mapping[str, float] | None = None,
) -> Observation:
    return Observation(
        requests=requests, rate_per_s=20.0, p99_ms=p99_ms, turned_away=away, latency_ms=latency_ms or {}
    )


def needs(*windows: Observation, gap_s: float = WINDOW_S, target_ms: float | None = TARGET_MS) -> list[Need]:
    watch = WorkloadWatch(target_ms)
    return [watch.observe(number * gap_s, one) for number, one in enumerate(windows)]


SLOW, QUICK, BETWEEN = seen(100.1), seen(69.9), seen(70.0)


def test_two_windows_over_the_target_call_for_more() -> None:
    assert needs(SLOW, SLOW, SLOW) == [Need.NOTHING, Need.MORE, Need.MORE]
    assert needs(SLOW, seen(100.0), SLOW, SLOW) == [*[Need.NOTHING] * 3, Need.MORE]
    assert set(needs(*[seen(100.0)] * 50)) == {Need.NOTHING}


def test_a_minute_well_below_the_target_calls_for_less() -> None:
    assert needs(*[QUICK] * 13) == [*[Need.NOTHING] * 11, Need.LESS, Need.LESS]
    assert needs(*[QUICK] * 11, BETWEEN, *[QUICK] * 12) == [*[Need.NOTHING] * 23, Need.LESS]
    assert set(needs(*[BETWEEN] * 100)) == {Need.NOTHING}


@pytest.mark.parametrize(
    "void",
    [seen(500.0, requests=99), seen(None, requests=1000), seen(1.0, requests=99), seen(500.0, 99, 0.5)],
)
def test_windows_without_a_p99_change_no_count(void: Observation) -> None:
    assert needs(SLOW, void, void, SLOW) == [*[Need.NOTHING] * 3, Need.MORE]
    assert needs(*[QUICK] * 6, void, *[QUICK] * 6) == [*[Need.NOTHING] * 12, Need.LESS]


def test_windows_more_than_15_s_apart_do_not_follow_one_another() -> None:
    assert needs(SLOW, SLOW, gap_s=15.0)[-1] is Need.MORE
    assert needs(SLOW, SLOW, gap_s=15.1)[-1] is Need.NOTHING
    assert needs(*[QUICK] * 12, gap_s=15.0)[-1] is Need.LESS
    assert needs(*[QUICK] * 40, gap_s=15.1)[-1] is Need.NOTHING


def test_more_than_a_hundredth_turned_away_is_a_miss() -> None:
    for target_ms in (TARGET_MS, None):
        assert needs(*[seen(90.0, away=0.011)] * 2, target_ms=target_ms)[-1] is Need.MORE
        assert needs(*[seen(None, away=0.5)] * 2, target_ms=target_ms)[-1] is Need.MORE
        assert needs(*[seen(90.0, away=0.01)] * 2, target_ms=target_ms)[-1] is Need.NOTHING
    assert set(needs(*[seen(1.0, away=0.02)] * 20)) == {Need.NOTHING, Need.MORE}


def test_without_a_target_quick_answers_call_for_nothing() -> None:
    assert set(needs(*[seen(1e-3)] * 100, *[seen(1e9)] * 100, target_ms=None)) == {Need.NOTHING}


def is_slow(watch: WorkloadWatch) -> bool:
    return watch.slow


def test_a_change_is_given_20_s_and_clears_what_was_counted() -> None:
    for act in (WorkloadWatch.grew, WorkloadWatch.shrank, WorkloadWatch.changed):
        watch = WorkloadWatch(TARGET_MS)
        watch.observe(0.0, SLOW)
        assert is_slow(watch)
        act(watch, 1.0)
        assert not is_slow(watch)
        assert (watch.waits(20.9), watch.waits(21.0)) == (True, False)
        assert [watch.observe(at, SLOW) for at in (11.0, 16.0, 20.9)] == [Need.NOTHING] * 3
        assert not is_slow(watch)
        assert [watch.observe(at, SLOW) for at in (21.0, 26.0)] == [Need.NOTHING, Need.MORE]
        assert is_slow(watch)
        watch.observe(31.0, BETWEEN)
        assert not is_slow(watch)


def patience(watch: WorkloadWatch, from_s: float) -> int:
    """Windows that a watch waits for before it calls for less."""
    windows = 1
    while watch.observe(from_s + windows * WINDOW_S, QUICK) is not Need.LESS:
        windows += 1
    return windows


@pytest.mark.parametrize(("regretted_s", "windows"), [(599.0, 24), (600.0, 12), (601.0, 12)])
def test_a_need_within_ten_minutes_of_a_reduction_shows_that_it_was_a_mistake(
    regretted_s: float, windows: int
) -> None:
    watch = WorkloadWatch(TARGET_MS)
    watch.shrank(1000.0)
    watch.grew(1000.0 + regretted_s)
    assert patience(watch, 5000.0) == windows
    watch.grew(6000.0)  # no reduction stands before this one
    assert patience(watch, 9000.0) == windows


@pytest.mark.parametrize(("later_s", "windows"), [(599.0, 48), (600.0, 48), (601.0, 24)])
def test_a_reduction_that_was_not_missed_for_ten_minutes_shortens_the_wait(
    later_s: float, windows: int
) -> None:
    watch = WorkloadWatch(TARGET_MS)
    for at_s in (1000.0, 2000.0):
        watch.shrank(at_s)
        watch.grew(at_s + 100.0)
    watch.shrank(3000.0)
    watch.shrank(3000.0 + later_s)
    assert patience(watch, 9000.0) == windows
    for number in range(10):
        watch.shrank(20_000.0 + 1000.0 * number)
    assert patience(watch, 40_000.0) == 12


def test_a_day_is_the_longest_wait() -> None:
    watch = WorkloadWatch(TARGET_MS)
    for number in range(30):
        watch.shrank(1000.0 * number)
        watch.grew(1000.0 * number + 1.0)
    assert patience(watch, 1e6) == 24 * 3600 / WINDOW_S


def test_a_miss_is_said_as_it_was() -> None:
    assert WorkloadWatch(TARGET_MS).missed(seen(123.4)) == "p99 123 ms is over 100 ms"
    assert WorkloadWatch(TARGET_MS).missed(seen(123.4, away=0.01)) == "p99 123 ms is over 100 ms"
    for watch, one in (
        (WorkloadWatch(TARGET_MS), seen(123.4, away=0.25)),
        (WorkloadWatch(TARGET_MS), seen(None, away=0.25)),
        (WorkloadWatch(None), seen(123.4, away=0.25)),
    ):
        assert watch.missed(one) == "25.0% of the requests were turned away"


ALIKE = dict.fromkeys("abc", (100.0, 1.0))


def stragglers(
    *latencies: Mapping[str, float], expected: Mapping[str, tuple[float, float]] = ALIKE
) -> list[str | None]:
    watch = WorkloadWatch(TARGET_MS)
    return [
        watch.straggler(number * WINDOW_S, seen(50.0, latency_ms=one), expected)
        for number, one in enumerate(latencies)
    ]


def test_a_straggler_takes_half_as_long_again_as_the_median_of_the_others_for_three_windows() -> None:
    slow, usual = {"a": 15.0, "b": 10.0, "c": 10.0}, {"a": 14.9, "b": 10.0, "c": 10.0}
    assert stragglers(*[slow] * 4) == [None, None, "a", "a"]
    assert stragglers(slow, slow, usual, slow, slow, slow) == [*[None] * 5, "a"]
    assert set(stragglers(*[usual] * 10)) == {None}
    assert stragglers(*[{"a": 20.0, "b": 10.0, "c": 16.0}] * 3)[-1] == "a"  # the median is 13
    assert stragglers(*[{"a": 19.0, "b": 10.0, "c": 16.0}] * 3)[-1] is None


def test_a_replica_that_is_not_seen_is_counted_anew() -> None:
    slow = {"a": 30.0, "b": 10.0, "c": 10.0}
    assert stragglers(slow, slow, {"b": 10.0, "c": 10.0}, slow, slow, slow) == [*[None] * 5, "a"]
    assert set(stragglers(*[{"a": 30.0}] * 10)) == {None}  # there is nothing to compare with


def test_slow_classes_and_small_replicas_are_no_stragglers() -> None:
    latency = {"a": 40.0, "b": 10.0, "c": 10.0}
    small, slow = ({**ALIKE, "a": pair} for pair in ((25.0, 1.0), (100.0, 0.25)))
    assert set(stragglers(*[latency] * 9, expected=small)) == {None}
    assert set(stragglers(*[latency] * 9, expected=slow)) == {None}
    assert stragglers(*[latency] * 3, expected={**ALIKE, "a": (50.0, 0.5)})[-1] == "a"


def test_stragglers_are_counted_anew_after_a_change_and_where_one_stays() -> None:
    slow = seen(50.0, latency_ms={"a": 30.0, "b": 10.0, "c": 10.0})
    for act in (lambda watch: watch.changed(10.0), WorkloadWatch.stays):
        watch = WorkloadWatch(TARGET_MS)
        assert [watch.straggler(at, slow, ALIKE) for at in (0.0, 5.0)] == [None, None]
        act(watch)
        found = [watch.straggler(40.0 + 5.0 * at, slow, ALIKE) for at in range(3)]
        assert found == [None, None, "a"]
    watch = WorkloadWatch(TARGET_MS)
    watch.changed(0.0)
    assert [watch.straggler(at, slow, ALIKE) for at in (5.0, 10.0, 15.0, 19.0, 20.0, 25.0, 30.0)] == [
        *[None] * 6,
        "a",
    ]


def drifted(work_ms: float, *, covered: float = 0.0, noise: float = 0.0) -> tuple[WorkDrift, list[bool]]:
    """Twelve windows of 10 ms of work, one above and one below by turns, then some of another work."""
    drift = WorkDrift()
    for window in range(12):
        drift.observe(10.0 * (1 + noise * (-1) ** window), 20, ["quick"], covered)
    return drift, [drift.observe(work_ms, 20, ["quick"], covered) for _ in range(9)]


def test_work_is_compared_over_seven_windows_and_believed_by_its_ratio() -> None:
    drift, revised = drifted(16.0)
    assert revised == [*[False] * 6, True, False, False]
    assert drift.belief == pytest.approx(10 / 16)
    assert drift.work_ms == pytest.approx((10.0, 16.0))


def test_a_belief_that_was_revised_stays_while_work_changes_little_from_there() -> None:
    drift, _ = drifted(16.0)
    assert not any(drift.observe(16.5, 20, ["quick"], 0.0) for _ in range(9))
    assert drift.belief == pytest.approx(10 / 16)


@pytest.mark.parametrize(
    ("work_ms", "covered", "noise", "revised"),
    [
        (11.0, 0.0, 0.0, False),  # ln 1.1 is below a tenth
        (11.1, 0.0, 0.0, True),
        (13.4, 0.3, 0.0, False),  # ln 1.34 is 0.293
        (13.6, 0.3, 0.0, True),
        (20.0, math.log(20.0) - math.log(10.0), 0.0, False),  # covered to the last bit
        # Windows that vary by 5%: five errors of a difference of medians are about 0.16.
        (11.6, 0.0, 0.05, False),
        (12.0, 0.0, 0.05, True),
        (8.0, 0.0, 0.0, False),  # more than was predicted is never believed
    ],
)
def test_a_change_within_noise_or_headroom_is_none(
    work_ms: float, covered: float, noise: float, revised: bool
) -> None:
    drift, found = drifted(work_ms, covered=covered, noise=noise)
    assert any(found) == revised
    assert (drift.belief < 1.0) == revised


def test_an_eighth_is_the_least_that_is_believed() -> None:
    drift, _ = drifted(1000.0)
    assert drift.belief == 0.125


def test_windows_of_few_requests_or_unknown_work_are_left_out_of_a_drift() -> None:
    drift, _ = drifted(10.0)
    for _ in range(20):
        assert not drift.observe(20.0, 19, ["quick"], 0.0)
        assert not drift.observe(None, 100, ["quick"], 0.0)
        assert not drift.observe(0.0, 100, ["quick"], 0.0)
    assert drift.work_ms == pytest.approx((10.0, 10.0))


def test_work_on_other_classes_of_nodes_is_learned_anew_with_what_is_believed() -> None:
    drift, _ = drifted(20.0)
    assert drift.belief == pytest.approx(0.5)
    found = [drift.observe(40.0, 20, ["slow"], 0.0) for _ in range(40)]
    assert not any(found)
    assert drift.belief == pytest.approx(0.5)
    assert drift.work_ms == pytest.approx((20.0, 40.0))  # what half of the belief stands for
    assert any(drift.observe(20.0, 20, ["slow"], 0.0) for _ in range(7))
    assert drift.belief == 1.0


def test_starts_are_tried_again_after_pauses_that_double_up_to_ten_minutes() -> None:
    retries = Retries()
    retries.failed("w", "n1", 100.0)
    assert (retries.due(119.9), retries.due(120.0)) == ([], [("w", "n1")])
    assert (retries.due(159.9), retries.due(160.0)) == ([], [("w", "n1")])
    retries.failed("w", "n2", 170.0)  # the pause stays at 80 s, from now on
    assert (retries.due(249.9), retries.due(250.0)) == ([], [("w", "n2")])
    at_s, waits = 250.0, []
    for _ in range(4):
        wait_s = next(wait for wait in range(1, 2000) if retries.due(at_s + wait))
        waits.append(wait_s)
        at_s += wait_s
    assert waits == [160, 320, 600, 600]
    retries.done("w")
    assert retries.due(1e9) == []
    retries.failed("w", "n1", 2e9)
    assert retries.due(2e9 + 20.0) == [("w", "n1")]


def test_what_an_observation_leaves_out_tells_nothing() -> None:
    one = Observation(requests=5, rate_per_s=1.0, p99_ms=None)
    assert (one.turned_away, one.work_ms, one.arrived, one.lasted_s, one.latency_ms) == (
        0.0,
        None,
        0,
        0.0,
        {},
    )


def test_a_window_tells_nothing_of_what_was_not_measured() -> None:
    seen = Observation(requests=200, rate_per_s=10.0, p99_ms=5.0)
    assert (seen.turned_away, seen.arrived, seen.lasted_s, seen.work_ms) == (0.0, 0, 0.0, None)
    assert seen.latency_ms == {}


def test_a_window_that_turns_requests_away_is_not_a_quiet_one() -> None:
    """Every other window is full, and the answers that are given are quick."""
    watch = WorkloadWatch(10.0)
    for window in range(100):
        seen = Observation(requests=500, rate_per_s=100.0, p99_ms=1.0, turned_away=0.5 * (window % 2))
        assert watch.observe(window * WINDOW_S, seen) is Need.NOTHING
