"""Pace of the demo: the rate that fits, stretches that tell nothing, and when a run is given up."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from kwiken.apps.demo.pace.attempt import RateTrial, slower_rate
from kwiken.apps.demo.pace.health import Finding, HealthWindow, assess, check_outcome, check_unrest
from kwiken.apps.demo.pace.rate_search import (
    MAX_DEFAULT_RATE,
    MIN_RATE,
    RATES,
    Pace,
    RateSearch,
    RateStep,
    seconds_for,
)
from kwiken.apps.demo.setup.settings import EDGE_S, SETTLE_S, divide
from kwiken.apps.report.sections.headline import MIN_REQUESTS_FOR_DIRECTION
from kwiken.base.machine.processor_use import ProcessorUse

CPU_S = st.floats(0.0005, 0.2)  # processor time of one request


def use(own: float, **figures: object) -> ProcessorUse:
    plain = {
        "seconds": 2.0,
        "processors": 2,
        "quota": math.inf,
        "others": 0.0,
        "stolen": 0.0,
        "throttled": 0.0,
        "by_process": {},
        "waiting": 0.3,
    }
    return ProcessorUse(own=own, **(plain | figures))  # type: ignore[arg-type]


def search(
    cpu_s: float, *, idle: float = 0.0, gateway: float = 0.1, waits_from: float = math.inf, **figures: object
) -> RateSearch:
    """Search on a machine where requests take so much, a share of it in the gateway."""
    found = RateSearch()
    for rate in RATES:
        own = idle + cpu_s * rate
        waiting = 9.0 if rate >= waits_from else 0.3
        if found.add(RateStep(rate, use(own, by_process={1: gateway * own}, waiting=waiting, **figures))):
            break
    return found


def test_a_third_of_the_machine_is_sent() -> None:
    pace = search(0.013, idle=0.04).pace()
    assert pace is not None
    assert pace.given == pytest.approx(2.0)
    assert pace.request_cpu_s == pytest.approx(0.013)
    assert pace.rate == 48.0  # (2/3 - 0.04) / 0.013 = 48.2
    assert pace.share == pytest.approx(1 / 3, abs=0.01)
    assert "48 requests a second use 33% of what it gives" in pace.line


def test_a_sixth_of_a_single_processor_is_sent() -> None:
    """There a request waits for others as often as at a third of two processors."""
    pace = search(0.008, idle=0.02, processors=1).pace()
    assert pace is not None
    assert pace.rate == 18.0  # (1/6 - 0.02) / 0.008 = 18.3
    assert pace.share == pytest.approx(1 / 6, abs=0.01)


def test_beside_a_program_that_takes_one_of_two_processors_a_sixth_of_the_other_is_sent() -> None:
    pace = search(0.008, idle=0.02, others=1.0).pace()
    assert pace is not None
    assert pace.given == pytest.approx(1.0)
    assert pace.rate == 18.0
    between = search(0.013, others=0.5).pace()
    assert between is not None
    assert between.share == pytest.approx(1.5 / 6, abs=0.01)


def test_the_search_ends_before_the_machine_is_overloaded() -> None:
    seen: list[float] = []
    found = RateSearch()
    for rate in RATES:
        seen.append(0.013 * rate / 2)
        if found.add(RateStep(rate, use(0.013 * rate))):
            break
    assert seen[-1] < 1 / 3


@given(
    cpu_s=CPU_S,
    idle=st.floats(0, 0.1),
    gateway=st.floats(0.05, 1.0),
    processors=st.integers(1, 128),
    others=st.floats(0, 128),
    quota=st.one_of(st.just(math.inf), st.floats(0.1, 16)),
)
def test_the_rate_never_asks_for_more_than_its_share(
    cpu_s: float, idle: float, gateway: float, processors: int, others: float, quota: float
) -> None:
    figures = {"processors": processors, "others": min(others, processors), "quota": quota}
    pace = search(cpu_s, idle=idle, gateway=gateway, **figures).pace()
    given_ = use(0.0, **figures).given
    wanted = min(1 / 3, given_ / 6)
    if pace is None:
        # After a single step idle use cannot be told from that of requests, and counts as theirs.
        used = MIN_RATE * (idle + cpu_s * RATES[0]) / RATES[0]
        assert used > 0.49 * given_ or gateway * used > 0.33
    else:
        assert MIN_RATE <= pace.rate <= MAX_DEFAULT_RATE
        assert idle + cpu_s * pace.rate <= (1 / 2 if pace.rate == MIN_RATE else wanted) * given_ + 1e-6
        assert (idle + cpu_s * pace.rate) / given_ <= pace.share + 1e-9
        assert pace.share <= (1 / 2 if pace.rate == MIN_RATE else wanted) + 1e-9


def test_a_slow_machine_is_used_up_to_a_half_by_the_lowest_rate() -> None:
    pace = search(0.022, quota=0.6).pace()
    assert pace is not None
    assert pace.rate == MIN_RATE
    assert pace.share == pytest.approx(0.44)
    assert search(0.022, quota=0.5).pace() is None


def test_the_busiest_process_has_one_processor_at_most() -> None:
    pace = search(0.01, gateway=0.5, processors=64).pace()
    assert pace is not None
    assert pace.rate == pytest.approx(66.0)  # a third of one processor at 5 ms each


def test_a_rate_at_which_processes_queue_is_too_much() -> None:
    pace = search(0.003, waits_from=32.0).pace()
    assert pace is not None
    assert pace.rate == 16.0
    hopeless = search(0.003, waits_from=4.0)
    assert hopeless.pace() is None
    assert "processes queued 9.0 times as long as they ran; 12 are the fewest" in hopeless.words


def test_a_machine_that_is_too_slow_gets_no_rate_but_the_users() -> None:
    slow = search(0.3, quota=0.5)
    assert slow.pace() is None
    assert "the quota is 0.5" in slow.words
    fixed = slow.pace(50.0)
    assert fixed is not None
    assert fixed.rate == 50.0
    assert fixed.share == pytest.approx(30.0)


def test_without_figures_a_rate_is_assumed_and_that_is_said() -> None:
    pace = RateSearch().pace()
    assert pace is not None
    assert pace.rate == 32.0
    assert "cannot be read" in pace.line
    assert RateSearch().pace(7.0) == Pace(7.0)


@given(rate=st.floats(MIN_RATE, MAX_DEFAULT_RATE))
def test_every_rate_gets_time_for_enough_requests(rate: float) -> None:
    seconds = seconds_for(rate)
    assert seconds is not None
    assert 90 <= seconds <= 250
    assert seconds == 250 or (seconds + 1) * rate >= 4500
    timing = divide(seconds)
    measured_s = timing.rounds * (timing.block_s - SETTLE_S - EDGE_S)
    assert measured_s * rate >= MIN_REQUESTS_FOR_DIRECTION


@given(rate=st.floats(MIN_RATE, MAX_DEFAULT_RATE), passed_s=st.floats(0, 1000))
def test_no_attempt_outlasts_five_and_a_half_minutes_of_load(rate: float, passed_s: float) -> None:
    seconds = seconds_for(rate, passed_s)
    if seconds is None:
        assert (330 - passed_s) * rate < 12 * 250
    else:
        assert passed_s + seconds <= 330
        assert (seconds + 1) * rate >= 12 * 250
    assert seconds_for(MIN_RATE, 100.0) is None


PACE = Pace(rate=50.0, given=2.0, request_cpu_s=0.013, share=1 / 3, taken=0.1)
SOUND = HealthWindow(
    rate=50.0, answered=250, failed=0, backlog=3, lag_ms=1.0, line_ms=1.0, use=use(0.66, others=0.1)
)


def change(**figures: object) -> HealthWindow:
    return dataclasses.replace(SOUND, **figures)  # type: ignore[arg-type]


def test_a_sound_stretch_counts_wherever_figures_are_missing() -> None:
    assert assess(SOUND, PACE) is None
    assert assess(change(use=None), Pace(50.0)) is None
    assert assess(change(use=use(0.66, waiting=None)), PACE) is None


@pytest.mark.parametrize(
    ("figures", "severe", "words"),
    [
        ({"failed": 1}, True, "1 requests failed"),
        ({"backlog": 51}, True, "51 requests waited"),
        ({"backlog": None}, True, "did not answer"),
        ({"use": use(0.1, throttled=0.5, quota=0.5)}, False, "quota was used up in 50%"),
        ({"use": use(1.5)}, False, "75% of the 2 processors"),
        ({"use": use(0.66, others=1.3)}, False, "others took 1.3 of 2 processors, and 94% of"),
        ({"use": use(0.66, stolen=1.3)}, False, "others took 1.3 of 2"),
        ({"use": use(0.4, waiting=7.0)}, False, "queued for a processor 7.0 times"),
        ({"use": use(0.2, waiting=7.0, others=1.0)}, False, "others took 1 of 2"),
        ({"lag_ms": 60.0}, False, "load generator was itself 60 ms late"),
        ({"line_ms": 120.0}, False, "event loop was 120 ms behind"),
        ({"line_ms": 120.0, "use": None}, False, "event loop was 120 ms behind"),
    ],
)
def test_what_is_wrong_with_a_stretch(figures: dict[str, object], severe: bool, words: str) -> None:
    found = assess(change(**figures), PACE)
    assert found is not None
    assert found.severe == severe
    assert words in found.words


def test_a_few_requests_are_no_backlog_at_a_low_rate() -> None:
    assert assess(change(rate=5.0, backlog=10), PACE) is None
    assert assess(change(rate=5.0, backlog=11), PACE) is not None


def test_others_who_were_there_from_the_start_are_not_blamed() -> None:
    busy = dataclasses.replace(PACE, taken=1.3)
    found = assess(change(use=use(0.66, others=1.3)), busy)
    assert found is not None
    assert found.words.startswith("94% of the 0.7 processors")


FINDINGS = st.lists(st.sampled_from(["sound", "void", "severe"]), max_size=80)
VOID, SEVERE = Finding("taken"), Finding("failed", severe=True)
STRETCHES = [(arm, number) for number in range(3) for arm in ("before", "after", "even")]


def run(attempt: RateTrial, kinds: Iterable[str]) -> tuple[list[tuple[str, int]], int]:
    """Run stretches that end so; returns those that counted, and how many were run."""
    counted, number = [], 0
    for kind in kinds:
        stretch = attempt.current
        if stretch is None:
            break
        number += 1
        finding = {"sound": None, "void": VOID, "severe": SEVERE}[kind]
        if attempt.note(finding, use(0.5)):
            counted.append(stretch)
    return counted, number


@given(kinds=FINDINGS)
def test_an_attempt_ends_with_every_stretch_sound_or_with_a_reason(kinds: list[str]) -> None:
    attempt = RateTrial(list(STRETCHES))
    counted, number = run(attempt, [*kinds, *["sound"] * 9])
    assert number <= len(STRETCHES) + attempt.allowed + 1
    assert counted == STRETCHES[: len(counted)]
    assert attempt.failed == (counted != STRETCHES)
    if attempt.failed:
        assert attempt.reason
        assert len(attempt.excess) == len(attempt.void)
        severe = sum(finding.severe for finding in attempt.void)
        assert severe == 2 or len(attempt.void) == attempt.allowed + 1


def test_a_void_stretch_is_repeated_at_once() -> None:
    attempt = RateTrial(list(STRETCHES))
    assert not attempt.note(VOID)
    assert attempt.current == STRETCHES[0]
    assert attempt.note(None)
    assert attempt.current == STRETCHES[1]


@given(
    rate=st.floats(MIN_RATE, MAX_DEFAULT_RATE),
    excess=st.lists(st.floats(0, 150), max_size=5),
    fixed=st.booleans(),
)
def test_slower_rates_end_and_stay_useful(rate: float, excess: list[float], fixed: bool) -> None:
    tried = [rate]
    while (slower := slower_rate(tried[-1], excess, fixed=fixed, slowdowns=len(tried) - 1)) is not None:
        assert MIN_RATE <= slower < tried[-1]
        tried.append(slower)
    assert len(tried) <= 3
    if fixed:
        assert len(tried) == 1


@pytest.mark.parametrize(("processors", "slower"), [(2, 20.0), (1, 12.0)])
def test_the_next_rate_aims_at_the_share_that_the_machine_gets(processors: int, slower: float) -> None:
    attempt = RateTrial(list(STRETCHES))
    attempt.note(VOID, use(0.66 * processors, processors=processors))
    assert slower_rate(40.0, attempt.excess, fixed=False, slowdowns=0) == slower


def test_a_tail_that_the_machine_makes_is_no_result() -> None:
    assert check_unrest(100.0, 70.0, requests=500) is None
    assert check_unrest(150.0, 20.0, requests=500) is None
    assert check_unrest(106.0, 83.0, requests=199) is None
    reason = check_unrest(106.0, 83.0, requests=500)
    assert reason is not None
    assert "without a plan p99 was 106 ms, and 83 ms for the requests that met no pause" in reason


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"failed": 2}, "2 of 1000 requests failed"),
        ({"dropped": 1}, "1 of 1000 requests failed"),
        ({"p99_ms": {"before": 10_000.0, "after": 90.0}}, "p99 was 10.0 s (before)"),
        ({"p99_ms": {"before": 90.0, "after": 1001.0}}, "p99 was 1.0 s (after)"),
    ],
)
def test_an_overload_is_no_result(figures: dict[str, object], words: str) -> None:
    plain = {"p99_ms": {"before": 150.0, "after": 40.0}, "due": 1000, "failed": 0, "dropped": 0}
    assert check_outcome(**plain) is None  # type: ignore[arg-type]
    reason = check_outcome(**(plain | figures))  # type: ignore[arg-type]
    assert reason is not None
    assert words in reason
