"""Profile of a workload: predicted performance by size, replicas and node class, and contention scores."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from kwiken.allocator.workloads.completion.tails import MAX_NARROWING, MIN_NARROWING, NORMAL_TAILS, ErrorTails
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, WorkVariation
from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct

VERSION: Final = 1
MAX_BYTES: Final = 64 << 20  # of a document of profiles
MAX_COLUMNS: Final = 1000  # sizes, replica counts or node classes
# Of a base, per second. With the largest factors beside it, squares of a performance are finite and not 0.
MIN_BASE: Final = 1e-12
MAX_BASE: Final = 1e18
MAX_FREEDOM: Final = 1e6  # of the tails of errors; from here on they are normal
MAX_ABS_LOG: Final = 50.0  # of a relative performance: a factor of 5e21


class Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """Size of one replica.

    Attributes:
        cores: number of cores; a share of a core may be given.
        memory_gb: memory, in GB.
    """

    cores: float
    memory_gb: float

    def __post_init__(self) -> None:
        """Check that both are finite numbers above 0."""
        for name in ("cores", "memory_gb"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number above 0, not {value}")


class Correction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Measured departure from the product of the factors at one place.

    Attributes:
        mean: what to add to the log performance there.
    """

    size: Size
    replicas: int
    node_class: str = msgspec.field(name="class")
    mean: Annotated[float, msgspec.Meta(ge=-MAX_ABS_LOG, le=MAX_ABS_LOG)]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Predictions with their uncertainty.

    Attributes:
        mean: (n,) predicted natural logarithms of relative performance, or scores from 0 to 1.
        deviation: (n,) standard deviations of the predictions, in the same unit; 0 for a known value. Each is
            that of the normal distribution with the same 90% interval.
        tails: distribution of the errors, in deviations.
    """

    mean: Floats
    deviation: Floats
    tails: ErrorTails = NORMAL_TAILS


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkloadProfile:
    """Predicted behaviour of a workload (Quasar section 3.5, Paragon section 3.6).

    Performance of n replicas of one size on nodes of one class, alone, is
    `base * exp(up[size] + out[n] + het[class])`, in requests, completions or instructions per second.

    Attributes:
        base: performance of one replica of the reference size on the reference class, per second.
        base_deviation: standard deviation of the natural logarithm of `base`.
        sizes: (k,) sizes of a replica.
        up: log performance of one replica by size, relative to the reference size.
        replicas: (m,) numbers of replicas, rising from 1.
        out: log performance of all replicas together by their number, relative to one replica.
        classes: (c,) names of node classes.
        het: log performance by node class, relative to the reference class.
        tolerated: pressure that costs the workload 5% of its performance, from 0 to 1, over `SOURCES`.
        caused: pressure that one replica exerts, from 0 to 1, over `SOURCES`.
        assumed: sources that nobody measured: tolerated is taken as 1 and caused as 0, with deviation 0.
        identity: fingerprint of the program and its data; empty for none.
        corrections: places where measured performance departs from the product.
        work_variation: coefficient of variation of the work of calls, 0 or more; None where it is not known.
        reference_class: name of the class that performance and pressure are relative to; empty in documents
            of before, whose pressure is taken as alike on every class.
    """

    name: str
    measure: Measure
    base: float
    base_deviation: float
    sizes: tuple[Size, ...]
    up: Estimate
    replicas: Ints
    out: Estimate
    classes: tuple[str, ...]
    het: Estimate
    tolerated: Estimate
    caused: Estimate
    assumed: tuple[str, ...] = field(default=())
    identity: str = ""
    corrections: tuple[Correction, ...] = ()
    work_variation: float | None = None
    reference_class: str = ""

    def of_size(self, size: Size) -> WorkloadProfile:
        """The same predictions for replicas of one size only."""
        place = [self.sizes.index(size)]
        return replace(
            self,
            sizes=(size,),
            up=replace(self.up, mean=self.up.mean[place], deviation=self.up.deviation[place]),
            corrections=tuple(one for one in self.corrections if one.size == size),
        )


_Log = Annotated[float, msgspec.Meta(ge=-MAX_ABS_LOG, le=MAX_ABS_LOG)]
_Deviation = Annotated[float, msgspec.Meta(ge=0, le=MAX_ABS_LOG)]
_Freedom = Annotated[float, msgspec.Meta(ge=1, le=MAX_FREEDOM)]
_Narrowing = Annotated[float, msgspec.Meta(ge=MIN_NARROWING, le=MAX_NARROWING)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _OfSize(StrictStruct, frozen=True):
    cores: float
    memory_gb: float
    mean: _Log
    deviation: _Deviation


class _OfReplicas(StrictStruct, frozen=True):
    replicas: Annotated[int, msgspec.Meta(ge=1)]
    mean: _Log
    deviation: _Deviation


class _OfClass(StrictStruct, frozen=True):
    node_class: str = msgspec.field(name="class")
    mean: _Log
    deviation: _Deviation


class _OfSource(StrictStruct, frozen=True):
    source: str
    mean: _Share
    deviation: _Deviation


_Many = Annotated[list[_OfSize], msgspec.Meta(min_length=1, max_length=MAX_COLUMNS)]


class _Tails(StrictStruct, frozen=True, omit_defaults=True):
    """Degrees of freedom of the errors by part of a profile; what is left out has normal tails."""

    up: _Freedom | None = None
    out: _Freedom | None = None
    het: _Freedom | None = None
    tolerated: _Freedom | None = None
    caused: _Freedom | None = None


class _Narrowings(StrictStruct, frozen=True, omit_defaults=True):
    """Exponents inside the 90% interval by part of a profile; what is left out has 1."""

    up: _Narrowing = 1.0
    out: _Narrowing = 1.0
    het: _Narrowing = 1.0
    tolerated: _Narrowing = 1.0
    caused: _Narrowing = 1.0


class _Profile(StrictStruct, frozen=True):
    name: str
    measure: Measure
    base: Annotated[float, msgspec.Meta(ge=MIN_BASE, le=MAX_BASE)]
    base_deviation: _Deviation
    up: _Many
    out: Annotated[list[_OfReplicas], msgspec.Meta(min_length=1, max_length=MAX_COLUMNS)]
    het: Annotated[list[_OfClass], msgspec.Meta(min_length=1, max_length=MAX_COLUMNS)]
    tolerated: list[_OfSource]
    caused: list[_OfSource]
    assumed: list[str] = msgspec.field(default_factory=list)
    identity: str = ""
    corrections: list[Correction] = msgspec.field(default_factory=list)
    work_variation: WorkVariation | None = None
    reference_class: str = ""
    tails: _Tails = _Tails()
    narrowings: _Narrowings = _Narrowings()


class _Document(JsonDocument, frozen=True):
    FORMAT: ClassVar = DocumentFormat(VERSION, MAX_BYTES)

    version: int
    profiles: list[_Profile]


def profiles_to_json(profiles: tuple[WorkloadProfile, ...]) -> str:
    """Profiles as one versioned JSON document.

    Args:
        profiles: profiles, in the order of the document.
    """
    return _Document(version=VERSION, profiles=[_written(profile) for profile in profiles]).to_json()


def profiles_from_json(text: str | bytes, *, where: str) -> tuple[WorkloadProfile, ...]:
    """Profiles of a JSON document that `profiles_to_json` wrote, or another program.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the field that is missing, unknown, doubled or out of range, or an unknown version.
    """
    document = _Document.from_json(text, where=where)
    found: dict[str, WorkloadProfile] = {}
    for place, profile in enumerate(document.profiles):
        path = f"profiles[{place}]"
        if profile.name in found:
            raise InputError(f"{path}.name: {profile.name!r} is given twice", where=where)
        try:
            found[profile.name] = _read(profile)
        except ValueError as error:
            raise InputError(f"{path}.{error}", where=where) from error
    return tuple(found.values())


def _written(profile: WorkloadProfile) -> _Profile:
    def pairs(estimate: Estimate) -> list[tuple[float, float]]:
        return list(zip(estimate.mean.tolist(), estimate.deviation.tolist(), strict=True))

    measured = [name for name in SOURCES if name not in profile.assumed]

    def by_source(estimate: Estimate) -> list[_OfSource]:
        both = dict(zip(SOURCES, pairs(estimate), strict=True))
        return [_OfSource(source=name, mean=both[name][0], deviation=both[name][1]) for name in measured]

    return _Profile(
        name=profile.name,
        measure=profile.measure,
        base=profile.base,
        base_deviation=profile.base_deviation,
        up=[
            _OfSize(cores=size.cores, memory_gb=size.memory_gb, mean=mean, deviation=deviation)
            for size, (mean, deviation) in zip(profile.sizes, pairs(profile.up), strict=True)
        ],
        out=[
            _OfReplicas(replicas=count, mean=mean, deviation=deviation)
            for count, (mean, deviation) in zip(profile.replicas.tolist(), pairs(profile.out), strict=True)
        ],
        het=[
            _OfClass(node_class=name, mean=mean, deviation=deviation)
            for name, (mean, deviation) in zip(profile.classes, pairs(profile.het), strict=True)
        ],
        tolerated=by_source(profile.tolerated),
        caused=by_source(profile.caused),
        assumed=list(profile.assumed),
        identity=profile.identity,
        corrections=list(profile.corrections),
        work_variation=profile.work_variation,
        reference_class=profile.reference_class,
        tails=_Tails(
            **{
                part: min(getattr(profile, part).tails.freedom, MAX_FREEDOM)
                for part in _Tails.__struct_fields__
                if math.isfinite(getattr(profile, part).tails.freedom)
            }
        ),
        narrowings=_Narrowings(
            **{part: getattr(profile, part).tails.narrowing for part in _Narrowings.__struct_fields__}
        ),
    )


def _read(profile: _Profile) -> WorkloadProfile:
    """Profile of a checked struct; a ValueError starts with the field."""
    sizes = tuple(Size(entry.cores, entry.memory_gb) for entry in profile.up)
    replicas = [entry.replicas for entry in profile.out]
    classes = tuple(entry.node_class for entry in profile.het)
    if len(set(sizes)) < len(sizes):
        raise ValueError("up: a size is given twice")
    if replicas[0] != 1 or any(late <= early for early, late in itertools.pairwise(replicas)):
        raise ValueError("out: replicas must rise from 1")
    if len(set(classes)) < len(classes):
        raise ValueError("het: a class is given twice")
    for correction in profile.corrections:
        known = correction.size in sizes and correction.replicas in replicas
        if not (known and correction.node_class in classes):
            raise ValueError("corrections: the size, replicas and class must be among those of the profile")
    return WorkloadProfile(
        name=profile.name,
        measure=profile.measure,
        base=profile.base,
        base_deviation=profile.base_deviation,
        sizes=sizes,
        up=_estimate(profile.up, _tails_of(profile, "up")),
        replicas=np.array(replicas, dtype=np.int64),
        out=_estimate(profile.out, _tails_of(profile, "out")),
        classes=classes,
        het=_estimate(profile.het, _tails_of(profile, "het")),
        tolerated=_over_sources(profile, "tolerated", otherwise=1.0),
        caused=_over_sources(profile, "caused", otherwise=0.0),
        assumed=tuple(profile.assumed),
        identity=profile.identity,
        corrections=tuple(profile.corrections),
        work_variation=profile.work_variation,
        reference_class=profile.reference_class,
    )


def _estimate(entries: list[_OfSize] | list[_OfReplicas] | list[_OfClass], tails: ErrorTails) -> Estimate:
    return Estimate(
        np.array([entry.mean for entry in entries]),
        np.array([entry.deviation for entry in entries]),
        tails,
    )


def _tails_of(profile: _Profile, part: str) -> ErrorTails:
    freedom: float | None = getattr(profile.tails, part)
    return ErrorTails(math.inf if freedom is None else freedom, getattr(profile.narrowings, part))


def _over_sources(profile: _Profile, field_name: str, *, otherwise: float) -> Estimate:
    entries: list[_OfSource] = getattr(profile, field_name)
    given = [entry.source for entry in entries]
    for name in (*given, *profile.assumed):
        if name not in SOURCES:
            raise ValueError(f"{field_name}: no source {name!r}; known: {', '.join(SOURCES)}")
    if sorted((*given, *profile.assumed)) != sorted(SOURCES):
        raise ValueError(f"{field_name}: needs each source once, here or in `assumed`")
    by_name = {entry.source: entry for entry in entries}
    mean = [by_name[name].mean if name in by_name else otherwise for name in SOURCES]
    deviation = [by_name[name].deviation if name in by_name else 0.0 for name in SOURCES]
    return Estimate(np.array(mean), np.array(deviation), _tails_of(profile, field_name))
