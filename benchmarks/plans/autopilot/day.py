"""Generator of one day of a service whose faults move between stages; written down before any comparison.

**Service**: six stages. `front` is first; `users` and `stock` come after `front`; `price` and `offers` after
`stock`; `page` after all of these. A call takes a log-normal time; medians and sigmas stand in `STAGES`. The
size of a request multiplies all of its calls and their copies: log-normal, sigma 0.2. Copies go to another
replica, so they share the size and nothing else.

**Load**: Poisson arrivals, 40 a second in the mean over the day, half more and half less in one slow wave.

**Faults**, one phase after another (`PHASES`). In a phase with a fault a share of the calls of one stage
stalls: an exponential time is added. In the phase of a slower version every call of one stage takes half as
long again, and its sigma is larger too. Every stage stalls now and then at any time: one call in 2,000.
In the second day (`MOVED`) what is usual moves further: the new version of one stage takes three times as
long, and another stage stalls in one call of 20, so that delays of the first hours copy far more calls than a
budget of 5% pays.

The generator knows nothing of curves, plans or queues. The same seed gives the same requests to every way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

RATE_PER_S: Final = 40.0
WAVE: Final = 0.5  # of the load, up and down over the day
STEP_S: Final = 20.0  # of the simulation: gateways are looked at as often
SIZE_SIGMA: Final = 0.2
STALL_SHARE, STALL_MS = 0.0005, 150.0  # of every stage at any time
DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Kind:
    """One stage: its parents, the median of its calls in milliseconds, and their sigma."""

    after: tuple[str, ...]
    median_ms: float
    sigma: float


STAGES: Final[Mapping[str, Kind]] = {
    "front": Kind((), 4.0, 0.3),
    "users": Kind(("front",), 8.0, 0.5),
    "stock": Kind(("front",), 10.0, 0.5),
    "price": Kind(("stock",), 6.0, 0.6),
    "offers": Kind(("stock",), 9.0, 0.5),
    "page": Kind(("users", "price", "offers"), 5.0, 0.3),
}


@dataclass(frozen=True)
class Phase:
    """Stretch of the day.

    Attributes:
        hours: its length, hours.
        stage: stage with a fault; empty for none.
        share: share of the calls that stall.
        stall_ms: mean of the time that is added, milliseconds.
        slower: factor of all calls.
        sigma: factor of their sigma.
    """

    hours: float
    stage: str = ""
    share: float = 0.0
    stall_ms: float = 0.0
    slower: float = 1.0
    sigma: float = 1.0


# One stage stalls, recovers, another does, then a slower version comes and is taken back, and so on.
PHASES: Final = (
    Phase(2.0),
    Phase(5.0, "stock", 0.02, 200.0),
    Phase(2.0),
    Phase(5.0, "users", 0.03, 120.0),
    Phase(4.0, "price", slower=1.5, sigma=1.3),
    Phase(4.0, "offers", 0.02, 250.0),
    Phase(2.0),
)


MOVED: Final = (
    Phase(2.0),
    Phase(4.0, "stock", 0.02, 200.0),
    Phase(6.0, "price", slower=3.0, sigma=1.3),
    Phase(2.0),
    Phase(5.0, "users", 0.05, 120.0),
    Phase(3.0, "offers", slower=3.0),
    Phase(2.0),
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Requests of one step, in order of time; n of them.

    Attributes:
        phase: number of the phase, from 0.
        started_s: (n,) starts, seconds since the start of the day.
        calls_ms: by stage: (n,) latency of each primary call, milliseconds.
        copies_ms: by stage: (n,) latency that a copy of it has, milliseconds.
    """

    phase: int
    started_s: Floats
    calls_ms: Mapping[str, Floats]
    copies_ms: Mapping[str, Floats]


def phase_at(at_s: float, day_s: float, phases: Sequence[Phase] = PHASES) -> int:
    """Number of the phase at a moment of a day that is scaled to a length.

    Args:
        at_s: moment, seconds since the start.
        day_s: length of the whole day, seconds.
    """
    hours = at_s / day_s * sum(phase.hours for phase in phases)
    for number, phase in enumerate(phases):
        if hours < phase.hours:
            return number
        hours -= phase.hours
    return len(phases) - 1


def steps(seed: int, *, day_s: float = DAY_S, phases: Sequence[Phase] = PHASES) -> Iterator[Step]:
    """Requests of a day, step by step.

    Args:
        seed: seed of all draws, 0 or more.
        day_s: length of the day, seconds; the phases are scaled to it, and the rate is not.
    """
    for number in range(int(day_s / STEP_S)):
        since_s = number * STEP_S
        rng = np.random.default_rng([seed, number])
        rate = RATE_PER_S * (1 - WAVE * cos(2 * pi * since_s / day_s))
        count = int(rng.poisson(rate * STEP_S))
        started = np.sort(rng.uniform(since_s, since_s + STEP_S, count))
        size = rng.lognormal(0.0, SIZE_SIGMA, count)
        where = phase_at(since_s, day_s, phases)
        calls, copies = (
            {name: size * _times(name, phases[where], count, rng) for name in STAGES} for _ in range(2)
        )
        yield Step(phase=where, started_s=started, calls_ms=calls, copies_ms=copies)


def _times(name: str, phase: Phase, count: int, rng: np.random.Generator) -> Floats:
    """(count,): times of calls of a stage for requests of size 1, milliseconds."""
    kind, hit = STAGES[name], phase.stage == name
    sigma = kind.sigma * (phase.sigma if hit else 1.0)
    times = kind.median_ms * (phase.slower if hit else 1.0) * np.exp(sigma * rng.standard_normal(count))
    times += (rng.random(count) < STALL_SHARE) * rng.exponential(STALL_MS, count)
    if hit and phase.share:
        times += (rng.random(count) < phase.share) * rng.exponential(phase.stall_ms, count)
    return np.asarray(times)
