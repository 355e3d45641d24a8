"""The interval of a slope: of flat series it contains zero as often as it says, and of a leak it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from scipy.signal import lfilter

from tests.support.runtime.flatness import described, slope

COUNT: Final = 1000  # drawn series of a kind: the share of 95% has a standard error of 0.7%
SAMPLES: Final = 600
EVERY_S: Final = 0.5
SECONDS: Final = SAMPLES * EVERY_S
AT: Final = np.arange(SAMPLES) * EVERY_S / 60  # minutes
LEAK: Final = 0.5  # MiB a minute

Draw = Callable[[np.random.Generator], np.ndarray]


def lasting(time_s: float, spread: float) -> Draw:
    """Series of a first-order autoregression, whose chance deviations last about so long."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        kept = np.exp(-EVERY_S / time_s)
        values = rng.normal(0.0, spread, SAMPLES)
        values[1:] *= np.sqrt(1 - kept**2)
        found: np.ndarray = lfilter([1.0], [1.0, -kept], values)
        return found

    return draw


def saw(period_s: float, height: float, uneven: float) -> Draw:
    """Memory that rises until it is given back, at heights that differ by a share."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        values = np.empty(SAMPLES)
        level, top = rng.uniform(0, height), height
        rises = height * EVERY_S / period_s * rng.gamma(4.0, 0.25, SAMPLES)
        for each, rise in enumerate(rises):
            level += rise
            if level > top:
                level, top = 0.0, height * rng.uniform(1 - uneven, 1 + uneven)
            values[each] = level
        return values

    return draw


def both(one: Draw, other: Draw) -> Draw:
    return lambda rng: one(rng) + other(rng)


def bursts(rng: np.random.Generator) -> np.ndarray:
    """Memory that requests take for a second, every three and a half."""
    values = np.zeros(SAMPLES)
    for begin in np.arange(rng.uniform(0.0, 3.5), SECONDS, 3.5):
        at = int(begin / EVERY_S)
        values[at : at + 2] += rng.gamma(2.0, 5.0)
    return values


def fading(draw: Draw) -> Draw:
    """The same, less and less."""
    return lambda rng: draw(rng) * np.linspace(1.0, 0.2, SAMPLES)


def uneven_spread(draw: Draw) -> Draw:
    """The same with three times the spread in the second half."""
    return lambda rng: draw(rng) * np.where(np.arange(SAMPLES) < SAMPLES // 2, 1.0, 3.0)


FLAT: Final[dict[str, Draw]] = {
    "independent": lambda rng: rng.normal(0.0, 3.0, SAMPLES),
    "lasting 5 s": lasting(5.0, 3.0),
    "lasting 10 s": lasting(10.0, 3.0),
    "saw of 10 s": both(saw(10.0, 16.0, 0.3), lasting(5.0, 0.5)),
    "saw of 20 s": saw(20.0, 16.0, 0.3),
    "saw of 40 s": saw(40.0, 16.0, 0.3),
    "saw of 60 s": saw(60.0, 16.0, 0.3),
    "even saw of 20 s": saw(20.0, 16.0, 0.0),
    "lasting 5 s, with a spread that changes": uneven_spread(lasting(5.0, 3.0)),
    "bursts": both(bursts, lasting(5.0, 0.5)),
    "bursts that become smaller": both(fading(bursts), lasting(5.0, 0.5)),
    "saw of 20 s and lasting 10 s": both(saw(20.0, 16.0, 0.3), lasting(10.0, 1.0)),
}
# The widest fluctuations in which five minutes can tell a leak of 0.5 MiB a minute.
LEAKING: Final[dict[str, Draw]] = {
    "lasting 5 s": lasting(5.0, 0.7),
    "lasting 10 s": lasting(10.0, 0.5),
    "saw of 10 s": both(saw(10.0, 5.0, 0.3), lasting(5.0, 0.5)),
    "saw of 20 s": saw(20.0, 5.0, 0.3),
    "bursts": both(bursts, lasting(5.0, 0.5)),
}


def intervals(draw: Draw, leak: float = 0.0) -> np.ndarray:
    """(n, 2) slopes and half widths of drawn series."""
    rng = np.random.default_rng(20261126)
    return np.array([slope(draw(rng) + leak * AT, SECONDS) for _ in range(COUNT)])


@pytest.mark.parametrize("name", FLAT)
def test_of_flat_series_the_interval_contains_zero_as_often_as_it_says(name: str) -> None:
    rise, error = intervals(FLAT[name]).T
    assert np.mean(np.abs(rise) <= error) >= 0.92


@pytest.mark.parametrize("name", LEAKING)
def test_of_a_leak_the_interval_is_above_zero(name: str) -> None:
    rise, error = intervals(LEAKING[name], LEAK).T
    assert np.mean(rise > error) >= 0.9
    assert np.median(rise) == pytest.approx(LEAK, abs=0.05)


def test_a_straight_line_and_a_constant_are_exact() -> None:
    assert slope(3.0 + 2.0 * AT, SECONDS) == pytest.approx((2.0, 0.0), abs=1e-9)
    assert slope(np.full(SAMPLES, 7.0), SECONDS) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_a_line_tells_whether_a_process_grows() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0.0, 0.1, SAMPLES)
    one_more = (np.arange(SAMPLES) > SAMPLES // 2).astype(float)  # a thread, once
    values = np.column_stack([90.0 + noise + LEAK * AT, 30.0 - 2.0 * AT, 8.0 + one_more])
    lines, growing = described("gateway", values, SECONDS, series=9)
    assert [line.rpartition(" ")[2] for line in lines] == ["rises", "falls", "rises"]
    assert growing == lines[:1]
    flat = np.column_stack([90.0 + noise, np.full(SAMPLES, 30.0), np.full(SAMPLES, 8.0)])
    lines, growing = described("gateway", flat, SECONDS, series=9)
    assert [line.rpartition(" ")[2] for line in lines] == ["flat", "flat", "flat"]
    assert not growing
