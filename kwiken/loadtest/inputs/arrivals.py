"""Arrival schedules: Poisson or evenly spaced arrivals at a rate that may change from second to second."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.files import read_lines

MAX_RATE = 100_000.0
MAX_SECONDS = 7 * 86_400
_CHUNK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Schedule of intended start times, in seconds from the start of the run.

    Attributes:
        rates: requests per second, one value for each second; repeated after the last one.
        poisson: True for exponential gaps between arrivals, False for equal gaps.
        duration_s: length of the schedule, seconds; None for an endless one.
        name: the specification it was parsed from, for reports.

    Raises:
        InputError: no rate, a rate that is not between 0 and 100,000, or none above 0.
    """

    rates: tuple[float, ...]
    poisson: bool
    duration_s: float | None
    name: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.rates) <= MAX_SECONDS:
            raise InputError(
                f"needs 1 to {MAX_SECONDS} rates, one a second; got {len(self.rates)}", where="arrivals"
            )
        for rate in self.rates:
            if not 0 <= rate <= MAX_RATE:
                raise InputError(
                    f"a rate must lie between 0 and {MAX_RATE:g}; got {rate:g}", where="arrivals"
                )
        if not any(self.rates[: self._used_seconds()]):
            raise InputError("every rate is 0: nothing would be sent", where="arrivals")
        if self.duration_s is not None and not 0 < self.duration_s <= MAX_SECONDS:
            raise InputError(
                f"must lie between 0 and {MAX_SECONDS} s; got {self.duration_s:g}", where="duration"
            )

    def _used_seconds(self) -> int:
        """Number of leading rates that the duration reaches."""
        if self.duration_s is None or not self.duration_s < len(self.rates):
            return len(self.rates)
        return max(1, math.ceil(self.duration_s))

    def expected(self, until_s: float) -> float:
        """Expected number of arrivals from 0 to `until_s`: the integral of the rate."""
        area = np.concatenate(([0.0], np.cumsum(self.rates)))
        whole, rest = divmod(until_s, len(self.rates))
        part = np.interp(rest, np.arange(len(self.rates) + 1), area)
        return float(whole * area[-1] + part)

    @property
    def mean_rate(self) -> float:
        """Mean rate over the duration (if endless, over one cycle of the rates), requests per second."""
        span = float(len(self.rates)) if self.duration_s is None else self.duration_s
        return self.expected(span) / span

    def scaled_to(self, mean_rate: float) -> Arrivals:
        """Copy with another mean rate over the duration (if endless, over one cycle of the rates)."""
        factor = mean_rate / self.mean_rate
        return replace(self, rates=tuple(rate * factor for rate in self.rates))

    def chunks(self, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """Intended start times, seconds from 0, in ascending order, in arrays (k,) of at most 1,024.

        Unit-rate arrivals are drawn first, then moved through the inverse of the rate's integral (time
        rescaling, Cinlar 1975, chapter 4): exact for any step-wise rate, without thinning.
        """
        rates = np.asarray(self.rates)
        area = np.concatenate(([0.0], np.cumsum(rates)))
        done = 0.0  # unit-rate time of the last arrival drawn (Poisson), or of the next one (even gaps)
        while True:
            if self.poisson:
                unit = np.cumsum(rng.exponential(size=_CHUNK)) + done
                done = float(unit[-1])
            else:
                unit = np.arange(_CHUNK, dtype=np.float64) + done
                done += _CHUNK
            times = _inverse(unit, rates, area)
            if self.duration_s is not None and times[-1] >= self.duration_s:
                yield times[: int(np.searchsorted(times, self.duration_s, side="left"))]
                return
            yield times


def _inverse(
    unit: NDArray[np.float64], rates: NDArray[np.float64], area: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Times, in seconds, at which the integral of the repeated rates reaches `unit`."""
    rounds, rest = np.divmod(unit, area[-1])
    # side="right" steps over seconds of rate 0, where the integral is flat.
    second = np.searchsorted(area, rest, side="right") - 1
    second = np.minimum(second, np.flatnonzero(rates)[-1])
    inside = np.minimum((rest - area[second]) / rates[second], 1.0)
    return np.asarray(rounds * len(rates) + second + inside, dtype=np.float64)


def parse_arrivals(spec: str, *, rate: float | None, duration_s: float | None) -> Arrivals:
    """Build a schedule from command-line options.

    Args:
        spec: `poisson`, `constant`, or a file with requests per second, one number a line (Poisson arrivals
            at that rate; `constant:FILE` spaces them evenly).
        rate: requests per second, above 0; a file is scaled to this mean rate, None keeps
            its rates.
        duration_s: length of the schedule, seconds; None for the length of the file, or for an endless one.
    """
    kind, _, path = spec.partition(":")
    if kind not in {"poisson", "constant"}:
        kind, path = "poisson", spec
    if rate is not None:
        check_rate(rate)
    if not path:
        if rate is None:
            raise InputError(f"{kind} arrivals need a rate in requests per second", where="rate")
        return Arrivals(rates=(rate,), poisson=kind == "poisson", duration_s=duration_s, name=spec)
    rates = read_rps(path)
    length = float(len(rates)) if duration_s is None else duration_s
    shape = Arrivals(rates=rates, poisson=kind == "poisson", duration_s=length, name=spec)
    return shape if rate is None else shape.scaled_to(rate)


def check_rate(rate: float) -> None:
    """Refuse a rate that is not above 0 and at most 100,000 requests per second, and NaN.

    Raises:
        InputError: says what would be right.
    """
    if not 0 < rate <= MAX_RATE:
        raise InputError(
            f"must lie above 0 and at most {MAX_RATE:g} requests per second; got {rate:g}", where="rate"
        )


def read_rps(path: str) -> tuple[float, ...]:
    """Read requests per second from a file: one number a line, one line for each second.

    Raises:
        InputError: the file cannot be read, is empty, or has a line that is not a rate; names file and line.
    """
    rates: list[float] = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not 0 <= value <= MAX_RATE:
            raise InputError(
                f"{line[:40]!r} is not a number of requests per second between 0 and {MAX_RATE:g}",
                where=f"{path}:{number}",
            )
        rates.append(value)
    if not rates:
        raise InputError("is empty; it needs one number of requests per second a line", where=path)
    return tuple(rates)
