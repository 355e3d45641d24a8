"""Neighbours, rows of one unit, means of methods, groups that are held out whole, and tails of errors."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.classification import Classifier
from kwiken.allocator.workloads.completion.gaussian import BayesianRows, EntryErrors, FoldIn
from kwiken.allocator.workloads.completion.joined import JoinedModel
from kwiken.allocator.workloads.completion.nearest import NearestRows
from kwiken.allocator.workloads.completion.selection import (
    CompletionKind,
    NoEffect,
    OneUnit,
    candidates,
    choose,
    held_out,
)
from kwiken.allocator.workloads.completion.tails import ErrorTails, calibration, fitted_tails
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.profile import profiles_from_json, profiles_to_json
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "allocator" / "measurements.toml"
TWO = np.array([0, 2])


def rows(seed: int = 0, count: int = 12, size: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.5, (count, size))


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_neighbours_are_those_of_a_scan_and_the_row_is_their_median(
    seed: int, count: int, level: bool
) -> None:
    known, new = rows(seed), rows(seed + 1, 1)[0]
    model = NearestRows(count).fit(known, level=level)
    aligned = known - known[:, TWO].mean(axis=1, keepdims=True) if level else known
    mean = new[TWO].mean() if level else 0.0
    apart = np.sqrt(((aligned[:, TWO] - (new[TWO] - mean)) ** 2).mean(axis=1))
    near, distances = model.neighbours(TWO, new[TWO])
    assert set(near.tolist()) == set(np.argsort(apart, kind="stable")[:count].tolist())
    assert distances == pytest.approx(np.sort(apart)[:count])
    found = model.complete(TWO, new[TWO])
    hidden = np.setdiff1d(np.arange(6), TWO)
    assert found.mean[hidden] == pytest.approx((mean + np.median(aligned[near], axis=0))[hidden])
    assert found.mean[TWO] == pytest.approx(new[TWO])
    assert np.linalg.eigvalsh(found.covariance).min() >= -1e-9
    means, deviations = model.predict(TWO, new[None, TWO])
    assert means[0] == pytest.approx(found.mean)
    assert deviations[0] == pytest.approx(found.deviation)


def test_one_entry_of_rows_with_a_level_makes_all_rows_neighbours() -> None:
    known = rows()
    near, distances = NearestRows(3).fit(known, level=True).neighbours(np.array([1]), np.array([5.0]))
    assert near.tolist() == list(range(len(known)))
    assert distances == pytest.approx(0.0)


def test_a_known_row_with_one_neighbour_is_that_row() -> None:
    known = rows()
    found = NearestRows(1).fit(known, level=True).complete(TWO, known[4, TWO] + 3.0)
    assert found.mean == pytest.approx(known[4] + 3.0)


def test_an_entry_with_a_large_error_of_its_own_moves_toward_its_neighbours() -> None:
    known = np.tile(np.linspace(0.2, 0.8, 6), (8, 1)) + rows(3, 8) * 0.2
    model, values = NearestRows(5).fit(known, level=False), np.array([0.9, 0.44])
    sure = model.complete(TWO, values, EntryErrors(variances=np.array([1e-9, 1e-9])))
    unsure = model.complete(TWO, values, EntryErrors(variances=np.array([0.25, 1e-9])))
    assert abs(sure.mean[0] - 0.9) < 0.05 < abs(unsure.mean[0] - 0.9)


def test_where_neighbours_disagree_the_deviation_is_larger() -> None:
    known = np.zeros((10, 4))
    known[:, 3] = np.tile([-1.0, 1.0], 5)
    found = NearestRows(5).fit(known, level=False).complete(np.array([0]), np.array([0.0]))
    assert found.deviation[3] > 10 * found.deviation[1]


def test_no_effect_predicts_the_level_everywhere() -> None:
    known = rows()
    spread = known - known.mean(axis=1, keepdims=True)
    assert NoEffect().fit(known, level=True).noise == pytest.approx(float(spread.var()))
    found = NoEffect().fit(known, level=True).complete(TWO, np.array([2.0, 4.0]))
    assert found.mean[[1, 3, 4, 5]] == pytest.approx(3.0)


def test_levels_tell_the_shape_only_where_rows_have_one_unit() -> None:
    rng = np.random.default_rng(2)
    level = rng.normal(0, 1, (25, 1))
    known = level * np.array([[1.0, 1.5, 2.0, 0.5]]) + rng.normal(0, 0.05, (25, 4))
    one = np.array([0])
    free = choose(known, one, candidates(), level=True)
    shared = choose(known, one, candidates(one_unit=True), level=True)
    assert "one unit" in shared.name
    assert shared.error < 0.5 * free.error
    moved = OneUnit(BayesianRows(0.05, 1e-3)).fit(known, level=True).complete(one, np.array([2.0])).mean
    assert moved[2] - moved[3] == pytest.approx(3.0, abs=0.6)


def test_the_mean_of_methods_is_chosen_where_each_errs_in_its_own_way() -> None:
    known = rows(5, 30, 8) + np.random.default_rng(6).normal(size=(30, 1)) * np.linspace(-1, 1, 8)
    alone = choose(known, TWO, candidates(), level=True)
    together = choose(known, TWO, candidates(), level=True, joins=True)
    assert together.error <= alone.error
    assert set(alone.errors) < set(together.errors)
    if isinstance(together.model, JoinedModel):
        parts = [part.complete(TWO, known[0, TWO]).mean for part in together.model.models]
        assert together.complete(TWO, known[0, TWO]).mean == pytest.approx(np.mean(parts, axis=0))
        assert together.name.startswith("mean of ")


def test_where_joined_methods_disagree_the_deviation_is_larger() -> None:
    rng = np.random.default_rng(2)
    known, new, columns = rng.normal(size=(12, 5)), rng.normal(size=5), np.array([0, 3])
    models = [each.fit(known, level=False) for each in (NearestRows(3), FoldIn(1, 1e-3))]
    means, deviations = (
        np.array(each)
        for each in zip(*(one.predict(columns, new[None, columns]) for one in models), strict=True)
    )
    mean, deviation = JoinedModel(models).predict(columns, new[None, columns])
    apart = (means[0] - means[1]) / 2
    assert np.abs(apart).max() > 0.1
    assert mean == pytest.approx(means.mean(axis=0))
    assert deviation**2 == pytest.approx((deviations**2).mean(axis=0) + apart**2)
    completed = JoinedModel(models).complete(columns, new[columns])
    alone = [one.complete(columns, new[columns]) for one in models]
    expected = np.mean([one.covariance for one in alone], axis=0) + np.outer(apart, apart)
    assert completed.mean == pytest.approx(mean[0])
    assert completed.covariance == pytest.approx(expected)


def test_rows_of_one_group_do_not_teach_one_another() -> None:
    twins = np.repeat(rows(7, 6), 2, axis=0) + rows(8, 12) * 1e-3
    groups = np.repeat(np.arange(6), 2)
    alone = held_out(twins, TWO, NearestRows(1), level=False)
    grouped = held_out(twins, TWO, NearestRows(1), level=False, groups=groups)
    assert alone.mean_error < 0.01
    assert grouped.mean_error > 0.1


TAILS = st.builds(ErrorTails, st.sampled_from([1.0, 2.0, 3.0, 7.0, math.inf]), st.floats(0.3, 3.0))


@given(TAILS, st.floats(0.0001, 0.9999), st.floats(0.0001, 0.9999))
def test_quantiles_of_errors_rise_and_are_the_inverse_of_probabilities(
    tails: ErrorTails, one: float, other: float
) -> None:
    assert tails.probability_below(tails.deviations_at(one)) == pytest.approx(one)
    assert tails.deviations_at(0.95) == pytest.approx(1.6449, abs=1e-4)
    assert tails.deviations_at(1 - one) == pytest.approx(-tails.deviations_at(one))
    low, high = sorted((one, other))
    assert tails.deviations_at(low) <= tails.deviations_at(high) + 1e-9


@pytest.mark.parametrize("fields", [{"freedom": 0.5}, {"freedom": math.nan}, {"narrowing": 0.0}])
def test_tails_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        ErrorTails(**fields)


@pytest.mark.parametrize("shape", ["normal", "t", "mostly small", "even"])
def test_calibrated_intervals_hold_at_every_level(shape: str) -> None:
    rng = np.random.default_rng(1)
    missed = {
        "normal": rng.normal(size=(4000, 5)),
        "t": rng.standard_t(3.0, (4000, 5)),
        "mostly small": rng.normal(size=(4000, 5)) * np.where(rng.random((4000, 5)) < 0.7, 0.1, 1.0),
        "even": rng.uniform(-1, 1, (4000, 5)),
    }[shape]
    ones, groups = np.ones_like(missed), np.arange(len(missed))
    scale, found = calibration(missed, ones, groups), fitted_tails(missed, ones, groups)
    for share in (0.68, 0.9, 0.99):
        half = found.deviations_at((1 + share) / 2) * scale
        assert (np.abs(missed) <= half).mean() == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(("rows", "together"), [(12, 1.0), (12, 0.5), (30, 1.0), (30, 0.0)])
def test_few_groups_hold_their_share_of_new_errors(rows: int, together: float) -> None:
    """Entries of a row miss together by a common size; groups are small, and intervals hold on the average."""
    held: dict[float, list[float]] = {0.68: [], 0.9: []}

    def drawn(rng: np.random.Generator, count: int) -> Floats:
        common = rng.normal(size=(count, 1))
        return np.asarray(
            math.sqrt(together) * common + math.sqrt(1 - together) * rng.normal(size=(count, 6))
        )

    for seed in range(200):
        rng = np.random.default_rng(seed)
        known, new = drawn(rng, rows), drawn(rng, 50)
        ones, groups = np.ones_like(known), np.arange(rows)
        scale, found = calibration(known, ones, groups), fitted_tails(known, ones, groups)
        for share, into in held.items():
            into.append(float((np.abs(new) <= found.deviations_at((1 + share) / 2) * scale).mean()))
    for share, into in held.items():
        assert np.mean(into) == pytest.approx(share, abs=0.025)


def test_each_method_classifies_and_names_neighbours() -> None:
    known = measurements_from_text(EXAMPLE.read_text(), where="example")
    workload = known.workloads[0]
    for method in CompletionKind:
        found = Classifier(known, method).classify(workload)
        for kind, chosen in found.methods.items():
            near = found.neighbours(kind)
            if chosen is None:
                assert near is None
                continue
            assert near is not None
            assert set(near.names) <= set(known.up.names)
            assert list(near.distances) == sorted(near.distances)
            assert near.used == (
                method is CompletionKind.NEAREST or "nearest" in chosen.name or "all rows" in chosen.name
            )
            assert (
                "nearest" in chosen.name or "all rows" in chosen.name
            ) or method is not CompletionKind.NEAREST
        profile = found.profile()
        (again,) = profiles_from_json(profiles_to_json((profile,)), where="profiles")
        for part in ("up", "out", "het", "tolerated", "caused"):
            assert getattr(again, part).tails == getattr(profile, part).tails


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[history.groups]\nnobody = 'x'\n", "history.groups.nobody: no row of that name"),
        (
            "[history.groups]\n"
            + "".join(
                f"{name} = 'x'\n" for name in ("sort", "rank", "merge", "thumbnails", "full-text", "sessions")
            )
            + "invoices = 'y'\nspell = 'y'\n",
            "history.groups: 3 or more groups are needed in every part, not 2",
        ),
        ("[history.groups]\nsort = 3\n", "history.groups"),
    ],
)
def test_groups_that_cannot_be_are_refused(text: str, words: str) -> None:
    whole = EXAMPLE.read_text()
    at = whole.index("[[workloads]]")
    with pytest.raises(InputError, match=words):
        measurements_from_text(whole[:at] + text + whole[at:], where="m")


def test_groups_and_one_unit_are_read() -> None:
    whole = EXAMPLE.read_text().replace("[history.het]\n", "[history.het]\none_unit = true\n")
    at = whole.index("[[workloads]]")
    known = measurements_from_text(
        whole[:at] + "[history.groups]\nsort = 'a'\nmerge = 'a'\n" + whole[at:], where="m"
    )
    assert known.het.one_unit
    assert not known.up.one_unit
    assert known.up.groups is not None
    groups = dict(zip(known.up.names, known.up.groups.tolist(), strict=True))
    assert groups["sort"] == groups["merge"]
    assert len(set(groups.values())) == len(groups) - 1


def test_the_worst_of_nine_rows_bounds_an_interval_of_90_percent() -> None:
    """Among nine rows a quantile by interpolation is below the share of new ones."""
    missed = np.arange(1.0, 10.0)[:, None]
    assert calibration(missed, np.ones_like(missed), np.arange(9)) == pytest.approx(9.0 / 1.6449, rel=1e-4)
