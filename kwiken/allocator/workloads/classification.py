"""Classification of a workload: completions joined into one distribution, next measurements, feedback."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from kwiken.allocator.workloads.completion.gaussian import MIN_VARIANCE, BayesianRows, Completion, EntryErrors
from kwiken.allocator.workloads.completion.joined import JoinedModel
from kwiken.allocator.workloads.completion.nearest import NearestModel
from kwiken.allocator.workloads.completion.selection import Chosen, CompletionKind, candidates, choose
from kwiken.allocator.workloads.completion.tails import NORMAL_TAILS, ErrorTails
from kwiken.allocator.workloads.measurements import Matrix, Measured, Measurements, Run, RunSetting
from kwiken.allocator.workloads.profile import Correction, Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

MIN_ENTRIES: Final = 2  # of a workload in each matrix (Quasar section 3.3)
RUN_DEVIATION: Final = 0.02  # of the logarithm of one measured performance, where nothing better is known
# Departure of log performance at one place from the product of its factors: standard deviations. Most places
# depart hardly; one of fifty loses half of its performance (Quasar section 5.6).
COMMON_DEPARTURE: Final = 0.03
RARE_DEPARTURE: Final = 0.69
RARE_SHARE: Final = 0.02
MIN_UNDECIDED: Final = 1e-6  # sum over places: below, the decision is clear and all places count alike
WORDS: Final = {
    "size": "by size",
    "replicas": "by number of replicas",
    "class": "by node class",
    "tolerated": "of tolerated pressure",
    "caused": "of caused pressure",
}
# By column: values, each with its standard deviation; None where that is not known.
Entries = dict[int, list[tuple[float, float | None]]]
PLANNED: Final = BayesianRows(0.05, RUN_DEVIATION**2)  # model that proposes the first measurements
SHOWN: Final = 5  # neighbours where the chosen method does not say how many it takes


@dataclass(frozen=True)
class Neighbourhood:
    """Nearest rows of one matrix.

    Attributes:
        names: names of the nearest workloads, nearest first.
        distances: root mean square of the difference of each over the measured entries, in natural
            logarithms or points of a score.
        used: whether the chosen method predicts by these neighbours.
        label: size, number of replicas, node class or source where the neighbours disagree most, of those
            that were not measured.
        spread: standard deviation of the neighbours there, in the same unit as the distances.
    """

    names: tuple[str, ...]
    distances: tuple[float, ...]
    used: bool
    label: Any
    spread: float


def neighbourhood(matrix: Matrix, columns: Ints, values: Floats, chosen: Chosen) -> Neighbourhood:
    """Neighbours of a row, as many as the chosen method takes.

    Args:
        columns: (k,) columns of the row's entries; not all.
        values: (k,) the entries: natural logarithms, or scores from 0 to 1.
        chosen: method that completes the row.
    """
    members = chosen.model.models if isinstance(chosen.model, JoinedModel) else (chosen.model,)
    found = next((each for each in members if isinstance(each, NearestModel)), None)
    model = found or NearestModel(matrix.rows, matrix.level, SHOWN)
    near, apart = model.neighbours(columns, values)
    rows = matrix.rows[near]
    if matrix.level:
        rows = rows - rows[:, columns].mean(axis=1, keepdims=True)
    spread = rows.std(axis=0)
    free = np.setdiff1d(np.arange(len(spread)), columns)
    at = int(free[np.argmax(spread[free])])
    names = matrix.names or tuple(f"row {place + 1}" for place in range(len(matrix.rows)))
    return Neighbourhood(
        names=tuple(names[place] for place in near.tolist()),
        distances=tuple(apart.tolist()),
        used=found is not None,
        label=matrix.labels[at],
        spread=float(spread[at]),
    )


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Measurement that would tell much.

    Attributes:
        kind: what is varied: "size", "replicas", "class", or "source".
        label: the size, number of replicas, node class or source to measure; all else is at the reference.
        share: share of the remaining variance that the measurement would remove, from 0 to 1: the variance of
            both scores over all sources, or of log performance over all sizes, numbers and classes.
    """

    kind: str
    label: Any
    share: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Classification:
    """Everything predicted of one workload, as one Gaussian distribution; terms as in `WorkloadProfile`.

    Attributes:
        mean: (n,) natural logarithms: the base, per second, then relative performance by size, count and
            class.
        covariance: (n, n) covariance of their errors, squared natural logarithms.
        methods: by matrix: method of completion that was chosen; None where every column was measured.
        corrections: log performance at places where runs depart from the product of the factors.
        noise: variance of one run's log performance.
        entries: by matrix: (2, k) measured columns, and their entries: logarithms, or scores from 0 to 1.
    """

    measured: Measured
    known: Measurements
    mean: Floats
    covariance: Floats
    tolerated: Completion
    caused: Completion
    methods: dict[str, Chosen | None]
    corrections: dict[RunSetting, float]
    noise: float
    entries: dict[str, Floats]

    def neighbours(self, kind: str) -> Neighbourhood | None:
        """Nearest known workloads in one matrix; None where every column was measured.

        Args:
            kind: name of the matrix, a key of `methods`.
        """
        chosen = self.methods[kind]
        if chosen is None:
            return None
        columns, values = self.entries[kind]
        return neighbourhood(_matrix(self.known, kind), columns.astype(np.int64), values, chosen)

    def predict(self, place: RunSetting) -> tuple[float, float]:
        """Log performance of the workload at a place, alone, and its standard deviation.

        Args:
            place: size, number of replicas and class, each a column of the history.
        """
        at = self._columns(place)
        mean = float(self.mean[at].sum()) + self.corrections.get(place, 0.0)
        return mean, float(np.sqrt(max(float(self.covariance[np.ix_(at, at)].sum()), 0.0)))

    def observed(self, run: Run) -> Classification:
        """Learn from a run in operation: an update of the joint distribution, in closed form.

        What the run adds is divided over the factors by their variance, and other sizes, counts and classes
        learn by their covariance with these (Quasar section 3.6, feedback). What the factors do not explain
        stays as a correction at that place, so that other places do not suffer from it.
        """
        at = self._columns(run.place)
        missed = float(np.log(run.performance)) - self.predict(run.place)[0]
        toward = self.covariance[:, at].sum(axis=1)
        expected = float(toward[at].sum()) + self.noise
        apart = 0.0 if self._on_axis(run.place) else _departure(missed, expected)
        total = expected + apart
        corrections = dict(self.corrections)
        if apart:
            corrections[run.place] = corrections.get(run.place, 0.0) + apart / total * missed
        return replace(
            self,
            mean=self.mean + toward / total * missed,
            covariance=self.covariance - np.outer(toward, toward) / total,
            corrections=corrections,
        )

    def proposals(self, required: float | None = None) -> tuple[Proposal, ...]:
        """Measurements not made yet: the most telling run first, then sources; each kind by falling share.

        Args:
            required: performance that the workload needs, in its unit per second. Runs are then judged by the
                places of which it is not known whether they meet that; None judges by all places alike.
        """
        return (*self._proposed_runs(required), *self._proposed_sources())

    def _proposed_runs(self, required: float | None) -> list[Proposal]:
        shape = tuple(len(matrix.labels) for matrix in (self.known.up, self.known.out, self.known.het))
        weights = np.ones(shape) if required is None else self.undecided(required)
        spread = _mean_square(self.known, weights)
        total = float(np.einsum("ij,ji->", spread, self.covariance))
        reference = self.known.reference
        done = {run.place for run in self.measured.runs}
        found = []
        for kind, matrix in (
            ("size", self.known.up),
            ("replicas", self.known.out),
            ("class", self.known.het),
        ):
            for label in matrix.labels:
                place = _moved(reference, kind, label)
                if place in done or place == reference or total <= 0:
                    continue
                at = self._columns(place)
                toward = self.covariance[:, at].sum(axis=1)
                gain = float(toward @ spread @ toward) / (float(toward[at].sum()) + self.noise)
                found.append(Proposal(kind=kind, label=label, share=gain / total))
        return sorted(found, key=lambda each: -each.share)

    def undecided(self, required: float) -> Floats:
        """(k, m, c) variance p (1 - p) of whether a place meets a performance: 1/4 where nothing is known."""
        up, out, het = (slice(*bounds) for bounds in _bounds(self.known))
        mean, cov = self.mean, self.covariance
        of_each = cov.diagonal() + 2 * cov[0]
        expected = mean[0] + mean[up][:, None, None] + mean[out][None, :, None] + mean[het]
        variance = cov[0, 0] + of_each[up][:, None, None] + of_each[out][None, :, None] + of_each[het]
        pairs = cov[up, out][:, :, None] + cov[up, het][:, None, :] + cov[out, het]
        deviation = np.sqrt(np.maximum(variance + 2 * pairs, MIN_VARIANCE))
        meets = ndtr((expected - np.log(required)) / deviation)
        undecided: Floats = meets * (1 - meets)
        return undecided if undecided.sum() > MIN_UNDECIDED else np.ones_like(undecided)

    def _proposed_sources(self) -> list[Proposal]:
        both = (self.tolerated, self.caused)
        total = sum(float((each.deviation**2).sum()) for each in both)
        found = []
        for column, source in enumerate(self.known.tolerated.labels):
            if source in self.measured.tolerated:
                continue
            gain = 0.0
            for each in both:
                latent = each.covariance[:, column]
                variance = float(each.deviation[column] ** 2)
                others = float(latent @ latent) - float(latent[column] ** 2)
                gain += (others + variance**2) / (variance + np.finfo(float).tiny)
            found.append(Proposal(kind="source", label=source, share=min(float(gain / total), 1.0)))
        return sorted(found, key=lambda each: -each.share)

    def profile(self) -> WorkloadProfile:
        """Profile of the workload: means and standard deviations, without the covariances."""
        up, out, het = (slice(*bounds) for bounds in _bounds(self.known))
        deviation = np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))
        labels = self.known.tolerated.labels
        return WorkloadProfile(
            name=self.measured.name,
            measure=self.measured.measure,
            base=float(np.exp(self.mean[0])),
            base_deviation=float(deviation[0]),
            sizes=self.known.up.labels,
            up=Estimate(self.mean[up], deviation[up], self._tails("size")),
            replicas=np.array(self.known.out.labels, dtype=np.int64),
            out=Estimate(self.mean[out], deviation[out], self._tails("replicas")),
            classes=self.known.het.labels,
            het=Estimate(self.mean[het], deviation[het], self._tails("class")),
            tolerated=_over_sources(labels, self.tolerated, 1.0, self._tails("tolerated")),
            caused=_over_sources(labels, self.caused, 0.0, self._tails("caused")),
            assumed=tuple(source for source in SOURCES if source not in labels),
            identity=self.measured.identity,
            corrections=tuple(
                Correction(size=place.size, replicas=place.replicas, node_class=place.node_class, mean=mean)
                for place, mean in self.corrections.items()
            ),
            work_variation=self.measured.work_variation,
            reference_class=self.known.reference.node_class,
        )

    def _tails(self, kind: str) -> ErrorTails:
        """Distribution of a matrix's errors, in deviations."""
        chosen = self.methods[kind]
        return NORMAL_TAILS if chosen is None else chosen.tails

    def _columns(self, place: RunSetting) -> Ints:
        """Positions in `mean` of what makes up the performance at a place."""
        bounds = _bounds(self.known)
        matrices = (self.known.up, self.known.out, self.known.het)
        told = (place.size, place.replicas, place.node_class)
        return np.array(
            [
                0,
                *(
                    start + matrix.labels.index(label)
                    for (start, _), matrix, label in zip(bounds, matrices, told, strict=True)
                ),
            ]
        )

    def _on_axis(self, place: RunSetting) -> bool:
        return _axis(place, self.known.reference) is not None


