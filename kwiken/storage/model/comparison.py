"""Judgement of a model on a trace, or on parts of a trace that it was not trained on.

A trace that a model was trained on is cut: into every second slice, at four phases, which asks whether the
model describes the workload, and into the earlier and the later half, which asks in addition whether the
workload stayed as it was. Beside each error stand the model's own error, which is its distance from the part
that it was trained on, the distance of the two parts, which no model of the one part can be expected to beat,
and the distance that two parts of as many I/Os have by chance, which no way to cut can be expected to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.storage.model.baselines import BASELINES, baseline
from kwiken.storage.model.document import StorageModel, digest_of
from kwiken.storage.model.gap_laws import ks_distance
from kwiken.storage.model.generator import IODrawing, generate, tree_of
from kwiken.storage.model.slices import MIN_JUDGED, cuts, quarter_of, ranges_of
from kwiken.storage.model.states import BRANCHES
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace
from kwiken.storage.trace.stack_distance import block_accesses, hit_ratios

RUNS: Final = 32  # drawn traces whose mean is judged
SHUFFLES: Final = 500  # of the I/Os of a trace, after which it is cut in two
BY_CHANCE: Final = 0.95  # quantile of the distance of two parts over those
BEYOND: Final = 3.0  # standard errors over seeds, above which a difference of distances is no chance
MEASURES: Final = (
    "mean of drawn traces, features with a bound",
    "one drawn trace, features with a bound",
    "mean of drawn traces, gaps and staying too",
    "one drawn trace, gaps and staying too",
)
CACHES: Final = (0.01, 0.05, 0.20)  # sizes of LRU caches, as shares of the touched blocks


@dataclass(frozen=True, eq=False)
class TraceFeatures:
    """What a trace is like.

    Attributes:
        quarters: (4,) share of the I/Os in each quarter of the addressed space.
        firsts: (v * 4,) share of the I/Os in each quarter of each volume, the states of level 1.
        states: (s,) share of the I/Os in each state of the model.
        sizes: (k,) share of the I/Os of each size.
        read: share of reads.
        sequential: share of I/Os that go on where their stream's last one ended.
        stays: share of I/Os in the state of level 1 of the one before on their volume.
        hits: (3,) share of block accesses that LRU caches of `CACHES` serve.
        gap_ms: mean gap, milliseconds.
        gap_spread: coefficient of variation of the gaps, a ratio.
        gaps_ms: (n - 1,) all gaps, milliseconds.
    """

    quarters: Floats
    firsts: Floats
    states: Floats
    sizes: Floats
    read: float
    sequential: float
    stays: float
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
        own: distance of the drawn traces from the trained part, the model's own error; None where that part
            is not known.
        apart: distance of the trained part from the judged part; None where it is not known.
        by_chance: distance that two parts of as many I/Os exceed in 5 of 100 cases if the I/Os of the trace
            come in random order; None where order matters, or the trained part is not known.
        holds_by_chance: share of such cases in which two parts are within the bound; None likewise, or
            where no bound is set.
        bound: largest error that is right; None where none is set.
        others: error of each baseline, in their order.
    """

    name: str
    trained: float | None
    judged: float
    generated: float
    error: float
    own: float | None
    apart: float | None
    by_chance: float | None
    holds_by_chance: float | None
    bound: float | None
    others: tuple[float, ...]


@dataclass(frozen=True)
class Nearness:
    """Distance of generators from the judged part: mean of error over bound, where lower is nearer.

    Attributes:
        measure: what the distance is of, one of `MEASURES`.
        distances: distance of the model first and then of each baseline.
        uncertainty: standard error of each distance over seeds of the generators.
    """

    measure: str
    distances: tuple[float, ...]
    uncertainty: tuple[float, ...]


@dataclass(frozen=True)
class NearnessVerdict:
    """The generator that is nearest over all cuts, as far as seeds of the generators can tell.

    Attributes:
        measure: what distances are of, one of `MEASURES`.
        rival: place among the baselines of the nearest one, over all cuts.
        difference: mean over cuts of the rival's distance less the model's; above 0 the model is nearer.
        chance: `BEYOND` standard errors of that difference.
        nearer_cuts: number of cuts in which the model is nearer by more than chance.
        farther_cuts: number of cuts in which the rival is nearer by more than chance.
    """

    measure: str
    rival: int
    difference: float
    chance: float
    nearer_cuts: int
    farther_cuts: int


