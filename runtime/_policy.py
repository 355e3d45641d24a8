"""What is in force: the limits of the process, and a plan compiled for speed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from math import inf

import msgspec

from kwiken import DefinitionError, InputError, PartialPolicy, Plan, Reissue, Service, Stage
from runtime._ledger import CALL, REQUEST, Account, RetryAccount
from runtime._picker import Picker
from runtime._sketch import Sketch
from runtime._transport import Replica


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one executor may do, whatever the plan says.

    Attributes:
        deadline_ms: of a request that names none.
        requests: the most requests at once.
        always: requests at once that are never turned away for being slow.
        gain: weight of one request in the measure of slowness.
        calm_below: load, from 0 to 1, from which on nothing is reissued.
        shed_low_at: load from which on requests of priority below 0 are turned away.
        shed_at: the same for priority 0.
        shed_high_at: the same for priority above 0.
        least_retry_after_s: the shortest wait that a request turned away is told.
        most_retry_after_s: the longest.
        burst_requests: the service's burst: its reissue budget of so many requests.
        burst_calls: a stage's burst, in copies.
        reserve: share of the service's budget that is never spent. The ledger counts work when it is done, a
            reader of traces when it was sent; the difference must not look like overspending.
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
    calm_below: float = 0.5
    shed_low_at: float = 0.7
    shed_at: float = 0.85
    shed_high_at: float = 1.0
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
        """Load from which on requests of a priority are turned away."""
        if priority == 0:
            return self.shed_at
        return self.shed_high_at if priority > 0 else self.shed_low_at


class Lane:
    """The state of one stage that outlives plans."""

    __slots__ = ("account", "copies", "failed", "picker", "resends", "retries", "sketch")

    def __init__(self, replicas: Iterable[Replica], limits: Limits, rng: random.Random) -> None:
        self.picker = Picker(replicas, rng)
        self.account = Account(0.0, 0)
        self.retries = RetryAccount(limits.retry_share, limits.retry_burst)
        self.sketch = Sketch()
        self.copies = 0
        self.resends = 0
        self.failed = 0


class Node:
    """One stage as one program runs it. Times in seconds.

    Attributes:
        after: age of a call at which a copy may go; infinite for never.
        cost: of one call, grains of a request's cost.
        refill: age below which a success fills the stage's bucket.
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
        "name",
        "optional",
        "parent_names",
        "parents",
        "partial",
        "patience",
        "probability",
        "refill",
        "timeout",
        "utility",
        "weight",
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
        self.weight = stage.utility_weight
        self.cost = 0
        self.after = inf
        self.copies = 0
        self.probability = 0.0
        self.refill = inf
        self.partial: PartialPolicy | None = None

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
        weight: sum of the utility weights of the stages whose answers may be missing or partial.
    """

    __slots__ = ("digest", "nodes", "plan", "purse", "reissues", "serial", "sink", "sources", "weight")

    def __init__(self, nodes: tuple[Node, ...], plan: Plan | None, sink: int) -> None:
        self.nodes = nodes
        self.plan = plan
        self.sink = sink
        self.digest = plan.digest if plan is not None else None
        self.purse = sum(node.cost * node.fanout for node in nodes)
        self.reissues = any(node.after < inf for node in nodes)
        self.weight = sum(node.weight for node in nodes if node.fanout > 1 or node.optional)
        self.sources = tuple(node.index for node in nodes if not node.parents)
        self.serial = all(
            node.fanout == 1 and (node.index == 0 or node.index - 1 in node.parents) for node in nodes
        )

    @property
    def dearest_copy(self) -> int:
        """Cost of the dearest call that may be reissued, grains."""
        return max((node.cost for node in self.nodes if node.after < inf), default=0)


def compile_program(service: Service, plan: Plan | None, lanes: Mapping[str, Lane]) -> Program:
    """Compile a plan for a service.

    Raises:
        InputError, DefinitionError: where the plan does not fit the service; nothing has changed then.
    """
    if plan is not None:
        plan.check(service)
        _refuse_unknown(service, plan)
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
        node.partial = entry.partial if entry is not None else None
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


def _refuse_unknown(service: Service, plan: Plan) -> None:
    for name, entry in plan.stages.items():
        if entry.partial is not None and service[name].fanout == 1:
            raise DefinitionError("the plan makes it partial, but it is no fan-out", stage=name)
        if entry.catch_up is not None:
            raise InputError("this runtime cannot catch up yet; plan without it", where=f"stage {name!r}")


def retune(
    account: Account, lanes: Mapping[str, Lane], program: Program, *, service: Service, limits: Limits
) -> None:
    """Give the service's and the stages' accounts the budgets of a program."""
    plan = program.plan
    budget = plan.budgets.reissue * (1 - limits.reserve) if plan is not None else limits.fixed_share
    if not program.reissues:
        budget = 0.0
    burst = max(program.dearest_copy, round(budget * limits.burst_requests * REQUEST)) if budget else 0
    account.retune(budget, burst)
    for name, lane in lanes.items():
        fraction = stage_fraction(reissue_of(service, plan, name), limits)
        lane.account.retune(fraction, limits.burst_calls * CALL if fraction else 0)
