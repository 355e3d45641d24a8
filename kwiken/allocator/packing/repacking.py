"""Repacking by use: the steps, the states that they lead to, and the requests that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from kwiken.allocator.packing.dial import (
    AT_RISK_CHANCE,
    PackedState,
    choose_by_dial,
    choose_by_risk,
)
from kwiken.allocator.packing.drains import (
    ROOM,
    DrainStep,
    after,
    cost_of_occupied,
    drain_steps,
    straightened,
)
from kwiken.allocator.packing.goals import PackingGoal, use_goal
from kwiken.allocator.packing.later_moments import later_use
from kwiken.allocator.packing.margin import UNLEARNED, learned_factor, sums_of
from kwiken.allocator.packing.swaps import MAX_TRIES, settled
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster
from kwiken.allocator.packing.tasks.usage import UsageSeries, Use, filled_cores, use_of
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError

SPREAD: Final = 1 / 3  # of an owner's replicas, the share that one node may receive
SETTLED_STATES: Final = 40  # states in which tasks are settled before one is chosen
TRIES_OF_STATE: Final = 600  # tasks of such a state for which a better place is looked for
CALM: Final = 1e-5  # chance, as a share of the time, up to which a state is not worth settling
WIDEST: Final = 2.33  # standard deviations in a request: the 99th percentile of one task


@dataclass(frozen=True, kw_only=True)
class RepackSettings:
    """What to repack for; `dial` decides how far, or `risk`.

    Attributes:
        dial: from 0, as few nodes as possible, to 10, no risk added.
        risk: most share of the time that a node may be above its capacity, mean of the nodes; None to go by
            the dial.
        max_moves: most moves, 0 or more.
        spread: share of an owner's replicas that one node may receive, above 0 and at most 1.
        settled_states: most states, 0 or more, in which tasks are settled before one is chosen. With none the
            choice is made sooner, by more risk than the outcome has.
    """

    dial: float = 5.0
    risk: float | None = None
    max_moves: int = 400
    spread: float = SPREAD
    settled_states: int = SETTLED_STATES

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.max_moves < 0:
            raise InputError(f"must be 0 or more, not {self.max_moves}", where="moves")
        if self.settled_states < 0:
            raise InputError(f"must be 0 or more, not {self.settled_states}", where="settled states")
        if not 0 < self.spread <= 1:
            raise InputError(f"must be above 0 and at most 1, not {self.spread}", where="spread")

    def choose(self, states: Sequence[PackedState]) -> int:
        """Index of the state to stop at."""
        return choose_by_dial(states, self.dial) if self.risk is None else choose_by_risk(states, self.risk)


@dataclass(frozen=True, eq=False)
class Repacking:
    """Steps from the cluster as it is to one with fewer nodes.

    Attributes:
        use: statistics of the tasks' use.
        factor: factor on the standard deviation of a node's use; None where chances follow from distributions
            of the use that is to come.
        learned: whether the factor, or the distributions, were learned from the usage.
        goal: constraints and penalty that the steps were made for.
        steps: every step that was found, in order.
        states: (1 + steps) state before the first step and after each; where tasks were settled before the
            choice, state after settling.
        chosen: index of the state to stop at; as many steps are taken.
        taken: steps up to the chosen state, in which each task moves once, to a node that is chosen anew by
            the use that is to come.
        outcome: state after the steps that are taken.
    """

    packed: PackedCluster
    series: UsageSeries
    use: Use
    factor: float | None
    learned: bool
    goal: PackingGoal
    steps: tuple[DrainStep, ...]
    states: tuple[PackedState, ...]
    chosen: int
    taken: tuple[DrainStep, ...]
    outcome: PackedState

    @cached_property
    def node(self) -> Ints:
        """(t,) Index of each task's node after the steps that are taken."""
        return after(self.packed.node, self.taken)

    def at_dial(self, dial: float) -> int:
        """Index of the state that a place of the dial chooses.

        Args:
            dial: from 0, as few nodes as possible, to 10, no risk added.
        """
        return choose_by_dial(self.states, dial)

    def judged(self, later: UsageSeries) -> tuple[float, float]:
        """Share of the time that nodes in use are above their capacity in other usage.

        Args:
            later: use of the same tasks at other times than those that were packed on.

        Returns:
            share before the steps, and after those that are taken, mean of the nodes in use.
        """
        cores = filled_cores(later, self.use)
        held = [(node, self.packed.occupied(node)) for node in (self.packed.node, self.node)]
        before, now = (float(time_above(self.packed, cores, node)[used].mean()) for node, used in held)
        return before, now

    @cached_property
    def requests(self) -> tuple[Floats, Floats]:
        """(t,) Cores and (t,) memory in GB to request for each task; alike for all tasks of an owner.

        Requests add up on a node, and joint use does not. So cores are the mean of use and as many standard
        deviations as all nodes have room for, up to the 99th percentile of a lone task.
        """
        owner = self.packed.owner_numbers
        mean, spread = _by_owner(self.use.mean, owner), np.sqrt(_by_owner(self.use.variance, owner))
        nodes = len(self.packed.cluster.nodes)
        means, spreads = sums_of(mean, self.node, nodes), sums_of(spread, self.node, nodes)
        held = self.packed.occupied(self.node) & (spreads > 0)
        room = (self.packed.cluster.cores[held] - means[held]) / spreads[held]
        width = float(np.clip(room.min(), 0.0, WIDEST)) if room.size else WIDEST
        kept = ~self.use.known
        cores = np.where(kept, self.packed.cores, mean + width * spread)
        return cores, self.goal.hard[:, 1]


