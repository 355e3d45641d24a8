"""Stop rules of fan-outs: special cases, monotonicity, ranking, and losses of several stages."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.partial.responders import Responders
from kwiken.tail.partial.stop_rules import StopRule, apply_rule
from kwiken.tail.partial.tuning import tune_stop_rule, tune_stop_rules
from papers.kwiken.partial_answers.simple_rules import (
    FixedTimeout,
    WaitForFraction,
    tune_fixed_timeout,
    tune_time_then_fraction,
    tune_wait_for_fraction,
)
from papers.worlds.populations.services import fan_out_queries

calls = arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 12)), elements=st.floats(0, 1000))
shares = st.floats(0, 1)


@given(calls, st.floats(0, 1000), shares)
def test_without_end_to_the_wait_the_rule_is_a_fixed_timeout(
    latency: Floats, cutoff: float, progress: float
) -> None:
    responders = Responders.of(latency)
    rule, timeout = StopRule(cutoff, math.inf, progress), FixedTimeout(cutoff)
    assert np.array_equal(apply_rule(rule, responders)[0], apply_rule(timeout, responders)[0])


@given(calls, shares)
def test_without_cutoff_and_wait_the_rule_waits_for_a_fraction(latency: Floats, share: float) -> None:
    responders = Responders.of(latency)
    rule, fraction = StopRule(math.inf, 0.0, share), WaitForFraction(share)
    assert np.array_equal(apply_rule(rule, responders)[0], apply_rule(fraction, responders)[0])


@given(calls, st.floats(0, 1000), st.floats(0, 1000), shares, st.floats(0, 500))
def test_loss_falls_and_latency_grows_with_every_parameter(
    latency: Floats, cutoff: float, wait: float, progress: float, more: float
) -> None:
    responders = Responders.of(latency)
    base_ms, base_loss = apply_rule(StopRule(cutoff, wait, progress), responders)
    for rule in (
        StopRule(cutoff + more, wait, progress),
        StopRule(cutoff, wait + more, progress),
        StopRule(cutoff, wait, min(1.0, progress + more / 500)),
    ):
        longer_ms, less_loss = apply_rule(rule, responders)
        assert (longer_ms >= base_ms).all()
        assert (less_loss <= base_loss).all()


@given(calls, st.floats(0, 1000))
def test_loss_counts_the_calls_that_come_after_the_stop(latency: Floats, stop: float) -> None:
    lost = Responders.of(latency).loss(np.full(len(latency), stop))
    assert np.allclose(lost, (latency > stop).mean(axis=1))


@given(calls, st.floats(0, 1000), st.randoms(use_true_random=False))
def test_with_explicit_ranking_a_query_loses_all_or_nothing(
    latency: Floats, stop: float, random: Random
) -> None:
    best = np.array([random.randrange(latency.shape[1]) for _ in latency])
    worth = np.zeros_like(latency)
    worth[np.arange(len(latency)), best] = 1.0
    lost = Responders.of(latency, worth).loss(np.full(len(latency), stop))
    ties_aside = [len(set(row)) == len(row) for row in latency]
    late = latency[np.arange(len(latency)), best] > stop
    assert np.allclose(lost[ties_aside], late[ties_aside])


def test_absent_calls_are_no_responders() -> None:
    responders = Responders.of(np.array([[3.0, np.nan, 1.0], [2.0, 4.0, 6.0]]))
    assert responders.count.tolist() == [2, 3]
    assert responders.last_ms.tolist() == [3.0, 6.0]
    assert responders.loss(np.array([1.0, 5.0])).tolist() == [0.5, pytest.approx(1 / 3)]


@given(st.integers(0, 1000), st.sampled_from([0.001, 0.01, 0.05]))
def test_the_dynamic_rule_is_no_worse_than_its_special_cases_and_keeps_its_budget(
    seed: int, loss: float
) -> None:
    responders = Responders.of(fan_out_queries(200, np.random.default_rng(seed), responders=120))
    dynamic = tune_stop_rule(responders, loss=loss)
    assert dynamic.loss <= loss * (1 + 1e-9)
    for simpler in (
        tune_fixed_timeout(responders, loss=loss),
        tune_wait_for_fraction(responders, loss=loss),
    ):
        assert simpler.loss <= loss * (1 + 1e-9)
        assert dynamic.variance <= simpler.variance * (1 + 1e-9)


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.002, 0.02, 0.3]), st.booleans())
def test_a_shorter_time_out_would_break_the_budget(seed: int, loss: float, ranked: bool) -> None:
    rng = np.random.default_rng(seed)
    latency = fan_out_queries(60, rng, responders=20)
    latency[rng.random(latency.shape) < 0.1] = np.nan
    latency[:, 0] = np.where(np.isnan(latency).all(axis=1), 5.0, latency[:, 0])
    best = rng.integers(0, 3, latency.shape).astype(float) if ranked else None
    responders = Responders.of(latency, best)
    rule = tune_fixed_timeout(responders, loss=loss).rule
    assert isinstance(rule, FixedTimeout)
    assert responders.loss(rule.stop_ms(responders)).mean() <= loss + 1e-9
    if rule.cutoff_ms > 0:
        shorter = np.full(len(responders), np.nextafter(rule.cutoff_ms, 0))
        assert responders.loss(shorter).mean() > loss - 1e-12


def test_no_answer_comes_before_the_first_responder() -> None:
    responders = Responders.of(np.array([[5.0, 9.0], [1.0, 2.0]]))
    latency, lost = apply_rule(FixedTimeout(0.0), responders)
    assert latency.tolist() == [5.0, 1.0]
    assert lost.tolist() == [0.5, 0.5]


def test_many_losses_are_tuned_as_each_alone() -> None:
    responders = Responders.of(fan_out_queries(400, np.random.default_rng(5), responders=50))
    losses = (0.0005, 0.005, 0.02)
    together = tune_stop_rules(responders, losses)
    for loss, tuned in zip(losses, together, strict=True):
        assert tuned.variance == pytest.approx(tune_stop_rule(responders, loss=loss).variance, rel=0.05)
    variances = [tuned.variance for tuned in together]
    assert variances == sorted(variances, reverse=True)


def test_few_responders_leave_nothing_to_drop() -> None:
    responders = Responders.of(fan_out_queries(300, np.random.default_rng(1), responders=300))
    latency, lost = apply_rule(tune_wait_for_fraction(responders, loss=0.001).rule, responders)
    assert np.array_equal(latency, responders.last_ms)
    assert not lost.any()


def test_rules_rank_as_the_source_ranks_them_on_queries_not_tuned_on() -> None:
    rng = np.random.default_rng(3)
    train, test = (Responders.of(fan_out_queries(queries, rng)) for queries in (1500, 1500))
    variance, latency = {}, {}
    for tune in (tune_stop_rule, tune_time_then_fraction, tune_fixed_timeout, tune_wait_for_fraction):
        latency[tune.__name__], _ = apply_rule(tune(train, loss=0.001).rule, test)
        variance[tune.__name__] = latency[tune.__name__].var()
    assert list(variance) == sorted(variance, key=variance.__getitem__)
    below_p90 = np.percentile(latency["tune_fixed_timeout"], [10, 50, 89])
    assert np.allclose(below_p90, np.percentile(test.last_ms, [10, 50, 89]))


@pytest.mark.parametrize(
    ("latency", "worth", "words"),
    [
        (np.array([[-1.0]]), None, "finite numbers >= 0"),
        (np.array([[np.inf]]), None, "finite numbers >= 0"),
        (np.array([[np.nan, np.nan]]), None, "at least one responder"),
        (np.empty((0, 3)), None, "a row a query"),
        (np.array([1.0]), None, "a row a query"),
        (np.array([[1.0]]), np.array([[-1.0]]), "worth must be"),
        (np.array([[1.0]]), np.array([[1.0, 2.0]]), "shape"),
    ],
)
def test_bad_responders_are_refused(latency: Floats, worth: Floats | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Responders.of(latency, worth)


@pytest.mark.parametrize("loss", [-0.1, 1.1, math.nan])
def test_a_loss_budget_must_be_a_share(loss: float) -> None:
    with pytest.raises(InputError, match="share from 0 to 1"):
        tune_stop_rule(Responders.of(np.array([[1.0, 2.0]])), loss=loss)
