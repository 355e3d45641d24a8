"""Use of the processors between two readings: by this program, by others, and what was taken away. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FAIR_PART = 1 / 3  # of the processors, which a program gets beside others that would take all of them
MIN_GIVEN = 0.01  # processors; less cannot be told from none, and a share of none means nothing


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Counters of the processors at one moment; times in seconds since the machine's start.

    Attributes:
        at_s: moment of the reading, on a monotonic clock.
        processors: number of processors that this process may run on.
        quota: processors' worth of time that control groups allow; infinite without a limit.
        busy_s: time that those processors worked for any process.
        stolen_s: time that those processors were ready to work and the hypervisor ran something else.
        periods: periods of the quota that have begun, over the groups with a quota.
        throttled: periods among them in which the group used its quota up and had to wait.
        own_s: processor time of each process of this program, by pid.
        waited_s: time that each process's threads were ready to run and waited for a processor, by pid; empty
            where the kernel does not count it.
    """

    at_s: float
    processors: int
    quota: float
    busy_s: float
    stolen_s: float
    periods: int = 0
    throttled: int = 0
    own_s: Mapping[int, float] = field(default_factory=dict)
    waited_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProcessorUse:
    """Use of the processors over some time; a unit of 1 is one processor in full use.

    Attributes:
        seconds: length of the time.
        processors: number of processors that this process may run on.
        quota: processors' worth of time that control groups allow; infinite without a limit.
        own: use by the processes of this program.
        others: use by all other processes on the same processors.
        stolen: use that the hypervisor took away.
        throttled: share of the quota's periods in which the group had to wait, from 0 to 1; 0 without one.
        by_process: use by each process of this program, by pid.
        waiting: time that this program's threads waited for a processor, as a multiple of the time that they
            ran; None where the kernel does not count it.
    """

    seconds: float
    processors: int
    quota: float
    own: float
    others: float
    stolen: float
    throttled: float
    by_process: Mapping[int, float]
    waiting: float | None = None

    @property
    def taken(self) -> float:
        """Use by everybody else: other processes and the hypervisor."""
        return self.others + self.stolen

    @property
    def given(self) -> float:
        """Processors that this program could have had.

        That is what others left, but no less than a fair part of what the hypervisor left: a scheduler that
        shares the processors fairly makes others give way to a program that asks for less than they do. A
        quota bounds both.
        """
        there = max(0.0, self.processors - self.stolen)
        left = max(there - self.others, FAIR_PART * there)
        return max(MIN_GIVEN, min(self.quota, left))

    @property
    def share(self) -> float:
        """Share of what this program could have had that it used; 1 or more where it was short of it."""
        return self.own / self.given


def use_between(first: Reading, last: Reading) -> ProcessorUse:
    """Use of the processors from one reading to a later one.

    A process that only one of the readings knows counts as one of the others: what it used cannot be told.

    Args:
        last: the later reading; its quota and number of processors count.
    """
    seconds = max(last.at_s - first.at_s, 1e-9)
    common = first.own_s.keys() & last.own_s.keys()
    used = {pid: max(0.0, last.own_s[pid] - first.own_s[pid]) / seconds for pid in sorted(common)}
    own = sum(used.values())
    busy = max(0.0, last.busy_s - first.busy_s) / seconds
    periods = last.periods - first.periods
    return ProcessorUse(
        seconds=seconds,
        processors=last.processors,
        quota=last.quota,
        own=own,
        others=max(0.0, busy - own),
        stolen=max(0.0, last.stolen_s - first.stolen_s) / seconds,
        throttled=min(1.0, max(0, last.throttled - first.throttled) / periods) if periods > 0 else 0.0,
        by_process=used,
        waiting=_waiting(first, last),
    )


def _waiting(first: Reading, last: Reading) -> float | None:
    """Waiting time of the threads as a multiple of their running time; None where it is not counted."""
    known = first.waited_s.keys() & last.waited_s.keys() & first.own_s.keys() & last.own_s.keys()
    ran = sum(last.own_s[pid] - first.own_s[pid] for pid in known)
    waited = sum(last.waited_s[pid] - first.waited_s[pid] for pid in known)
    return max(0.0, waited) / ran if ran > 0 else None
