"""Delay that calls of all stages share: what counts, and what does not decide alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken.runtime.decisions import CommonDelay
from kwiken.runtime.decisions.common_delay import ANSWERS, CLIP, MAX_FACTOR, MAX_WEIGHT, UsualLatency

RATIOS = st.lists(st.floats(0.01, 100), max_size=30)


def told(ratios: list[float]) -> CommonDelay:
    """One answer each second from second 1 on; each took a multiple of what is usual."""
    it = CommonDelay()
    for second, ratio in enumerate(ratios, start=1):
        it.answered(float(second), ratio)
    return it


@given(ratios=RATIOS, since=st.floats(0, 40))
def test_a_factor_never_makes_a_copy_earlier_and_is_bounded(ratios: list[float], since: float) -> None:
    assert 1.0 <= told(ratios).factor(since) <= MAX_FACTOR


@given(ratios=st.lists(st.floats(1.0, MAX_FACTOR), min_size=1, max_size=30))
def test_the_factor_lies_among_the_latest_ratios(ratios: list[float]) -> None:
    latest = ratios[-ANSWERS:]
    found = told(ratios).factor(0.0)
    assert min(latest) * (1 - 1e-9) <= found <= max(latest) * (1 + 1e-9)


def test_without_an_answer_since_the_call_was_sent_nothing_is_put_off() -> None:
    it = told([3.0, 3.0])
    assert it.factor(2.5) == 1.0
    assert it.factor(2.0) == pytest.approx(3.0)


def test_stragglers_do_not_decide() -> None:
    assert told([1.0, 90.0, 1.0, 90.0, 1.0]).factor(0.0) == pytest.approx(1.0)


def test_a_slow_majority_does() -> None:
    assert told([1.0, 2.5, 2.5, 2.5, 1.0]).factor(0.0) == pytest.approx(2.5)


def test_old_answers_are_forgotten() -> None:
    assert told([4.0] * 20 + [1.0] * ANSWERS).factor(0.0) == pytest.approx(1.0)


def test_the_first_answer_of_a_stage_is_usual() -> None:
    usual = UsualLatency()
    assert usual.learn(0.02, 5.0) == 1.0
    assert usual.seconds == 0.02
    assert usual.learn(0.06, 5.0) == pytest.approx(3.0)


@pytest.mark.parametrize("rate", [10, 1000])
def test_a_slow_moment_hardly_moves_what_is_usual_and_lasting_slowness_does(rate: int) -> None:
    usual, now = UsualLatency(), 0.0

    def serve(seconds: float, took: float) -> None:
        nonlocal now
        for _ in range(int(seconds * rate)):
            now += 1 / rate
            usual.learn(took, now)

    serve(30.0, 0.01)
    serve(0.1, 0.04)
    assert usual.seconds < 0.0105
    serve(60.0, 0.04)
    assert usual.seconds == pytest.approx(0.04, rel=0.05)


def test_after_a_long_silence_one_answer_counts_for_little() -> None:
    usual = UsualLatency()
    usual.learn(0.01, 0.0)
    usual.learn(10.0, 1e6)
    assert usual.seconds == pytest.approx(0.01 + MAX_WEIGHT * (CLIP - 1) * 0.01)