class Classifier:
    """Classifies workloads by one history; a choice of method is kept for workloads measured alike.

    Args:
        known: history; its workloads are not looked at.
        method: kinds of method of completion to choose from.
    """

    def __init__(self, known: Measurements, method: CompletionKind = CompletionKind.BEST) -> None:
        self._known = known
        self._method = method
        self._chosen: dict[tuple[str, tuple[int, ...]], Chosen] = {}

    def classify(self, measured: Measured) -> Classification:
        """Predict a workload's performance at every size, count and class, and its scores for every source.

        Args:
            measured: measurements: two or more entries for each matrix of the history.

        Raises:
            InputError: names the workload, the matrix with too few entries, and a measurement to make.
        """
        known = self._known
        methods: dict[str, Chosen | None] = {}
        found: dict[str, Completion] = {}
        apart: list[Run] = []
        entries: dict[str, Entries] = {"size": {}, "replicas": {}, "class": {}}
        for run in measured.runs:
            kinds = _axis(run.place, known.reference)
            if kinds is None:
                apart.append(run)
                continue
            for kind in kinds:
                column = _matrix(known, kind).labels.index(_label_of(run.place, kind))
                entry = float(np.log(run.performance)), run.deviation
                entries[kind].setdefault(column, []).append(entry)
        scores = {
            "tolerated": (measured.tolerated, measured.tolerated_deviation),
            "caused": (measured.caused, measured.caused_deviation),
        }
        for kind, (told, deviations) in scores.items():
            labels = _matrix(known, kind).labels
            entries[kind] = {
                labels.index(source): [(score, deviations.get(source))] for source, score in told.items()
            }
        whole: dict[str, Floats] = {}
        for kind, by_column in entries.items():
            completed, methods[kind] = self._completed(measured.name, kind, by_column)
            clipped = np.clip(completed.mean, 0.0, 1.0) if kind in scores else completed.mean
            found[kind] = replace(completed, mean=clipped)
            columns = sorted(by_column)
            whole[kind] = np.array(
                [columns, [np.mean([value for value, _ in by_column[one]]) for one in columns]]
            )
        mean, covariance, noise = _joined(known, found)
        result = Classification(
            measured=measured,
            known=known,
            mean=mean,
            covariance=covariance,
            tolerated=found["tolerated"],
            caused=found["caused"],
            methods=methods,
            corrections={},
            noise=noise,
            entries=whole,
        )
        for run in apart:
            result = result.observed(run)
        return result

    def _completed(self, name: str, kind: str, entries: Entries) -> tuple[Completion, Chosen | None]:
        """Completion of one matrix.

        There are three cases: 1. too few entries, 2. every column is measured, 3. some columns are not.
        """
        matrix = _matrix(self._known, kind)
        if len(entries) < min(MIN_ENTRIES, len(matrix.labels)):
            told = f"needs {min(MIN_ENTRIES, len(matrix.labels))} or more measurements {WORDS[kind]}"
            alone = "" if matrix.level and len(matrix.labels) == 1 else _first(matrix, entries)
            raise InputError(f"{told}, not {len(entries)}{alone}", where=f"workload {name!r}")
        columns = np.array(sorted(entries), dtype=np.int64)
        values, errors = _entries_as_arrays([entries[column] for column in columns.tolist()])
        if len(columns) == len(matrix.labels):
            exact = errors.variances
            if exact is None:
                exact = errors.variance(RUN_DEVIATION**2, len(columns))
            return Completion(values, np.diag(exact), RUN_DEVIATION**2, columns), None
        key = (kind, tuple(columns.tolist()))
        if key not in self._chosen:
            replicas = matrix.labels if kind == "replicas" else None
            self._chosen[key] = choose(
                matrix.rows,
                columns,
                candidates(replicas, self._method, one_unit=matrix.one_unit),
                level=matrix.level,
                deviations=matrix.deviations,
                groups=matrix.groups,
                joins=self._method is CompletionKind.BEST,
            )
        return self._chosen[key].complete(columns, values, errors), self._chosen[key]


