"""Judgement of a model on a trace, or on the part of a trace that it was not trained on.

Two parts are judged where a model was trained on the trace itself: every second of `STRETCHES` stretches,
which asks whether the model describes the workload, and the later half, which asks in addition whether the
workload stayed as it was. Beside each error stand the distance of the trained part itself, which no model
of that part can be expected to beat, and the distance that two parts of as many I/Os have by chance, which
no way to cut the trace can be expected to beat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.storage.model.baselines import BASELINES, baseline
from kwiken.storage.model.document import StorageModel, digest_of
from kwiken.storage.model.gap_laws import ks_distance
from kwiken.storage.model.generator import IODrawing, generate
from kwiken.storage.model.training import train
from kwiken.storage.trace import BlockTrace, block_accesses, hit_ratios

STRETCHES: Final = 100  # of a trace, every second of which is trained on
RUNS: Final = 32  # drawn traces whose mean is judged
SHUFFLES: Final = 2000  # of the I/Os of a trace, after which it is cut in two
BY_CHANCE: Final = 0.95  # quantile of the distance of two parts over those
CACHES: Final = (0.01, 0.05, 0.20)  # sizes of LRU caches, as shares of the touched blocks
MIN_JUDGED: Final = 100  # I/Os of a part
SPLITS: Final = ("alternate", "later")


@dataclass(frozen=True, eq=False)
class TraceFeatures:
    """What a trace is like.

    Attributes:
        quarters: (4,) share of the I/Os in each quarter of the addressed space.
        states: (v * 4,) share of the I/Os in each quarter of each volume.
        sizes: (k,) share of the I/Os of each size.
        read: share of reads.
        sequential: share of I/Os that go on where their stream's last one ended.
        hits: (3,) share of block accesses that LRU caches of `CACHES` serve.
        gap_ms: mean gap, milliseconds.
        gap_spread: coefficient of variation of the gaps, a ratio.
        gaps_ms: (n - 1,) all gaps, milliseconds.
    """

    quarters: Floats
    states: Floats
    sizes: Floats
    read: float
    sequential: float
    hits: Floats
    gap_ms: float
    gap_spread: float
    gaps_ms: Floats


@dataclass(frozen=True)
class JudgedFeature:
    """One feature of a model's trace beside that of the judged part.

    Attributes:
        name: feature with its unit.
        trained: value of the part that was trained on; None where the model came from another trace.
        judged: value of the judged part.
        generated: mean value of the drawn traces.
        error: distance of the drawn traces from the judged part.
        apart: distance of the trained part from the judged part; None where it is not known.
        by_chance: distance that two parts of as many I/Os exceed in 5 of 100 cases if the I/Os of the trace
            come in random order; None where order matters, or the trained part is not known.
        bound: largest error that is right; None where none is set.
        others: error of each baseline, in their order.
    """

    name: str
    trained: float | None
    judged: float
    generated: float
    error: float
    apart: float | None
    by_chance: float | None
    bound: float | None
    others: tuple[float, ...]


@dataclass(frozen=True)
class StorageJudgement:
    """Judgement on one part of a trace.

    Attributes:
        part: name of the judged part.
        trained_ios: number of I/Os that were trained on; 0 for those of another trace.
        judged_ios: number of I/Os that were judged on.
        states: number of states of the model.
        features: features, each with its error.
        nearness: mean of error over bound, of the model first and then of each baseline; lower is nearer.
    """

    part: str
    trained_ios: int
    judged_ios: int
    states: int
    features: tuple[JudgedFeature, ...]
    nearness: tuple[float, ...]


def judge(trace: BlockTrace, model: StorageModel, rng: np.random.Generator) -> list[StorageJudgement]:
    """Judge a model on a trace that it was not trained on, or anew on parts of the one that it was.

    Raises:
        InputError: too few I/Os to judge on.
    """
    if model.trained.digest != digest_of(trace):
        return [_judged("the whole trace", None, trace, trace, model, rng)]
    found = []
    for split in SPLITS:
        trained, held = halves(trace, split)
        again = train(trained, levels=model.trained.levels, window_s=model.window_s)
        found.append(_judged(PARTS[split], trained, held, trace, again, rng))
    return found


PARTS: Final = {
    "alternate": f"every second of {STRETCHES} stretches",
    "later": "the later half",
}


def halves(trace: BlockTrace, split: str) -> tuple[BlockTrace, BlockTrace]:
    """Part to train on and part to judge on.

    Args:
        split: how the trace is cut, one of `SPLITS`.

    Raises:
        InputError: too few I/Os to judge on.
    """
    count = len(trace)
    if count < 2 * MIN_JUDGED:
        raise InputError(
            f"holds {count} I/Os; to train on one half and judge on the other, {2 * MIN_JUDGED} are needed",
            where="trace",
        )
    stretch = np.arange(count) * (2 if split == "later" else STRETCHES) // count
    return _part(trace, stretch, 0), _part(trace, stretch, 1)


def _part(trace: BlockTrace, stretch: Ints, odd: int) -> BlockTrace:
    """Every second stretch; the time that passes in the others is left out."""
    chosen = np.flatnonzero(stretch % 2 == odd)
    found = trace.taken(chosen)
    gaps = np.diff(found.t_s)
    inside = np.diff(chosen) == 1
    if inside.any():
        gaps = np.where(inside, gaps, gaps[inside].mean())
    return replace(found, t_s=np.concatenate(([0.0], np.cumsum(gaps))))


def features_of(trace: BlockTrace, whole: BlockTrace) -> TraceFeatures:
    """Features of a trace, with states and sizes as those of another, which holds it.

    Args:
        whole: trace whose addressed ranges and sizes count; volumes are matched by name.
    """
    index = {name: number for number, name in enumerate(whole.volumes)}
    volume = np.array([index.get(name, -1) for name in trace.volumes])[trace.volume]
    known = volume >= 0
    low = np.full(len(whole.volumes), np.iinfo(np.int64).max)
    high = np.zeros(len(whole.volumes), dtype=np.int64)
    np.minimum.at(low, whole.volume, whole.start)
    np.maximum.at(high, whole.volume, whole.end)
    gaps = np.diff(trace.t_s) * 1e3
    sizes = np.unique(whole.size)
    of_size = np.searchsorted(sizes, trace.size)
    exact = (of_size < len(sizes)) & (sizes[np.minimum(of_size, len(sizes) - 1)] == trace.size)
    own = _quarter(trace.start[known], low[volume[known]], high[volume[known]])
    mean = float(gaps.mean()) if len(gaps) else 0.0
    return TraceFeatures(
        quarters=np.bincount(_quarter(trace.start, low.min(), high.max()), minlength=4) / len(trace),
        states=np.bincount(volume[known] * 4 + own, minlength=4 * len(index)) / len(trace),
        sizes=np.bincount(of_size[exact], minlength=len(sizes)) / len(trace),
        read=float(trace.read.mean()),
        sequential=float(trace.sequential.mean()),
        hits=hit_ratios(block_accesses(trace)[0], np.array(CACHES)),
        gap_ms=mean,
        gap_spread=float(gaps.std()) / mean if mean > 0 else 0.0,
        gaps_ms=gaps,
    )


def _quarter(start: Ints, low: Ints | int, high: Ints | int) -> Ints:
    width = np.maximum(np.asarray(high - low), 1)
    found: Ints = np.clip(4 * ((start - low) / width), 0, 3).astype(np.int64)
    return found


def _judged(
    part: str,
    trained: BlockTrace | None,
    held: BlockTrace,
    whole: BlockTrace,
    model: StorageModel,
    rng: np.random.Generator,
) -> StorageJudgement:
    if len(held) < MIN_JUDGED:
        raise InputError(f"holds {len(held)} I/Os; a judgement needs {MIN_JUDGED} or more", where="trace")
    drawing = IODrawing(ios=len(held))
    drawn = [features_of(generate(model, rng, drawing), whole) for _ in range(RUNS)]
    known = held if trained is None else trained
    rivals = [
        [features_of(baseline(name, known, len(held), rng), whole) for _ in range(RUNS)] for name in BASELINES
    ]
    right = features_of(held, whole)
    before = None if trained is None else features_of(trained, whole)
    chance = _Chance(0 if trained is None else len(trained), len(held), rng)
    features = tuple(_compared(right, before, [drawn, *rivals], chance))
    bounded = [each for each in features if each.bound]
    nearness = tuple(
        float(
            np.mean([each / found.bound for each, found in zip(errors, bounded, strict=True) if found.bound])
        )
        for errors in zip(*((each.error, *each.others) for each in bounded), strict=True)
    )
    return StorageJudgement(
        part, 0 if trained is None else len(trained), len(held), model.states, features, nearness
    )


ORDERLESS: Final = ("read share, %", "sequential share, %")  # shares of I/Os, whatever their order


def _scalars() -> list[tuple[str, Callable[[TraceFeatures], float], float, float | None]]:
    """Features that are one number: name, how to read it, factor of its unit, and largest error."""

    def hits_of(at: int) -> Callable[[TraceFeatures], float]:
        return lambda each: float(each.hits[at])

    return [
        ("read share, %", lambda each: each.read, 100.0, 1.0),
        ("sequential share, %", lambda each: each.sequential, 100.0, 2.0),
        *(
            (f"hits of an LRU cache of {100 * share:g}%, %", hits_of(at), 100.0, 5.0)
            for at, share in enumerate(CACHES)
        ),
        ("mean gap, ms", lambda each: each.gap_ms, 1.0, None),
        ("coefficient of variation of gaps", lambda each: each.gap_spread, 1.0, None),
    ]


@dataclass(frozen=True)
class _Chance:
    """How far two parts of a trace are apart by chance: their numbers of I/Os, and the source of shuffles."""

    trained: int
    judged: int
    rng: np.random.Generator

    def distance(self, trained: Floats, judged: Floats) -> float:
        """Largest difference of a share, points, that few shuffled traces exceed.

        Args:
            trained: (k,) share of the trained part's I/Os of each kind.
            judged: (k,) share of the judged part's.
        """
        counts = np.rint(trained * self.trained + judged * self.judged).astype(np.int64)
        first = self.rng.multivariate_hypergeometric(counts, self.trained, size=SHUFFLES, method="marginals")
        apart = np.abs(first / self.trained - (counts - first) / self.judged).max(axis=1)
        return 100 * float(np.quantile(apart, BY_CHANCE))


def _compared(
    right: TraceFeatures, before: TraceFeatures | None, drawn: list[list[TraceFeatures]], chance: _Chance
) -> list[JudgedFeature]:
    """Features with their errors, in points of a percent where they are shares."""
    found = []
    for name, field, bound in (
        ("largest difference of a quarter, points", "quarters", 1.0),
        ("largest difference of a state, points", "states", 1.0),
        ("largest difference of a size, points", "sizes", 1.0),
    ):
        means = [np.mean([getattr(each, field) for each in runs], axis=0) for runs in drawn]
        wanted = getattr(right, field)
        errors = [100 * float(np.abs(mean - wanted).max()) for mean in means]
        at = int(np.abs(means[0] - wanted).argmax())
        old = None if before is None else getattr(before, field)
        found.append(
            JudgedFeature(
                name,
                None if old is None else 100 * float(old[at]),
                100 * float(wanted[at]),
                100 * float(means[0][at]),
                errors[0],
                None if old is None else 100 * float(np.abs(old - wanted).max()),
                None if old is None else chance.distance(old, wanted),
                bound,
                tuple(errors[1:]),
            )
        )
    for name, pick, scale, limit in _scalars():
        means = [scale * float(np.mean([pick(each) for each in runs])) for runs in drawn]
        wanted = scale * float(pick(right))
        old = None if before is None else scale * float(pick(before))
        found.append(
            JudgedFeature(
                name,
                old,
                wanted,
                means[0],
                abs(means[0] - wanted),
                None if old is None else abs(old - wanted),
                None
                if before is None or name not in ORDERLESS
                else chance.distance(*(np.array([pick(each), 1 - pick(each)]) for each in (before, right))),
                limit,
                tuple(abs(mean - wanted) for mean in means[1:]),
            )
        )
    distances = [
        float(np.mean([ks_distance(right.gaps_ms, each.gaps_ms) for each in runs])) for runs in drawn
    ]
    old = None if before is None else ks_distance(right.gaps_ms, before.gaps_ms)
    found.append(
        JudgedFeature(
            "Kolmogorov-Smirnov distance of gaps",
            old,
            0.0,
            distances[0],
            distances[0],
            old,
            None,
            None,
            tuple(distances[1:]),
        )
    )
    return found
