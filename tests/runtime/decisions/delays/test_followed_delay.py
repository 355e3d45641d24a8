"""Delay that follows a quantile: its bounds, how many calls exceed it, and what copies do to what it learns."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, strategies as st

from kwiken.model.service.stage import Following, Reissue
from kwiken.runtime.decisions.compiled_stage import ReissueRule
from kwiken.runtime.decisions.delays.followed_delay import GAIN, FollowedDelay

WIDE = Following(quantile=0.95, least_ms=0.01, most_ms=1e6)
MEAN_S = 0.01
P95_S = -MEAN_S * math.log(0.05)  # of exponential latencies


def settled(quantile: float, *, seed: int = 3, copies: bool = False) -> list[float]:
    """Delays while it learns from exponential latencies, after it has settled.

    Args:
        copies: whether a call that reaches the delay gets a copy, whose answer may be the first.
    """
    draw, rule = random.Random(seed), Following(quantile=quantile, least_ms=0.01, most_ms=1e6)
    it, seen = FollowedDelay(rule, MEAN_S), []
    for number in range(40_000):
        took = draw.expovariate(1 / MEAN_S)
        if copies and took > it.seconds:
            took = min(took, it.seconds + draw.expovariate(1 / MEAN_S))
        it.learn(took)
        if number > 10_000:
            seen.append(it.seconds)
    return seen


@given(
    took=st.lists(st.floats(0, 1e4), max_size=200),
    start=st.floats(0, 1e4),
    quantile=st.floats(0.01, 0.99),
    least_ms=st.floats(0.1, 100),
    width=st.floats(1, 1000),
)
def test_it_keeps_within_its_bounds_and_few_calls_exceed_it(
    took: list[float], start: float, quantile: float, least_ms: float, width: float
) -> None:
    rule = Following(quantile=quantile, least_ms=least_ms, most_ms=least_ms * width)
    it, over, at_ceiling = FollowedDelay(rule, start), 0, False
    for each in took:
        over += each > it.seconds
        it.learn(each)
        at_ceiling = at_ceiling or it.seconds >= rule.most_ms / 1000
        assert rule.least_ms / 1000 <= it.seconds <= rule.most_ms / 1000
    if not at_ceiling:
        assert over <= (1 - quantile) * len(took) + math.log(width) / GAIN + 1e-6


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.95, 0.99])
def test_it_finds_the_quantile(quantile: float) -> None:
    seen = settled(quantile)
    assert sum(seen) / len(seen) == pytest.approx(-MEAN_S * math.log(1 - quantile), rel=0.05)


def test_calls_that_a_copy_answered_do_not_mislead_it() -> None:
    seen = settled(0.95, copies=True)
    assert sum(seen) / len(seen) == pytest.approx(P95_S, rel=0.05)


def test_it_triples_with_24_calls_that_take_longer_and_falls_in_hundreds() -> None:
    it = FollowedDelay(WIDE, P95_S)
    steps = 0
    while it.seconds < 3 * P95_S:
        it.learn(math.inf)
        steps += 1
    assert steps == 24
    while it.seconds > P95_S:
        it.learn(0.0)
        steps += 1
    assert 400 < steps < 500


def test_a_success_before_the_present_delay_fills_the_account() -> None:
    follow = Following(quantile=0.95, least_ms=50, most_ms=400)
    fixed = ReissueRule.of(Reissue(after_ms=100, fraction=0.05))
    rule = ReissueRule.of(Reissue(after_ms=100, fraction=0.05, follow=follow))
    assert fixed.follow(0.3) == rule.follow(0.3) == 0.1
    assert fixed.present == 0.1
    assert rule.present > 0.1
    assert rule.follow(0.0) > 0.1


def test_where_most_calls_get_copies_every_success_fills_the_account() -> None:
    follow = Following(quantile=0.1, least_ms=50, most_ms=400)
    rule = ReissueRule.of(Reissue(after_ms=100, fraction=0.9, follow=follow))
    assert rule.follow(0.3) == math.inf


def test_the_first_delay_is_the_policys_within_the_bounds() -> None:
    follow = Following(quantile=0.95, least_ms=50, most_ms=400)
    assert ReissueRule.of(Reissue(after_ms=10, follow=follow)).present == 0.05
    assert ReissueRule.of(Reissue(after_ms=900, follow=follow)).present == 0.4
