"""Measurements document: workloads that are known whole, and the few measurements of new ones."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from kwiken.allocator.workloads.profile import MAX_BASE, MAX_COLUMNS, MIN_BASE, Size
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import (
    MAX_NAME_LENGTH,
    MAX_WORKLOADS,
    Measure,
    WorkVariation,
)
from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert, parse_json, to_str

VERSION: Final = 1
MAX_BYTES: Final = 64 << 20
MAX_RUNS: Final = 10_000  # of one workload
MAX_IDENTITY_LENGTH: Final = 200
MAX_DEVIATION: Final = 1.0  # of a score, or of a performance as a share of it
MIN_ROWS: Final = 3  # workloads that are known whole: one is held out, and two show a spread
L = TypeVar("L")


@dataclass(frozen=True)
class RunSetting:
    """Setting of a run, or of the reference.

    Attributes:
        size: size of each replica.
        node_class: class of the nodes that the replicas run on.
    """

    size: Size
    replicas: int
    node_class: str


@dataclass(frozen=True)
class Run:
    """One measured performance.

    Attributes:
        place: where the workload ran.
        performance: performance of all replicas together: requests, completions or instructions per second.
        deviation: standard deviation of the performance, as a share of it; None where it is not known.
    """

    place: RunSetting
    performance: float
    deviation: float | None = None


@dataclass(frozen=True)
class Measured:
    """Few measurements of one workload.

    Attributes:
        identity: fingerprint of the program and its data; empty for none.
        runs: measured performance, without neighbours.
        tolerated: by source: measured pressure that costs 5% of the performance, from 0 to 1.
        caused: by source: measured pressure that one replica exerts, from 0 to 1.
        tolerated_deviation: by source: standard deviation of `tolerated` from 0 to 1, where it is known.
        caused_deviation: by source: standard deviation of `caused` from 0 to 1, where it is known.
        work_variation: coefficient of variation of the work of calls, 0 or more; None where it is not known.
    """

    name: str
    measure: Measure
    identity: str
    runs: tuple[Run, ...]
    tolerated: Mapping[str, float]
    caused: Mapping[str, float]
    tolerated_deviation: Mapping[str, float] = field(default_factory=dict)
    caused_deviation: Mapping[str, float] = field(default_factory=dict)
    work_variation: float | None = None


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of workloads that are known whole.

    Attributes:
        labels: (n,) sizes, numbers of replicas, node classes or sources, one for each column.
        rows: (m, n) logarithms of performance, or scores from 0 to 1; (0, n) where there is one column only.
        level: whether a row has an unknown level: performance has, scores have not.
        deviations: (m, n) standard deviations of the entries, 0 where one is not known; None where none is.
        names: (m,) names of the rows' workloads; empty where nobody told them.
        groups: (m,) numbers of the rows' groups, such as one program on several inputs: a group is held out
            as a whole where a method is chosen. None where each row is a group.
        one_unit: whether all rows are in one unit, so that their levels can be compared.
    """

    labels: tuple[Any, ...]
    rows: Floats
    level: bool
    deviations: Floats | None = None
    names: tuple[str, ...] = ()
    groups: Ints | None = None
    one_unit: bool = False


@dataclass(frozen=True, eq=False)
class Measurements:
    """All that is known before classification.

    Attributes:
        reference: size, one replica, and node class that performance is told relative to.
    """

    reference: RunSetting
    up: Matrix
    out: Matrix
    het: Matrix
    tolerated: Matrix
    caused: Matrix
    workloads: tuple[Measured, ...]


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class _Reference(_Struct, frozen=True):
    cores: float
    memory_gb: float
    node_class: str = msgspec.field(name="class")


class _Up(_Struct, frozen=True):
    sizes: list[Size]
    rows: dict[str, list[float]]
    deviations: dict[str, list[float]] = {}
    one_unit: bool = False


class _Out(_Struct, frozen=True):
    replicas: list[int]
    rows: dict[str, list[float]]
    deviations: dict[str, list[float]] = {}
    one_unit: bool = False