def _entries_as_arrays(entries: list[list[tuple[float, float | None]]]) -> tuple[Floats, EntryErrors]:
    """(k,) means of the measurements of each entry, and the errors of the means.

    Where some measurements state a deviation, the others are taken to have that of an ordinary run.
    """
    means = np.array([float(np.mean([value for value, _ in each])) for each in entries])
    repeats = np.array([float(len(each)) for each in entries])
    if all(deviation is None for each in entries for _, deviation in each):
        return means, EntryErrors(repeats)
    squares = [
        sum((RUN_DEVIATION if deviation is None else deviation) ** 2 for _, deviation in each)
        for each in entries
    ]
    return means, EntryErrors(repeats, np.array(squares) / repeats**2)


def first_columns(
    rows: Floats,
    count: int,
    *,
    level: bool,
    given: Ints | None = None,
    deviations: Floats | None = None,
) -> Ints:
    """Columns to measure first: greedily those that leave the least variance over the row.

    Args:
        rows: (m, n) known rows: natural logarithms, or scores from 0 to 1.
        count: number of columns, the given ones included.
        level: whether each row has an unknown level.
        given: (g,) columns that are measured in any case; None for none.
        deviations: (m, n) standard deviations of the entries, in their unit; None where they are not known.

    Returns:
        (count,) columns, in the order of choice.
    """
    model = PLANNED.fit(rows, level=level, deviations=deviations)
    chosen: list[int] = [] if given is None else given.tolist()
    while len(chosen) < count:
        left = {}
        for column in range(rows.shape[1]):
            if column not in chosen:
                columns = np.array([*chosen, column], dtype=np.int64)
                covariance = model.complete(columns, model.mean[columns]).covariance
                left[column] = float(np.trace(covariance))
        chosen.append(min(left, key=lambda column: left[column]))
    return np.array(chosen, dtype=np.int64)


