"""Learned wait: a stop rule fitted to each query's first answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import ndtri

from kwiken.base.errors import InputError
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import apply_rule
from papers.kwiken.partial_answers.learned_wait import LearnedWait, _Sums, tune_learned_wait
from papers.kwiken.partial_answers.simple_rules import tune_fixed_timeout
from papers.worlds.populations.services import fan_out_queries


def test_a_querys_own_distribution_is_learned_from_its_first_answers() -> None:
    # Answers exactly at the scores of a log-normal distribution: the regression finds it, whatever the share.
    places = (np.arange(1, 41) - 0.375) / 40.25
    rows = [np.exp(location + scale * ndtri(places)) for location, scale in ((3.0, 0.2), (1.0, 0.7))]
    responders = Responders.of(np.array(rows))
    for progress in (0.25, 0.5, 0.9):
        fit = _Sums.of(responders).fit(responders, progress, 0.4, 0.0)
        assert fit.location == pytest.approx([3.0, 1.0])
        assert fit.scale == pytest.approx([0.2, 0.7])
        assert fit.learned_ms == pytest.approx([row[math.ceil(40 * progress) - 1] for row in rows])
    shrunk = _Sums.of(responders).fit(responders, 0.5, 0.4, 20.0)
    assert shrunk.scale == pytest.approx([0.3, 0.55])


def test_slow_queries_wait_longer_than_quick_ones() -> None:
    rng = np.random.default_rng(0)
    speed = np.repeat([10.0, 100.0], 200)[:, None]
    calls = speed * rng.lognormal(0, 0.2, (400, 50))
    calls[:, 7] *= np.where(rng.random(400) < 0.5, 5, 1)
    rule = LearnedWait(0.8, 3.5, math.inf, 0.2, 30.0)
    latency, lost = apply_rule(rule, Responders.of(calls))
    assert 8 < np.median(latency[200:]) / np.median(latency[:200]) < 12
    assert lost.mean() == pytest.approx(0.01, abs=0.002)  # the straggler of every second query


@given(st.integers(0, 500), st.sampled_from([0.002, 0.02, 0.1]), st.booleans())
def test_tuning_keeps_the_budget_and_is_no_worse_than_a_fixed_time_out(
    seed: int, loss: float, uneven: bool
) -> None:
    rng = np.random.default_rng(seed)
    calls = fan_out_queries(120, rng, responders=25)
    if uneven:
        calls[rng.random(calls.shape) < 0.2] = np.nan
        calls[:, 0] = 20.0
    responders = Responders.of(calls)
    tuned = tune_learned_wait(responders, loss=loss)
    assert tuned.loss <= loss * (1 + 1e-9)
    assert tuned.variance <= tune_fixed_timeout(responders, loss=loss).variance * (1 + 1e-9)


def test_a_loss_must_be_a_share() -> None:
    with pytest.raises(InputError, match="share from 0 to 1"):
        tune_learned_wait(Responders.of(np.ones((10, 3))), loss=1.5)
