"""Choice of a completion method, compared with a plain loop over the rows that are held out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from kwiken.allocator.workloads.completion.gaussian import BayesianRows, ColumnMeans, Completer, FoldIn
from kwiken.allocator.workloads.completion.joined import JoinedModel
from kwiken.allocator.workloads.completion.nearest import NearestRows
from kwiken.allocator.workloads.completion.scalability import Scalability
from kwiken.allocator.workloads.completion.selection import (
    CompletionKind,
    NoEffect,
    OneUnit,
    candidates,
    choose,
    held_out,
)
from kwiken.allocator.workloads.completion.tails import calibration, fitted_tails
from kwiken.base.arrays import Ints
from kwiken.base.errors import InputError
from tests.support.allocation.held_out_rows import held_out_rows
from tests.support.allocation.low_rank_rows import low_rank_rows

TWO = np.array([1, 3])
FIVE: tuple[Completer, ...] = (
    FoldIn(1, 1e-2),
    FoldIn(2, 1e-3),
    NearestRows(3),
    BayesianRows(0.05, 4e-4),
    NoEffect(),
    ColumnMeans(),
    BayesianRows(0.3, 1e-2),
)


def grouped(count: int) -> Ints:
    return np.random.default_rng(count).permutation(np.arange(count) % 13) * 3


@pytest.mark.parametrize("method", [BayesianRows(0.1, 4e-3), NearestRows(3)], ids=str)
@pytest.mark.parametrize("level", [True, False])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(("count", "groups"), [(5, False), (23, False), (23, True)])
def test_rows_are_predicted_from_those_of_other_folds(
    method: Completer, level: bool, stated: bool, count: int, groups: bool
) -> None:
    rows = low_rank_rows(count, count)
    deviations = np.random.default_rng(count).choice([0.0, 0.1, 0.4], rows.shape) if stated else None
    belongs = grouped(count) if groups else None
    found = held_out(rows, TWO, method, level=level, deviations=deviations, groups=belongs)
    plain = held_out_rows(rows, TWO, method, level=level, deviations=deviations, groups=belongs)
    assert found.missed == pytest.approx(np.array([one.missed for one in plain]), abs=1e-9)
    assert found.deviation == pytest.approx(np.array([one.deviation for one in plain]))
    assert found.weights == pytest.approx(np.array([one.weights for one in plain]))
    at = [one.row for one in plain]
    assert found.groups.tolist() == (at if belongs is None else belongs[at].tolist())
    total = sum(float(one.weights.sum()) for one in plain)
    mean = sum(float((np.abs(one.missed) * one.weights).sum()) for one in plain) / total
    assert found.mean_error == pytest.approx(mean)


def test_of_a_fold_of_many_rows_twenty_are_judged_from_the_first_to_the_last() -> None:
    rows = low_rank_rows(0, 300)
    found = held_out(rows, TWO, ColumnMeans(), level=True)
    plain = held_out_rows(rows, TWO, ColumnMeans(), level=True)
    assert found.groups.tolist() == [one.row for one in plain]
    assert found.missed == pytest.approx(np.array([one.missed for one in plain]))


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_method_or_mean_of_methods_with_least_error_is_chosen(
    seed: int, stated: bool, joins: bool
) -> None:
    """Means are of two or three out of the four best kinds of method, by the best settings of each."""
    rows, belongs = low_rank_rows(seed, 15), grouped(15)
    deviations = np.random.default_rng(seed).choice([0.0, 0.2], rows.shape) if stated else None
    told = {one: held_out(rows, TWO, one, level=True, deviations=deviations, groups=belongs) for one in FIVE}
    ranked = sorted(FIVE, key=lambda one: told[one].mean_error)
    best: list[Completer] = []
    for one in ranked:
        if type(one) not in {type(other) for other in best}:
            best.append(one)
    sets: list[Sequence[Completer]] = [(one,) for one in FIVE]
    if joins:
        sets += [*itertools.combinations(best[:4], 2), *itertools.combinations(best[:4], 3)]
    errors, spreads = {}, {}
    for some in sets:
        name = "; ".join(one.name for one in some)
        name = name if len(some) == 1 else f"mean of {name}"
        missed = np.array([told[one].missed for one in some])
        apart = missed - missed.mean(axis=0)
        width = np.array([told[one].deviation for one in some])
        spreads[name] = missed.mean(axis=0), np.sqrt((width**2 + apart**2).mean(axis=0)), some
        errors[name] = float(np.average(np.abs(missed.mean(axis=0)), weights=told[FIVE[0]].weights))
    chosen = choose(rows, TWO, FIVE, level=True, deviations=deviations, groups=belongs, joins=joins)
    assert chosen.errors == pytest.approx(errors)
    assert chosen.name == min(errors, key=lambda name: errors[name])
    assert chosen.error == pytest.approx(min(errors.values()))
    missed, deviation, parts = spreads[chosen.name]
    at = told[FIVE[0]].groups
    assert chosen.scale == pytest.approx(calibration(missed, deviation, at))
    tails = fitted_tails(missed, deviation, at)
    assert chosen.tails.freedom == tails.freedom
    assert chosen.tails.narrowing == pytest.approx(tails.narrowing)
    assert isinstance(chosen.model, JoinedModel) == (len(parts) > 1)
    new = np.array([0.4, -0.3])
    alone = [part.fit(rows, level=True, deviations=deviations).complete(TWO, new) for part in parts]
    found = chosen.complete(TWO, new)
    assert found.mean == pytest.approx(np.mean([one.mean for one in alone], axis=0))
    apart = np.array([one.mean for one in alone]) - found.mean
    noisy = [one.covariance + np.outer(gap, gap) for one, gap in zip(alone, apart, strict=True)]
    assert found.covariance == pytest.approx(chosen.scale**2 * np.mean(noisy, axis=0))
    assert found.noise == pytest.approx(chosen.scale**2 * np.mean([one.noise for one in alone]))


def test_means_are_chosen_of_some_histories_and_single_methods_of_others() -> None:
    """Histories of the test above, which compares both kinds of choice."""
    names = [choose(low_rank_rows(seed, 15), TWO, FIVE, level=True, joins=True).name for seed in range(3)]
    assert any(name.startswith("mean of ") for name in names)


def test_three_rows_are_enough_to_choose_and_two_are_not() -> None:
    chosen = choose(low_rank_rows(0, 3), TWO, FIVE, level=False)
    assert chosen.name in {one.name for one in FIVE}
    assert np.isfinite(chosen.complete(TWO, np.array([0.1, 0.2])).deviation).all()
    with pytest.raises(InputError, match="needs 3 or more workloads that are measured whole, not 2"):
        choose(low_rank_rows(0, 2), TWO, FIVE, level=False)


def steps(values: Sequence[float]) -> list[float]:
    ordered = sorted(set(values))
    return [more / less for less, more in itertools.pairwise(ordered)]


def test_settings_to_choose_from_are_evenly_spaced() -> None:
    """Deviations about double from 0.4% to 32%, ridges grow threefold, neighbours double at most."""
    methods = candidates((1, 2), one_unit=True)
    noises = [one.noise for one in methods if isinstance(one, BayesianRows)]
    assert all(3.9 <= step <= 5.0 for step in steps(noises))
    assert math.sqrt(min(noises)) == pytest.approx(0.004, rel=0.2)
    assert math.sqrt(max(noises)) == pytest.approx(0.32, rel=0.2)
    for share in {one.prior_share for one in methods if isinstance(one, BayesianRows)}:
        assert sorted(set(noises)) == sorted(
            one.noise for one in methods if isinstance(one, BayesianRows) and one.prior_share == share
        )
    units = [one.rows.noise for one in methods if isinstance(one, OneUnit)]
    assert set(units) <= set(noises)
    assert max(units) == max(noises)
    assert all(3.9 <= step <= 16.1 for step in steps(units))
    ridges = [(one.rank, one.ridge) for one in methods if isinstance(one, FoldIn)]
    assert all(2.9 <= step <= 3.4 for step in steps([ridge for _, ridge in ridges]))
    assert {rank for rank, _ in ridges} == {1, 2, 3}
    laws = [one.noise for one in methods if isinstance(one, Scalability)]
    assert set(laws) <= set(noises)
    assert all(15 <= step <= 20.1 for step in steps(laws))
    counts = [one.count for one in methods if isinstance(one, NearestRows) and one.count]
    assert all(1.5 <= step <= 2.0 for step in steps(counts))


def test_rows_of_one_unit_and_the_law_are_tried_only_where_told() -> None:
    for kind, told in itertools.product(CompletionKind, ({}, {"one_unit": True})):
        kinds = {type(one) for one in candidates(None, kind, **told)}
        assert (OneUnit in kinds) == (kind is CompletionKind.BEST and bool(told))
        assert Scalability not in kinds
        assert (Scalability in {type(one) for one in candidates((1, 2), kind)}) == (
            kind is not CompletionKind.NEAREST
        )
        assert (NearestRows in kinds) == (kind is not CompletionKind.GAUSSIAN)
