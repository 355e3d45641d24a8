"""Nodes of a crowded world with their residents: pressure, processor time, memory, and who is killed."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.crowded.truth import rules
from papers.worlds.crowded.truth.draw import CrowdedWorld
from papers.worlds.crowded.truth.law import left, processor_left

NOWHERE = -1


class CrowdedNodes:
    """Residents of nodes, and how fast they run; arrays over all jobs of the world.

    Attributes:
        type_of: (n,) machine type of each node.
        node: (j,) node on which a job is; -1 for none.
        speed: (j,) present speed, as a share of the speed alone on the best type.
        busy: (j,) share of its reserved cores that a job wants to keep busy now.
        memory_gb: (j,) memory that a job holds now, in GB.
        running: (j,) whether a job makes progress: it is placed, started, and does not move.
    """

    def __init__(self, world: CrowdedWorld, type_of: Ints) -> None:
        programs, program = world.programs, world.jobs.program
        count = len(program)
        self._world = world
        self.type_of = type_of
        self.node: Ints = np.full(count, NOWHERE, dtype=np.int64)
        self.speed: Floats = np.zeros(count)
        self.busy: Floats = programs.busy[program].copy()
        self.memory_gb: Floats = rules.BASE_OVER_PEAK * programs.peak_gb[program]
        self.running: Bools = np.zeros(count, dtype=np.bool_)
        self._cores = programs.cores[program]
        self._residents: list[list[int]] = [[] for _ in type_of]
        self._tolerated = programs.tolerated

    def put(self, job: int, node: int) -> None:
        """Put a job on a node; it presses on others once it runs, and holds memory at once."""
        self.node[job] = node
        self._residents[node].append(job)

    def take(self, job: int) -> int:
        """Take a job from its node; returns the node."""
        node = int(self.node[job])
        self._residents[node].remove(job)
        self.node[job], self.running[job], self.speed[job] = NOWHERE, False, 0.0
        return node

    def residents(self, node: int) -> Ints:
        """(k,) indices of the jobs on a node."""
        return np.array(self._residents[node], dtype=np.int64)

    def most_memory(self, node: int) -> int | None:
        """Job that is killed: the one with the most memory, if more is held than there is; else None."""
        jobs = self.residents(node)
        whole = float(self._world.machines.memory_gb[self.type_of[node]])
        if not self._world.rules.kills or float(self.memory_gb[jobs].sum()) <= whole:
            return None
        return int(jobs[np.argmax(self.memory_gb[jobs])])

    def used(self, nodes: Ints) -> tuple[Floats, Floats]:
        """Two arrays (n,) of shares: processor and memory in use on some nodes."""
        machines, processor, memory = self._world.machines, np.zeros(len(nodes)), np.zeros(len(nodes))
        for at, node in enumerate(nodes.tolist()):
            jobs, kind = self.residents(node), self.type_of[node]
            active = jobs[self.running[jobs]]
            wanted = float((self._cores[active] * self.busy[active]).sum())
            processor[at] = min(1.0, wanted / machines.cores[kind])
            memory[at] = float(self.memory_gb[jobs].sum()) / machines.memory_gb[kind]
        return processor, memory

    def settle(self, node: int) -> Ints:
        """Bring the speeds of a node's residents up to date; (k,) indices of the residents."""
        world, jobs, kind = self._world, self.residents(node), int(self.type_of[node])
        if not jobs.size:
            return jobs
        programs, program = world.programs, world.jobs.program[jobs]
        active = self.running[jobs]
        demand = programs.demand[program] * active[:, None]
        pressure = np.maximum(demand.sum(axis=0) - demand, 0.0) / world.machines.capacity[kind]
        kept = left(
            world.rules.law,
            pressure,
            programs.max_loss[program],
            programs.half[program],
            self._tolerated[program],
        )
        wanted = np.array([float((self._cores[jobs] * self.busy[jobs])[active].sum())])
        share = float(processor_left(wanted, world.machines.cores[[kind]], rules.SWITCHING)[0])
        alone = np.exp(programs.log_speed[program, kind])
        self.speed[jobs] = np.where(active, alone * kept * share, 0.0)
        return jobs
