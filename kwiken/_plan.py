"""The plan: what each stage may spend, and what that is expected to buy. Versioned JSON."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from kwiken._errors import DefinitionError, InputError
from kwiken._service import Reissue, Service

VERSION = 1


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


class PartialPolicy(_Struct, frozen=True):
    """When a fan-out stops waiting (Kwiken section 5.3's dynamic rule).

    Attributes:
        cutoff_ms: age of the stage at which it answers with what it has; None for never.
        wait_ms: how long it goes on waiting after `progress` was reached; None for ever.
        progress: share of shards that must have answered.
        loss: expected loss of utility, a fraction.
    """

    cutoff_ms: float | None
    wait_ms: float | None
    progress: float
    loss: float


class CatchUpPolicy(_Struct, frozen=True):
    """What a stage does for a request that is late already.

    Attributes:
        after_ms: age of the request, from its own start.
        threads: threads that a late request gets.
        priority: whether its calls go ahead of others.
    """

    after_ms: float
    threads: int = 1
    priority: bool = False


class StagePlan(_Struct, frozen=True, omit_defaults=True):
    """The policies of one stage; what is absent is not done."""

    match: SpanMatch | None = None
    reissue: Reissue | None = None
    partial: PartialPolicy | None = None
    catch_up: CatchUpPolicy | None = None


class Costs(_Struct, frozen=True):
    """Normalised cost of one visit of each stage: shares that sum to 1 (a fan-out: over its shards)."""

    model: str
    stages: dict[str, float]


class Ladder(_Struct, frozen=True):
    """Percentiles of the latency of whole requests, milliseconds."""

    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float


class Intervals(_Struct, frozen=True, omit_defaults=True):
    """Bounds around expected percentiles: for each field of `Ladder`, low and high."""

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
        """Refuse other versions and costs that are no shares."""
        if self.version != VERSION:
            raise ValueError(f"version must be {VERSION}, not {self.version}")
        for name, share in self.cost.stages.items():
            if not (math.isfinite(share) and share >= 0):
                raise ValueError(f"cost of stage {name!r} must be a finite number >= 0, not {share}")
        for name, stage in self.stages.items():
            if stage.reissue is not None and name not in self.cost.stages:
                raise ValueError(f"stage {name!r} is reissued but has no cost")

    @property
    def digest(self) -> str:
        """A short name of this very plan: the start of the SHA-256 of its JSON."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]

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
            InputError: for anything but a plan of version 1 with known fields only.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(str(error), where=where) from error

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


def ladder_from(percentiles: dict[str, Any]) -> Ladder:
    """A ladder from a mapping of its fields."""
    return msgspec.convert(percentiles, Ladder)