class _Het(_Struct, frozen=True):
    classes: list[str]
    rows: dict[str, list[float]]
    deviations: dict[str, list[float]] = {}
    one_unit: bool = False


class _Scores(_Struct, frozen=True):
    sources: list[str]
    rows: dict[str, list[float]]
    deviations: dict[str, list[float]] = {}


class _History(_Struct, frozen=True):
    up: _Up | None = None
    out: _Out | None = None
    het: _Het | None = None
    tolerated: _Scores | None = None
    caused: _Scores | None = None
    groups: dict[str, str] = {}


class _Run(_Struct, frozen=True):
    performance: float
    deviation: float | None = None
    cores: float | None = None
    memory_gb: float | None = None
    replicas: int = 1
    node_class: str | None = msgspec.field(name="class", default=None)


class _Workload(_Struct, frozen=True):
    name: str
    measure: Measure
    identity: str = ""
    runs: list[_Run] = []
    tolerated: dict[str, float] = {}
    caused: dict[str, float] = {}
    tolerated_deviation: dict[str, float] = {}
    caused_deviation: dict[str, float] = {}
    work_variation: WorkVariation | None = None


class _Document(_Struct, frozen=True):
    version: int
    reference: _Reference
    history: _History
    workloads: list[_Workload] = []


def measurements_from_text(text: str | bytes, *, where: str, min_workloads: int = 1) -> Measurements:
    """Measurements of a TOML or JSON document; a document that starts with a brace is JSON.

    Args:
        where: source to name in errors, such as a file's path.
        min_workloads: least number of workloads to classify; 0 for a history alone.

    Raises:
        InputError: names the line of broken syntax, or the field that is missing, unknown or out of range.
    """
    source = to_str(text, where=where, max_bytes=MAX_BYTES)
    raw = parse_json(source, where=where, max_bytes=MAX_BYTES) if source.lstrip()[0] == "{" else None
    try:
        raw = tomllib.loads(source) if raw is None else raw
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"broken TOML: {error}", where=where) from error
    except RecursionError as error:
        raise InputError("is nested too deep", where=where) from error
    if isinstance(raw, dict) and isinstance(raw.get("version"), int) and raw["version"] != VERSION:
        raise InputError(f"version: {raw['version']} is not known; this program reads {VERSION}", where=where)
    document = convert(raw, _Document, where=where)
    try:
        return _checked(document, min_workloads)
    except ValueError as error:
        raise InputError(str(error), where=where) from error


def _checked(document: _Document, min_workloads: int) -> Measurements:
    """Measurements of a document; a ValueError starts with the field."""
    told = document.reference
    try:
        reference = RunSetting(Size(told.cores, told.memory_gb), 1, told.node_class)
    except ValueError as error:
        raise ValueError(f"reference.{error}") from error
    history = document.history
    sizes = None if history.up is None else history.up.sizes
    counts = None if history.out is None else history.out.replicas
    classes = None if history.het is None else history.het.classes
    up = _performance("up", sizes, history.up, reference.size)
    out = _performance("out", counts, history.out, 1)
    het = _performance("het", classes, history.het, reference.node_class)
    if list(out.labels) != sorted(out.labels) or out.labels[0] != 1:
        raise ValueError("history.out.replicas: must rise from 1")
    tolerated = _scores("tolerated", history.tolerated)
    caused = _scores("caused", history.caused)
    _check_groups(history, (up, out, het, tolerated, caused))
    up, out, het, tolerated, caused = (
        _grouped(matrix, history.groups) for matrix in (up, out, het, tolerated, caused)
    )
    if tolerated.labels != caused.labels:
        raise ValueError("history.caused.sources: must be the sources of history.tolerated, in their order")
    if not min_workloads <= len(document.workloads) <= MAX_WORKLOADS:
        raise ValueError(
            f"workloads: {min_workloads} to {MAX_WORKLOADS} are needed, not {len(document.workloads)}"
        )
    known = Measurements(reference, up, out, het, tolerated, caused, ())
    workloads: dict[str, Measured] = {}
    for place, workload in enumerate(document.workloads):
        path = f"workloads[{place}]"
        if not 0 < len(workload.name) <= MAX_NAME_LENGTH:
            raise ValueError(f"{path}.name: must have 1 to {MAX_NAME_LENGTH} characters")
        if workload.name in workloads:
            raise ValueError(f"{path}.name: {workload.name!r} is given twice")
        workloads[workload.name] = _measured(workload, known, path)
    return Measurements(reference, up, out, het, tolerated, caused, tuple(workloads.values()))