@dataclass(frozen=True)
class StorageJudgement:
    """Judgement on one part of a trace.

    Attributes:
        part: name of the judged part.
        trained_ios: number of I/Os that were trained on; 0 for those of another trace.
        judged_ios: number of I/Os that were judged on.
        states: number of states of the model.
        features: features, each with its error.
        nearness: distance of the model and of each baseline by each of `MEASURES`.
    """

    part: str
    trained_ios: int
    judged_ios: int
    states: int
    features: tuple[JudgedFeature, ...]
    nearness: tuple[Nearness, ...]


def judge(trace: BlockTrace, model: StorageModel, rng: np.random.Generator) -> list[StorageJudgement]:
    """Judge a model on a trace that it was not trained on, or anew on parts of the one that it was.

    Raises:
        InputError: too few I/Os to judge on.
    """
    if model.trained.digest != digest_of(trace):
        return [_judged("the whole trace", None, trace, trace, model, rng)]
    found = []
    for name, trained, held in cuts(trace):
        again = train(trained, levels=model.trained.levels, window_s=model.window_s)
        found.append(_judged(name, trained, held, trace, again, rng.spawn(1)[0]))
    return found


def features_of(trace: BlockTrace, whole: BlockTrace, model: StorageModel) -> TraceFeatures:
    """Features of a trace, with ranges, sizes and states as those of others.

    Args:
        whole: trace whose addressed ranges and sizes count; volumes are matched by name.
        model: model whose states count.
    """
    index = {name: number for number, name in enumerate(whole.volumes)}
    volume = np.array([index.get(name, -1) for name in trace.volumes])[trace.volume]
    known = np.flatnonzero(volume >= 0)
    low, high = ranges_of(whole)
    gaps = np.diff(trace.t_s) * 1e3
    sizes = np.unique(whole.size)
    of_size = np.searchsorted(sizes, trace.size)
    exact = (of_size < len(sizes)) & (sizes[np.minimum(of_size, len(sizes) - 1)] == trace.size)
    first = volume[known] * BRANCHES + quarter_of(trace.start[known], low[volume[known]], high[volume[known]])
    quarter = quarter_of(trace.start, int(low.min()), int(high.max()))
    mean = float(gaps.mean()) if len(gaps) else 0.0
    return TraceFeatures(
        quarters=np.bincount(quarter, minlength=BRANCHES) / len(trace),
        firsts=np.bincount(first, minlength=BRANCHES * len(index)) / len(trace),
        states=_shares_of_states(trace, model),
        sizes=np.bincount(of_size[exact], minlength=len(sizes)) / len(trace),
        read=float(trace.read.mean()),
        sequential=float(trace.sequential.mean()),
        stays=_stays(volume[known], first),
        hits=hit_ratios(block_accesses(trace)[0], np.array(CACHES)),
        gap_ms=mean,
        gap_spread=float(gaps.std()) / mean if mean > 0 else 0.0,
        gaps_ms=gaps,
    )


def _stays(volume: Ints, first: Ints) -> float:
    order = np.argsort(volume, kind="stable")
    same = first[order[1:]] == first[order[:-1]]
    return float(same.sum() / max(len(order), 1))


def _shares_of_states(trace: BlockTrace, model: StorageModel) -> Floats:
    """(s,) share of the I/Os in each state of all of a model's volumes, which are matched by name."""
    index = {name: number for number, name in enumerate(trace.volumes)}
    found = []
    for volume in model.volumes:
        tree = tree_of(volume)
        for name in volume.names:
            start = trace.start[trace.volume == index.get(name, -1)]
            found.append(np.bincount(tree.leaf_of(start), minlength=len(tree)))
    shares: Floats = np.concatenate(found) / len(trace)
    return shares


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
    drawn = [features_of(generate(model, rng, drawing), whole, model) for _ in range(RUNS)]
    # A model of another trace stands for the trace: drawn I/Os have its sizes, shares and states to the last.
    known = generate(model, rng) if trained is None else trained
    fitted = features_of(known, whole, model)
    rivals = []
    for name in BASELINES:
        setting = _nearest_setting(name, known, fitted, whole, model, rng)
        traces = (baseline(name, setting, known, len(held), rng) for _ in range(RUNS))
        rivals.append([features_of(each, whole, model) for each in traces])
    right = features_of(held, whole, model)
    before = None if trained is None else fitted
    chance = _Chance(0 if trained is None else len(trained), len(held), rng)
    features = tuple(_compared(right, before, [drawn, *rivals], chance))
    return StorageJudgement(
        part,
        0 if trained is None else len(trained),
        len(held),
        model.states,
        features,
        tuple(_nearness(right, [drawn, *rivals])),
    )


