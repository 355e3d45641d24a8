"""Simulated data centre of 50 servers: applications arrive, are placed by a rule, and lose to neighbours.

Performance beside neighbours follows the specification: 5% is lost where pressure reaches what is tolerated,
half of the excess beyond. Rules see predicted scores; what is lost follows from true ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.lsh.population import CORES, Applications

COUNTS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "default": (5,) * 10,
        "high-end": (1, 2, 3, 4, 5, 5, 6, 7, 8, 9),
        "low-end": (9, 8, 7, 6, 5, 5, 4, 3, 2, 1),
    }
)  # servers by configuration, worst first
GAPS_S: Final[Mapping[str, float]] = MappingProxyType({"high": 0.5, "low": 1.0})
MEAN_S: Final = 36.0  # duration of an application, in seconds: 60% of the cores at high load, if all run
LOST_AT_TOLERANCE: Final = 0.05  # share of performance
LOST_BEYOND: Final = 0.5  # share of performance for each unit of pressure beyond what is tolerated
MIN_PERFORMANCE: Final = 0.1  # share of performance that is never lost
MIN_TOLERATED: Final = 0.01
ROUNDING: Final = 1e-12
MAX_TRIED: Final = 30  # waiting applications that are tried when one has left
QOS: Final = 0.95  # share of the performance alone on the best server
GOOD: Final = 0.80


@dataclass(eq=False)
class DataCentre:
    """Servers with what a rule believes of their residents.

    Attributes:
        configuration: (s,) number of each server's configuration.
        free: (s,) cores that nobody has taken.
        caused: (s, r) sum of the causes of residents, as predicted.
        excess: (s, r) largest need less cause of a resident, as predicted; -inf on an empty server.
        need: (s, r) largest need of a resident, as predicted; 0 on an empty server.
        residents: applications on each server, oldest first.
    """

    configuration: Ints
    free: Floats
    caused: Floats
    excess: Floats
    need: Floats
    residents: list[list[int]] = field(default_factory=list)

    @classmethod
    def empty(cls, kind: str, resources: int) -> DataCentre:
        """Data centre of a kind without residents.

        Args:
            kind: a key of `COUNTS`.
            resources: number of shared resources.
        """
        configuration = np.repeat(np.arange(len(COUNTS[kind])), COUNTS[kind]).astype(np.int64)
        shape = (len(configuration), resources)
        return cls(
            configuration,
            np.array(CORES, dtype=float)[configuration],
            np.zeros(shape),
            np.full(shape, -np.inf),
            np.zeros(shape),
            [[] for _ in configuration],
        )

    def renew(self, server: int, believed: Floats) -> None:
        """Compute what is believed of a server anew from its residents.

        Args:
            believed: (k, r, 2) need and cause of the residents on this configuration.
        """
        if not len(believed):
            self.caused[server], self.excess[server], self.need[server] = 0.0, -np.inf, 0.0
            return
        self.caused[server] = believed[:, :, 1].sum(axis=0)
        self.excess[server] = (believed[:, :, 0] - believed[:, :, 1]).max(axis=0)
        self.need[server] = believed[:, :, 0].max(axis=0)

    def points(self) -> tuple[Floats, Floats]:
        """(s, r) most need, and most cause, of a newcomer that all can bear; 1 and 1 on an empty server."""
        met = 1.0 - self.caused
        borne = np.where(np.isinf(self.excess), 1.0, met - self.excess)
        return met, borne


# Servers that fit, and a key by which the least is taken; the configuration comes first.
Rule = Callable[[DataCentre, Floats, Bools], tuple[Bools, Floats]]


def tightest_fit(centre: DataCentre, scores: Floats, room: Bools) -> tuple[Bools, Floats]:
    """Every resident and the newcomer bear the sum of all causes; the tightest such server (LSH, 2.7)."""
    met, borne = centre.points()
    need, cause = scores[:, :, 0], scores[:, :, 1]
    fits = room & np.all((need <= met + ROUNDING) & (cause <= borne + ROUNDING), axis=1)
    return fits, (met - need + borne - cause).sum(axis=1)


def published_paragon(centre: DataCentre, scores: Floats, room: Bools) -> tuple[Bools, Floats]:
    """The newcomer and each resident bear one another, whatever residents bear already (Paragon 3.7)."""
    need, cause = scores[:, :, 0], scores[:, :, 1]
    first, second = 1.0 - centre.need - cause, 1.0 - need - centre.caused
    fits = room & np.all((first >= -ROUNDING) & (second >= -ROUNDING), axis=1)
    return fits, (np.abs(first) + np.abs(second)).sum(axis=1)


def least_loaded(centre: DataCentre, scores: Floats, room: Bools) -> tuple[Bools, Floats]:
    """Any server with room, the one with the largest share of free cores first."""
    del scores
    return room, -centre.free / np.array(CORES)[centre.configuration]


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {"tightest fit": tightest_fit, "published Paragon": published_paragon, "least-loaded": least_loaded}
)


@dataclass(frozen=True, eq=False)
class CentreOutcome:
    """Outcome of the applications of a run.

    Attributes:
        qos: (n,) mean performance of each while it ran, as a share of that alone on the best server.
        waited_s: (n,) time from arrival to start, in seconds.
        used: share of all cores that were taken between the first and the last arrival.
    """

    qos: Floats
    waited_s: Floats
    used: float

    def kept(self, level: float = QOS) -> float:
        """Percentage of the applications whose performance was at least that share."""
        return float(100 * (self.qos >= level).mean())


def run_applications(
    truth: Applications, believed: Floats, chosen: Ints, rule: str, *, kind: str, load: str, seed: int
) -> CentreOutcome:
    """Run applications that arrive at even gaps and stay for random times.

    Args:
        believed: (a, c, r, 2) scores that the rule goes by.
        chosen: (n,) numbers of the applications that arrive, in order.
        rule: a key of `RULES`.
        kind: kind of data centre, a key of `COUNTS`.
        load: a key of `GAPS_S`.
    """
    centre = DataCentre.empty(kind, truth.scores.shape[2])
    run = _Run(truth, believed, chosen, RULES[rule], centre, rule != "least-loaded")
    durations_s = np.random.default_rng([seed, 5]).exponential(MEAN_S, len(chosen))
    arrivals_s = np.arange(len(chosen)) * GAPS_S[load]
    leaving: list[tuple[float, int]] = []
    waiting: list[int] = []

    def tried(job: int, now_s: float) -> bool:
        if not run.place(job, now_s):
            return False
        heapq.heappush(leaving, (now_s + float(durations_s[job]), job))
        return True

    def left_before(limit_s: float) -> None:
        while leaving and leaving[0][0] <= limit_s:
            now_s, job = heapq.heappop(leaving)
            run.leave(job, now_s)
            for other in [one for one in waiting[:MAX_TRIED] if tried(one, now_s)]:
                waiting.remove(other)

    for job, now_s in enumerate(arrivals_s.tolist()):
        left_before(now_s)
        if not tried(job, now_s):
            waiting.append(job)
    left_before(np.inf)
    end_s = float(arrivals_s[-1])
    busy = np.maximum(np.minimum(run.end_s, end_s) - run.start_s, 0.0) * truth.cores[chosen]
    total = float(np.array(CORES)[centre.configuration].sum()) * end_s
    done = run.end_s > run.start_s
    qos = np.where(done, run.work / np.maximum(run.end_s - run.start_s, 1e-9), 0.0)
    return CentreOutcome(
        qos, np.where(done, run.start_s - arrivals_s, np.inf), float(busy[done].sum() / total)
    )


class _Run:
    """State of one run: who is where, and what each has done."""

    def __init__(
        self,
        truth: Applications,
        believed: Floats,
        chosen: Ints,
        rule: Rule,
        centre: DataCentre,
        by_configuration: bool,  # noqa: FBT001 - a setting of the rule
    ) -> None:
        self._truth, self._believed, self._chosen = truth, believed, chosen
        self._rule, self._centre, self._by_configuration = rule, centre, by_configuration
        count = len(chosen)
        self.start_s, self.end_s, self.work = np.zeros(count), np.zeros(count), np.zeros(count)
        self._where = np.full(count, -1, dtype=np.int64)
        self._since_s = np.zeros(len(centre.configuration))

    def place(self, job: int, now_s: float) -> bool:
        """Place a job, if the rule finds a server."""
        centre, application = self._centre, int(self._chosen[job])
        scores = self._believed[application]
        room = centre.free >= self._truth.cores[application]
        fits, key = self._rule(centre, scores[centre.configuration], room)
        if not fits.any():
            return False
        if self._by_configuration:  # configurations by rising sum of the scores
            sums = scores.sum(axis=(1, 2))[centre.configuration]
            fits &= sums <= sums[fits].min() + ROUNDING
        server = int(np.flatnonzero(fits)[np.argmin(key[fits])])
        self._settle(server, now_s)
        centre.residents[server].append(job)
        centre.free[server] -= self._truth.cores[application]
        self._where[job], self.start_s[job] = server, now_s
        self._renew(server)
        return True

    def leave(self, job: int, now_s: float) -> None:
        """Take a job away."""
        server = int(self._where[job])
        self._settle(server, now_s)
        self._centre.residents[server].remove(job)
        self._centre.free[server] += self._truth.cores[self._chosen[job]]
        self.end_s[job] = now_s
        self._renew(server)

    def _renew(self, server: int) -> None:
        who = self._chosen[self._centre.residents[server]]
        self._centre.renew(server, self._believed[who, self._centre.configuration[server]])

    def _settle(self, server: int, now_s: float) -> None:
        """Add up the work that the residents of a server have done since its last change."""
        jobs = self._centre.residents[server]
        if jobs:
            here = self._centre.configuration[server]
            who = self._chosen[jobs]
            rate = performance(self._truth.scores[who, here]) * self._truth.speed[who, here]
            self.work[jobs] += rate * (now_s - self._since_s[server])
        self._since_s[server] = now_s


def performance(scores: Floats) -> Floats:
    """(k,) share of its performance that each resident of one server keeps beside the others.

    Args:
        scores: (k, r, 2) true need and cause of the residents.
    """
    pressure = scores[:, :, 1].sum(axis=0) - scores[:, :, 1]
    tolerated = np.maximum(1.0 - scores[:, :, 0], MIN_TOLERATED)
    within = 1.0 - LOST_AT_TOLERANCE * pressure / tolerated
    beyond = 1.0 - LOST_AT_TOLERANCE - LOST_BEYOND * (pressure - tolerated)
    kept = np.where(pressure <= tolerated, within, np.maximum(beyond, MIN_PERFORMANCE))
    return np.asarray(kept.min(axis=1))