def _performance(
    name: str, labels: Sequence[L] | None, table: _Up | _Out | _Het | None, reference: L
) -> Matrix:
    if table is None:
        return Matrix((reference,), np.empty((0, 1)), level=True)
    assert labels is not None  # the caller reads them from the table
    field = {"up": "sizes", "out": "replicas", "het": "classes"}[name]
    path = f"history.{name}"
    if reference not in labels:
        raise ValueError(f"{path}.{field}: the reference is missing ({_label(reference)})")
    rows = _rows(path, field, labels, table.rows)
    for place, row in enumerate(rows):
        if not (np.isfinite(row).all() and (row > 0).all()):
            raise ValueError(f"{path}.rows.{list(table.rows)[place]}: performance must be finite and above 0")
    deviations = _deviations(path, field, labels, table.rows, table.deviations)
    return Matrix(
        tuple(labels),
        np.log(rows),
        level=True,
        deviations=deviations,
        names=tuple(table.rows),
        one_unit=table.one_unit,
    )


def _scores(name: str, table: _Scores | None) -> Matrix:
    if table is None:
        return Matrix((), np.empty((0, 0)), level=False)
    path = f"history.{name}"
    for source in table.sources:
        _check_source(source, f"{path}.sources")
    rows = _rows(path, "sources", table.sources, table.rows)
    for place, row in enumerate(rows):
        if not ((row >= 0) & (row <= 1)).all():  # NaN fails too
            raise ValueError(f"{path}.rows.{list(table.rows)[place]}: scores must be from 0 to 1")
    deviations = _deviations(path, "sources", table.sources, table.rows, table.deviations)
    return Matrix(tuple(table.sources), rows, level=False, deviations=deviations, names=tuple(table.rows))


def _check_groups(history: _History, matrices: tuple[Matrix, ...]) -> None:
    named = {name for matrix in matrices for name in matrix.names}
    for name in history.groups:
        if name not in named:
            raise ValueError(f"history.groups.{name}: no row of that name in any part of the history")


def _grouped(matrix: Matrix, groups: Mapping[str, str]) -> Matrix:
    """The matrix with the groups of its rows; a row that no group names is a group of its own.

    A method is judged on groups that it has not seen, so there must be as many as rows were needed.
    """
    if not groups or not matrix.names:
        return matrix
    keys = [(True, groups[name]) if name in groups else (False, name) for name in matrix.names]
    numbers = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    if len(numbers) < MIN_ROWS:
        raise ValueError(
            f"history.groups: {MIN_ROWS} or more groups are needed in every part, not {len(numbers)}"
        )
    return replace(matrix, groups=np.array([numbers[key] for key in keys], dtype=np.int64))


def _rows(path: str, field: str, labels: Sequence[Any], rows: Mapping[str, Sequence[float]]) -> Floats:
    if not 1 <= len(labels) <= MAX_COLUMNS:
        raise ValueError(f"{path}.{field}: 1 to {MAX_COLUMNS} are needed, not {len(labels)}")
    if len(set(labels)) < len(labels):
        twice = next(label for place, label in enumerate(labels) if label in labels[:place])
        raise ValueError(f"{path}.{field}: {_label(twice)} is given twice")
    if len(rows) < MIN_ROWS:
        raise ValueError(
            f"{path}.rows: {MIN_ROWS} or more workloads that are measured whole are needed, not {len(rows)}"
        )
    for name, row in rows.items():
        if len(row) != len(labels):
            raise ValueError(f"{path}.rows.{name}: has {len(row)} values for {len(labels)} {field}")
    return np.array([list(row) for row in rows.values()], dtype=float)


