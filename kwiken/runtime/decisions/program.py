"""What is in force: the limits of the process, and a plan compiled for speed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

import msgspec

from kwiken.errors import DefinitionError, InputError
from kwiken.plan import CatchUpPolicy, PartialPolicy, Plan
from kwiken.runtime.decisions.latency_histogram import Sketch
from kwiken.runtime.decisions.ledger import CALL, REQUEST, Account, Ledger, RetryAccount
from kwiken.runtime.decisions.replica_choice import Picker
from kwiken.runtime.transport import MAX_PRIORITY, Replica
from kwiken.service import Reissue, Service, Stage


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one executor may do, whatever the plan says.

    Attributes:
        deadline_ms: of a request that names none.
        requests: the most requests at once.
        always: requests at once that are never turned away for being slow.
        gain: weight of one request in the measure of slowness.
        wait_share: share of the time that a request may take which, spent in line for the event loop, counts
            as full load.
        least_wait_s: time in line that is never held against anybody, however little a request may take.
        calm_below: load, from 0 to 1, from which on nothing is reissued.
        shed_low_at: load, from 0 to 1, from which on requests of priority -1 are turned away; those of each
            level below by `shed_step` sooner.
        shed_at: load, from 0 to 1, from which on those of priority 0 are.
        shed_high_at: load, from 0 to 1, from which on those of the highest priority are; those of each level
            below, down to 1, by `shed_step` sooner.
        shed_step: load, from 0 to 1, between two levels of priority.
        least_retry_after_s: the shortest wait that a request turned away is told.
        most_retry_after_s: the longest.
        burst_requests: the service's bursts: its budgets of so many requests.
        burst_calls: a stage's burst, in copies.
        reserve: share of the service's budgets of extra work that is never spent. The ledger counts work when
            it is done, a reader of traces when it was sent; the difference must not look like overspending.
        slack: how far a stage may pass its planned fraction, so that its bursts fit; the service's budget
            has none.
        fixed_share: reissues allowed, as a share of the calls, to a policy that states no fraction.
        retry_share: retries that one success earns.
        retry_burst: retries in a row without success.
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
    burst_requests: float = 50.0
    burst_calls: int = 16
    reserve: float = 0.02
    slack: float = 1.5
    fixed_share: float = 0.1
    retry_share: float = 0.1
    retry_burst: int = 32

    def shed_threshold(self, priority: int) -> float:
        """Load, from 0 to 1, from which on requests of a priority are turned away."""
        if priority == 0:
            return self.shed_at
        if priority > 0:
            return self.shed_high_at - self.shed_step * max(0, MAX_PRIORITY - priority)
        return self.shed_low_at + self.shed_step * (max(priority, -MAX_PRIORITY) + 1)


BUSY_GAIN = 0.05
BUSY_CLIP = 3.0  # a call counts at most as this many times the usual: a replica may say what it likes


class Lane:
    """The state of one stage that outlives plans."""

    __slots__ = (
        "account",
        "busy_ms",
        "copies",
        "failed",
        "late_calls",
        "late_copies",
        "late_extra",
        "late_threads",
        "picker",
        "resends",
        "retries",
        "sketch",
        "stops",
        "waits",
    )

    def __init__(self, replicas: Iterable[Replica], limits: Limits, rng: random.Random) -> None:
        self.picker = Picker(replicas, rng)
        # The window that is promised is the service's. A stage whose few stalls come together may pass its
        # own by a burst, or most of them would find nothing where budgets are small.
        self.account = Account(0.0, 0, grace=True)
        self.retries = RetryAccount(limits.retry_share, limits.retry_burst)
        self.sketch = Sketch()
        self.busy_ms = 0.0  # usual busy time of a call with one thread; 0 where unknown
        self.copies = 0
        self.resends = 0
        self.failed = 0
        self.late_calls = 0  # that started late, and went with threads or priority
        self.late_copies = 0
        self.late_threads = 0  # calls that got more than one
        self.late_extra = 0.0  # what such a call burns beyond its own work, as a share of it; 0 where unknown
        self.stops = 0  # visits that answered in part because the plan's rule said so
        self.waits = 0  # and those that waited on, as there was no utility left to lose

    def learn_busy(self, busy_ms: float) -> None:
        """Note the busy time of a call with one thread."""
        known = self.busy_ms
        self.busy_ms = known + BUSY_GAIN * (min(busy_ms, BUSY_CLIP * known) - known) if known else busy_ms


class Node:
    """One stage as one program runs it. Times in seconds.

    Attributes:
        after: age of a call at which a copy may go; infinite for never.
        cost: of one call, grains of a request's cost.
        refill: age below which a success fills the stage's bucket.
        late: age of a request from which on this stage helps it to catch up; infinite for never.
        late_copies: whether its calls get a copy then.
        late_threads: threads that its calls get then.
        late_levels: levels of priority that its calls gain then.
        prompt: age of a request up to which a success of this stage fills the catch-up account; infinite
            where nothing of the program catches up.
    """

    __slots__ = (
        "after",
        "children",
        "copies",
        "cost",
        "fanout",
        "hang",
        "idempotent",
        "index",
        "lane",
        "late",
        "late_copies",
        "late_levels",
        "late_threads",
        "name",
        "optional",
        "parent_names",
        "parents",
        "partial",
        "patience",
        "probability",
        "prompt",
        "refill",
        "threads",
        "timeout",
        "utility",
        "weight",
        "worth",
    )

    def __init__(self, index: int, stage: Stage, lane: Lane) -> None:
        self.index = index
        self.name = stage.name
        self.lane = lane
        self.parent_names = stage.after
        self.parents: tuple[int, ...] = ()
        self.children: tuple[int, ...] = ()
        self.fanout = stage.fanout
        self.optional = stage.optional
        self.idempotent = stage.idempotent
        self.timeout = stage.timeout_ms / 1000
        # A paused replica never answers: half of the time is for it, the other half for another one.
        self.patience = self.timeout / 2
        self.hang = self.patience if stage.idempotent else inf
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
        """Take a catch-up policy, after the reissue policy."""
        self.late = policy.after_ms / 1000
        self.late_copies = policy.reissue
        self.late_threads = policy.threads
        self.late_levels = LATE_LEVELS if policy.priority else 0
        if policy.reissue:
            self.copies = max(1, self.copies)

    def reissue_by(self, policy: Reissue) -> None:
        """Take a reissue policy."""
        self.after = policy.after_ms / 1000
        self.copies = policy.copies
        self.probability = policy.probability
        # Only calls that beat the reissue moment earn reissues: where everything is slow, nothing is
        # reissued. A policy that reissues most calls leaves too few of those to live on; there every
        # success earns.
        self.refill = self.after if _late_share(policy) <= MOSTLY else inf


MOSTLY = 0.5
LATE_LEVELS = 1


def _late_share(policy: Reissue) -> float:
    """Share of the calls that the policy expects to reach its reissue moment."""
    return min(1.0, policy.fraction / policy.probability)


def stage_fraction(policy: Reissue | None, limits: Limits) -> float:
    """Share of a stage's calls that its own account lets it reissue.

    The planned fraction, with slack; divided by the share of calls that earn, where only prompt ones do.
    """
    if policy is None:
        return 0.0
    planned = policy.fraction or limits.fixed_share
    late = _late_share(policy)
    earning = 1.0 - late if late <= MOSTLY else 1.0
    return min(planned * limits.slack / earning, float(policy.copies))


class Program:
    """A service and a plan, ready to run; never changed, so a request keeps the one that it started with.

    Attributes:
        nodes: parents before children.
        serial: whether each stage waits for the one before it, and none is a fan-out.
        digest: of the plan; None where there is none.
        purse: what one request may spend on copies, grains: its own cost.
        reissues: whether any stage is reissued.
        catches_up: whether any stage helps late requests.
        levers: whether the plan does anything at all, so that some requests must go without as a control.
        weight: sum of the utility weights of the stages whose answers may be missing or partial.
    """

    __slots__ = (
        "catches_up",
        "digest",
        "levers",
        "nodes",
        "plan",
        "purse",
        "reissues",
        "serial",
        "sink",
        "sources",
        "weight",
    )

    def __init__(self, nodes: tuple[Node, ...], plan: Plan | None, sink: int) -> None:
        self.nodes = nodes
        self.plan = plan
        self.sink = sink
        self.digest = plan.digest if plan is not None else None
        self.purse = sum(node.cost * node.fanout for node in nodes)
        self.reissues = any(node.after < inf for node in nodes)
        self.catches_up = any(node.late < inf for node in nodes)
        self.levers = self.reissues or self.catches_up or any(node.partial is not None for node in nodes)
        self.weight = sum(node.weight for node in nodes if node.fanout > 1 or node.optional)
        self.sources = tuple(node.index for node in nodes if not node.parents)
        self.serial = all(
            node.fanout == 1 and (node.index == 0 or node.index - 1 in node.parents) for node in nodes
        )

    @property
    def dearest_copy(self) -> int:
        """Cost of the dearest call that may be reissued, grains."""
        return max((node.cost for node in self.nodes if node.after < inf), default=0)

    @property
    def dearest_catch_up(self) -> int:
        """Cost of the dearest extra that one call of a late request may get, grains."""
        return max(
            (node.cost * max(node.late_copies, node.late_threads - 1) for node in self.nodes), default=0
        )


def compile_program(service: Service, plan: Plan | None, lanes: Mapping[str, Lane]) -> Program:
    """Compile a plan for a service.

    Raises:
        InputError, DefinitionError: where the plan does not fit the service; nothing has changed then.
    """
    if plan is not None:
        plan.check(service)
        _refuse_unfit(service, plan)
    places = {name: index for index, name in enumerate(service.stages)}
    nodes = tuple(Node(places[name], stage, lanes[name]) for name, stage in service.stages.items())
    for node in nodes:
        node.parents = tuple(places[parent] for parent in node.parent_names)
        node.children = tuple(places[child] for child in service.children(node.name))
        node.cost = _call_cost(service, plan, node)
        policy = reissue_of(service, plan, node.name)
        if policy is not None:
            node.reissue_by(policy)
        entry = plan.stages.get(node.name) if plan is not None else None
        if entry is not None:
            node.partial = entry.partial
            if entry.catch_up is not None:
                node.catch_up_by(entry.catch_up)
    late = min(node.late for node in nodes)
    for node in nodes:
        node.prompt = late
    return Program(nodes, plan, places[service.sink])


def reissue_of(service: Service, plan: Plan | None, name: str) -> Reissue | None:
    """The reissue policy in force for a stage: the plan's, or without any plan the stage's own."""
    if plan is None:
        return service[name].reissue
    entry = plan.stages.get(name)
    return entry.reissue if entry is not None else None


def _call_cost(service: Service, plan: Plan | None, node: Node) -> int:
    share = plan.cost.stages.get(node.name, 0.0) if plan is not None else 1 / len(service.stages)
    return round(share * REQUEST / node.fanout)


def _refuse_unfit(service: Service, plan: Plan) -> None:
    """Refuse what the plan asks of a stage that cannot do it."""
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


def retune(
    ledger: Ledger, lanes: Mapping[str, Lane], program: Program, *, service: Service, limits: Limits
) -> None:
    """Give the accounts the budgets of a program; what they earned and spent stays."""
    plan = program.plan
    budget = plan.budgets.reissue * (1 - limits.reserve) if plan is not None else limits.fixed_share
    _retune(ledger.service, budget if program.reissues else 0.0, program.dearest_copy, limits)
    budget = plan.budgets.catch_up * (1 - limits.reserve) if plan is not None else 0.0
    _retune(ledger.catch_up, budget if program.catches_up else 0.0, program.dearest_catch_up, limits)
    # One answer may lose all of its utility at once, so the burst holds at least that.
    budget = plan.budgets.utility_loss if plan is not None else 0.0
    _retune(ledger.utility, budget, REQUEST, limits)
    for name, lane in lanes.items():
        fraction = stage_fraction(reissue_of(service, plan, name), limits)
        lane.account.retune(fraction, limits.burst_calls * CALL if fraction else 0)


def _retune(account: Account, budget: float, least_burst: int, limits: Limits) -> None:
    burst = max(least_burst, round(budget * limits.burst_requests * REQUEST)) if budget else 0
    account.retune(budget, burst)
