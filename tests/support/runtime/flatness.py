"""Whether samples of memory, files or threads rise: the slope with its error, and what counts as flat.

Neighbouring samples depend on each other, so the slope is that through blocks. Of each block its least sample
counts: what a fault takes for a while, such as large requests in flight, is no growth once it is given back.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

LEAST_RISE: Final = (
    1.0  # MiB, files or threads a minute, up to which a busy machine may tell of growth by chance
)
BLOCKS: Final = 10  # into which the samples are divided
KINDS: Final = ("memory, MiB", "open files", "threads")
PAGES_PER_MIB: Final = (1 << 20) / os.sysconf("SC_PAGE_SIZE")


def sample_of(pid: int) -> tuple[float, int, int]:
    """Resident memory in MiB, open files, and threads of a process."""
    place = Path(f"/proc/{pid}")
    resident = int((place / "statm").read_text().split()[1]) / PAGES_PER_MIB
    return resident, len(os.listdir(place / "fd")), len(os.listdir(place / "task"))  # noqa: PTH208


def slope(values: np.ndarray, seconds: float) -> tuple[float, float]:
    """Slope of samples and its standard error, both per minute.

    Args:
        values: (n,) samples at equal intervals.
        seconds: time from the first to the last.
    """
    least = np.array([block.min() for block in np.array_split(values, BLOCKS)])
    at = np.arange(BLOCKS) - (BLOCKS - 1) / 2
    rise = float(at @ least / (at @ at))
    rest = least - least.mean() - rise * at
    error = float(np.sqrt(rest @ rest / (BLOCKS - 2) / (at @ at)))
    per_minute = 60 * BLOCKS / seconds
    return rise * per_minute, error * per_minute


def described(name: str, values: np.ndarray, seconds: float) -> tuple[list[str], list[str]]:
    """A line for each of `KINDS` with its slope, and those lines that tell of growth.

    Args:
        name: name of the process.
        values: (n, 3) samples at equal intervals, as `sample_of` gives them.
        seconds: time from the first to the last.
    """
    lines, growing = [], []
    for place, what in enumerate(KINDS):
        series = values[:, place]
        rise, error = slope(series, seconds)
        lines.append(
            f"{name:9} {what:12} {series[0]:7.1f} to {series[-1]:7.1f}, most {series.max():7.1f}; "
            f"{rise:+.3f} a minute, standard error {error:.3f}"
        )
        if rise > 3 * error + max(LEAST_RISE, 0.02 * series.mean() / (seconds / 60)):
            growing.append(lines[-1])
    return lines, growing
