"""Limits of the process, per-stage state, and a plan compiled into fast per-stage settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

import msgspec

from kwiken.errors import DefinitionError, InputError
from kwiken.plan import (
    REQUEST,
    RESERVE_SHARE,
    UNSTATED_SHARE,
    Account,
    CatchUpPolicy,
    LedgerTerms,
    PartialPolicy,
    Plan,
    only_prompt_earn,
)
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.decisions.ledger import Ledger, RetryAccount
from kwiken.runtime.decisions.replica_choice import Picker
from kwiken.runtime.transport import MAX_PRIORITY, Replica
from kwiken.service import Reissue, Service, Stage


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hard limits of one executor, whatever the plan says.

    Attributes:
        deadline_ms: deadline of a request that names none, milliseconds.
        requests: largest number of requests at once.
        always: number of requests at once below which slowness alone turns none away.
        gain: weight of one request in the moving averages of request times, 0 to 1.
        wait_share: share of a request's deadline that, spent waiting for the event loop, counts as full load.
        least_wait_s: wait for the event loop that never counts as full load, seconds, however short the
            deadline is.
        calm_below: load, from 0 to 1, from which on no copies are sent.
        shed_low_at: load, from 0 to 1, from which on requests of priority -1 are turned away; each lower
            priority is turned away sooner by `shed_step`.
        shed_at: load, from 0 to 1, from which on requests of priority 0 are turned away.
        shed_high_at: load, from 0 to 1, from which on requests of the highest priority are turned away; each
            lower priority, down to 1, is turned away sooner by `shed_step`.
        shed_step: difference in load, from 0 to 1, between two adjacent priorities.
        least_retry_after_s: shortest retry delay given to a request that is turned away, seconds.
        most_retry_after_s: longest retry delay given to a request that is turned away, seconds.
        retry_share: retries that one success earns, as a share of a retry.
        retry_burst: largest number of retries in a row without a success.
    """

    deadline_ms: float = 10_000.0
    requests: int = 1024
    always: int = 16
    gain: float = 0.05
    wait_share: float = 0.1
    least_wait_s: float = 0.05
    calm_below: float = 0.5
    shed_low_at: float = 0.7
    shed_at: float = 0.85
    shed_high_at: float = 1.0
    shed_step: float = 0.01
    least_retry_after_s: float = 0.1
    most_retry_after_s: float = 10.0
    retry_share: float = 0.1
    retry_burst: int = 32

    def shed_threshold(self, priority: int) -> float:
        """Load, from 0 to 1, from which on requests of this priority are turned away."""
        if priority == 0:
            return self.shed_at
        if priority > 0:
            return self.shed_high_at - self.shed_step * max(0, MAX_PRIORITY - priority)
        return self.shed_low_at + self.shed_step * (max(priority, -MAX_PRIORITY) + 1)


BUSY_GAIN = 0.05  # weight of one call in the moving average of busy times
BUSY_CLIP = 3.0  # one sample counts at most as this multiple of the average: replicas may report anything


class StageState:
    """State of one stage that outlives plans: replicas, accounts and counters."""

    __slots__ = (
        "account",
        "busy_ms",
        "copies",
        "failed",
        "late_calls",
        "late_copies",
        "late_extra",
        "late_threads",
        "latencies",
        "picker",
        "resends",
        "retries",
        "stops",
        "waits",
    )

    def __init__(self, replicas: Iterable[Replica], limits: Limits, rng: random.Random) -> None:
        self.picker = Picker(replicas, rng)
        self.account = Account()
        self.retries = RetryAccount(limits.retry_share, limits.retry_burst)
        self.latencies = LatencyHistogram()
        self.busy_ms = 0.0  # moving average for calls with one thread; 0 where unknown
        self.copies = 0
        self.resends = 0
        self.failed = 0
        self.late_calls = 0  # calls that started late and got more threads or priority
        self.late_copies = 0
        self.late_threads = 0  # calls that got more than one thread
        self.late_extra = 0.0  # their extra work, as a share of a call's work; 0 where unknown
        self.stops = 0  # fan-outs cut short by the plan's stop rule
        self.waits = 0  # fan-outs that waited on, without budget for the lost utility

    def learn_busy(self, busy_ms: float) -> None:
        """Record the busy time of a call with one thread."""
        known = self.busy_ms
        self.busy_ms = known + BUSY_GAIN * (min(busy_ms, BUSY_CLIP * known) - known) if known else busy_ms