def _by_owner(values: Floats, owner: Ints) -> Floats:
    """Mean over the tasks of each owner, for each task."""
    return np.asarray((np.bincount(owner, values) / np.bincount(owner))[owner], dtype=np.float64)


def time_above(packed: PackedCluster, cores: Floats, node: Ints) -> Floats:
    """Share of the samples in which each node's tasks use more cores than it has.

    Args:
        cores: (t, s) number of cores in use, without NaN.
        node: (t,) index of each task's node.
    """
    sums = sums_of(cores, node, len(packed.cluster.nodes))
    return np.asarray((sums > packed.cluster.cores[:, None] + ROOM).mean(axis=1), dtype=np.float64)


def repack(packed: PackedCluster, series: UsageSeries | None, settings: RepackSettings) -> Repacking:
    """Free nodes by packing tasks by what they use.

    Args:
        series: use of the cluster's tasks; None if it is not known, so that requests stand for use.
        settings: how far to go, and what may be moved.
    """
    count = len(packed.tasks)
    if series is None:
        series = UsageSeries(np.zeros(0), np.zeros((count, 0)), np.zeros((count, 0)))
    use = use_of(series, packed.cores, packed.memory_gb)
    if count:
        use = _memory_by_owner(use, packed.owner_numbers)
        packed = _unknown_staying(packed, use)
    factor, learned, later = UNLEARNED, False, None
    usual = float(np.median(packed.cluster.cores)) if len(packed.cluster.nodes) else 1.0
    if series.times_s.size:
        later = later_use(series, use, packed.cluster.cores)
        if later is None:
            factor, learned = learned_factor(series, use, usual)
    goal = use_goal(packed, use, settings.spread, factor if later is None else later)
    steps = tuple(drain_steps(packed, goal, settings.max_moves)) if count else ()
    cores = filled_cores(series, use)
    states = _states(packed, goal, steps, cores)
    if later is not None:
        for at in _to_settle(states, settings.settled_states):
            taken = straightened(packed.node, steps[:at])
            states[at] = _state_after(
                packed, goal, cores, _settled_steps(packed, goal, taken, TRIES_OF_STATE)
            )
    chosen = settings.choose(states)
    taken = straightened(packed.node, steps[:chosen])
    if taken and later is not None:
        taken = _settled_steps(packed, goal, taken, MAX_TRIES)
    return Repacking(
        *(packed, series, use),
        factor=factor if later is None else None,
        learned=learned or later is not None,
        goal=goal,
        steps=steps,
        states=tuple(states),
        chosen=chosen,
        taken=taken,
        outcome=_state_after(packed, goal, cores, taken),
    )


def _to_settle(states: Sequence[PackedState], most: int) -> list[int]:
    """Indices of states, evenly spaced from the first with a chance worth lowering to the last.

    They do not depend on the dial, so that a higher dial still takes no fewer nodes nor more risk.
    """
    first = next((at for at, one in enumerate(states) if at and one.share > CALM), len(states))
    count = min(most, len(states) - first)
    return [] if count == 0 else np.linspace(first, len(states) - 1, count).round().astype(int).tolist()


