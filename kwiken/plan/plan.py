"""The plan: what each stage may spend, and what that is expected to buy. Versioned JSON."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from kwiken.errors import DefinitionError, InputError
from kwiken.parsing import convert, parse_json
from kwiken.service import Reissue, Service

VERSION = 1
MAX_BYTES = 16 << 20
MAX_THREADS = 1024
_ROUNDING = 1e-6


def _need(condition: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Refuse a value; msgspec turns the error into one that names the field."""
    if not condition:
        raise ValueError(message)


def _not_negative(value: float) -> bool:
    """Whether it is a finite number from 0; False for NaN."""
    return math.isfinite(value) and value >= 0


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Budgets(_Struct, frozen=True):
    """What the whole service may spend.

    Attributes:
        reissue: extra resource, as a fraction of the cost model's total.
        utility_loss: loss of answer quality, as a fraction.
        catch_up: extra resource for requests that are late already, as a fraction.
    """

    reissue: float = 0.0
    utility_loss: float = 0.0
    catch_up: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a budget that is not a share."""
        for name in ("reissue", "utility_loss", "catch_up"):
            value = getattr(self, name)
            if not 0 <= value <= 1:  # NaN fails too
                raise ValueError(f"{name} must be a share from 0 to 1, not {value}")


class SpanMatch(_Struct, frozen=True):
    """Which spans of a trace are calls of a stage.

    Attributes:
        service: `service.name` of the spans.
        operation: name of the spans.
        occurrence: which call of that name under one parent, from 1.
    """

    service: str
    operation: str
    occurrence: int = 1

    def __post_init__(self) -> None:
        """Refuse a call before the first."""
        _need(self.occurrence >= 1, f"occurrence counts from 1, so it cannot be {self.occurrence}")


class PartialPolicy(_Struct, frozen=True):
    """When a fan-out stops waiting (Kwiken section 5.3's dynamic rule).

    Attributes:
        cutoff_ms: age of the stage at which it answers with what it has; None for never.
        wait_ms: how long it goes on waiting after `progress` was reached; None for ever.
        progress: share of shards that must have answered.
        loss: expected loss of the stage's utility, a fraction.
        weight: what a unit of that loss costs the whole answer: 1 where every stage's part is needed, the
            stage's share of the weights where parts count on their own.
    """

    cutoff_ms: float | None
    wait_ms: float | None
    progress: float
    loss: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no clock or share could be."""
        for name in ("cutoff_ms", "wait_ms"):
            value = getattr(self, name)
            _need(value is None or _not_negative(value), f"{name} must be a finite number >= 0, not {value}")
        for name in ("progress", "loss", "weight"):
            value = getattr(self, name)
            _need(0 <= value <= 1, f"{name} must be a share from 0 to 1, not {value}")


class CatchUpPolicy(_Struct, frozen=True):
    """What a stage does for a request that is late already (Kwiken section 5.5).

    Attributes:
        after_ms: age of the request, from its own start, at which it is late.
        threads: threads that a call gets which starts late.
        priority: whether such a call goes ahead of others.
        reissue: whether a call in flight gets a copy when its request comes of that age, and later calls
            one at their start.
    """

    after_ms: float
    threads: int = 1
    priority: bool = False
    reissue: bool = False

    def __post_init__(self) -> None:
        """Refuse what no clock or replica could serve."""
        _need(_not_negative(self.after_ms), f"after_ms must be a finite number >= 0, not {self.after_ms}")
        known = 1 <= self.threads <= MAX_THREADS
        _need(known, f"threads must be from 1 to {MAX_THREADS}, not {self.threads}")

    @property
    def speedup(self) -> float:
        """How much faster the threads do a call's work: the law through the source's 3 threads, 2 times."""
        return 1.0 + (self.threads - 1) / 2

    @property
    def extra_work(self) -> float:
        """Work that the threads burn beyond one thread's, as a share of it: `threads / speedup - 1`."""
        return self.threads / self.speedup - 1.0


class StagePlan(_Struct, frozen=True, omit_defaults=True):
    """The policies of one stage; what is absent is not done.

    Attributes:
        match: which spans of a foreign trace the stage is.
        reissue: when a copy of a call goes.
        partial: when a fan-out stops waiting.
        catch_up: what is done for requests that are late already.
    """

    match: SpanMatch | None = None
    reissue: Reissue | None = None
    partial: PartialPolicy | None = None
    catch_up: CatchUpPolicy | None = None


class Costs(_Struct, frozen=True):
    """Normalised cost of one visit of each stage: shares that sum to 1 (a fan-out: over its shards).

    Stages that cannot be reissued may be left out, so the shares given sum to at most 1.

    Attributes:
        model: name of the cost model: `typical`, `busy`, `calls`, `mean` or `file`.
        stages: by stage: its share, from 0 to 1.
    """

    model: str
    stages: dict[str, float]

    def __post_init__(self) -> None:
        """Refuse what is no share of a whole."""
        for name, share in self.stages.items():
            _need(_not_negative(share), f"cost of stage {name!r} must be a finite number >= 0, not {share}")
        total = math.fsum(self.stages.values())
        _need(total <= 1 + _ROUNDING, f"shares of cost must sum to at most 1, not {total:g}")


class Ladder(_Struct, frozen=True):
    """Percentiles of the latency of whole requests, milliseconds; 0 where a percentile is not stated.

    Attributes:
        p50_ms: the median.
        p90_ms: nine in ten requests take no longer.
        p95_ms: 19 in 20.
        p99_ms: 99 in 100.
        p999_ms: 999 in 1000.
    """

    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no latency."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            _need(_not_negative(value), f"{name} must be a finite number >= 0, not {value}")


class Intervals(_Struct, frozen=True, omit_defaults=True):
    """Bounds around expected percentiles: for each field of `Ladder`, low and high.

    Attributes:
        before: bounds of the ladder without the plan, milliseconds.
        after: bounds of the ladder with it, milliseconds.
        spent: bounds of what is spent, by budget's name, as fractions.
    """

    before: dict[str, tuple[float, float]] = {}
    after: dict[str, tuple[float, float]] = {}
    spent: dict[str, tuple[float, float]] = {}


class Expected(_Struct, frozen=True, omit_defaults=True):
    """What the plan is expected to buy, and at what price.

    Attributes:
        before: ladder without the plan.
        after: ladder with it.
        spent: expected spend, by budget's name, as fractions.
        interval: probability that the bounds are meant to cover.
        bounds: low and high of every figure.
    """

    before: Ladder
    after: Ladder
    spent: Budgets
    interval: float = 0.9
    bounds: Intervals = Intervals()

    def __post_init__(self) -> None:
        """Refuse an interval that is no probability."""
        _need(0 < self.interval <= 1, f"interval must be a probability in (0, 1], not {self.interval}")


class Plan(_Struct, frozen=True, omit_defaults=False):
    """A plan for one service (design 5.2).

    Attributes:
        version: 1; others are refused.
        service: name of the service.
        created: RFC 3339 time, given by the caller.
        profile: digest of the profile that it was made from.
        budgets: what may be spent.
        cost: the cost model and its shares.
        stages: policies by stage.
        expected: what it should buy.
    """

    version: int
    service: str
    created: str
    profile: str
    budgets: Budgets
    cost: Costs
    stages: dict[str, StagePlan]
    expected: Expected | None = None

    def __post_init__(self) -> None:
        """Refuse other versions, and a reissue that nobody could account for."""
        _need(self.version == VERSION, f"version must be {VERSION}, not {self.version}")
        for name, stage in self.stages.items():
            known = stage.reissue is None or name in self.cost.stages
            _need(known, f"stage {name!r} is reissued but has no cost")

    @property
    def digest(self) -> str:
        """A short name of this very plan: the start of the SHA-256 of its JSON."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]

    def to_json(self) -> str:
        """The plan as JSON, readable by `from_json`."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "plan") -> Plan:
        """Read a plan.

        Args:
            text: JSON.
            where: named in errors, a file's path say.

        Raises:
            InputError: for anything but a plan of version 1 with known fields only; names the field.
        """
        raw = parse_json(text, where=where, max_bytes=MAX_BYTES)
        if isinstance(raw, dict):
            _check_parts(raw, where=where)
        return convert(raw, cls, where=where)

    def check(self, service: Service) -> None:
        """Check that the plan fits a service.

        Raises:
            InputError: for another service.
            DefinitionError: for an unknown stage, or one that may not be reissued; names the stage.
        """
        if self.service != service.name:
            raise InputError(
                f"the plan is for service {self.service!r}, not {service.name!r}", where="service"
            )
        for name, stage in self.stages.items():
            if stage.reissue is None and stage.partial is None and stage.catch_up is None:
                continue
            target = service[name]
            if stage.reissue is not None and not target.idempotent:
                raise DefinitionError("the plan reissues it, but it is not idempotent", stage=name)


def _check_parts(raw: dict[str, Any], *, where: str) -> None:
    """Check what a check of the whole could not name: the version first, then each stage by its name."""
    version = raw.get("version", VERSION)
    if version != VERSION or isinstance(version, bool | float):
        raise InputError(f"version must be {VERSION}, not {version!r}", where=where)
    stages = raw.get("stages")
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        convert(stage, StagePlan, where=f"{where}: stage {name!r}")
    cost = raw.get("cost")
    shares = cost.get("stages") if isinstance(cost, dict) else None
    for name, share in shares.items() if isinstance(shares, dict) else ():
        convert(share, float, where=f"{where}: cost of stage {name!r}")
