"""Plan of a stage's measurements: the runs and ramps that predict as much as possible of all others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.allocator.workloads.classification import first_columns, label_text
from kwiken.allocator.workloads.measurements import Measurements
from kwiken.allocator.workloads.profile import Size
from kwiken.base.errors import InputError

DEFAULT_SOURCES: Final = 2  # sources to ramp; each gives an entry of tolerated and one of caused pressure
_SPEED: Final = re.compile(r"speed-(\d{1,3}(?:\.\d{1,4})?)")


@dataclass(frozen=True)
class ProbeSetting:
    """Setting of one run of a stage.

    Attributes:
        speed: speed of the class's cores as a share of this machine's, above 0 and at most 1.
    """

    size: Size
    replicas: int
    node_class: str
    speed: float


@dataclass(frozen=True)
class ProbePlan:
    """Runs and ramps to measure of a stage.

    Attributes:
        reference: the setting that the others are compared with.
        others: settings that differ from the reference in one thing each.
        sources: sources of contention to ramp beside the stage at the reference.
    """

    reference: ProbeSetting
    others: tuple[ProbeSetting, ...]
    sources: tuple[str, ...]


def class_speeds(known: Measurements, given: Mapping[str, float], *, where: str) -> dict[str, float]:
    """Speed by node class: as given, or as the name says (`speed-0.5`).

    Args:
        known: history, whose classes are meant.
        given: speed by name of a class, above 0 and at most 1.
        where: source of the history to name in errors.

    Raises:
        InputError: a given class is not in the history, or the speed of the reference's class is unknown.
    """
    names = [str(label) for label in known.het.labels]
    for name in given:
        if name not in names:
            raise InputError(f"no class {name!r} in the history; it has {', '.join(names)}", where=where)
    told = {name: float(found[1]) for name in names if (found := _SPEED.fullmatch(name)) is not None}
    speeds = {name: speed for name, speed in {**told, **given}.items() if 0 < speed <= 1}
    reference = known.reference.node_class
    if reference not in speeds:
        raise InputError(
            f"how fast is class {reference!r}? give --class {reference}=SPEED; 1 is this machine's speed",
            where=where,
        )
    return speeds


def plan_stage(
    known: Measurements,
    *,
    processors: int,
    speeds: Mapping[str, float],
    sources: Sequence[str] = (),
    where: str,
) -> ProbePlan:
    """Choose the most informative measurements: another size, more replicas, another class, two sources.

    Args:
        speeds: speed by node class; classes without one cannot be emulated here.
        sources: sources to ramp; empty for the two that tell most.
        where: source of the history to name in errors.

    Raises:
        InputError: the reference does not fit this machine, or the history has nothing to compare with.
    """
    base = ProbeSetting(
        known.reference.size, 1, known.reference.node_class, speeds[known.reference.node_class]
    )
    if base.size.cores > processors:
        raise InputError(
            f"the reference has {base.size.cores:g} cores, and this machine has {processors}", where=where
        )
    sizes = [label.cores <= processors for label in known.up.labels]
    others = [
        ProbeSetting(size, 1, base.node_class, base.speed)
        for size in _most_informative(known.up, sizes, base.size)
    ]
    counts = [int(count) for count in known.out.labels if count > 1 and count * base.size.cores <= processors]
    if counts:
        others.append(ProbeSetting(base.size, min(counts), base.node_class, base.speed))
    played = [label in speeds for label in known.het.labels]
    others.extend(
        ProbeSetting(base.size, 1, name, speeds[name])
        for name in _most_informative(known.het, played, base.node_class)
    )
    for missing, matrix, found in (
        ("size", known.up, any(each.size != base.size for each in others)),
        ("number of replicas", known.out, bool(counts)),
        ("class of known speed", known.het, any(each.node_class != base.node_class for each in others)),
    ):
        if len(matrix.labels) > 1 and not found:
            raise InputError(f"no other {missing} in the history can be emulated here", where=where)
    return ProbePlan(base, tuple(others), _sources(known, sources, where))


def whole_plan(known: Measurements, *, processors: int, speeds: Mapping[str, float]) -> ProbePlan:
    """Plan that measures all sizes, numbers of replicas, classes and sources, for a whole row of the history.

    Args:
        processors: number of this machine's processors; what does not fit is left out.
        speeds: speed by node class.
    """
    base = ProbeSetting(
        known.reference.size, 1, known.reference.node_class, speeds[known.reference.node_class]
    )
    sizes = [each for each in known.up.labels if each != base.size and each.cores <= processors]
    counts = [each for each in known.out.labels if each > 1 and each * base.size.cores <= processors]
    classes = [each for each in known.het.labels if each != base.node_class and each in speeds]
    others = [
        *(ProbeSetting(size, 1, base.node_class, base.speed) for size in sizes),
        *(ProbeSetting(base.size, int(count), base.node_class, base.speed) for count in counts),
        *(ProbeSetting(base.size, 1, name, speeds[name]) for name in classes),
    ]
    return ProbePlan(base, tuple(others), tuple(known.tolerated.labels))


def _most_informative(matrix: Any, feasible: Sequence[bool], reference: object) -> list[Any]:
    """Label that, with the reference, best predicts the rest of a row; an empty list if there is none."""
    columns = [place for place, fits in enumerate(feasible) if fits]
    if len(columns) < 2 or not len(matrix.rows):  # noqa: PLR2004 - the reference and another
        return []
    labels = [matrix.labels[column] for column in columns]
    given = np.array([labels.index(reference)])
    chosen = first_columns(
        matrix.rows[:, columns],
        2,
        level=matrix.level,
        given=given,
        deviations=None if matrix.deviations is None else matrix.deviations[:, columns],
    )
    return [labels[int(chosen[1])]]


def _sources(known: Measurements, wanted: Sequence[str], where: str) -> tuple[str, ...]:
    labels = [str(label) for label in known.tolerated.labels]
    for name in wanted:
        if name not in labels:
            raise InputError(
                f"no workload of {where} was measured at {name!r}; there are {', '.join(labels)}",
                where="--source",
            )
    if wanted:
        return tuple(dict.fromkeys(wanted))
    if len(labels) <= DEFAULT_SOURCES:
        return tuple(labels)
    matrix = known.tolerated
    columns = first_columns(matrix.rows, DEFAULT_SOURCES, level=False, deviations=matrix.deviations)
    return tuple(labels[column] for column in columns.tolist())


def setting_text(setting: ProbeSetting) -> str:
    """A setting in words, for messages."""
    count = "1 replica" if setting.replicas == 1 else f"{setting.replicas} replicas"
    return f"{count} of {label_text(setting.size)} on {setting.node_class}"
