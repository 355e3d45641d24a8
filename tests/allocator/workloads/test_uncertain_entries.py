"""Uncertain entries: those of the history and of a new workload weigh less, and bad deviations are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.classification import Classifier
from kwiken.allocator.workloads.completion.gaussian import BayesianRows, ColumnMeans, EntryErrors, FoldIn
from kwiken.allocator.workloads.completion.selection import choose, held_out
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.base.errors import InputError

COLUMNS = np.array([0, 3])
METHODS = (ColumnMeans(), FoldIn(2, 1e-2), BayesianRows(0.05, 4e-4), BayesianRows(0.3, 6.4e-3))
HEAD = """version = 1
[reference]
cores = 1
memory_gb = 1
class = "a"
"""
SCORES = """
[history.tolerated]
sources = ["l2", "l3-capacity", "disk"]
[history.tolerated.rows]
one = [0.1, 0.2, 0.9]
two = [0.5, 0.6, 0.8]
three = [0.9, 0.9, 0.9]
four = [0.3, 0.3, 1.0]
[history.caused]
sources = ["l2", "l3-capacity", "disk"]
[history.caused.rows]
one = [0.1, 0.2, 0.0]
two = [0.5, 0.6, 0.1]
three = [0.9, 0.9, 0.0]
four = [0.3, 0.3, 0.1]
"""


def drawn(
    seed: int, *, level: bool, count: int = 20, size: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True rows of two hidden traits, measured rows, and the deviations of the measurements."""
    rng = np.random.default_rng(seed)
    true = 0.5 + 0.2 * rng.normal(size=(count, 2)) @ rng.normal(size=(2, size))
    true += rng.normal(0, 2, (count, 1)) if level else 0.0
    deviations = np.where(rng.random(true.shape) < 0.3, 0.6, 0.02)
    return true, true + rng.normal(size=true.shape) * deviations, deviations


@pytest.mark.parametrize("level", [True, False])
def test_entries_without_deviations_are_fitted_as_they_are(level: bool) -> None:
    _, rows, _ = drawn(0, level=level)
    method = BayesianRows(0.05, 4e-4)
    plain = method.fit(rows, level=level)
    exact = method.fit(rows, level=level, deviations=np.zeros_like(rows))
    assert exact.mean == pytest.approx(plain.mean, abs=1e-4)
    assert exact.covariance == pytest.approx(plain.covariance, abs=1e-3)


@pytest.mark.parametrize(("level", "share"), [(True, 0.9), (False, 0.8)])
def test_deviations_of_the_history_make_predictions_better(level: bool, share: float) -> None:
    method = BayesianRows(0.05, 4e-4)
    known: list[float] = []
    ignored: list[float] = []
    for seed in range(8):
        true, rows, deviations = drawn(seed, level=level)
        for told, missed in ((deviations[1:], known), (None, ignored)):
            model = method.fit(rows[1:], level=level, deviations=told)
            missed.append(np.abs(model.complete(COLUMNS, true[0, COLUMNS]).mean - true[0]).mean())
    assert np.mean(known) < share * np.mean(ignored)


@pytest.mark.parametrize("level", [True, False])
def test_choice_and_completion_with_deviations_beat_those_without(level: bool) -> None:
    known, ignored = [], []
    for seed in range(4):
        true, rows, deviations = drawn(seed, level=level)
        columns = np.array([0, 1, 2, 3])
        others = np.arange(1, len(rows))
        sure = choose(rows[others], columns, METHODS, level=level, deviations=deviations[others])
        plain = choose(rows[others], columns, METHODS, level=level)
        entries, variances = rows[0, columns], deviations[0, columns] ** 2
        known.append(
            np.abs(sure.complete(columns, entries, EntryErrors(variances=variances)).mean - true[0]).mean()
        )
        ignored.append(np.abs(plain.complete(columns, entries).mean - true[0]).mean())
    assert np.mean(known) < np.mean(ignored)


@given(shift=st.floats(-3, 3))
def test_an_entry_of_which_nothing_is_known_tells_nothing(shift: float) -> None:
    _, rows, _ = drawn(1, level=False)
    model = FoldIn(2, 1e-3).fit(rows, level=False)
    columns = np.array([0, 3, 5])
    values = rows[0, columns] + np.array([0.0, 0.0, shift])
    without = model.complete(columns[:2], values[:2])
    found = model.complete(columns, values, EntryErrors(variances=np.array([0.0, 0.0, 1e6])))
    assert found.mean == pytest.approx(without.mean, abs=0.05)


def test_a_sure_entry_is_kept_and_an_unsure_one_moves_toward_the_others() -> None:
    _, rows, _ = drawn(2, level=False)
    model = FoldIn(2, 1e-6).fit(rows, level=False)
    columns = np.array([0, 1, 2, 3])
    expected = model.complete(columns[:3], rows[0, :3]).mean[3]
    values = np.append(rows[0, :3], expected + 1.0)
    moved = [
        model.complete(columns, values, EntryErrors(variances=np.array([0, 0, 0, deviation**2]))).mean[3]
        for deviation in (0.001, 0.1, 1.0)
    ]
    assert sorted(moved, reverse=True) == moved
    assert moved[-1] < expected + 0.2


