"""Plan of a service: policies by stage, budgets, and the expected effect, as versioned JSON."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Literal

import msgspec

from kwiken.base.errors import DefinitionError, InputError
from kwiken.base.parsing.strict_json import check_version, convert, parse_json
from kwiken.model.plan.ledger_terms import MAX_SERVICE_FLOOR_PER_S, LedgerTerms
from kwiken.model.service.service import MAX_STAGES, Service
from kwiken.model.service.stage import Reissue

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))  # of HTTP: their requests read
VERSION = 1
MAX_BYTES = 16 << 20
MAX_THREADS = 1024
PROFILE_FIELDS = {"latency_ms", "started_s"}  # top-level fields by which a profile is recognised
MAX_PORT = 65_535
MAX_HOST = 253
SHARES_ROUNDING = 1e-3  # by which the shares of all stages may sum to less than 1
_ROUNDING = 1e-6  # by which shares of cost may sum to more than 1


def _need(condition: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise ValueError unless the condition holds; msgspec adds the field's name to the message."""
    if not condition:
        raise ValueError(message)


def _not_negative(value: float) -> bool:
    """Whether the value is finite and 0 or more; False for NaN."""
    return math.isfinite(value) and value >= 0


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Budgets(_Struct, frozen=True):
    """Budgets of the whole service, each a share from 0 to 1.

    Attributes:
        reissue: extra work for copies, as a share of the cost model's total.
        utility_loss: mean loss of answer utility, as a share.
        catch_up: extra work for requests that are already late, as a share of the cost model's total.
    """

    reissue: float = 0.0
    utility_loss: float = 0.0
    catch_up: float = 0.0

    def __post_init__(self) -> None:
        """Check that every budget is from 0 to 1."""
        for name in ("reissue", "utility_loss", "catch_up"):
            value = getattr(self, name)
            if not 0 <= value <= 1:  # NaN fails too
                raise ValueError(f"{name} must be a share from 0 to 1, not {value}")


class SpanMatch(_Struct, frozen=True, omit_defaults=True):
    """Rule that matches the spans of a trace that are calls of a stage.

    Attributes:
        service: `service.name` of the spans.
        occurrence: position of the call among those of that name under one parent, 1 or more.
        method: HTTP method of the calls, upper case; None where the spans do not say.
        path: route of the calls, or `/package.Service/Method`, as attributes of the spans state it; None if
            they do not.
        host: name by which callers reach the callee; None where the spans do not say.
        port: port of the callee, from 1 to 65,535; None where the spans do not say.
    """

    service: str
    operation: str
    occurrence: int = 1
    method: str | None = None
    path: str | None = None
    host: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        """Check that occurrence and port are in range, and that method, path and host may be such."""
        _need(self.occurrence >= 1, f"occurrence counts from 1, so it cannot be {self.occurrence}")
        _need(self.port is None or 1 <= self.port <= MAX_PORT, f"port must be from 1 to {MAX_PORT}")
        _need(self.method is None or self.method.isalpha(), "method must be a word such as GET")
        _need(self.path is None or self.path.startswith("/"), "path must start with '/'")
        _need(
            self.host is None or 0 < len(self.host) <= MAX_HOST, f"host must have 1 to {MAX_HOST} characters"
        )


