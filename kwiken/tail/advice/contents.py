"""Contents of an advice: kind of requests, excess by service, judgement, settings, next measurements."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kwiken.base.arrays import Floats
from kwiken.model.latency import ladder
from kwiken.tail.advice.worth import Worth
from kwiken.tail.diagnosis.excess import SlowRequests
from kwiken.tail.diagnosis.slow_replicas import SlowReplica
from kwiken.tail.diagnosis.suspect import Suspect
from kwiken.tail.judging.judgement_document import Judgement


class _Struct(msgspec.Struct, frozen=True, kw_only=True):
    pass


class RequestKind(_Struct, frozen=True):
    """One kind of requests in the traces.

    Attributes:
        p50_ms: their median latency, milliseconds.
        p99_ms: 99th percentile of their latency, milliseconds.
    """

    name: str
    requests: int
    p50_ms: float
    p99_ms: float


def kind_of(name: str, latency_ms: Floats) -> RequestKind:
    """Kind of requests with these latencies, (n,) milliseconds."""
    known = ladder(latency_ms)
    return RequestKind(name=name, requests=len(latency_ms), p50_ms=known.p50_ms, p99_ms=known.p99_ms)


class Doubt(StrEnum):
    """Reason why it cannot be told what the budget buys, or why its plan is not advised."""

    FEW_REQUESTS = "few_requests"
    NO_ORDER = "no_order"  # all requests start at one time: none is later than another
    NOTHING_TO_COPY = "nothing_to_copy"  # no stage's calls may be copied
    NO_COPIES = "no_copies"  # copies are allowed, and gain nothing on the earlier or the later requests
    ONE_REPLICA = "one_replica"  # every call that may be copied went to the one replica of its service
    ZERO_IN_INTERVAL = "zero_in_interval"  # the interval of the cut contains 0
    WORSE = "worse"  # the whole interval of the cut is below 0: no settings and no plan are advised


class Setting(_Struct, frozen=True):
    """A setting to change: copies of one stage's calls.

    Attributes:
        service: name of the service that answers the calls.
        route: route or name of the calls, as their spans state it.
        after_ms: age of a call at which a copy is sent, milliseconds.
        probability: share of the calls of that age that get a copy, above 0 and at most 1.
        copies: share of all calls of the stage that are expected to get a copy.
        spent: expected extra work of the copies, as a share of all work.
        replicas: number of replicas of the service that the traces show, 2 or more; None where they do not.
    """

    stage: str
    service: str
    route: str
    after_ms: float
    probability: float
    copies: float
    spent: float
    replicas: int | None = None


class LookIntoReplica(_Struct, frozen=True, tag_field="step", tag="look_into_replica"):
    """Look into a replica that answers more slowly than its service's others, before any copy is sent."""

    service: str
    name: str


class FindCommonCause(_Struct, frozen=True, tag_field="step", tag="find_common_cause"):
    """Find what makes all replicas of a stage slow at the same times: a copy waits as its call does.

    Attributes:
        stage: name of the stage.
        period_s: period of these times, seconds; 0 where they are not regular.
    """

    stage: str
    period_s: float


class LookIntoRequests(_Struct, frozen=True, tag_field="step", tag="look_into_requests"):
    """Look into requests that are slow themselves, on any replica: a copy is as slow.

    Attributes:
        stage: name of the stage that takes long for them.
        attribute: attribute of the requests that parts slow from fast ones.
        values: values of slow requests, most frequent first; empty where the attribute is a size.
    """

    stage: str
    attribute: str
    values: tuple[str, ...]


class AddReplica(_Struct, frozen=True, tag_field="step", tag="add_replica"):
    """Add a second replica: all calls of these stages went to one, so a copy would wait behind its call.

    Attributes:
        stages: names of the stages that would get copies otherwise.
    """

    stages: tuple[str, ...]


class ConfirmReplicas(_Struct, frozen=True, tag_field="step", tag="confirm_replicas"):
    """Confirm that services have a second replica: the traces name no instances, and a copy needs one.

    Attributes:
        stages: names of the stages that get copies.
    """

    stages: tuple[str, ...]


class RecordLonger(_Struct, frozen=True, tag_field="step", tag="record_longer"):
    """Record more requests: p99 of the judged ones rests on too few.

    Attributes:
        needed: number of requests with which p99 rests on enough.
    """

    requests: int
    needed: int


class RecordBusyTime(_Struct, frozen=True, tag_field="step", tag="record_busy_time"):
    """Record the CPU time of calls: copies are charged by typical latency, for lack of it.

    Attributes:
        stages: names of the stages that get copies and have no CPU time.
    """

    stages: tuple[str, ...]


class RecordAgain(_Struct, frozen=True, tag_field="step", tag="record_again"):
    """Record anew: stages changed while they were traced."""

    stages: tuple[str, ...]