def nearest(found: list[StorageJudgement]) -> list[NearnessVerdict]:
    """Which generator is nearest over some cuts, by each measure."""
    verdicts = []
    for number, measure in enumerate(MEASURES):
        distances = np.array([cut.nearness[number].distances for cut in found])
        errors = np.array([cut.nearness[number].uncertainty for cut in found])
        rival = int(distances[:, 1:].mean(axis=0).argmin())
        difference = distances[:, 1 + rival] - distances[:, 0]
        chance = BEYOND * np.hypot(errors[:, 0], errors[:, 1 + rival])
        verdicts.append(
            NearnessVerdict(
                measure,
                rival,
                float(difference.mean()),
                float(np.sqrt((chance**2).sum()) / len(found)),
                int((difference > chance).sum()),
                int((-difference > chance).sum()),
            )
        )
    return verdicts


def _nearness(right: TraceFeatures, drawn: list[list[TraceFeatures]]) -> list[Nearness]:
    """Distances of the runs of each generator by each measure."""
    found = np.array([_distances_of(right, runs) for runs in drawn])
    return [
        Nearness(measure, tuple(found[:, number, 0].tolist()), tuple(found[:, number, 1].tolist()))
        for number, measure in enumerate(MEASURES)
    ]


def _distances_of(right: TraceFeatures, runs: list[TraceFeatures]) -> Floats:
    """(m, 2) distance of some drawn traces by each measure, and its standard error."""
    count = len(runs)
    gaps = np.array([ks_distance(right.gaps_ms, each.gaps_ms) for each in runs]) / GAPS_YARD
    columns = [
        (np.array([getattr(each, field) for each in runs]), getattr(right, field), limit / 100)
        for _, field, limit in SHARES
    ]
    ordered = []
    for name, pick, scale, limit in _scalars():
        wanted = float(pick(right))
        values = np.array([[float(pick(each))] for each in runs])
        if limit is None:
            ordered.append((values, wanted, ORDER_YARDS[name] or YARD_SHARE * max(abs(wanted), 1e-300)))
        else:
            columns.append((values, wanted, limit / scale))

    def ratios(parts: Sequence[tuple[Floats, Floats | float, float]], weights: Floats) -> Floats:
        """(k, f) error over yardstick of each feature in the weighted means of the runs."""
        return np.stack(
            [np.abs(weights @ values - wanted).max(axis=1) / yard for values, wanted, yard in parts], axis=1
        )

    def each_way(weights: Floats) -> tuple[Floats, Floats]:
        bounded = ratios(columns, weights)
        with_order = np.hstack((bounded, ratios(ordered, weights), (weights @ gaps)[:, None]))
        return bounded.mean(axis=1), with_order.mean(axis=1)

    whole = each_way(np.full((1, count), 1 / count))
    single = each_way(np.eye(count))
    # The mean of the traces has one distance only: its error is that of the jackknife (Tukey 1958).
    without = each_way((1 - np.eye(count)) / (count - 1)) if count > 1 else whole
    found = []
    for mean, own, left in zip(whole, single, without, strict=True):
        found.append((float(mean[0]), float(((left - left.mean()) ** 2).sum() * (count - 1) / count) ** 0.5))
        found.append((float(own.mean()), float(own.std(ddof=1)) / count**0.5 if count > 1 else 0.0))
    return np.array(found)


def _nearest_setting(
    name: str,
    known: BlockTrace,
    fitted: TraceFeatures,
    whole: BlockTrace,
    model: StorageModel,
    rng: np.random.Generator,
) -> float:
    """Setting of a baseline whose traces are nearest to the part that it may know."""
    settings = BASELINES[name]
    if len(settings) == 1:
        return settings[0]
    drawn = [[features_of(baseline(name, each, known, len(known), rng), whole, model)] for each in settings]
    return settings[int(np.argmin(_nearness(fitted, drawn)[0].distances))]


