"""Repacking of replicas that run: nodes are freed by what is used, a few moves at a time. Pure.

At the end of each period the same decision is made as by `kwiken pack`: whole nodes are drained, as far as
the dial goes. The moves are then carried out one after another. A stage has one move at a time, and none
while a change takes effect or its target is missed. Where a target, memory, contention or anti-affinity
forbids a move by then, the rest of the period is planned again without it.

Where a service burns its allowance of late requests, nothing is packed in that period: nodes without headroom
are relieved instead.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.allocator.adaptation.actions import Action, Start
from kwiken.allocator.adaptation.measures import Measures
from kwiken.allocator.adaptation.replicas import Replicas
from kwiken.allocator.adaptation.watch import WINDOW_S, WorkloadWatch
from kwiken.allocator.packing.auto_dial import BURNING, AutoDial, LateCount
from kwiken.allocator.packing.dial import MIDDLE
from kwiken.allocator.packing.margin import chance_above
from kwiken.allocator.packing.repacking import RepackSettings, repack
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster, plain_cluster
from kwiken.allocator.packing.tasks.usage import MIN_SAMPLES, UsageSeries
from kwiken.allocator.placement.node_ledger import DrawKind
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Bools, Floats

SAMPLES_OF_PERIOD: Final = 60  # at most; windows are not divided
MIN_WINDOWS: Final = 6  # before a node is told to have no headroom
NO_HEADROOM: Final = 0.01  # chance that use is above the node, from which on the node gets no copies
HEADROOM: Final = 0.005  # chance from which on it gets copies again
FACTOR: Final = 1.5  # on the standard deviation, as where none was learned
MAX_MOVES: Final = 400  # of one period
MAX_REFUSED: Final = 20  # moves of a period after which the rest waits for the next one
MAX_SAMPLES: Final = 10_080  # of a replica: a week of minutes
RECENT_WINDOWS: Final = 12  # a minute of windows of 5 s


class UseRecord:
    """Use of each replica, as means over samples of one length.

    Args:
        sample_s: length of a sample, seconds; a window that is longer is a sample of its own.
    """

    def __init__(self, sample_s: float) -> None:
        self._sample_s = sample_s
        self._samples: dict[str, array[float]] = {}  # all of one length, NaN where a replica was not there
        self._times: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._sums: dict[str, tuple[float, int]] = {}  # of the sample that is not over yet
        self._began_s = -math.inf
        self._recent: deque[Mapping[str, float]] = deque(maxlen=RECENT_WINDOWS)

    def add(self, now_s: float, cores: Mapping[str, float]) -> None:
        """Add a window.

        Args:
            now_s: moment on a monotonic clock, seconds.
            cores: number of cores in use, by replica; replicas that are not known are left out.
        """
        self._recent.append(dict(cores))
        for key, used in cores.items():
            total, count = self._sums.get(key, (0.0, 0))
            self._sums[key] = total + used, count + 1
        if now_s - self._began_s < self._sample_s:
            return
        if math.isfinite(self._began_s):
            self._close(now_s)
        self._sums.clear()
        self._began_s = now_s

    def _close(self, now_s: float) -> None:
        """End a sample."""
        length = len(self._times)
        for key in self._sums:
            self._samples.setdefault(key, array("d", [math.nan]) * length)
        self._times.append(now_s)
        means = {key: total / count for key, (total, count) in self._sums.items()}
        for key, values in self._samples.items():
            values.append(means.get(key, math.nan))
            if len(values) > MAX_SAMPLES:
                del values[0]

    def copied(self, old: str, new: str) -> None:
        """Let a replica that takes another one's place begin with the samples of that one."""
        if old in self._samples:
            self._samples[new] = array("d", self._samples[old])

    def keep(self, keys: Collection[str]) -> None:
        """Drop the samples of all other replicas."""
        for key in self._samples.keys() - set(keys):
            del self._samples[key]

    def series(self, keys: Sequence[str]) -> UsageSeries:
        """Samples of some replicas, NaN where there is none; memory is not known.

        Args:
            keys: (t) keys of the replicas, in the order of the rows.
        """
        cores = np.full((len(keys), len(self._times)), math.nan)
        for row, key in enumerate(keys):
            if key in self._samples:
                cores[row] = self._samples[key]
        return UsageSeries(np.array(self._times), cores, np.full_like(cores, math.nan))

    def recent(self, keys: Sequence[str]) -> Floats:
        """(t, w) Use of some replicas in the last windows; NaN where it is not known."""
        found = [[window.get(key, math.nan) for window in self._recent] for key in keys]
        return np.array(found, dtype=np.float64).reshape(len(keys), len(self._recent))