def _first(matrix: Matrix, entries: Entries) -> str:
    """End of the message on too few entries: the columns to measure."""
    given = np.array([*entries], dtype=np.int64)
    columns = first_columns(
        matrix.rows, MIN_ENTRIES, level=matrix.level, given=given, deviations=matrix.deviations
    )
    names = [label_text(matrix.labels[column]) for column in columns.tolist() if column not in entries]
    return f"; measure {' and '.join(names)} next"


def label_text(label: object) -> str:
    """Text of a column's label.

    Args:
        label: size, number of replicas, node class or source.
    """
    return f"{label.cores:g} cores with {label.memory_gb:g} GB" if isinstance(label, Size) else str(label)


def _matrix(known: Measurements, kind: str) -> Matrix:
    return {
        "size": known.up,
        "replicas": known.out,
        "class": known.het,
        "tolerated": known.tolerated,
        "caused": known.caused,
    }[kind]


def _departure(missed: float, expected: float) -> float:
    """Variance of the departure at a place: the more probable of a common and a rare one.

    Args:
        missed: measured less predicted log performance.
        expected: variance of that difference without a departure.
    """
    found = []
    for deviation, share in ((COMMON_DEPARTURE, 1 - RARE_SHARE), (RARE_DEPARTURE, RARE_SHARE)):
        total = expected + deviation**2
        found.append((np.log(share) - 0.5 * (np.log(total) + missed**2 / total), deviation**2))
    return float(max(found)[1])