class CompiledStage:
    """One stage with the settings of one program. Times in seconds.

    Attributes:
        after: age of a call at which a copy may be sent; infinite for never.
        cost: cost of one call, in micro-units of a request's cost.
        refill: age below which a success fills the stage's bucket.
        late: age of a request from which on this stage helps it to catch up; infinite for never.
        late_copies: whether calls of late requests get a copy.
        late_threads: threads for calls of late requests, 1 or more.
        late_levels: priority levels that calls of late requests gain, 0 or more.
        blame_after: age at which a call without an answer counts against its replica.
        prompt: age of a request up to which a success of this stage fills the catch-up account; infinite
            if no stage of the program catches up.
    """

    __slots__ = (
        "after",
        "blame_after",
        "children",
        "copies",
        "cost",
        "fanout",
        "hang",
        "idempotent",
        "index",
        "late",
        "late_copies",
        "late_levels",
        "late_threads",
        "name",
        "optional",
        "parent_names",
        "parents",
        "partial",
        "probability",
        "prompt",
        "refill",
        "state",
        "threads",
        "timeout",
        "utility",
        "weight",
        "worth",
    )

    def __init__(self, index: int, stage: Stage, state: StageState) -> None:
        self.index = index
        self.name = stage.name
        self.state = state
        self.parent_names = stage.after
        self.parents: tuple[int, ...] = ()
        self.children: tuple[int, ...] = ()
        self.fanout = stage.fanout
        self.optional = stage.optional
        self.idempotent = stage.idempotent
        self.timeout = stage.timeout_ms / 1000
        # A hung replica never answers: half of the timeout is for it, half for a retry on another one.
        self.blame_after = self.timeout / 2
        self.hang = self.blame_after if stage.idempotent else inf
        self.utility: Callable[..., float] | None = stage.utility
        self.worth: Callable[..., Sequence[float]] | None = stage.worth
        self.weight = stage.utility_weight
        self.threads = stage.threads
        self.cost = 0
        self.after = inf
        self.copies = 0
        self.probability = 0.0
        self.refill = inf
        self.partial: PartialPolicy | None = None
        self.late = inf
        self.late_copies = False
        self.late_threads = 1
        self.late_levels = 0
        self.prompt = inf

    def catch_up_by(self, policy: CatchUpPolicy) -> None:
        """Apply a catch-up policy; call `reissue_by` first."""
        self.late = policy.after_ms / 1000
        self.late_copies = policy.reissue
        self.late_threads = policy.threads
        self.late_levels = LATE_LEVELS if policy.priority else 0
        if policy.reissue:
            self.copies = max(1, self.copies)

    def reissue_by(self, policy: Reissue) -> None:
        """Apply a reissue policy."""
        self.after = policy.after_ms / 1000
        self.copies = policy.copies
        self.probability = policy.probability
        self.refill = self.after if only_prompt_earn(policy) else inf


LATE_LEVELS = 1  # priority levels that a call of a late request gains


class Program:
    """Service and plan, compiled; immutable, so that a request keeps the program with which it started.

    Attributes:
        stages: compiled stages, parents before children.
        serial: whether each stage waits for the one before it and none is a fan-out.
        digest: digest of the plan; None without a plan.
        request_budget: amount that one request may spend on copies, in micro-units: the cost of a request.
        reissues: whether any stage is reissued.
        catches_up: whether any stage helps late requests.
        levers: whether the plan changes anything, so that some requests must run without it as a control
            group.
        weight: sum of the utility weights of the stages whose answers may be missing or partial.
    """

    __slots__ = (
        "catches_up",
        "digest",
        "levers",
        "plan",
        "reissues",
        "request_budget",
        "serial",
        "sink",
        "sources",
        "stages",
        "weight",
    )

    def __init__(self, stages: tuple[CompiledStage, ...], plan: Plan | None, sink: int) -> None:
        self.stages = stages
        self.plan = plan
        self.sink = sink
        self.digest = plan.digest if plan is not None else None
        self.request_budget = sum(stage.cost * stage.fanout for stage in stages)
        self.reissues = any(stage.after < inf for stage in stages)
        self.catches_up = any(stage.late < inf for stage in stages)
        self.levers = self.reissues or self.catches_up or any(stage.partial is not None for stage in stages)
        self.weight = sum(stage.weight for stage in stages if stage.fanout > 1 or stage.optional)
        self.sources = tuple(stage.index for stage in stages if not stage.parents)
        self.serial = all(
            stage.fanout == 1 and (stage.index == 0 or stage.index - 1 in stage.parents) for stage in stages
        )

    @property
    def dearest_copy(self) -> int:
        """Highest cost of a call that may be reissued, in micro-units."""
        return max((stage.cost for stage in self.stages if stage.after < inf), default=0)

    @property
    def dearest_catch_up(self) -> int:
        """Highest extra cost that one call of a late request may cause, in micro-units."""
        return max(
            (stage.cost * max(stage.late_copies, stage.late_threads - 1) for stage in self.stages), default=0
        )