SHARES: Final = (  # features that are many shares: name, field, largest error of one of them
    ("largest difference of a quarter, points", "quarters", 1.0),
    ("largest difference of a state of level 1, points", "firsts", 1.0),
    ("largest difference of a state of the model, points", "states", 1.0),
    ("largest difference of a size, points", "sizes", 1.0),
)
# Yardsticks of features without a bound, for the measures that count them: points as of the sequential share,
# a part of the judged value, and a distance of Kolmogorov-Smirnov.
ORDER_YARDS: Final[dict[str, float | None]] = {
    "I/Os in the state of the one before on their volume, %": 0.02,
    "mean gap, ms": None,
    "coefficient of variation of gaps": None,
}
YARD_SHARE: Final = 0.05
GAPS_YARD: Final = 0.05
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
        ("I/Os in the state of the one before on their volume, %", lambda each: each.stays, 100.0, None),
        ("mean gap, ms", lambda each: each.gap_ms, 1.0, None),
        ("coefficient of variation of gaps", lambda each: each.gap_spread, 1.0, None),
    ]


@dataclass(frozen=True)
class _Chance:
    """How far two parts of a trace are apart by chance: their numbers of I/Os, and the source of shuffles."""

    trained: int
    judged: int
    rng: np.random.Generator

    def distances(self, trained: Floats, judged: Floats) -> Floats:
        """(n,) largest difference of a share between two parts of shuffled I/Os, points.

        Args:
            trained: (k,) share of the trained part's I/Os of each kind.
            judged: (k,) share of the judged part's.
        """
        counts = np.rint(trained * self.trained + judged * self.judged).astype(np.int64)
        first = self.rng.multivariate_hypergeometric(counts, self.trained, size=SHUFFLES, method="marginals")
        apart: Floats = 100 * np.abs(first / self.trained - (counts - first) / self.judged).max(axis=1)
        return apart


def _compared(
    right: TraceFeatures, before: TraceFeatures | None, drawn: list[list[TraceFeatures]], chance: _Chance
) -> list[JudgedFeature]:
    """Features with their errors, in points of a percent where they are shares."""
    found = []
    for name, field, bound in SHARES:
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
                None if old is None else 100 * float(np.abs(means[0] - old).max()),
                None if old is None else 100 * float(np.abs(old - wanted).max()),
                *_by_chance(None if old is None else chance.distances(old, wanted), bound),
                bound,
                tuple(errors[1:]),
            )
        )
    for name, pick, scale, limit in _scalars():
        values = [scale * float(np.mean([pick(each) for each in runs])) for runs in drawn]
        wanted = scale * float(pick(right))
        old = None if before is None else scale * float(pick(before))
        shuffled = None
        if before is not None and name in ORDERLESS:
            shuffled = chance.distances(*(np.array([pick(each), 1 - pick(each)]) for each in (before, right)))
        found.append(
            JudgedFeature(
                name,
                old,
                wanted,
                values[0],
                abs(values[0] - wanted),
                None if old is None else abs(values[0] - old),
                None if old is None else abs(old - wanted),
                *_by_chance(shuffled, limit),
                limit,
                tuple(abs(value - wanted) for value in values[1:]),
            )
        )
    found.append(_gaps_compared(right, before, drawn))
    return found


def _by_chance(apart: Floats | None, bound: float | None) -> tuple[float | None, float | None]:
    """Distance that few shuffled parts exceed, and share of them that are within a bound."""
    if apart is None:
        return None, None
    return float(np.quantile(apart, BY_CHANCE)), None if bound is None else float((apart <= bound).mean())


def _gaps_compared(
    right: TraceFeatures, before: TraceFeatures | None, drawn: list[list[TraceFeatures]]
) -> JudgedFeature:
    distances = [
        float(np.mean([ks_distance(right.gaps_ms, each.gaps_ms) for each in runs])) for runs in drawn
    ]
    apart = own = None
    if before is not None:
        apart = ks_distance(right.gaps_ms, before.gaps_ms)
        own = float(np.mean([ks_distance(before.gaps_ms, each.gaps_ms) for each in drawn[0]]))
    return JudgedFeature(
        "Kolmogorov-Smirnov distance of gaps",
        apart,
        0.0,
        distances[0],
        distances[0],
        own,
        apart,
        None,
        None,
        None,
        tuple(distances[1:]),
    )