def _label_of(place: RunSetting, kind: str) -> object:
    return {"size": place.size, "replicas": place.replicas, "class": place.node_class}[kind]


def _moved(reference: RunSetting, kind: str, label: Any) -> RunSetting:
    """The reference with one thing changed."""
    field = {"size": "size", "replicas": "replicas", "class": "node_class"}[kind]
    return replace(reference, **{field: label})


def _axis(place: RunSetting, reference: RunSetting) -> tuple[str, ...] | None:
    """Matrices that a run is an entry of: all three at the reference, one beside it, None elsewhere."""
    kinds = ("size", "replicas", "class")
    moved = tuple(kind for kind in kinds if _label_of(place, kind) != _label_of(reference, kind))
    if not moved:
        return kinds
    return moved if len(moved) == 1 else None


def _bounds(known: Measurements) -> list[tuple[int, int]]:
    """Start and end of sizes, counts and classes in the joint vector, whose first entry is the base."""
    ends = np.cumsum([1, len(known.up.labels), len(known.out.labels), len(known.het.labels)]).tolist()
    return list(itertools.pairwise(ends))


def _joined(known: Measurements, found: dict[str, Completion]) -> tuple[Floats, Floats, float]:
    """Joint mean and covariance of the base and the three relative curves, and the noise of a run."""
    reference = known.reference
    bounds = _bounds(known)
    mean, covariance = np.zeros(bounds[-1][1]), np.zeros((bounds[-1][1], bounds[-1][1]))
    bases = []
    for (start, end), kind in zip(bounds, ("size", "replicas", "class"), strict=True):
        row = found[kind]
        at = _matrix(known, kind).labels.index(_label_of(reference, kind))
        noisy = np.full(end - start, row.noise)
        noisy[row.columns] = 0.0
        whole = row.covariance + np.diag(noisy)
        bases.append((float(whole[at, at]), float(row.mean[at])))
        relative = np.eye(end - start)
        relative[:, at] -= 1.0
        mean[start:end] = row.mean - row.mean[at]
        covariance[start:end, start:end] = relative @ whole @ relative.T
    covariance[0, 0], mean[0] = min(bases)
    return mean, covariance, RUN_DEVIATION**2


def _mean_square(known: Measurements, weights: Floats) -> Floats:
    """Matrix Q for which the weighted mean of (base + up + out + het)^2 over places is v' Q v for a vector v.

    Args:
        known: history, whose columns the vector is over.
        weights: (k, m, c) weights of the places, not all zero.
    """
    shares = weights / weights.sum()
    bounds = _bounds(known)
    found = np.zeros((bounds[-1][1], bounds[-1][1]))
    found[0, 0] = 1.0
    for axis, (start, end) in enumerate(bounds):
        others = tuple(other for other in range(3) if other != axis)
        found[0, start:end] = found[start:end, 0] = shares.sum(axis=others)
        found[start:end, start:end] = np.diag(shares.sum(axis=others))
        for second in range(axis + 1, 3):
            (left,) = (other for other in others if other != second)
            pairs = shares.sum(axis=left)
            begin, stop = bounds[second]
            found[start:end, begin:stop] = pairs
            found[begin:stop, start:end] = pairs.T
    return found


def _over_sources(
    labels: tuple[str, ...], found: Completion, otherwise: float, tails: ErrorTails
) -> Estimate:
    mean, deviation = np.full(len(SOURCES), otherwise), np.zeros(len(SOURCES))
    at = [SOURCES.index(source) for source in labels]
    mean[at] = found.mean
    deviation[at] = found.deviation
    return Estimate(mean, deviation, tails)
