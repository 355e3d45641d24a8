"""Behaviour of simulated workloads: the truth, and what a manager predicts from few measurements."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from kwiken.allocator.workloads.classification import first_columns
from kwiken.allocator.workloads.completion.gaussian import Completer, FoldIn
from kwiken.allocator.workloads.completion.selection import CompletionKind, candidates, choose
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure
from kwiken.base.arrays import Floats, Ints
from papers.worlds.fleet.generators import CONTENDED, NOISE

ENTRIES: Final = 2  # measurements of each new workload for each matrix, as the sources take
ENTRIES_AGAIN: Final = 4  # the same once a workload has been measured a second time
RIDGE: Final = 1e-3  # of the published factors
RANKS: Final = {"up": 3, "out": 2, "het": 2, "tolerated": 2, "caused": 2}  # of the published factors
ONE_AND_FOUR: Final = (0, 3)  # columns of one and four nodes, the most that the source profiles on
SCORES: Final = ("tolerated", "caused")


class Knowledge(StrEnum):
    """Knowledge of workloads that a scheduler is given.

    Attributes:
        TRUE: everything, exactly; no manager has that.
        PUBLISHED: two random entries a row, completed by factors as the sources do, taken as exact.
        CHOSEN: the two entries that tell most, completed by the method of least held-out error, with
            deviations.
    """

    TRUE = "true"
    PUBLISHED = "published"
    CHOSEN = "chosen"


@dataclass(frozen=True, eq=False, kw_only=True)
class Behaviour:
    """Behaviour of n workloads, as logarithms of relative performance and as scores.

    Attributes:
        base: (n,) performance of one replica of the reference size on the reference class, per second.
        up: (n, k) log performance by size.
        replicas: (m,) numbers of replicas.
        out: (n, m) log performance by number of replicas, relative to one.
        het: (n, c) log performance by class of the cluster.
        tolerated: (n, 10) pressure that costs 5%, a share, by contended source.
        caused: (n, 10) pressure that a replica exerts, a share, by contended source.
        deviations: standard deviations of the five arrays by name; a missing one is 0, in their units.
    """

    base: Floats
    up: Floats
    replicas: Ints
    out: Floats
    het: Floats
    tolerated: Floats
    caused: Floats
    deviations: dict[str, Floats]

    def part(self, first: int, end: int) -> Behaviour:
        """Some of the workloads."""
        rows = slice(first, end)
        return Behaviour(
            base=self.base[rows],
            up=self.up[rows],
            replicas=self.replicas,
            out=self.out[rows],
            het=self.het[rows],
            tolerated=self.tolerated[rows],
            caused=self.caused[rows],
            deviations={name: values[rows] for name, values in self.deviations.items()},
        )

    def profile(
        self, row: int, name: str, measure: Measure, sizes: tuple[Size, ...], classes: tuple[str, ...]
    ) -> WorkloadProfile:
        """Profile of one workload, as schedulers and the simulation read it.

        Args:
            sizes: (k,) sizes of a replica.
            classes: (c,) names of the classes.
        """

        def estimate(what: str) -> Estimate:
            mean = getattr(self, what)[row]
            deviation = self.deviations[what][row] if what in self.deviations else np.zeros(len(mean))
            return Estimate(mean, deviation)

        def spread(what: str, otherwise: float) -> Estimate:
            told = estimate(what)
            mean, deviation = np.full(len(SOURCES), otherwise), np.zeros(len(SOURCES))
            mean[list(CONTENDED)], deviation[list(CONTENDED)] = told.mean, told.deviation
            return Estimate(mean, deviation)

        return WorkloadProfile(
            name=name,
            measure=measure,
            base=float(self.base[row]),
            base_deviation=0.0,
            sizes=sizes,
            up=estimate("up"),
            replicas=self.replicas,
            out=estimate("out"),
            classes=classes,
            het=estimate("het"),
            tolerated=spread("tolerated", 1.0),
            caused=spread("caused", 0.0),
        )


def predicted(
    truth: Behaviour,
    known: Behaviour,
    knowledge: Knowledge,
    rng: np.random.Generator,
    entries: int = ENTRIES,
) -> Behaviour:
    """Predictions of workloads from a few measurements of each kind, with 2% noise.

    Args:
        known: true behaviour of the workloads that were measured everywhere, with the same columns.
        entries: number of measurements for each matrix, 1 or more; the scale-out always has one and four
            nodes.
    """
    if knowledge is Knowledge.TRUE:
        return truth
    means: dict[str, Floats] = {}
    deviations: dict[str, Floats] = {}
    for what in RANKS:
        rows, history = getattr(truth, what), getattr(known, what)
        if rows.shape[1] <= entries:  # measured everywhere: nothing to predict
            means[what] = rows
            continue
        clip = what in SCORES
        seen, past = (each + rng.normal(0, NOISE, each.shape) for each in (rows, history))
        if clip:
            seen, past = np.clip(seen, 0, 1), np.clip(past, 0, 1)
        if knowledge is Knowledge.PUBLISHED:
            means[what] = _published(what, seen, past, entries, rng)
        else:
            means[what], deviations[what] = _chosen(what, seen, past, entries, truth.replicas)
        if clip:
            means[what] = np.clip(means[what], 0, 1)
    measured = truth.base * np.exp(rng.normal(0, NOISE, truth.base.shape))
    # One replica is the unit of the curve over replicas.
    out = means["out"] - means["out"][:, :1]
    return Behaviour(
        base=measured,
        up=means["up"],
        replicas=truth.replicas,
        out=out,
        het=means["het"],
        tolerated=means["tolerated"],
        caused=means["caused"],
        deviations=deviations,
    )


def _published(what: str, seen: Floats, past: Floats, entries: int, rng: np.random.Generator) -> Floats:
    """(n, k) rows by factors of the known rows, each from a few random columns of its own."""
    model = FoldIn(RANKS[what], RIDGE).fit(past, level=what not in SCORES)
    found = np.empty_like(seen)
    for place, row in enumerate(seen):
        columns = (
            np.array(ONE_AND_FOUR)
            if what == "out"
            else rng.choice(seen.shape[1], entries, replace=False).astype(np.int64)
        )
        found[place] = model.complete(columns, row[columns]).mean
    return found


def _chosen(what: str, seen: Floats, past: Floats, entries: int, replicas: Ints) -> tuple[Floats, Floats]:
    """(n, k) rows and deviations by the method with the least held-out error, all from the same columns."""
    level = what not in SCORES
    columns = np.sort(np.array(ONE_AND_FOUR) if what == "out" else first_columns(past, entries, level=level))
    counts = tuple(replicas.tolist()) if what == "out" else None
    methods: tuple[Completer, ...] = candidates(counts, CompletionKind.GAUSSIAN)
    found = choose(past, columns, methods, level=level)
    means, deviations = found.model.predict(columns, seen[:, columns])
    return means, found.scale * deviations
