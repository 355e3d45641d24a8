"""Outcome of a simulated run: what each workload got, and how the cluster was used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from papers.worlds.fleet.simulator.state import QOS, State

BOUNDED: Final = 0.90  # performance from which a loss counts as bounded
SEVERE: Final = 0.80  # performance below which a loss counts as severe
POINTS: Final = 200  # of a series over time
RECOVERY_S: Final = 45.0  # Paragon's detection of 30 s, and the longest move: 2 s and 1 s for each GB


@dataclass
class PhaseChange:
    """Performance around a change of a workload's behaviour, as shares of the reference at that moment.

    Attributes:
        before: right before the change.
        at: right after it.
        later: after `RECOVERY_S`; NaN if the phase ended earlier.
    """

    before: float
    at: float
    later: float = np.nan


@dataclass(eq=False, kw_only=True)
class FleetOutcome:
    """Results of one run.

    Attributes:
        capacity: number of cores of all nodes.
        wasted: core-seconds of work that failures destroyed.
        arrival_s: (j,) times of arrival, in seconds.
        started_s: (j,) times of the first start; NaN for jobs that were never placed, in seconds.
        finished_s: (j,) times of the end; NaN for jobs that did not end, in seconds.
        moves: (j,) number of moves.
        restarts: (j,) number of starts from nothing after a failure.
        performance: (j,) time-weighted performance since the start as a share of the reference: that of the
            best platform alone, or the target; services count at most 1 at any moment.
        from_arrival: (j,) the same with the wait before the first start counted as time without performance.
        kept: (j,) share of the time since the start with at least 95% of the demand.
        alone: (j,) what the performance would have been without contention, as a share of the reference.
        contention: (j,) share of that which contention took.
        useful: core-seconds of work that was not destroyed.
        changes: changes to phases that last at least `RECOVERY_S` on the best platform, in order of time.
    """

    capacity: float
    events: int = 0
    decisions: int = 0
    wasted: float = 0.0
    useful: float = 0.0
    arrival_s: Floats
    started_s: Floats
    finished_s: Floats
    moves: Ints
    restarts: Ints
    performance: Floats
    from_arrival: Floats
    kept: Floats
    alone: Floats
    contention: Floats
    changes: list[PhaseChange] = field(default_factory=list)
    _times: list[tuple[float, float, float]] = field(default_factory=list)

    @staticmethod
    def empty(jobs: int, capacity: float) -> FleetOutcome:
        """Outcome before anything happened.

        Args:
            capacity: number of cores of all nodes.
        """

        def none() -> Floats:
            return np.full(jobs, np.nan)

        return FleetOutcome(
            capacity=capacity,
            arrival_s=none(),
            started_s=none(),
            finished_s=none(),
            moves=np.zeros(jobs, dtype=np.int64),
            restarts=np.zeros(jobs, dtype=np.int64),
            performance=none(),
            from_arrival=none(),
            kept=none(),
            alone=none(),
            contention=none(),
        )

    def note(self, now_s: float, cores: float, used: float) -> None:
        """Record how many cores replicas have, and how many work, from a moment on.

        Args:
            now_s: the moment, in seconds.
            cores: number of cores of all replicas.
            used: number of cores that work.
        """
        self._times.append((now_s, cores, used))

    def take(self, state: State, arrival_s: Floats) -> None:
        """Take over the integrals at the end of a run.

        Args:
            arrival_s: (j,) times of arrival, in seconds.
        """
        self.arrival_s = arrival_s
        with np.errstate(divide="ignore", invalid="ignore"):
            self.performance = state.served / state.active_s
            self.from_arrival = state.served / (state.active_s + self.started_s - self.arrival_s)
            self.kept = state.kept_s / state.active_s
            self.alone = state.alone_s / state.active_s
            self.contention = 1.0 - state.full_s / state.alone_s
        self.useful = float(state.spent.sum())

    @property
    def makespan_s(self) -> float:
        """Time of the last end, in seconds; 0 if none ended."""
        ends = self.finished_s[np.isfinite(self.finished_s)]
        return float(ends.max()) if len(ends) else 0.0

    @property
    def wait_s(self) -> Floats:
        """(p,) seconds from arrival to the first start, of the jobs that were placed."""
        placed = np.isfinite(self.started_s)
        return np.asarray(self.started_s[placed] - self.arrival_s[placed])

    def shares(self, from_s: float, until_s: float) -> tuple[float, float]:
        """Mean shares of the cluster's cores that replicas had, and that worked.

        Args:
            from_s: begin of the window, in seconds.
            until_s: end of the window, in seconds, above `from_s`.
        """
        times, cores, used = np.array(self._times).T
        edges = np.clip(np.append(times, until_s), from_s, until_s)
        spans = np.diff(edges)
        whole = self.capacity * (until_s - from_s)
        return float(spans @ cores / whole), float(spans @ used / whole)

    def series(self) -> tuple[Floats, Floats, Floats]:
        """Times in seconds, and shares of the cores that replicas had and that worked, at 200 moments."""
        times, cores, used = np.array(self._times).T
        moments = np.linspace(times[0], times[-1], POINTS)
        at = np.searchsorted(times, moments, side="right") - 1
        return moments, cores[at] / self.capacity, used[at] / self.capacity

    def summary(self) -> dict[str, float]:
        """Figures of the run by name, in percent and seconds; defined in docs/allocate/fleet.md.

        Where no job was placed, only their number is told.
        """
        placed = np.isfinite(self.started_s)
        if not placed.any():
            return {"not placed": float(len(placed))}
        got = self.performance[placed]
        span = self.arrival_s[0], self.arrival_s[-1]
        middle = (span[0] + span[1]) / 2
        allocated, used = self.shares(middle, span[1]) if span[1] > middle else (np.nan, np.nan)
        figures = {
            "QoS kept, %": float((got >= QOS).mean()),
            "loss below 10%, %": float((got >= BOUNDED).mean()),
            "loss above 20%, %": float((got < SEVERE).mean()),
            "mean performance, %": float(got.mean()),
            "mean performance, at most 1, %": float(np.minimum(got, 1).mean()),
            "mean performance from arrival, at most 1, %": float(
                np.minimum(self.from_arrival[placed], 1).mean()
            ),
            "time with QoS kept, %": float(self.kept[placed].mean()),
            "mean loss by contention, %": float(self.contention[placed].mean()),
            "mean performance without contention, %": float(self.alone[placed].mean()),
            "platform within 5% of the best, %": float((self.alone[placed] >= QOS).mean()),
            "loss by contention below 5%, %": float((self.contention[placed] <= 1 - QOS).mean()),
            "loss by contention above 20%, %": float((self.contention[placed] > 1 - SEVERE).mean()),
            "cores allocated, %": allocated,
            "cores used, %": used,
        }
        followed = [one for one in self.changes if np.isfinite(one.later)]
        if followed:
            means = np.mean([(one.before, one.at, one.later) for one in followed], axis=0).tolist()
            moments = "before", "at", f"{RECOVERY_S:g} s after"
            for moment, mean in zip(moments, means, strict=True):
                figures[f"performance {moment} a change of phase, %"] = mean
        return {name: 100 * value for name, value in figures.items()} | {
            "mean wait, s": float(self.wait_s.mean()),
            "makespan, s": self.makespan_s,
            "not placed": float((~placed).sum()),
            "moves": float(self.moves.sum()),
            "restarts": float(self.restarts.sum()),
        }
