"""Runs of a probed stage: rounds become performances with deviations, and an entry that can be read."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.allocator.contention.measured_stage import (
    MeasuredRun,
    StageProbe,
    appended,
    measured_runs,
    variation_of,
    workload_entry,
)
from kwiken.allocator.contention.ramp import Scores
from kwiken.allocator.contention.stage_plan import ProbeSetting
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.workload import Measure
from kwiken.probes.recorded import RECORDED_HISTORY

BASE = ProbeSetting(Size(0.5, 1.0), 1, "speed-1", 1.0)
HALF = ProbeSetting(Size(0.5, 1.0), 1, "speed-0.5", 0.5)
MORE = ProbeSetting(Size(0.5, 1.0), 2, "speed-1", 1.0)
TRUE = np.array([100.0, 50.0, 190.0, 100.0])  # the reference, half, more, the reference again


def test_ratios_are_relative_to_the_reference_around_them() -> None:
    # The machine slows down by a fifth from round to round.
    rounds = TRUE * 0.8 ** np.arange(5)[:, None]
    found = measured_runs((BASE, HALF, MORE), rounds)
    assert [run.setting for run in found] == [BASE, HALF, MORE]
    base, half, more = (run.performance for run in found)
    assert (half / base, more / base) == pytest.approx((0.5, 1.9))
    assert base == pytest.approx(100 * 0.8**2)
    assert [run.deviation for run in found] == pytest.approx([0, 0, 0], abs=1e-9)


def test_a_busy_round_does_not_count() -> None:
    rounds = np.tile(TRUE, (5, 1))
    rounds[2, 1] /= 3
    half = measured_runs((BASE, HALF, MORE), rounds)[1]
    assert half.performance == pytest.approx(50)
    assert half.deviation > 0.1


def test_a_machine_that_stalls_all_the_time_still_gives_an_entry() -> None:
    rounds = np.tile(TRUE, (5, 1))
    rounds[::2, 1] /= 1000
    half = measured_runs((BASE, HALF, MORE), rounds)[1]
    assert half.deviation == 1.0


def test_deviations_are_those_of_repeated_probes() -> None:
    rng = np.random.default_rng(0)
    found = [
        measured_runs((BASE, HALF, MORE), TRUE * np.exp(rng.normal(0, 0.03, (5, 4)))) for _ in range(300)
    ]
    ratios = np.log([[runs[1].performance, runs[2].performance] for runs in found])
    ratios -= np.log([[runs[0].performance] for runs in found])
    told = np.mean([[runs[1].deviation, runs[2].deviation] for runs in found])
    assert told == pytest.approx(ratios.std(axis=0).mean(), rel=0.25)


def test_an_entry_keeps_what_was_measured() -> None:
    probe = StageProbe(
        (MeasuredRun(BASE, 812.5, 0.0), MeasuredRun(HALF, 405.0, 0.021)),
        {"cpu-int": Scores(0.75, 0.25, 0.04, 0.125)},
        work_variation=0.25,
    )
    text = appended(RECORDED_HISTORY.read_text(), [workload_entry('a "b"', probe)])
    (measured,) = measurements_from_text(text, where="mine").workloads
    assert measured.name == 'a "b"'
    assert (measured.measure, measured.work_variation) == (Measure.CAPACITY, 0.25)
    assert [(run.performance, run.deviation) for run in measured.runs] == [(812.5, 0.0), (405.0, 0.021)]
    assert (measured.tolerated, measured.caused) == ({"cpu-int": 0.75}, {"cpu-int": 0.25})
    assert measured.tolerated_deviation == {"cpu-int": 0.04}
    assert measured.caused_deviation == {"cpu-int": 0.125}


def test_the_variation_of_work_comes_from_sums() -> None:
    work = np.random.default_rng(5).gamma(4.0, 25.0, 1000)
    found = variation_of(len(work), float(work.sum()), float((work**2).sum()))
    assert found == pytest.approx(work.std() / work.mean())
    assert variation_of(10, 100.0, 1000.0) is None  # too few calls
    assert variation_of(100, 0.0, 0.0) is None  # calls that took no measurable time
    assert variation_of(100, 1000.0, 9999.9) == 0.0  # rounding makes no negative variance