@dataclass(frozen=True)
class LiveRepackSettings:
    """How a running cluster is repacked.

    Attributes:
        every_s: length of a period, seconds, above 0.
        dial: from 0, as few nodes as possible, to 10, no risk added; None to follow the services' burn rate.
        movable: workloads whose replicas may be moved, by name.
    """

    every_s: float
    dial: float | None
    movable: frozenset[str]


@dataclass(frozen=True)
class PlannedMove:
    """Move of a replica that is decided and not yet carried out."""

    workload: str
    key: str
    node: int
    drain: int  # number of the drain that the move belongs to
    packs: bool  # whether it is to free a node
    reason: str


@dataclass(frozen=True)
class _Tasks:
    """Replicas and jobs as tasks of a packing."""

    packed: PackedCluster
    keys: tuple[str, ...]
    workloads: tuple[str, ...]  # of each task; empty for a job


class LiveRepacking:
    """Repacks the replicas of an adaptation, period after period.

    Args:
        measures: how a replica is moved.
        watches: state of the workloads, by name.
        service_misses: function of a workload's name to whether its service misses its target now.
        now_s: moment at which the first period begins, on a monotonic clock, seconds.

    Attributes:
        crowded: nodes without headroom, which are to get no copies of calls.
        planned: moves of this period that are left, in order.
        record: use of each replica, from which the next packing is decided.
    """

    def __init__(
        self,
        replicas: Replicas,
        measures: Measures,
        watches: Mapping[str, WorkloadWatch],
        settings: LiveRepackSettings,
        *,
        service_misses: Callable[[str], bool],
        now_s: float,
    ) -> None:
        self._replicas = replicas
        self._measures = measures
        self._watches = watches
        self._settings = settings
        self._service_misses = service_misses
        self._auto = AutoDial(MIDDLE if settings.dial is None else settings.dial)
        self.record = UseRecord(max(WINDOW_S, settings.every_s / SAMPLES_OF_PERIOD) - WINDOW_S / 2)
        self._next_s = now_s + settings.every_s
        self.planned: list[PlannedMove] = []
        self._refused: set[tuple[str, int]] = set()  # workload and node of moves refused in this period
        self._moved: set[str] = set()  # keys of replicas that were moved in this period
        self.crowded: frozenset[str] = frozenset()

    @property
    def dial(self) -> float:
        """Where the dial stands, from 0 to 10."""
        return self._auto.dial

    def observe(self, now_s: float, cores: Mapping[str, float], late: Mapping[str, LateCount]) -> list[str]:
        """Take account of a window of measurements; returns lines on nodes that lost or gained headroom.

        Args:
            now_s: moment on a monotonic clock, seconds.
            cores: number of cores in use in this window, by key of the replica; unknown ones are left out.
            late: requests of this window, by service.
        """
        self.record.add(now_s, cores)
        self._auto.observe(late)
        return list(self._see_headroom())

    def step(self, now_s: float) -> tuple[list[Action], list[str]]:
        """Decide the moves of this moment, after an `observe`.

        Args:
            now_s: moment on a monotonic clock, seconds.

        Returns:
            Actions, in order, at most one move of each workload; and lines on what a new period decided.
        """
        lines: list[str] = []
        actions: list[Action] = []
        if now_s >= self._next_s:
            self._next_s = now_s + self._settings.every_s
            lines = self._decide()
        started: set[str] = set()
        before: list[Action] = []  # stops of best-effort work come before its starts
        after: list[Action] = []
        for move in list(self.planned):
            if move.workload in started or not self._may_move(move.workload, now_s):
                continue
            self.planned.remove(move)
            found = self._carried_out(move)
            if not found:
                self._refused.add((move.workload, move.node))
                return [*before, *actions, *after], [*lines, *self._decide_anew(move)]
            started.add(move.workload)
            if self._replicas.is_best_effort(move.workload):
                before.append(found[0])
            else:
                self._watches[move.workload].changed(now_s)
                after.append(found[-1])
            actions += [one for one in found if isinstance(one, Start)]
        return [*before, *actions, *after], lines

    def _carried_out(self, move: PlannedMove) -> list[Action]:
        """Move a replica if it still stands where it stood and nothing forbids the move."""
        if not self._replicas.has(move.workload, move.key):
            return []
        found = self._measures.move_by_use(move.workload, move.key, move.node, move.reason)
        for one in found:
            if isinstance(one, Start):
                self.record.copied(move.key, one.key)
                self._moved.add(one.key)
        return found

    def _may_move(self, workload: str, now_s: float) -> bool:
        """Whether a workload is calm: its target is met, and no change is taking effect."""
        if self._replicas.is_best_effort(workload):
            return True
        watch, sizing = self._watches[workload], self._replicas.sizings[workload]
        calm = not watch.waits(now_s) and not watch.slow and not self._service_misses(workload)
        return calm and sizing.forecast().met

    def _decide_anew(self, refused: PlannedMove) -> list[str]:
        """Plan again without a move that was refused; a few times in a period."""
        if not refused.packs:
            return []  # relief of the other nodes goes on
        if len(self._refused) > MAX_REFUSED:
            self.planned.clear()
            return []
        self.planned = self._packing(self._tasks())
        node = self._replicas.ledger.cluster.nodes[refused.node].name
        why = "memory, contention, anti-affinity or a target forbids it"
        left = f"{len(self.planned)} moves are left"
        return [f"repack: {refused.workload} cannot go to {node} now, since {why}; {left}"]

    # What a period decides

    def _decide(self) -> list[str]:
        """Plan the moves of a period; returns lines on what was decided."""
        before, lines = self.dial, []
        burn = self._auto.turn()
        if self._settings.dial is not None:
            self._auto.dial = self._settings.dial
        if self.dial != before and burn is not None:
            lines.append(f"repack: dial {before:g} to {self.dial:g}: the allowance burns at {burn:.3g}")
        self._refused.clear()
        self._moved.clear()
        tasks = self._tasks()
        self.record.keep(tasks.keys)
        if burn is not None and burn > BURNING:
            self.planned = list(self._relief(tasks))
            lines.append(
                f"repack: {len(self.planned)} moves off nodes without headroom, and no packing: "
                f"the allowance burns at {burn:.3g}"
            )
            return lines
        self.planned = self._packing(tasks)
        freed = len({one.drain for one in self.planned})
        if freed:
            used = int(tasks.packed.occupied(tasks.packed.node).sum())
            lines.append(
                f"repack: {used} nodes in use; {len(self.planned)} moves to free {freed} of them at dial "
                f"{self.dial:g}"
            )
        return lines

    def _packing(self, tasks: _Tasks) -> list[PlannedMove]:
        """Moves that free nodes, as far as the dial goes."""
        series = self.record.series(tasks.keys)
        if not tasks.keys or series.times_s.size < MIN_SAMPLES:
            return []  # requests would stand for a use that will be known soon
        # The caller waits: states are not settled before the choice, which takes seconds.
        settings = RepackSettings(dial=self.dial, max_moves=MAX_MOVES, settled_states=0)
        found = repack(tasks.packed, series, settings)
        nodes = self._replicas.ledger.cluster.nodes
        planned = []
        for number, step in enumerate(found.taken):
            what = "relieves" if step.freed is None else "frees"
            for move in step.moves:
                source = nodes[move.source].name
                used = float(found.use.mean[tasks.packed.node == move.source].sum())
                reason = (
                    f"repack at dial {self.dial:g} {what} {source}, whose work uses {used:.3g} of "
                    f"{tasks.packed.cluster.cores[move.source]:.3g} cores"
                )
                workload, key = tasks.workloads[move.task], tasks.keys[move.task]
                planned.append(PlannedMove(workload, key, move.target, number, packs=True, reason=reason))
        return planned

    def _relief(self, tasks: _Tasks) -> Iterator[PlannedMove]:
        """One move off each node without headroom, best-effort work first, to the emptiest node with room."""
        ledger, packed = self._replicas.ledger, tasks.packed
        free = ledger.free_cores.copy()  # a blocked node has none
        free[[ledger.cluster.index_of[name] for name in self.crowded]] = -np.inf
        for number, name in enumerate(sorted(self.crowded)):
            source = ledger.cluster.index_of[name]
            there = np.flatnonzero((packed.node == source) & packed.movable).tolist()
            there.sort(key=lambda task: (not self._replicas.is_best_effort(tasks.workloads[task]), task))
            target = int(np.argmax(free))
            task = next((one for one in there if free[target] >= packed.cores[one]), None)
            if task is not None:
                free[target] -= packed.cores[task]
                reason = f"{name} has no headroom and late requests are above their allowance"
                yield PlannedMove(
                    tasks.workloads[task], tasks.keys[task], target, number, packs=False, reason=reason
                )

    def _tasks(self) -> _Tasks:
        """Replicas, and jobs, which stay where they are."""
        ledger, movable = self._replicas.ledger, self._settings.movable
        keys: list[str] = []
        workloads: list[str] = []
        rows: list[tuple[float, float, int]] = []
        stays: dict[int, str] = {}
        apart: list[bool] = []
        for name, places in self._replicas.places().items():
            sizing = self._replicas.sizings[name]
            alone = sizing.request.workload.spread is not Spread.NONE
            for (key, _, cores), found in zip(places, sizing.replicas, strict=True):
                if name not in movable:
                    stays[len(keys)] = "it was not started here"
                elif key in self._moved:
                    stays[len(keys)] = "it was moved in this period"
                keys.append(key)
                workloads.append(name)
                apart.append(alone)
                rows.append((cores, float(sizing.request.memory_gb[found.size]), found.node))
        for node in range(len(ledger.cluster.nodes)):
            for draw in ledger.residents(node):
                if draw.kind is DrawKind.JOB:
                    stays[len(keys)] = "a job runs where it began"
                    keys.append(draw.owner)
                    workloads.append("")
                    apart.append(False)
                    rows.append((draw.cores, draw.memory_gb, node))
        drawn, memory_gb, at = np.array(rows, dtype=np.float64).reshape(len(rows), 3).T
        # Replicas of a stage stay apart; best-effort work may stand together.
        owners = tuple(
            name if name and not self._replicas.is_best_effort(name) else key
            for name, key in zip(workloads, keys, strict=True)
        )
        packed = plain_cluster(ledger.cluster, tuple(keys), owners, drawn, memory_gb, at.astype(np.int64))
        blocked = set(self._replicas.blocked_nodes)
        usable = np.array([node.name not in blocked for node in ledger.cluster.nodes])
        kinds = {name: number for number, name in enumerate(dict.fromkeys(workloads))}
        packed = replace(
            packed,
            stays=stays,
            open_nodes=usable,
            apart=np.array(apart, dtype=np.bool_),
            kinds=np.array([kinds[name] for name in workloads], dtype=np.int64),
            allowed=np.array([self._allowed(name) for name in kinds] or [usable]),
        )
        return _Tasks(packed, tuple(keys), tuple(workloads))

    def _allowed(self, workload: str) -> Bools:
        """(n,) Whether each node is large enough for a workload, and its residents bear another replica.

        For a job, which stays, every node is.
        """
        ledger = self._replicas.ledger
        if not workload:
            return np.ones(len(ledger.cluster.nodes), dtype=np.bool_)
        sizing = self._replicas.sizings[workload]
        pressure = sizing.request.all_pressure[:, sorted({one.size for one in sizing.replicas})].max(axis=1)
        caused = pressure[:, ledger.cluster.class_of]
        largest = max(float(sizing.request.all_cores[one.size]) for one in sizing.replicas)
        found: Bools = np.all((ledger.slack >= caused) | (caused <= 0), axis=0)
        found &= ledger.cluster.cores >= largest
        found[[node for name, node in self._refused if name == workload]] = False
        return found

    # Headroom

    def _see_headroom(self) -> Iterator[str]:
        """Tell the nodes without headroom from the last windows; lines on those that changed."""
        ledger = self._replicas.ledger
        tasks = self._tasks()
        use = self.record.recent(tasks.keys)
        jobs = np.array([not workload for workload in tasks.workloads], dtype=np.bool_)
        use[jobs] = tasks.packed.cores[jobs, None]  # a job is taken to use what it draws
        if use.shape[1] < MIN_WINDOWS:
            return
        crowded = set()
        for at, node in enumerate(ledger.cluster.nodes):
            rows = np.nan_to_num(use[tasks.packed.node == at]).sum(axis=0)
            moments = np.array([rows.mean()]), np.array([rows.var()])
            chance = chance_above(*moments, ledger.cluster.cores[[at]], FACTOR)[0]
            if chance > (HEADROOM if node.name in self.crowded else NO_HEADROOM):
                crowded.add(node.name)
                if node.name not in self.crowded:
                    yield (
                        f"{node.name} has no headroom and gets no copies: its work uses {rows.mean():.3g} of "
                        f"{ledger.cluster.cores[at]:.3g} cores"
                    )
            elif node.name in self.crowded:
                yield f"{node.name} has headroom again and gets copies"
        self.crowded = frozenset(crowded)
