"""Scenario 1 of the scheduling study: 200 applications, one a second, on 40 machines of unequal size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from papers.worlds.fleet.generators import score_rows

MACHINES: Final = 40
APPLICATIONS: Final = 200
CORES: Final = (4, 13)  # of a machine: 4 to 12
TRAITS: Final = 2
SENSITIVITY: Final = 1.0  # slowdown for each unit of pressure beyond what is tolerated


class Machines:
    """Applications on machines: what is tolerated and caused on each.

    Args:
        cores: (m,) cores of the machines.
    """

    def __init__(self, cores: Floats, sources: int) -> None:
        self.free = cores.copy()
        self.cores = cores
        self.tolerated = np.ones((len(cores), sources))  # least of the residents
        self.caused = np.zeros((len(cores), sources))  # sum over the residents
        self.residents: list[list[int]] = [[] for _ in cores]

    def add(self, machine: int, application: int, tolerated: Floats, caused: Floats) -> None:
        """Place an application on a machine; it takes one core.

        Args:
            tolerated: (k,) pressure that it tolerates.
            caused: (k,) pressure that it causes.
        """
        self.free[machine] -= 1
        self.tolerated[machine] = np.minimum(self.tolerated[machine], tolerated)
        self.caused[machine] += caused
        self.residents[machine].append(application)


Choice = Callable[[Machines, Floats, Floats], int]


def least_loaded(machines: Machines, tolerated: Floats, caused: Floats) -> int:
    """Machine with the largest share of free cores; looks at nothing else."""
    del tolerated, caused
    return int(np.argmax(machines.free / machines.cores))


def least_mismatch(machines: Machines, tolerated: Floats, caused: Floats) -> int:
    """Machine with the least distance between what is tolerated and caused, both ways, as published.

    Machines on which either side is violated come last, by how much.
    """
    pressure = np.minimum(machines.caused, 1.0)
    over = np.maximum(0.0, pressure - tolerated).sum(axis=1)
    over += np.maximum(0.0, caused - machines.tolerated).sum(axis=1)
    mismatch = np.abs(tolerated - pressure).sum(axis=1) + np.abs(machines.tolerated - caused).sum(axis=1)
    order = np.lexsort((mismatch, over, machines.free <= 0))
    return int(order[0])


def least_violation(machines: Machines, tolerated: Floats, caused: Floats) -> int:
    """Machine on which the least is violated; spare tolerance costs nothing."""
    over = np.maximum(0.0, machines.caused - tolerated).sum(axis=1)
    over += np.maximum(0.0, machines.caused + caused - machines.tolerated).sum(axis=1)
    over[machines.free <= 0] = np.inf
    return int(np.argmin(over))


CHOICES: Final[dict[str, Choice]] = {
    "least loaded": least_loaded,
    "least mismatch": least_mismatch,
    "least violation": least_violation,
}


def performance(seed: int, choice: str) -> Floats:
    """Performance of every application at the end, relative to being alone.

    Returns:
        (200,) performance; 1 is that of an idle machine.
    """
    rng = np.random.default_rng([seed, 5])
    cores = rng.integers(*CORES, MACHINES).astype(float)
    tolerated = score_rows(rng, APPLICATIONS, TRAITS)
    caused = score_rows(rng, APPLICATIONS, TRAITS) / cores.mean()  # a full machine is pressed by 1 or so
    machines = Machines(cores, tolerated.shape[1])
    for application in range(APPLICATIONS):
        machine = CHOICES[choice](machines, tolerated[application], caused[application])
        machines.add(machine, application, tolerated[application], caused[application])
    found = np.empty(APPLICATIONS)
    for machine, residents in enumerate(machines.residents):
        for application in residents:
            others = machines.caused[machine] - caused[application]
            over = np.maximum(0.0, others - tolerated[application]).sum()
            found[application] = 1 / (1 + SENSITIVITY * over)
    return found
