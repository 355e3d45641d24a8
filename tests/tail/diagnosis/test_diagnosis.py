"""Blame, critical paths, effective stages, order statistics, global reissue, synthetic populations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtri

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end, parents_first
from kwiken.tail.apportion.sum_of_variances import sumvar
from kwiken.tail.curves.curve import Curve, reissue_curve
from kwiken.tail.diagnosis.blamed_stages import blame, characterise
from papers.kwiken.late_requests.global_reissue import (
    GlobalReissue,
    run_global_reissue,
    tune_global_reissue,
)
from papers.kwiken.partial_answers.incomplete import (
    order_quantile,
    rank_for,
    wait_for_fraction_gain,
)
from papers.worlds.populations.services import POPULATIONS, StageDistribution, population


@dataclass(frozen=True)
class Node:
    name: str
    after: tuple[str, ...] = ()


CHAIN = (Node("a"), Node("b", ("a",)), Node("c", ("b",)))


def test_no_stage_is_blamed_where_none_stands_out() -> None:
    rng = np.random.default_rng(1)
    spent = {name: rng.uniform(1, 2, 5000) for name in "abc"}
    table = blame(spent, np.sum(list(spent.values()), axis=0), sigmas=3)
    assert all(entry.blamed == 0 for entry in table.values())
    assert sum(entry.mean_share for entry in table.values()) == pytest.approx(1)


def test_an_outlier_is_blamed_for_its_own_requests_only() -> None:
    rng = np.random.default_rng(2)
    spent = {name: rng.uniform(1, 2, 1000) for name in "abc"}
    spent["b"][:50] += 100.0
    table = blame(spent, np.sum(list(spent.values()), axis=0), slow=0.05)
    assert table["b"].blamed == 1.0
    assert table["a"].blamed == table["c"].blamed == 0.0


def test_a_time_out_is_blamed_and_counted_separately() -> None:
    spent = {"a": np.ones(100)}
    out = {"a": np.arange(100) >= 98}
    entry = blame(spent, np.arange(100.0), slow=0.04, timed_out=out)["a"]
    assert (entry.blamed, entry.timed_out) == (0.5, 0.5)


def test_one_stage_with_almost_all_of_the_latency_is_the_one_effective_stage() -> None:
    latency = {"a": np.full(100, 2.0), "b": np.full(100, 95.0), "c": np.full(100, 3.0)}
    shape = characterise(CHAIN, latency, end_to_end(CHAIN, latency))
    assert shape.effective == ("b",)
    assert shape.paths[0].stages == ("a", "b", "c")
    assert shape.paths[0].share == 1.0
    assert shape.effective_per_path == 1.0


def test_paths_that_cover_nine_tenths_are_kept() -> None:
    stages = (Node("left"), Node("right"), Node("join", ("left", "right")))
    left = np.where(np.arange(1000) < 950, 10.0, 1.0)
    latency = {"left": left, "right": np.full(1000, 5.0), "join": np.ones(1000)}
    shape = characterise(stages, latency, end_to_end(stages, latency))
    assert [(path.stages, path.share) for path in shape.paths] == [(("left", "join"), 0.95)]


@pytest.mark.parametrize(
    ("quantile", "n", "loss", "expected"),
    [
        (lambda u: 1 + 10 * ndtri(u), 10_000, 0.001, (26.17, 29.86)),
        (lambda u: 1 + 10 * ndtri(u), 10_000, 0.01, (44.89, 48.22)),
        (lambda u: math.exp(1 + 2 * ndtri(u)), 10_000, 0.001, (90.57, 94.48)),
        (lambda u: math.exp(1 + 2 * ndtri(u)), 10_000, 0.01, (98.26, 99.07)),
        (lambda u: math.exp(1 + 2 * ndtri(u)), 1000, 0.001, (63.14, 72.53)),
        (lambda u: math.exp(1 + 2 * ndtri(u)), 1000, 0.01, (93.71, 96.48)),
    ],
)
def test_waiting_for_a_fraction_buys_what_order_statistics_say(
    quantile: Callable[[float], float], n: int, loss: float, expected: tuple[float, float]
) -> None:
    gains = [100 * wait_for_fraction_gain(quantile, n, loss, share) for share in (0.95, 0.99)]
    assert gains == pytest.approx(expected, abs=0.01)


def test_below_a_thousand_responders_a_thousandth_is_none() -> None:
    assert rank_for(300, 0.001) == 300
    assert rank_for(1000, 0.001) == 999
    assert wait_for_fraction_gain(ndtri, 300, 0.001, 0.99) == 0.0


def test_order_quantiles_are_those_of_the_largest_of_uniforms() -> None:
    assert order_quantile(0.5, 10, 10) == pytest.approx(0.5**0.1)
    with pytest.raises(InputError):
        order_quantile(0.5, 11, 10)


def test_the_population_has_the_published_shape() -> None:
    sizes = [
        len(dag) for seed in range(4) for dag in population(POPULATIONS["C"], np.random.default_rng(seed))
    ]
    assert np.median(sizes) == 14
    assert 60 <= np.percentile(sizes, 90) <= 90
    assert max(sizes) <= 150


@pytest.mark.parametrize("name", sorted(POPULATIONS))
def test_populations_are_dags_without_loose_ends_and_repeat_for_a_seed(name: str) -> None:
    dags = population(POPULATIONS[name], np.random.default_rng(5))
    assert dags == population(POPULATIONS[name], np.random.default_rng(5))
    for dag in dags:
        assert parents_first(dag) == list(range(len(dag)))
        fed = {parent for stage in dag for parent in stage.after}
        assert {stage.name for stage in dag} - fed == {dag[-1].name}


def samples(dag: tuple[StageDistribution, ...], rng: np.random.Generator, size: int) -> dict[str, Floats]:
    return {stage.name: stage.draw(rng, size) for stage in dag}


def test_help_for_late_requests_spends_the_budget_and_beats_local_time_outs() -> None:
    rng = np.random.default_rng(11)
    improved = []
    for dag in population(POPULATIONS["C"], rng, dags=9):
        train, copies, test, test_copies = (samples(dag, rng, 6000) for _ in range(4))
        curves = {name: reissue_curve(values) for name, values in train.items()}
        costs = {
            name: values.mean() / sum(v.mean() for v in train.values()) for name, values in train.items()
        }

        def time_out(name: str, fraction: float, curves: dict[str, Curve] = curves) -> float:
            policy = curves[name].policy(fraction)
            return policy.after_ms if policy else math.inf

        local = {n: time_out(n, f) for n, f in sumvar(curves, costs, 0.03).fractions.items()}
        plain = run_global_reissue(dag, test, test_copies, GlobalReissue(local, frozenset(), math.inf), costs)
        policy = tune_global_reissue(
            dag, curves, costs, (train, copies), time_out=time_out, budget=0.03, share=1 / 6
        )
        helped = run_global_reissue(dag, test, test_copies, policy, costs)
        assert helped.spent == pytest.approx(0.03, rel=0.25)
        improved.append(1 - np.percentile(helped.latency_ms, 99) / np.percentile(plain.latency_ms, 99))
    assert np.mean(improved) > 0


def test_late_requests_are_never_made_later() -> None:
    rng = np.random.default_rng(4)
    primary, copies = ({name: rng.exponential(10, 500) for name in "abc"} for _ in range(2))
    costs = dict.fromkeys("abc", 1 / 3)
    policy = GlobalReissue(dict.fromkeys("abc", 40.0), frozenset("ab"), 25.0)
    with_it = run_global_reissue(CHAIN, primary, copies, policy, costs)
    assert (with_it.latency_ms <= end_to_end(CHAIN, primary) + 1e-9).all()
    assert 0 < with_it.spent < 1