class PartialPolicy(_Struct, frozen=True):
    """Stop rule of a fan-out, which answers with the shards it has (Kwiken section 5.3, dynamic rule).

    Attributes:
        cutoff_ms: age of the stage at which it answers in any case, milliseconds; None for no cutoff.
        wait_ms: time that it waits after `progress` is reached, milliseconds; None to wait for all shards.
        progress: share of the shards that must have answered before `wait_ms` starts, 0 to 1.
        loss: expected loss of the stage's utility, 0 to 1.
        weight: loss of the whole answer per unit of the stage's loss, 0 to 1: 1 where the answer needs every
            stage, else the stage's share of the utility weights.
    """

    cutoff_ms: float | None
    wait_ms: float | None
    progress: float
    loss: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check that times are 0 or more, and shares from 0 to 1."""
        for name in ("cutoff_ms", "wait_ms"):
            value = getattr(self, name)
            _need(value is None or _not_negative(value), f"{name} must be a finite number >= 0, not {value}")
        for name in ("progress", "loss", "weight"):
            value = getattr(self, name)
            _need(0 <= value <= 1, f"{name} must be a share from 0 to 1, not {value}")


class CatchUpPolicy(_Struct, frozen=True):
    """Catch-up of a stage for requests that are already late (Kwiken section 5.5).

    Attributes:
        after_ms: age of the request from its start at which it is late, milliseconds.
        threads: number of threads for a call that starts late, 1 to `MAX_THREADS`.
        priority: whether a call that starts late is queued ahead of others.
        reissue: whether a pending call gets a copy when its request reaches that age, and later calls one at
            their start.
    """

    after_ms: float
    threads: int = 1
    priority: bool = False
    reissue: bool = False

    def __post_init__(self) -> None:
        """Check that the age is 0 or more and the number of threads in range."""
        _need(_not_negative(self.after_ms), f"after_ms must be a finite number >= 0, not {self.after_ms}")
        known = 1 <= self.threads <= MAX_THREADS
        _need(known, f"threads must be from 1 to {MAX_THREADS}, not {self.threads}")

    @property
    def speedup(self) -> float:
        """Factor by which the threads speed up a call: linear, through the source's 2 times at 3 threads."""
        return 1.0 + (self.threads - 1) / 2

    @property
    def extra_work(self) -> float:
        """Extra work of the threads as a share of one thread's work: `threads / speedup - 1`."""
        return self.threads / self.speedup - 1.0


class StagePlan(_Struct, frozen=True, omit_defaults=True):
    """Policies of one stage; an absent policy is not in force.

    Attributes:
        match: rule for the spans of the stage in foreign traces.
        catch_up: policy for requests that are already late.
        once: whether the plan was made for calls of the stage that must not be copied.
    """

    match: SpanMatch | None = None
    reissue: Reissue | None = None
    partial: PartialPolicy | None = None
    catch_up: CatchUpPolicy | None = None
    once: bool = False


class Costs(_Struct, frozen=True):
    """Normalised cost of one visit of each stage, over all shards of a fan-out: shares that sum to at most 1.

    The sum is below 1 where stages that cannot be reissued are left out.

    Attributes:
        model: name of the cost model: `typical`, `busy`, `calls`, `mean` or `file`.
        stages: by stage: its share of the cost, 0 to 1.
    """

    model: str
    stages: dict[str, float]

    def __post_init__(self) -> None:
        """Check that shares are 0 or more and sum to at most 1."""
        for name, share in self.stages.items():
            _need(_not_negative(share), f"cost of stage {name!r} must be a finite number >= 0, not {share}")
        total = math.fsum(self.stages.values())
        _need(total <= 1 + _ROUNDING, f"shares of cost must sum to at most 1, not {total:g}")


