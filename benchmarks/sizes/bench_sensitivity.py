"""Sensitivity carried to slower classes of node, checked on the recorded stages.

Each recorded stage was measured at four sizes on the reference class, and at one size on slower classes.
The sizes give a monotone curve of the time of a call against the share of the processor. A class of speed s
leaves the share s, so the curve foretells the time there. Prints how far that is off, and how often the same
side of a tolerance is foretold as was measured.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Row
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.base.arrays import Floats
from kwiken.probes.recorded import RECORDED_HISTORY
from papers.colocation.sensitivity import least_share, on_class, sensitivity_curve

TOLERANCES = (0.05, 0.25, 0.5, 1.0, 2.0)  # relative rise of the time of a call
MAX_WRONG = 0.15  # share of the cases that may be told wrong


def run(quick: bool) -> list[Row]:  # noqa: FBT001, ARG001 - every benchmark is called alike
    text = RECORDED_HISTORY.read_text(encoding="utf-8")
    known = measurements_from_text(text, where=str(RECORDED_HISTORY), min_workloads=0)
    shares = np.array([size.cores for size in known.up.labels]) / known.up.labels[-1].cores
    at = [size.cores for size in known.up.labels].index(known.reference.size.cores)
    speeds = np.array([float(name.removeprefix("speed-")) for name in known.het.labels])
    errors: list[float] = []
    right = counted = 0
    for name, rates in zip(known.het.names, known.het.rows, strict=True):
        times = np.exp(-known.up.rows[known.up.names.index(name)])
        measured = np.exp(rates[0] - rates)  # time on each class, as a factor of that on the reference class
        curve = sensitivity_curve(shares, times)
        foretold = _time_at(curve.shares, curve.impacts, speeds * shares[at])
        errors += np.abs(np.log(foretold / foretold[0] / measured))[1:].tolist()
        for tolerance in TOLERANCES:
            score = least_share(shares[: at + 1] / shares[at], times[: at + 1] / times[at] - 1.0, tolerance)
            told = np.array([on_class(score, speed) <= 1.0 for speed in speeds.tolist()])
            right += int(np.sum((told == (measured - 1.0 <= tolerance))[1:]))
            counted += len(speeds) - 1
    share = 100 * right / counted
    least = 100 * (1 - MAX_WRONG)
    return [
        Row(
            name=f"time of a call on slower classes, carried from sizes, {len(errors)} recorded",
            ours=100 * float(np.expm1(np.median(errors))),
            unit="% off",
        ),
        Row(
            name=f"class within a tolerance, told as measured, {counted} cases",
            ours=share,
            unit="%",
            target=least,
            met=share >= least,
        ),
    ]


def _time_at(shares: Floats, impacts: Floats, wanted: Floats) -> Floats:
    """Time of a call at other shares; below the least share that was measured it goes with its inverse."""
    inside = 1.0 + np.interp(wanted, shares, impacts)
    below = (1.0 + impacts[0]) * shares[0] / wanted
    return np.where(wanted < shares[0], below, inside)
