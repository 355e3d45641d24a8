"""Draw of a crowded world: a cluster of measured machine types, programs, and jobs that arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from papers.worlds.crowded.truth import rules
from papers.worlds.crowded.truth.measured_speeds import MACHINE_TYPES
from papers.worlds.crowded.truth.programs import RESOURCES, Programs, drawn_programs
from papers.worlds.crowded.truth.rules import Rules


@dataclass(frozen=True, eq=False)
class MachineTypes:
    """Machine types of a cluster, and how many cores and how much of every resource a node of each has.

    Attributes:
        names: (t,) of the measured types.
        cores: (t,) number of cores of a node.
        memory_gb: (t,) memory of a node, in GB.
        capacity: (t, r) what a node has of each resource, as shares of the reference node.
    """

    names: tuple[str, ...]
    cores: Floats
    memory_gb: Floats
    capacity: Floats

    @property
    def largest(self) -> int:
        """Index of the type with the most cores, then memory: contention is measured there."""
        return int(np.lexsort((self.memory_gb, self.cores))[-1])


@dataclass(frozen=True, eq=False)
class JobDraws:
    """Jobs in order of arrival.

    Attributes:
        program: (j,) index of the program of each job.
        arrival_s: (j,) times of arrival, in seconds.
        alone_s: (j,) duration alone on the best machine type, in seconds.
        seed: seed of what happens to a job over time, whoever places it.
    """

    program: Ints
    arrival_s: Floats
    alone_s: Floats
    seed: int


@dataclass(frozen=True, eq=False)
class CrowdedWorld:
    """One draw.

    Attributes:
        known: programs that were measured everywhere, whoever arrives.
        profiled: (p,) whether a program has been profiled before the run.
    """

    name: str
    rules: Rules
    machines: MachineTypes
    programs: Programs
    known: Programs
    profiled: Ints
    jobs: JobDraws
    seed: int


def drawn_world(
    name: str, seed: int, changed: Rules | None = None, arrivals_s: Floats | None = None
) -> CrowdedWorld:
    """Draw a world.

    Args:
        changed: rules of an ablation; None for the rules of the world.
        arrivals_s: (j,) times of arrival, in seconds, rising; None for a Poisson process by the load.

    Raises:
        InputError: for an unknown name, or times that fall.
    """
    if name not in rules.LOADS:
        raise InputError(f"no load {name!r}; known: {', '.join(rules.LOADS)}", where="crowded world")
    rng = np.random.default_rng([seed, 33])
    found = changed or Rules()
    types = rng.choice(len(MACHINE_TYPES), rules.TYPES, replace=False)
    cores = rng.permutation(np.resize(rules.CORES, rules.TYPES)).astype(np.float64)
    memory_gb = cores * rng.permutation(np.resize(rules.GB_PER_CORE, rules.TYPES))
    quality = np.exp(rng.normal(0, rules.SPREAD_OF_CAPACITY, (rules.TYPES, len(RESOURCES))))
    capacity = quality * (cores / rules.CORES_OF_REFERENCE)[:, None]
    machines = MachineTypes(tuple(MACHINE_TYPES[one] for one in types), cores, memory_gb, capacity)
    programs, known = drawn_programs(rng, types, found.unlikeness)
    popularity = 1.0 / np.arange(1, rules.PROGRAMS + 1)
    count = rules.JOBS if arrivals_s is None else len(arrivals_s)
    program = rng.choice(rules.PROGRAMS, count, p=popularity / popularity.sum())
    alone_s = rules.MEDIAN_S * np.exp(rng.normal(0, rules.SPREAD_OF_DURATIONS, count))
    gaps = rng.exponential(1.0, count)
    if arrivals_s is None:
        typical_s = alone_s / np.exp(np.median(programs.log_speed, axis=1))[program]
        whole = float(cores.sum()) * rules.NODES_OF_TYPE
        span_s = float(programs.cores[program] @ typical_s) / (whole * rules.LOADS[name])
        arrivals_s = np.cumsum(gaps) * span_s / count
    elif len(arrivals_s) and (not np.isfinite(arrivals_s).all() or (np.diff(arrivals_s) < 0).any()):
        raise InputError("times of arrival must be finite and must not fall", where="arrivals")
    profiled = (np.arange(rules.PROGRAMS) < rules.PROGRAMS // 2).astype(np.int64)
    jobs = JobDraws(program, arrivals_s, alone_s, seed)
    return CrowdedWorld(name, found, machines, programs, known, profiled, jobs, seed)
