"""Knowledge of a manager in a crowded world: few noisy measurements of programs, completed."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np

from kwiken.allocator.workloads.classification import first_columns
from kwiken.allocator.workloads.completion.gaussian import FoldIn
from kwiken.allocator.workloads.completion.selection import candidates, choose
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure
from kwiken.base.arrays import Floats, Ints
from papers.worlds.crowded.truth.draw import CrowdedWorld
from papers.worlds.crowded.truth.programs import RESOURCES, Programs
from papers.worlds.crowded.truth.rules import BASE_OVER_PEAK, NODES_OF_SET

RANK: Final = 2  # of the published factors
RIDGE: Final = 1e-3
ENTRIES: Final = (2, 4)  # at the first look at a program, and in all after the second
# Scores that are completed, as positions in SOURCES; the processor has none, and memory is read, not probed.
SCORED: Final = tuple(SOURCES.index(name) for name in RESOURCES)
MEMORY: Final = SOURCES.index("memory-capacity")


class Insight(StrEnum):
    """Way of measuring programs: which entries, and with which noise.

    Attributes:
        EXACT: every entry, without noise; the schedulers' model of them may still be wrong.
        RANDOM: random entries, completed by factors and taken as exact, as the source does.
        CHOSEN: the entries that tell most, completed by the method with the least held-out error, with
            deviations.
    """

    EXACT = "exact"
    RANDOM = "random"
    CHOSEN = "chosen"


class ProgramProfiles:
    """Profiles of all programs of a world after one look and after two.

    Args:
        rng: noise of measurements, and random entries.

    Attributes:
        set_types: (4,) machine types that one profiling set has a node of.
    """

    def __init__(self, world: CrowdedWorld, insight: Insight, rng: np.random.Generator) -> None:
        self._world = world
        self._rows: list[list[Floats]] = []  # by look: of speeds, tolerated and caused scores
        self._deviations: list[list[Floats]] = []
        noise, largest = world.rules.noise, world.machines.largest
        log, known_log = (
            each.log_speed + rng.normal(0, noise, each.log_speed.shape)
            for each in (world.programs, world.known)
        )
        others = np.setdiff1d(np.arange(log.shape[1]), [largest])
        if insight is Insight.CHOSEN:
            self.set_types = _designed(known_log, NODES_OF_SET, largest)
        else:
            drawn = rng.choice(others, NODES_OF_SET - 1, replace=False)
            self.set_types = np.concatenate(([largest], drawn)).astype(np.int64)
        if insight is Insight.EXACT:
            exact = [world.programs.log_speed, *scores(world, world.programs)]
            self._rows = [exact, exact]
            self._deviations = [[np.zeros_like(one) for one in exact]] * 2
            return
        tables = [(True, log, known_log)]
        for new, known in zip(scores(world, world.programs), scores(world, world.known), strict=True):
            seen, past = (np.clip(one + rng.normal(0, noise, one.shape), 0, 1) for one in (new, known))
            tables.append((False, seen, past))
        for entries in ENTRIES:
            found = [self._completed(*table, insight, entries, rng) for table in tables]
            self._rows.append([mean for mean, _ in found])
            self._deviations.append([deviation for _, deviation in found])

    def profile(self, program: int, look: int) -> WorkloadProfile:
        """Predictions of a program.

        Args:
            look: 0 after the first look at it, 1 after the second.
        """
        world = self._world
        het, tolerated, caused = (
            Estimate(mean[program], deviation[program])
            for mean, deviation in zip(self._rows[look], self._deviations[look], strict=True)
        )
        held_gb = BASE_OVER_PEAK * float(world.programs.peak_gb[program])
        whole_gb = float(world.machines.memory_gb[world.machines.largest])
        return _profile(
            world,
            program,
            het,
            _over_sources(tolerated, 1.0, 1.0),
            _over_sources(caused, 0.0, min(1.0, held_gb / whole_gb)),
        )

    def _completed(
        self,
        level: bool,  # noqa: FBT001 - whether rows have an unknown level
        seen: Floats,
        known: Floats,
        insight: Insight,
        entries: int,
        rng: np.random.Generator,
    ) -> tuple[Floats, Floats]:
        """(p, n) rows of all programs and their deviations, from some entries of each."""
        if insight is Insight.CHOSEN:
            largest = self._world.machines.largest
            columns = (
                _designed(known, entries, largest) if level else first_columns(known, entries, level=False)
            )
            columns = np.sort(columns)
            found = choose(known, columns, candidates(None), level=level)
            means, deviations = found.model.predict(columns, seen[:, columns])
            return means, found.scale * deviations
        model = FoldIn(RANK, RIDGE).fit(known, level=level)
        means = np.empty_like(seen)
        for place, row in enumerate(seen):
            pool = self.set_types if level else np.arange(seen.shape[1])
            own = rng.choice(pool, entries, replace=False).astype(np.int64)
            means[place] = model.complete(own, row[own]).mean
        return means, np.zeros_like(means)


def scores(world: CrowdedWorld, programs: Programs) -> tuple[Floats, Floats]:
    """Two arrays (p, r): pressure tolerated and caused, measured on a node of the largest type."""
    return programs.tolerated, programs.caused(world.machines.capacity[world.machines.largest])


def unknown_profile(world: CrowdedWorld, program: int) -> WorkloadProfile:
    """Profile of a program of which nothing is known but its reservation."""
    types, none = np.zeros(len(world.machines.names)), np.zeros(len(SOURCES))
    return _profile(world, program, Estimate(types, types), Estimate(none + 1.0, none), Estimate(none, none))


def _designed(known: Floats, entries: int, given: int) -> Ints:
    """Columns whose entries tell most, a given one among them."""
    found = first_columns(known, entries, level=True, given=np.array([given], dtype=np.int64))
    return np.asarray(found, dtype=np.int64)


def _over_sources(scored: Estimate, otherwise: float, memory: float) -> Estimate:
    """Scores over all sources of contention, from those of the resources that are probed."""
    mean, deviation = np.full(len(SOURCES), otherwise), np.zeros(len(SOURCES))
    mean[MEMORY] = memory
    mean[list(SCORED)], deviation[list(SCORED)] = np.clip(scored.mean, 0, 1), scored.deviation
    return Estimate(mean, deviation)


def _profile(
    world: CrowdedWorld, program: int, het: Estimate, tolerated: Estimate, caused: Estimate
) -> WorkloadProfile:
    """Profile of one replica of the reserved size; performance is a share of that on the best type."""
    size = Size(float(world.programs.cores[program]), float(world.programs.memory_gb[program]))
    one = Estimate(np.zeros(1), np.zeros(1))
    return WorkloadProfile(
        name=f"program-{program}",
        measure=Measure.IPS,
        base=1.0,
        base_deviation=0.0,
        sizes=(size,),
        up=one,
        replicas=np.array([1]),
        out=one,
        classes=world.machines.names,
        het=het,
        tolerated=tolerated,
        caused=caused,
    )
