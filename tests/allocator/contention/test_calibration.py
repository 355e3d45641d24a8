"""Calibration: lines are recognised, curves are corrected, and nothing measured is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.contention.calibration import CALIBRATION_LEVELS, calibrate, corrected_drives

LEVELS = CALIBRATION_LEVELS


def test_a_line_is_linear_and_sets_the_level_itself() -> None:
    found = calibrate("l2", LEVELS, [7.0 * level for level in LEVELS])
    assert found.linear
    assert found.residual == pytest.approx(0.0, abs=1e-12)
    assert found.r_squared == pytest.approx(1.0)
    assert found.peak == 7.0
    assert found.drive(0.3) == pytest.approx(0.3)


def test_a_curve_is_not_linear_until_it_is_corrected() -> None:
    def reached(level: float) -> float:
        return 1 - (1 - level) ** 3

    first = calibrate("cpu-fp", LEVELS, [reached(level) for level in LEVELS])
    assert not first.linear
    drives = corrected_drives(first)
    second = calibrate("cpu-fp", LEVELS, [reached(drive) for drive in drives], drives)
    assert second.linear
    assert second.residual < first.residual / 3
    assert second.drive(0.5) < 0.3  # half of the pressure is reached at 1 - 0.5 ** (1 / 3) = 0.206


def test_the_residual_is_the_largest_distance_from_the_line() -> None:
    # The line through (0, 0), (0.5, 0.8), (1, 1) is 0.1 + x.
    found = calibrate("disk", (0.0, 0.5, 1.0), [0.0, 8.0, 10.0])
    assert found.residual == pytest.approx(0.2)
    assert found.r_squared == pytest.approx(1 - 0.06 / 0.56)


@pytest.mark.parametrize(
    ("levels", "rates", "told"),
    [
        ((0.0, 0.5, 1.0), [1.0, 2.0, 0.0], "nothing was measured at full level"),
        ((0.0, 1.0), [0.0, 1.0], "levels must rise from 0 to 1"),
        ((0.0, 0.5, 0.9), [0.0, 1.0, 2.0], "levels must rise from 0 to 1"),
        ((0.0, 0.6, 0.5, 1.0), [0.0, 1.0, 2.0, 3.0], "levels must rise from 0 to 1"),
    ],
)
def test_wrong_calibrations_are_refused(levels: tuple[float, ...], rates: list[float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        calibrate("l2", levels, rates)


@given(st.lists(st.floats(0, 10), min_size=8, max_size=8), st.floats(0.1, 10))
def test_corrected_levels_rise_from_0_to_1_whatever_was_measured(rates: list[float], last: float) -> None:
    found = calibrate("l2", LEVELS, [*rates, last])
    drives = np.array(corrected_drives(found))
    assert drives[0] == 0.0
    assert drives[-1] == 1.0
    assert ((drives >= 0) & (drives <= 1)).all()
    assert (np.diff(drives) >= -1e-12).all()


@given(st.floats(0.3, 3.0))
def test_correction_makes_every_power_of_the_level_linear(power: float) -> None:
    first = calibrate("l2", LEVELS, [level**power for level in LEVELS])
    drives = corrected_drives(first)
    second = calibrate("l2", LEVELS, [drive**power for drive in drives], drives)
    assert second.residual <= first.residual + 1e-9