class Ladder(_Struct, frozen=True):
    """Percentiles of the latency of whole requests, milliseconds; 0 where a percentile is not stated.

    Attributes:
        p90_ms: latency that 90% of the requests do not exceed.
        p95_ms: latency that 95% of the requests do not exceed.
        p99_ms: latency that 99% of the requests do not exceed.
        p999_ms: latency that 99.9% of the requests do not exceed.
    """

    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0

    def __post_init__(self) -> None:
        """Check that every percentile is finite and 0 or more."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            _need(_not_negative(value), f"{name} must be a finite number >= 0, not {value}")


class Intervals(_Struct, frozen=True, omit_defaults=True):
    """Confidence bounds (low, high) of expected percentiles, by field of `Ladder`, and of the spend.

    Attributes:
        before: bounds of the percentiles without the plan, milliseconds.
        after: bounds of the percentiles with the plan, milliseconds.
        spent: bounds of the spend by name of the budget, as shares.
    """

    before: dict[str, tuple[float, float]] = {}
    after: dict[str, tuple[float, float]] = {}
    spent: dict[str, tuple[float, float]] = {}


class Correction(_Struct, frozen=True, omit_defaults=True):
    """Ratios of latencies under a tried plan to the latencies that the simulation expected of the plan.

    Attributes:
        requests: number of its requests that were seen.
        factors: by field of `Ladder`: latency that was seen, over the one expected.
        bounds: by field of `Ladder`: confidence bounds of the factor.
        spent: extra work of its copies that was seen, over the one expected; 1 where nothing is known.
        spent_bounds: confidence bounds of that factor.
    """

    plan: str
    requests: int
    factors: dict[str, float]
    bounds: dict[str, tuple[float, float]]
    spent: float = 1.0
    spent_bounds: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        """Check that the factors are positive and finite, and that their fields are those of a ladder."""
        for name, factor in self.factors.items():
            _need(name in Ladder.__struct_fields__, f"factors: {name!r} is no percentile")
            _need(0 < factor < math.inf, f"factors: {name} must be finite and above 0, not {factor}")
        low, high = self.spent_bounds
        ordered = 0 < low <= self.spent <= high < math.inf
        _need(
            ordered,
            f"spent must lie within its bounds, all finite and above 0, not {low}, {self.spent}, {high}",
        )


class CopyDoubt(_Struct, frozen=True, omit_defaults=True):
    """Reason why copies of a stage's late calls do little, whatever a plan expects of other stages.

    Attributes:
        kind: `one_replica`: all calls went to one replica; `together`: all replicas are slow at the same
            times; `replica`: most slow calls went to one replica; `requests`: requests are slow themselves.
        period_s: period of the times at which all replicas are slow, seconds; 0 where they are not regular.
        name: name of the replica, or of the attribute that parts slow requests from fast ones.
        values: values of that attribute that slow requests have.
    """

    kind: Literal["one_replica", "together", "replica", "requests"]
    stage: str
    period_s: float = 0.0
    name: str = ""
    values: tuple[str, ...] = ()


class Expected(_Struct, frozen=True, omit_defaults=True):
    """Expected effect of a plan, and its cost.

    Attributes:
        before: percentiles without the plan.
        after: percentiles with the plan; those of the simulation times the factors of the correction, if any.
        spent: expected spend by budget, as shares.
        interval: probability that each pair of bounds is meant to cover, above 0 and at most 1.
        bounds: confidence bounds of every figure; none of `after` where stages are unshown.
        by_spend: spend on copies, as a share of all work, and the p99 expected for it, milliseconds: what
            less and more of the budget would buy, each point lower than all cheaper ones. The first is no
            copies; insurance is left out.
        insured: stages whose copies only insure against stalls that have not come yet.
        unshown: stages with copies of which no trace shows that a copy is quick when its call is slow: the
            figures hold if a copy is as quick as a usual call.
        doubts: what speaks against copies of single stages, by what the traces tell.
        run_ms: range that the p99 of a run of 600 requests is expected in, with that probability,
            milliseconds; None where nothing shows what copies do.
        correction: what a plan that was tried showed of the simulation's errors; None where none was.
    """

    before: Ladder
    after: Ladder
    spent: Budgets
    interval: float = 0.9
    bounds: Intervals = Intervals()
    by_spend: tuple[tuple[float, float], ...] = ()
    insured: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()
    doubts: tuple[CopyDoubt, ...] = ()
    run_ms: tuple[float, float] | None = None
    correction: Correction | None = None

    def __post_init__(self) -> None:
        """Check that the interval is a probability."""
        _need(0 < self.interval <= 1, f"interval must be a probability in (0, 1], not {self.interval}")


class Plan(_Struct, frozen=True, omit_defaults=False):
    """Plan for one service.

    Attributes:
        version: version of the format; must be 1.
        created: time of creation (RFC 3339), given by the caller.
        profile: digest of the profile that the plan was made from.
        ledger: terms on which the budgets are granted; the defaults for a document that states none.
        cost: cost model and each stage's share of the cost.
        expected: expected effect; None where it was not computed.
    """

    version: int
    service: str
    created: str
    profile: str
    budgets: Budgets
    cost: Costs
    stages: dict[str, StagePlan]
    expected: Expected | None = None
    ledger: LedgerTerms = LedgerTerms()

    def __post_init__(self) -> None:
        """Check the version, and that every reissued stage has a cost to charge."""
        _need(self.version == VERSION, f"version must be {VERSION}, not {self.version}")
        for name, stage in self.stages.items():
            late = stage.catch_up
            at_cost = stage.reissue is not None or (late is not None and (late.reissue or late.threads > 1))
            priced = not at_cost or self.cost.stages.get(name, 0.0) > 0
            _need(priced, f"stage {name!r} is reissued or caught up but has no cost above 0")

    @property
    def digest(self) -> str:
        """Short identifier of the plan's content: the first 12 hex digits of the SHA-256 of its JSON."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]

    def to_json(self) -> str:
        """The plan as JSON, readable by `from_json`."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "plan") -> Plan:
        """Read a plan.

        Args:
            where: source to name in errors, such as a file's path.

        Raises:
            InputError: when the text is not a plan of version 1 with known fields only; names the field.
        """
        raw = parse_json(text, where=where, max_bytes=MAX_BYTES)
        if isinstance(raw, dict):
            if raw.keys() >= PROFILE_FIELDS:
                raise InputError(
                    "is a profile, and a plan is needed; a plan can be made from it", where=where
                )
            _check_parts(raw, where=where)
        return convert(raw, cls, where=where)

    def check(self, service: Service) -> None:
        """Check that the plan fits a service.

        Raises:
            InputError: when the plan is for another service, has more stages than it, its shares of cost do
                not add up, or its floor grants so many copies that no budget would hold.
            DefinitionError: for an unknown stage, or a reissue of one that is not idempotent; names the
                stage.
        """
        if self.service != service.name:
            raise InputError(
                f"the plan is for service {self.service!r}, not {service.name!r}", where="service"
            )
        if len(self.stages) > len(service.stages):
            raise InputError(
                f"the plan has {len(self.stages)} stages, and the service {len(service.stages)}",
                where="stages",
            )
        for name, stage in self.stages.items():
            if stage.reissue is None and stage.partial is None and stage.catch_up is None:
                continue
            target = service[name]
            if stage.reissue is not None and not target.idempotent:
                raise DefinitionError("the plan reissues it, but it is not idempotent", stage=name)
        if self.ledger.floor_per_s > MAX_SERVICE_FLOOR_PER_S:
            raise InputError(
                f"must be from 0 to {MAX_SERVICE_FLOOR_PER_S:g}, not {self.ledger.floor_per_s:g}",
                where="ledger: floor_per_s",
            )
        total = math.fsum(self.cost.stages.values())
        if self.cost.stages.keys() >= service.stages.keys() and total < 1 - SHARES_ROUNDING:
            raise InputError(f"the shares of all stages must sum to 1, not {total:g}", where="cost")


def _check_parts(raw: dict[str, Any], *, where: str) -> None:
    """Check the version, then each stage and cost alone, so that errors name the stage."""
    check_version(raw.get("version", VERSION), VERSION, where=where)
    stages = raw.get("stages")
    if isinstance(stages, dict) and len(stages) > MAX_STAGES:
        raise InputError(f"has {len(stages)} stages, and a service at most {MAX_STAGES}", where=where)
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        convert(stage, StagePlan, where=f"{where}: stage {name!r}")
    cost = raw.get("cost")
    shares = cost.get("stages") if isinstance(cost, dict) else None
    for name, share in shares.items() if isinstance(shares, dict) else ():
        convert(share, float, where=f"{where}: cost of stage {name!r}")
