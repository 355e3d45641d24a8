"""Delay that calls of all stages share: what counts, and what does not decide alone."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.decisions.delays.common_delay import (
    ANSWERS,
    CLIP,
    MAX_FACTOR,
    MIN_ANSWERS,
    MIN_COUNT,
    MIN_FACTOR,
    CommonDelay,
    UsualLatency,
)

RATIOS = st.lists(st.floats(0.01, 100), max_size=30)
TOOK = 50.0  # seconds, so long that it does not bound what is tested
START, DUE, NOW = 0.0, 10.0, 10.0  # of a call, seconds


def told(ratios: list[float], took: float = TOOK) -> CommonDelay:
    """One first answer each second from second 1 on; each took a multiple of what is usual."""
    it = CommonDelay()
    for second, ratio in enumerate(ratios, start=1):
        it.answered(float(second), took, ratio)
    return it


@given(ratios=RATIOS, start=st.floats(0, 40), waits=st.floats(0, 20))
def test_a_copy_is_never_put_off_into_the_past_nor_for_ever(
    ratios: list[float], start: float, waits: float
) -> None:
    now = start + waits
    until = told(ratios).until(start, now, now)
    assert now <= until <= start + MAX_FACTOR * waits + 1e-9


@given(ratios=st.lists(st.floats(MIN_FACTOR, MAX_FACTOR), min_size=MIN_ANSWERS, max_size=30))
def test_the_factor_lies_among_the_latest_ratios(ratios: list[float]) -> None:
    latest = ratios[-ANSWERS:]
    found = told(ratios).until(START, DUE, NOW) / DUE
    assert min(latest) * (1 - 1e-9) <= found <= max(latest) * (1 + 1e-9)


def test_only_answers_since_the_call_was_sent_count() -> None:
    it = told([3.0, 3.0, 3.0])
    assert it.until(1.5, 11.5, 11.5) == pytest.approx(1.5 + 3 * 10)
    assert it.until(2.5, 12.5, 12.5) == 12.5


@pytest.mark.parametrize(
    ("ratios", "factor"),
    [
        ([], 1.0),
        ([3.0], 1.0),
        ([1.2, 3.0], 1.0),
        ([2.0, 3.0], 2.0),
        ([1.0, 90.0, 1.0, 90.0, 1.0], 1.0),
        ([1.0, 2.5, 2.5, 2.5, 1.0], 2.5),
        ([1.4] * 7, 1.0),
        ([90.0] * 7, MAX_FACTOR),
        ([4.0] * 20 + [1.0] * ANSWERS, 1.0),
        ([0.0, 0.0, 3.0], 1.0),
    ],
    ids=[
        "nothing known",
        "one answer",
        "two that differ",
        "two alike",
        "stragglers",
        "a slow majority",
        "by chance",
        "far too slow",
        "long ago",
        "stages of which nothing is usual yet",
    ],
)
def test_the_lower_median_decides(ratios: list[float], factor: float) -> None:
    assert told(ratios).until(START, DUE, NOW) == pytest.approx(factor * DUE)


def test_a_copy_is_asked_for_again_after_as_long_as_the_answers_took() -> None:
    assert told([3.0, 3.0], took=0.25).until(START, DUE, NOW) == pytest.approx(NOW + 0.25)


def test_a_copy_at_age_zero_is_never_put_off() -> None:
    assert told([4.0] * 7).until(7.0, 7.0, 7.0) == 7.0


def served(usual: UsualLatency, moments: list[float], took: list[float]) -> list[float]:
    return [usual.learn(each, at) for at, each in zip(moments, took, strict=True)]


def test_nothing_is_usual_before_ten_answers() -> None:
    usual = UsualLatency()
    first = served(usual, [0.0] * MIN_COUNT, [0.0002] + [0.01] * (MIN_COUNT - 1))
    assert first == [0.0] * MIN_COUNT
    assert usual.seconds == pytest.approx(0.00902)
    assert usual.learn(0.02, 0.0) == pytest.approx(0.02 / 0.00902)


@pytest.mark.parametrize("burst", [1, 5])
@pytest.mark.parametrize("rate", [2, 100, 1000])
def test_a_slow_moment_moves_little_and_lasting_slowness_does(rate: int, burst: int) -> None:
    """Answers come evenly, or several at once."""
    usual, now = UsualLatency(), 0.0

    def serve(seconds: float, took: float) -> None:
        nonlocal now
        for number in range(int(seconds * rate)):
            now += burst / rate if number % burst == 0 else 0.0
            usual.learn(took, now)

    serve(30.0, 0.01)
    assert usual.seconds == pytest.approx(0.01)
    serve(0.1, 0.04)
    assert usual.seconds < 0.0105
    serve(120.0, 0.04)
    assert usual.seconds == pytest.approx(0.04, rel=0.05)


def test_after_a_long_silence_one_answer_is_one_of_eleven() -> None:
    usual = UsualLatency()
    served(usual, [0.0] * 1000, [0.01] * 1000)
    usual.learn(10.0, 1e6)
    assert usual.seconds == pytest.approx(0.01 + (CLIP - 1) * 0.01 / (MIN_COUNT + 1))


def test_answers_in_no_time_are_no_ratio() -> None:
    usual = UsualLatency()
    assert served(usual, [0.0] * 30, [0.0] * 30) == [0.0] * 30