class HedgedAlready(_Struct, frozen=True, tag_field="step", tag="hedged_already"):
    """Change the delay of copies that the callers of a stage send already, instead of sending more.

    Attributes:
        after_ms: median age of a call at which its caller sends a copy, milliseconds.
        copies: share of the calls that got a copy.
        p99_ms: 99th percentile of the calls' latency with these copies, milliseconds.
        instead_ms: another age, milliseconds; None where nothing says that the calls read.
        instead_copies: share of the calls that would get a copy at that age; None as above.
        instead_p99_ms: 99th percentile of the calls' latency then, milliseconds; None as above.
    """

    stage: str
    after_ms: float
    copies: float
    p99_ms: float
    instead_ms: float | None = None
    instead_copies: float | None = None
    instead_p99_ms: float | None = None


class ConfirmReads(_Struct, frozen=True, tag_field="step", tag="confirm_reads"):
    """Confirm that calls may run twice: they were taken for reads by their names, and get copies."""

    stages: tuple[str, ...]


class ConfirmWrites(_Struct, frozen=True, tag_field="step", tag="confirm_writes"):
    """Check whether calls may run twice: they were taken for writes, and their services make the tail.

    Attributes:
        stages: by name of the stage: why it was taken for a write.
    """

    stages: dict[str, str]


class OutOfReach(_Struct, frozen=True, tag_field="step", tag="out_of_reach"):
    """Look into services that make the tail and answer no stage's calls: no setting copies their work.

    A link between two services is out of reach where neither answers a stage's calls.
    A service is out of reach as the receiver of the requests, above them, or below a stage; a copy of a
    stage's call renews the work below that stage too.
    """

    services: tuple[str, ...]


class SharedCall(_Struct, frozen=True, tag_field="step", tag="shared_call"):
    """Export with care: settings of several stages are for one route, which proxies cannot tell apart.

    An export gives the route the latest of their delays, so it copies fewer calls than the plan.

    Attributes:
        stages: names of the stages with settings for the route.
        first_ms: their earliest delay, milliseconds.
        last_ms: their latest delay, milliseconds.
    """

    stages: tuple[str, ...]
    first_ms: float
    last_ms: float


class TraceRareKinds(_Struct, frozen=True, tag_field="step", tag="trace_rare_kinds"):
    """Record other kinds of requests: there are too few of them for advice.

    Attributes:
        needed: number of requests that an advice needs.
    """

    kinds: tuple[str, ...]
    needed: int


NextStep = (
    LookIntoReplica
    | FindCommonCause
    | LookIntoRequests
    | AddReplica
    | ConfirmReplicas
    | RecordLonger
    | RecordBusyTime
    | RecordAgain
    | HedgedAlready
    | ConfirmReads
    | ConfirmWrites
    | OutOfReach
    | SharedCall
    | TraceRareKinds
)


class Advice(_Struct, frozen=True):
    """Advice on one kind of requests of a service.

    Attributes:
        others: other kinds of requests in the traces, most frequent first.
        classes: classes of the requests by the attribute that was asked for, most frequent first.
        tail_ratio: p99 over the median of the requests; None where the median is 0.
        tailed: whether p99 is far enough above the median to be worth lowering.
        slow: the slowest 1% and 5% of the requests, then those of the time asked about, if one was: the part
            of each service and link in what makes them slow.
        first: what is named first for the last of `slow`; None without an excess.
        leading: names of the few services and links that make most of its excess, largest first.
        budget: reissue budget, as a share of all work.
        judgement: the plan made from the earlier half of the requests, judged on the later half, beside an
            even spread and hindsight; None where there can be no such plan.
        doubt: reason why it cannot be told what the budget buys; None where it can be told.
        behind_p99: number of judged requests that are slower than their p99, on which the cut rests; 0
            without a judgement.
        worth: what several budgets buy on the later half, smallest budget first; empty without a judgement.
        knee: the smallest of these budgets that buys nearly as much as any other; None where none is certain
            to buy anything.
        unshown: stages with copies of which no trace shows that a copy is quick when its call is slow: what
            the budget buys holds if a copy is as quick as a usual call.
        slow_replicas: replicas that answer more slowly than others of their service, costliest first.
        chosen_slow: share of the requests that are slow, where a sampler seems to keep slow requests and drop
            others, so that percentiles are too high; 0 elsewhere.
        settings: settings to change, of the plan made from all requests; largest spend first.
    """

    service: str
    kind: RequestKind
    others: tuple[RequestKind, ...]
    tail_ratio: float | None
    tailed: bool
    slow: tuple[SlowRequests, ...]
    first: Suspect | None
    leading: tuple[str, ...]
    budget: float
    judgement: Judgement | None
    doubt: Doubt | None
    behind_p99: int
    worth: tuple[Worth, ...]
    knee: float | None
    unshown: tuple[str, ...]
    slow_replicas: tuple[SlowReplica, ...]
    settings: tuple[Setting, ...]
    steps: tuple[NextStep, ...]
    chosen_slow: float = 0.0
    classes: tuple[RequestKind, ...] = ()