def compile_program(service: Service, plan: Plan | None, states: Mapping[str, StageState]) -> Program:
    """Compile a plan for a service.

    Args:
        service: service to run.
        plan: plan for it; None to run it without a plan.
        states: state of each stage, by name.

    Raises:
        InputError, DefinitionError: the plan does not fit the service; nothing has changed then.
    """
    if plan is not None:
        plan.check(service)
        _refuse_unfit(service, plan)
    places = {name: index for index, name in enumerate(service.stages)}
    stages = tuple(CompiledStage(places[name], stage, states[name]) for name, stage in service.stages.items())
    for stage in stages:
        stage.parents = tuple(places[parent] for parent in stage.parent_names)
        stage.children = tuple(places[child] for child in service.children(stage.name))
        stage.cost = _call_cost(service, plan, stage)
        policy = reissue_of(service, plan, stage.name)
        if policy is not None:
            stage.reissue_by(policy)
        entry = plan.stages.get(stage.name) if plan is not None else None
        if entry is not None:
            stage.partial = entry.partial
            if entry.catch_up is not None:
                stage.catch_up_by(entry.catch_up)
    late = min(stage.late for stage in stages)
    for stage in stages:
        stage.prompt = late
    return Program(stages, plan, places[service.sink])


def reissue_of(service: Service, plan: Plan | None, name: str) -> Reissue | None:
    """Reissue policy in force for a stage: the plan's, or without any plan the stage's own."""
    if plan is None:
        return service[name].reissue
    entry = plan.stages.get(name)
    return entry.reissue if entry is not None else None


def _call_cost(service: Service, plan: Plan | None, stage: CompiledStage) -> int:
    share = plan.cost.stages.get(stage.name, 0.0) if plan is not None else 1 / len(service.stages)
    return round(share * REQUEST / stage.fanout)


def _refuse_unfit(service: Service, plan: Plan) -> None:
    """Refuse a plan that asks a stage for something it cannot do."""
    for name, entry in plan.stages.items():
        late = entry.catch_up
        if entry.partial is not None and service[name].fanout == 1:
            raise DefinitionError("the plan makes it partial, but it is no fan-out", stage=name)
        if late is None:
            continue
        stage = service[name]
        if late.reissue and not stage.idempotent:
            raise DefinitionError("the plan reissues it where late, but it is not idempotent", stage=name)
        if late.threads > stage.threads:
            raise DefinitionError(
                f"the plan gives late calls {late.threads} threads, but it is defined with {stage.threads}",
                stage=name,
            )
        if (late.reissue or late.threads > 1) and name not in plan.cost.stages:
            raise InputError("catches up at a cost, but has none in the plan", where=f"stage {name!r}")


def retune(ledger: Ledger, states: Mapping[str, StageState], program: Program, *, service: Service) -> None:
    """Set the bounds of the accounts by a program; earnings and spends stay.

    Args:
        ledger: ledger of the service.
        states: state of each stage, by name.
        program: program that comes into force; without a plan, stages' own policies have a budget of 10%.
        service: service that the program runs.
    """
    plan = program.plan
    terms = plan.ledger if plan is not None else LedgerTerms()
    ledger.floor.retune(terms.floor_per_s)
    budget = plan.budgets.reissue * (1 - RESERVE_SHARE) if plan is not None else UNSTATED_SHARE
    ledger.service.retune(
        terms.service_bounds(budget if program.reissues else 0.0, least_burst=program.dearest_copy)
    )
    budget = plan.budgets.catch_up * (1 - RESERVE_SHARE) if plan is not None else 0.0
    ledger.catch_up.retune(
        terms.service_bounds(budget if program.catches_up else 0.0, least_burst=program.dearest_catch_up)
    )
    ledger.utility.retune(terms.utility_bounds(plan.budgets.utility_loss if plan is not None else 0.0))
    for name, state in states.items():
        state.account.retune(terms.stage_bounds(reissue_of(service, plan, name)))