def _deviations(
    path: str,
    field: str,
    labels: Sequence[Any],
    rows: Mapping[str, Sequence[float]],
    told: Mapping[str, Sequence[float]],
) -> Floats | None:
    """Standard deviations in the order of the rows; rows without any are taken as exact."""
    if not told:
        return None
    for name, row in told.items():
        if name not in rows:
            raise ValueError(f"{path}.deviations.{name}: no row of that name; there are {', '.join(rows)}")
        if len(row) != len(labels):
            raise ValueError(f"{path}.deviations.{name}: has {len(row)} values for {len(labels)} {field}")
        for each in row:
            _check_deviation(each, f"{path}.deviations.{name}")
    return np.array([told.get(name, [0.0] * len(labels)) for name in rows], dtype=float)


def _measured(workload: _Workload, known: Measurements, path: str) -> Measured:
    if len(workload.identity) > MAX_IDENTITY_LENGTH:
        raise ValueError(f"{path}.identity: must have at most {MAX_IDENTITY_LENGTH} characters")
    if len(workload.runs) > MAX_RUNS:
        raise ValueError(f"{path}.runs: at most {MAX_RUNS} are read, not {len(workload.runs)}")
    runs = tuple(_run(run, known, f"{path}.runs[{place}]") for place, run in enumerate(workload.runs))
    for name, scores, matrix in (
        ("tolerated", workload.tolerated, known.tolerated),
        ("caused", workload.caused, known.caused),
    ):
        for source, score in scores.items():
            _check_source(source, f"{path}.{name}")
            if source not in matrix.labels:
                raise ValueError(f"{path}.{name}: no workload of the history was measured at {source!r}")
            if not 0 <= score <= 1:
                raise ValueError(f"{path}.{name}.{source}: must be from 0 to 1, not {score}")
    for name, scores, deviations in (
        ("tolerated", workload.tolerated, workload.tolerated_deviation),
        ("caused", workload.caused, workload.caused_deviation),
    ):
        for source, deviation in deviations.items():
            if source not in scores:
                raise ValueError(f"{path}.{name}_deviation.{source}: `{name}` has no score for this source")
            _check_deviation(deviation, f"{path}.{name}_deviation.{source}")
    return Measured(
        workload.name,
        workload.measure,
        workload.identity,
        runs,
        workload.tolerated,
        workload.caused,
        workload.tolerated_deviation,
        workload.caused_deviation,
        workload.work_variation,
    )


def _run(run: _Run, known: Measurements, path: str) -> Run:
    reference = known.reference
    if not MIN_BASE <= run.performance <= MAX_BASE:  # NaN fails too
        raise ValueError(
            f"{path}.performance: must be from {MIN_BASE:g} to {MAX_BASE:g}, not {run.performance}"
        )
    if run.deviation is not None:
        _check_deviation(run.deviation, f"{path}.deviation")
    try:
        size = Size(
            reference.size.cores if run.cores is None else run.cores,
            reference.size.memory_gb if run.memory_gb is None else run.memory_gb,
        )
    except ValueError as error:
        raise ValueError(f"{path}.{error}") from error
    place = RunSetting(size, run.replicas, run.node_class or reference.node_class)
    for kind, label, matrix in (
        ("size", place.size, known.up),
        ("number of replicas", place.replicas, known.out),
        ("class", place.node_class, known.het),
    ):
        if label not in matrix.labels:
            there = ", ".join(_label(each) for each in matrix.labels[:8])
            raise ValueError(f"{path}: no {kind} {_label(label)} in the history; it has {there}")
    return Run(place, run.performance, run.deviation)


def _check_deviation(deviation: float, path: str) -> None:
    if not 0 <= deviation <= MAX_DEVIATION:  # NaN fails too
        raise ValueError(f"{path}: must be from 0 to {MAX_DEVIATION:g}, not {deviation}")


def _check_source(name: str, path: str) -> None:
    if name not in SOURCES:
        raise ValueError(f"{path}: no source {name!r}; known: {', '.join(SOURCES)}")


def _label(label: object) -> str:
    """Text of a column's label in messages."""
    return f"{label.cores:g} cores with {label.memory_gb:g} GB" if isinstance(label, Size) else repr(label)