def _settled_steps(
    packed: PackedCluster, goal: PackingGoal, steps: tuple[DrainStep, ...], tries: int
) -> tuple[DrainStep, ...]:
    """Steps with the same tasks moved, those of drained nodes to nodes that are chosen anew."""
    free = np.zeros(len(packed.tasks), dtype=np.bool_)
    free[[move.task for step in steps if step.freed is not None for move in step.moves]] = True
    to = packed.open_nodes & packed.occupied(packed.node)
    to[[step.freed for step in steps if step.freed is not None]] = False
    last = settled(packed, goal, after(packed.node, steps), free, to, tries)
    return tuple(
        replace(step, moves=tuple(replace(move, target=int(last[move.task])) for move in step.moves))
        for step in steps
    )


def _unknown_staying(packed: PackedCluster, use: Use) -> PackedCluster:
    """The cluster with tasks in place that request nothing and whose use is not known."""
    idle = ~use.known & (packed.cores == 0)
    stays = dict(packed.stays)
    for lacking, reason in (
        (idle, "its cores are neither requested nor known from use"),
        (use.memory_gb == 0, "its memory is neither requested nor known from use"),
    ):
        for task in np.flatnonzero(lacking & ~packed.resident).tolist():
            stays.setdefault(task, reason)
    return replace(packed, stays=stays)


def _memory_by_owner(use: Use, owner: Ints) -> Use:
    """Use with one memory for all tasks of an owner, the largest: they are started from one template."""
    most = np.zeros(int(owner.max()) + 1)
    np.maximum.at(most, owner, use.memory_gb)
    return replace(use, memory_gb=most[owner])


class _Progress:
    """Sums of each node's tasks while steps are made, one after the other.

    Args:
        cores: (t, s) number of cores in use, without NaN.
    """

    def __init__(self, packed: PackedCluster, goal: PackingGoal, cores: Floats) -> None:
        self._packed, self._goal, self._cores = packed, goal, cores
        self._node = packed.node.copy()
        self._moves = 0
        nodes, tasks = len(packed.cluster.nodes), np.arange(len(self._node))
        self._soft = sums_of(goal.soft[packed.cluster.class_of[self._node], tasks], self._node, nodes)
        self._sums = sums_of(cores, self._node, nodes)
        self._chance = goal.penalty(self._soft, np.arange(nodes))

    def make(self, step: DrainStep) -> None:
        """Make the moves of a step."""
        class_of = self._packed.cluster.class_of
        for move in step.moves:
            for at, sign in ((move.source, -1.0), (move.target, 1.0)):
                self._soft[at] += sign * self._goal.soft[class_of[at], move.task]
                self._sums[at] += sign * self._cores[move.task]
            self._node[move.task] = move.target
        touched = np.array(sorted({at for move in step.moves for at in (move.source, move.target)}))
        if touched.size:
            self._chance[touched] = self._goal.penalty(self._soft[touched], touched)
        self._moves = step.displaced

    def state(self) -> PackedState:
        """State after the steps that were made."""
        packed, node, chance = self._packed, self._node, self._chance
        held: Bools = packed.occupied(node)
        above = 0.0
        if self._cores.shape[1] and held.any():
            above = float((self._sums[held] > packed.cluster.cores[held, None] + ROOM).mean())
        return PackedState(
            moves=self._moves,
            nodes=int(held.sum()),
            cost=cost_of_occupied(packed, node, self._goal.node_cost),
            risk=float(chance[held].sum()),
            at_risk=int(np.sum(chance[node[~packed.resident]] > AT_RISK_CHANCE)),
            seen=above,
        )


def _states(
    packed: PackedCluster, goal: PackingGoal, steps: tuple[DrainStep, ...], cores: Floats
) -> list[PackedState]:
    """State before the first step, and after each."""
    progress = _Progress(packed, goal, cores)
    found = [progress.state()]
    for step in steps:
        progress.make(step)
        found.append(progress.state())
    return found


def _state_after(
    packed: PackedCluster, goal: PackingGoal, cores: Floats, steps: tuple[DrainStep, ...]
) -> PackedState:
    """State after the last step."""
    progress = _Progress(packed, goal, cores)
    for step in steps:
        progress.make(step)
    return progress.state()
