"""Whether samples of memory, files or threads rise: the slope with an interval that holds for samples that depend on each other.

Memory of a server goes up and down like a saw, so neighbouring samples depend on each other, and the standard error of a
line through them is far too small. Two steps lead to an interval that holds:

- Of each of `PARTS` parts of the time the median counts. What requests take for a short while, such as large bodies
  in flight, is no growth once it is given back. The least sample would tell of growth where only the ups and downs
  become smaller.
- The parts are laid out in orthonormal polynomials. Of a series that is flat and depends on itself only over a
  short time, the coefficients of the first few have about the same variance, whatever that dependence is. So the
  coefficient of the straight line over the root mean square of the next `CURVES` follows Student's t (the estimate of
  long-run variance by an orthonormal series; Sun, Econometrics Journal 2011, Müller and Watson, Econometrica 2008).

`tests/runtime/faults/test_slope_interval.py` draws flat series and leaks to see how often the interval is right.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import t as student

PARTS: Final = 20  # into which the samples are divided
CURVES: Final = 4  # polynomials, of degree two and up, that tell the error of the line
LEVEL: Final = 0.95  # of an interval
KINDS: Final = ("memory, MiB", "open files", "threads")
# Rise over the whole time that may be one event: memory of a queue that was longer than before, one connection that
# is kept, one thread of a pool that was needed for the first time.
GRAINS: Final = (0.5, 1.0, 1.0)
ROUNDING: Final = 1e-9  # of a slope and of its error
PAGES_PER_MIB: Final = (1 << 20) / os.sysconf("SC_PAGE_SIZE")


def sample_of(pid: int) -> tuple[float, int, int]:
    """Resident memory in MiB, open files, and threads of a process."""
    place = Path(f"/proc/{pid}")
    resident = int((place / "statm").read_text().split()[1]) / PAGES_PER_MIB
    return resident, len(os.listdir(place / "fd")), len(os.listdir(place / "task"))  # noqa: PTH208


def slope(values: np.ndarray, seconds: float, *, level: float = LEVEL) -> tuple[float, float]:
    """Slope of samples and half the width of its interval, both per minute.

    Args:
        values: (n,) samples at equal intervals, at least `PARTS` of them.
        seconds: time from the first to the last.
        level: share of flat series whose interval contains zero, 0 to 1.
    """
    middle = np.array([np.median(part) for part in np.array_split(values, PARTS)])
    place = np.linspace(-1.0, 1.0, PARTS)
    basis, _ = np.linalg.qr(np.polynomial.legendre.legvander(place, 1 + CURVES))
    _, line, *curves = middle @ basis
    # The basis may point either way; a unit of the straight line is so much from part to part.
    per_part = np.diff(basis[:2, 1])[0]
    per_minute = 60.0 * PARTS / seconds
    error = np.sqrt(np.mean(np.square(curves))) * student.ppf(0.5 + level / 2, CURVES)
    return float(line * per_part * per_minute), float(error * abs(per_part) * per_minute)


def described(
    name: str, values: np.ndarray, seconds: float, *, series: int, spare: tuple[float, ...] | None = None
) -> tuple[list[str], list[str]]:
    """A line for each of `KINDS` with its slope, and those lines that tell of growth.

    A line tells whether the slope is within its error. Growth is a slope above zero by more than the error at which
    all series of a run together are right as often as `LEVEL` says, and by more than a spare rise.

    Args:
        name: name of the process.
        values: (n, 3) samples at equal intervals, as `sample_of` gives them.
        seconds: time from the first to the last.
        series: number of series of the whole run.
        spare: rise over the whole time that is no growth, by kind; None for `GRAINS`.
    """
    lines, growing = [], []
    for column, what, most in zip(values.T, KINDS, spare or GRAINS, strict=True):
        rise, error = slope(column, seconds)
        lines.append(
            f"{name:9} {what:12} {column[0]:7.1f} to {column[-1]:7.1f}, most {column.max():7.1f}; "
            f"{rise:+.3f} ± {error:.3f} a minute, {_verdict(rise, error)}"
        )
        _, joint = slope(column, seconds, level=1 - (1 - LEVEL) / series)
        if rise - joint > most * 60 / seconds:
            growing.append(lines[-1])
    return lines, growing


def _verdict(rise: float, error: float) -> str:
    if abs(rise) <= error + ROUNDING:
        return "flat"
    return "rises" if rise > 0 else "falls"