def test_an_uncertain_held_out_entry_weighs_less_and_widens_the_interval() -> None:
    rows = np.zeros((6, 3))
    rows[0, 2] = 1.0
    deviations = np.zeros_like(rows)
    deviations[0, 2] = 1.0
    plain = held_out(rows, np.array([0]), ColumnMeans(), level=False)
    told = held_out(rows, np.array([0]), ColumnMeans(), level=False, deviations=deviations)
    assert told.mean_error < 0.6 * plain.mean_error
    assert told.deviation.max() >= 1.0


def test_deviations_are_read_in_the_order_of_the_rows() -> None:
    text = SCORES.replace(
        "[history.caused]", "[history.tolerated.deviations]\nthree = [0.1, 0.2, 0.3]\n[history.caused]"
    )
    found = measurements_from_text(HEAD + text, where="m", min_workloads=0)
    assert found.tolerated.deviations is not None
    assert found.tolerated.deviations.tolist() == [[0, 0, 0], [0, 0, 0], [0.1, 0.2, 0.3], [0, 0, 0]]
    assert found.caused.deviations is None


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("five = [0, 0, 0]", "history.tolerated.deviations.five: no row of that name; there are one, two"),
        ("one = [0, 0]", "history.tolerated.deviations.one: has 2 values for 3 sources"),
        ("one = [0, 0, -0.1]", "history.tolerated.deviations.one: must be from 0 to 1"),
        ("one = [0, 0, nan]", "history.tolerated.deviations.one: must be from 0 to 1"),
        ("one = [0, 0, inf]", "history.tolerated.deviations.one: must be from 0 to 1"),
    ],
)
def test_wrong_deviations_of_a_history_are_refused(table: str, told: str) -> None:
    text = SCORES.replace("[history.caused]", f"[history.tolerated.deviations]\n{table}\n[history.caused]")
    with pytest.raises(InputError, match=told):
        measurements_from_text(HEAD + text, where="m", min_workloads=0)


def workload(extra: str, run: str = "performance = 10") -> str:
    head = '\n[[workloads]]\nname = "new"\nmeasure = "rate"\n'
    return f"{HEAD}{SCORES}{head}runs = [{{ {run} }}]\ntolerated = {{ l2 = 0.5, disk = 0.5 }}\n{extra}"


@pytest.mark.parametrize(
    ("extra", "run", "told"),
    [
        ("tolerated_deviation = { l3-capacity = 0.1 }", "performance = 10", "`tolerated` has no score for"),
        (
            "tolerated_deviation = { l2 = 2 }",
            "performance = 10",
            "tolerated_deviation.l2: must be from 0 to 1",
        ),
        ("caused_deviation = { l2 = 0.1 }", "performance = 10", "`caused` has no score for this source"),
        ("", "performance = 10, deviation = -1", r"runs\[0\].deviation: must be from 0 to 1, not -1"),
        ("", "performance = 10, deviation = nan", r"runs\[0\].deviation: must be from 0 to 1, not nan"),
    ],
)
def test_wrong_deviations_of_a_workload_are_refused(extra: str, run: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        measurements_from_text(workload(extra, run), where="m")


def test_an_unsure_score_moves_a_classification_less() -> None:
    """A surprising score of one source changes what is predicted of the others, the less the less sure."""
    moved = []
    for deviation in (0.01, 0.1, 0.4):
        extra = "caused = { l2 = 0.1, disk = 0.0 }\n"
        found = []
        for score in (0.2, 0.6):
            text = workload(extra + f"tolerated_deviation = {{ l2 = {deviation}, disk = 0.02 }}")
            known = measurements_from_text(text.replace("l2 = 0.5", f"l2 = {score}"), where="m")
            profile = Classifier(known).classify(known.workloads[0])
            found.append(profile.tolerated.mean[1])
        moved.append(found[1] - found[0])
    assert moved[0] > moved[1] > moved[2]


SIZES = """
[history.up]
sizes = [{ cores = 1, memory_gb = 1 }, { cores = 2, memory_gb = 1 }, { cores = 4, memory_gb = 1 }]
[history.up.rows]
one = [1, 1.5, 2.1]
two = [3, 5.8, 11]
three = [2, 3.5, 6.0]
four = [5, 8.0, 12]
[[workloads]]
name = "new"
measure = "rate"
runs = [{ performance = 10, deviation = 0 }, RUNS]
"""


def deviation_of_sizes(*runs: str) -> list[float]:
    """Deviation of the prediction for two and for four cores, after runs with two cores."""
    entries = ", ".join(f"{{ cores = 2, performance = 18, {run} }}" for run in runs)
    told = measurements_from_text(HEAD + SIZES.replace("RUNS", entries), where="m")
    deviations: list[float] = Classifier(told).classify(told.workloads[0]).profile().up.deviation.tolist()
    return deviations[1:]


def test_an_unsure_run_leaves_the_prediction_unsure() -> None:
    sure, unsure = deviation_of_sizes("deviation = 0.01"), deviation_of_sizes("deviation = 0.5")
    assert all(more > less for less, more in zip(sure, unsure, strict=True))


def test_two_runs_with_a_stated_deviation_count_as_one_with_half_the_variance() -> None:
    twice = deviation_of_sizes("deviation = 0.2", "deviation = 0.2")
    once = deviation_of_sizes(f"deviation = {0.2 / 2**0.5}")
    assert twice == pytest.approx(once, rel=0.01)  # the noise that was learned is less for two as well
    assert twice[0] < deviation_of_sizes("deviation = 0.2")[0]
