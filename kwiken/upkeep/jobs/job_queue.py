"""Queue of batch jobs on the nodes of a cluster: by priority, then shortest first. Pure."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kwiken.allocator.adaptation.job_room import NodeRoom
from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.base.errors import InputError
from kwiken.runtime.cluster.state.jobs.documents import JobOrder

UNSTATED_S: Final = 3600.0  # time of the work of a job that states none


class Room(Protocol):
    """Room for jobs on nodes; see `JobRoom`."""

    def rooms(self) -> list[NodeRoom]:
        """Room of every node that has some."""
        ...

    def speed(self, node: str) -> float:
        """Speed of a node as a share of the fastest one's."""
        ...

    def could_hold(self, cores: float, memory_gb: float) -> bool:
        """Whether any node, were it empty, had as many cores and as much memory."""
        ...

    def suits(self, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> bool:
        """Whether a node has room for a job whose pressure its residents bear."""
        ...

    def take(self, job: str, node: str, cores: float, memory_gb: float, caused: Mapping[str, float]) -> None:
        """Draw room for a job."""
        ...

    def release(self, job: str) -> None:
        """Give back what a job drew."""
        ...


@dataclass(frozen=True)
class HeldJob:
    """A job that runs.

    Attributes:
        started_s: moment of its start, seconds.
    """

    order: JobOrder
    node: str
    started_s: float


@dataclass(frozen=True)
class QueueStart:
    """Start of a job that waited.

    Attributes:
        waited_s: time since its arrival, seconds.
    """

    job: str
    node: str
    waited_s: float


@dataclass(frozen=True, order=True)
class _Turn:
    """Turn of a job that waits; the least goes first.

    Attributes:
        rank: the negative of its priority, so that the highest goes first.
        done_s: when the job would have ended had it started at its arrival. Ordered by this moment, shorter
            jobs go first, and a job is passed only by those that arrive within the time of its own work.
        number: number of its arrival.
    """

    rank: int
    done_s: float
    number: int
    job: str
    arrived_s: float


class JobQueue:
    """Jobs that wait and run; the room is taken here, and the processes are the caller's.

    Args:
        room: room on the nodes, from which jobs draw.

    Attributes:
        waiting: orders of the jobs that wait, by name.
        running: jobs that run, by name.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.waiting: dict[str, JobOrder] = {}
        self.running: dict[str, HeldJob] = {}
        self._turns: list[_Turn] = []
        self._arrivals = 0
        self._full: list[NodeRoom] | None = None  # rooms in which no job that waits can start
        self._now_s = -math.inf

    def arrive(self, order: JobOrder, now_s: float) -> None:
        """Let a job wait.

        Args:
            now_s: moment of its arrival, in seconds.

        Raises:
            InputError: it waits or runs already.
        """
        if order.name in self.waiting or order.name in self.running:
            raise InputError("waits or runs already", where=f"job {order.name!r}")
        self._arrivals += 1
        takes_s = UNSTATED_S if order.takes_s is None else order.takes_s
        turn = _Turn(-order.priority, now_s + takes_s, self._arrivals, order.name, now_s)
        bisect.insort(self._turns, turn)
        self.waiting[order.name] = order
        self._full = None

    def resume(self, order: JobOrder, node: str, started_s: float) -> None:
        """Note a job that runs already.

        Args:
            started_s: moment of its start, in seconds.
        """
        self._room.take(order.name, node, order.cores, order.memory_gb, order.caused)
        self.running[order.name] = HeldJob(order, node, started_s)

    def ended(self, job: str) -> None:
        """Note the end of a job that ran, or that it is gone; its room is given back."""
        del self.running[job]
        self._room.release(job)
        self._full = None

    def cancel(self, job: str) -> None:
        """Take a job that waits out of the queue."""
        del self.waiting[job]
        self._turns = [turn for turn in self._turns if turn.job != job]

    def advance(self, now_s: float) -> list[QueueStart]:
        """Start what may start at this moment, and take its room.

        A job for which no node has room does not hold up those behind it.

        Args:
            now_s: moment, in seconds.
        """
        self._now_s = max(self._now_s, now_s)  # the clock of the system may be set back
        rooms = self._room.rooms()
        if rooms == self._full:
            return []
        starts = []
        for turn in list(self._turns):
            order = self.waiting[turn.job]
            node = self._node_for(order, rooms)
            if node is None:
                continue
            self._room.take(order.name, node, order.cores, order.memory_gb, order.caused)
            rooms = self._room.rooms()
            del self.waiting[turn.job]
            self.running[turn.job] = HeldJob(order, node, self._now_s)
            starts.append(QueueStart(turn.job, node, max(0.0, self._now_s - turn.arrived_s)))
        self._turns = [turn for turn in self._turns if turn.job in self.waiting]
        self._full = rooms
        return starts

    def _node_for(self, order: JobOrder, rooms: list[NodeRoom]) -> str | None:
        """Node for a job: the fastest that suits, then the one that the job fills best."""
        suitable = [
            room
            for room in rooms
            if room.cores >= order.cores - ROUNDING
            and self._room.suits(room.node, order.cores, order.memory_gb, order.caused)
        ]
        if not suitable:
            return None
        return min(suitable, key=lambda room: (-self._room.speed(room.node), room.cores, room.node)).node

    def in_turn(self) -> list[JobOrder]:
        """Orders of the jobs that wait, the next one first."""
        return [self.waiting[turn.job] for turn in self._turns]
