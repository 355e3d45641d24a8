"""Profile of a service: latencies and facts of its stages, learned from traces."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import msgspec
import numpy as np

from kwiken.base.arrays import AnyInts, Bools, Floats, Ints
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.distribution import EmpiricalDistribution, kaplan_meier

OWN_TIME = " (own time)"  # suffix of the name of the stage that stands for a request's own time
WORTH_DIGITS = 6  # decimals of an answer's worth kept in JSON and in the digest

MAX_TEXT: Final = 1000  # characters of a kind, a caller or an ignored operation
MAX_DEPTH: Final = 20
MAX_BANDS: Final = 10
MIN_PAIRS: Final = 8  # of a call and a copy of which one ended, that show how copies fare
MAX_IGNORED: Final = 1000


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Choices of a fit, so that other traces can be fitted alike.

    Attributes:
        kind: kind of the requests: the first `service:operation` that tells them from others.
        caller: `service:operation` of the spans whose calls are the stages.
        stages: `services`: a stage is a call from one service to another; `spans`: any span below.
        depth: number of levels of calls that became stages, from 1 to 20.
        ignored: operations that were left out of the trees.
    """

    kind: str
    caller: str
    stages: Literal["services", "spans"] = "services"
    depth: int = 1
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check sizes and ranges."""
        for text in (self.kind, self.caller, *self.ignored):
            if not 0 < len(text) <= MAX_TEXT:
                raise ValueError(f"kind, caller and ignored must have 1 to {MAX_TEXT} characters each")
        if len(self.ignored) > MAX_IGNORED:
            raise ValueError(f"ignored must be at most {MAX_IGNORED} operations")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise ValueError(f"depth must be from 1 to {MAX_DEPTH}, not {self.depth}")


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One instance of a service beside the others that were there at the time.

    Times are those of calls outside of the calls that they make, over the median of their operation.

    Attributes:
        name: name of the instance, such as that of its pod.
        times: its median over that of the others.
        slow_times: its 95th percentile over that of the others.
        above_median: share of its calls that took longer than the median of the others.
        above_slow: share of its calls that took longer than the 95th percentile of the others.
        typical_ms: median time of its calls outside of further calls, milliseconds.
        extra: what its calls took beyond the others' mean, as a share of the latency of all requests.
    """

    service: str
    name: str
    calls: int
    others: int
    other_calls: int
    times: float
    slow_times: float
    above_median: float
    above_slow: float
    typical_ms: float
    extra: float


class SlowBand(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calls of a range of latencies, and the probability that a copy of such a call is of no use.

    Attributes:
        from_ms: latency above which a call belongs to the band, up to the next band, milliseconds.
        share: estimate of the probability, 0 to 1.
        low: lower bound of the probability (90% interval).
        high: upper bound of the probability.
    """

    from_ms: float
    share: float
    low: float
    high: float

    def __post_init__(self) -> None:
        """Check that these are shares."""
        if not (self.from_ms >= 0 and 0 <= self.low <= self.share <= self.high <= 1):
            raise ValueError("from_ms must be 0 or more, and 0 <= low <= share <= high <= 1")


class CopyDependence(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What traces tell of a stage's copies: whether a copy is slow when its call is.

    Attributes:
        bands: by rising latency; calls below the first one have copies as quick as usual calls.
        shown: whether the traces tell it at all; without evidence copies count as usual calls.
        events: number of independent times of slowness behind the estimate.
        attribute: attribute of the requests that parts slow from fast ones; empty for none.
        values: values of that attribute that slow requests have.
        replica: name of the one replica that most slow calls went to; empty for none.
        together: whether the replicas are slow at the same times.
        period_s: period of these times, seconds; 0 where they are not regular.
    """

    bands: tuple[SlowBand, ...] = ()
    shown: bool = False
    events: float = 0.0
    attribute: str = ""
    values: tuple[str, ...] = ()
    replica: str = ""
    together: bool = False
    period_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the order and the number of the bands."""
        edges = [band.from_ms for band in self.bands]
        if edges != sorted(edges) or len(edges) > MAX_BANDS:
            raise ValueError(f"bands must be at most {MAX_BANDS}, by rising from_ms")


@dataclass(frozen=True, kw_only=True)
class StageProfile:
    """Profile of one stage: n requests, whose rows are joint with those of the profile's other stages.

    Attributes:
        match: rule for the spans that the stage was learned from.
        calls_ms: (n, width) latency of each primary call as the caller saw it, without any reissue,
            milliseconds; a fan-out has a column per shard. NaN where there was no such call.
        censored: (n, width) whether the call was cancelled, so that its latency is at least that in
            `calls_ms`.
        busy_ms: mean time that a replica worked on one call, milliseconds; None where it was not measured.
        busy_variation: standard deviation of that time as a ratio to its mean, 0 or more; None where it was
            not measured.
        replicas: number of replicas seen, 1 or more; None where the traces do not record it.
        reissuable: whether a copy of a call may be sent.
        writes: why the calls were taken for writes, such as `POST` or `INSERT orders`; empty where they were
            not.
        pairs_ms: (m, 2) latency of calls that had a copy, and of that copy from its own start, milliseconds;
            None where no copies were seen.
        pairs_cut: (m, 2) which of these were cancelled, so took at least that long.
        guesses_ms: (m, 2) latency of late calls, and an estimate of what copies of them would have taken
            (`guess_copies`), milliseconds; None where there is no estimate.
        worth: (n, width) weight of each primary call's answer relative to the other shards of its request,
            such as 1 for the shard with the top hit and 0 for the others. NaN where it is not known; None
            where it never is, so that all shards weigh the same.
        threads: maximum number of threads that a call of a late request can use, 1 or more.
        asked: (n, width) index in `replica_names` of the replica that took each primary call; -1 where it is
            not known. None where the traces do not record replicas.
        replica_names: names of the replicas that took calls.
        lag_ms: (n, width) time that the answer of each primary call lay at the caller before the caller read
            it (`gateway_lag`), milliseconds; a part of `calls_ms` that no copy shortens. 0 where it is not
            known; None where it never is. `pairs_ms` and `guesses_ms` are without it.
        dependence: whether a copy is slow when its call is; None where nothing is known.
    """

    name: str
    after: tuple[str, ...] = ()
    match: SpanMatch
    calls_ms: Floats
    censored: Bools
    busy_ms: float | None = None
    busy_variation: float | None = None
    replicas: int | None = None
    reissuable: bool = True
    writes: str = ""
    pairs_ms: Floats | None = None
    pairs_cut: Bools | None = None
    guesses_ms: Floats | None = None
    worth: Floats | None = None
    threads: int = 1
    asked: AnyInts | None = None
    replica_names: tuple[str, ...] = ()
    lag_ms: Floats | None = None
    dependence: CopyDependence | None = None

    def without_lag(self) -> StageProfile:
        """The stage as copies race it: each call ends when its answer reaches the caller.

        A caller that is late to read an answer is late to send a copy and to read the copy's answer too. So
        time-outs, and the latencies of copies, are those of this stage; `lag_ms` is added after the race.
        """
        return self if self.lag_ms is None else self._without_lag

    @cached_property
    def _without_lag(self) -> StageProfile:
        assert self.lag_ms is not None
        return replace(self, calls_ms=np.maximum(0.0, self.calls_ms - self.lag_ms), lag_ms=None)

    @cached_property
    def distribution(self) -> EmpiricalDistribution:
        """Latency distribution of the calls of all shards; Kaplan-Meier's estimate where some were cancelled.

        Sorted once for each profile: a plan and each replay need it. Empty when the stage was never called.
        """
        if not self.censored.any():
            return EmpiricalDistribution.of(self.calls_ms)
        there = ~np.isnan(self.calls_ms)
        return kaplan_meier(self.calls_ms[there], self.censored[there])

    @property
    def latency_ms(self) -> Floats:
        """(n,): latency of each request's slowest call, milliseconds; 0 where the stage was skipped."""
        return np.asarray(np.fmax.reduce(self.calls_ms, axis=1, initial=0.0))

    @property
    def own_time(self) -> bool:
        """Whether the stage is a request's own time, which no span explains and no copy shortens."""
        return not self.reissuable and self.name.endswith(OWN_TIME)

    @property
    def visited(self) -> Bools:
        """(n,): whether the request called the stage."""
        return np.asarray(~np.isnan(self.calls_ms).all(axis=1))

    @property
    def copies_shown(self) -> bool:
        """Whether traces show how a copy fares when its call is slow: by other calls, or by pairs."""
        if self.dependence is not None and self.dependence.shown:
            return True
        return self.pairs_cut is not None and (~self.pairs_cut.all(axis=1)).sum() >= MIN_PAIRS

    @property
    def lone(self) -> bool:
        """Whether a copy could only go to the replica of its call, and no trace shows that this helps."""
        return self.replicas == 1 and not self.copies_shown

    @property
    def visit_share(self) -> float:
        """Share of the requests that called the stage, 0 to 1."""
        return float(self.visited.mean()) if len(self.calls_ms) else 0.0

    @cached_property
    def calls_per_request(self) -> float:
        """Mean number of primary calls per request; a request that skipped the stage counts as 0."""
        return float((~np.isnan(self.calls_ms)).sum() / max(1, len(self.calls_ms)))


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Profile of a service: n requests.

    Attributes:
        stages: profiles of its stages, parents before children.
        latency_ms: (n,) latency of each whole request, milliseconds.
        started_s: (n,) start of each request, seconds since 1970.
        counts: numbers of items read and of items left out while learning, by kind.
        classes: (n,) index in `class_names` of each request's class; None where there are no classes.
        origin: what the fit chose; None for a profile of our own runtime's traces, or of an older version.
        service_names: names of the services that did the requests' work; empty where this is not known.
        service_ms: (n, services) time of each service in each request, milliseconds: its own part of the
            critical path through the raw spans. With `link_ms`, a row sums to the latency. None where not
            known.
        link_names: names of the caller and the callee of each link between two services.
        link_ms: (n, links) time on critical paths that calls spent between the client's and the server's
            span, milliseconds: network, connection and queue. None where no link is known.
        instances: instances of services that could be compared with others, largest `extra` first.
    """

    service: str
    stages: tuple[StageProfile, ...]
    latency_ms: Floats
    started_s: Floats
    counts: Mapping[str, int] = field(default_factory=dict)
    classes: Ints | None = None
    class_names: tuple[str, ...] = ()
    origin: Origin | None = None
    service_names: tuple[str, ...] = ()
    service_ms: Floats | None = None
    link_names: tuple[tuple[str, str], ...] = ()
    link_ms: Floats | None = None
    instances: tuple[Instance, ...] = ()

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.latency_ms)

    def stage(self, name: str) -> StageProfile:
        """Profile of the stage of that name.

        Raises:
            KeyError: when there is no such stage.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)

    @property
    def digest(self) -> str:
        """`sha256:` and the hash of the profile's content, with times to the microsecond as in its JSON."""
        total = hashlib.sha256(self.service.encode())
        for stage in self.stages:
            told = () if stage.dependence is None else (stage.dependence,)
            total.update(repr((stage.name, stage.after, stage.busy_ms, stage.reissuable, *told)).encode())
            total.update(to_microseconds(stage.calls_ms).tobytes())
            total.update(np.ascontiguousarray(stage.censored).tobytes())
            if stage.pairs_ms is not None and stage.pairs_cut is not None:
                total.update(to_microseconds(stage.pairs_ms).tobytes())
                total.update(np.ascontiguousarray(stage.pairs_cut).tobytes())
            if stage.guesses_ms is not None:
                total.update(to_microseconds(stage.guesses_ms).tobytes())
            if stage.worth is not None:
                total.update(b"worth" + np.ascontiguousarray(np.round(stage.worth, WORTH_DIGITS)).tobytes())
            if stage.asked is not None:
                total.update(repr(stage.replica_names).encode())
                total.update(np.ascontiguousarray(stage.asked, dtype=np.int64).tobytes())
            if stage.lag_ms is not None:
                total.update(b"lag" + to_microseconds(stage.lag_ms).tobytes())
            if stage.threads > 1:
                total.update(f"threads {stage.threads}".encode())
        total.update(to_microseconds(self.latency_ms).tobytes())
        parts = ((self.service_names, self.service_ms), (self.link_names, self.link_ms))
        for names, spent in ((names, spent) for names, spent in parts if spent is not None):
            total.update(repr(names).encode() + to_microseconds(spent).tobytes())
        if self.classes is not None:
            total.update(repr(self.class_names).encode() + np.ascontiguousarray(self.classes).tobytes())
        return f"sha256:{total.hexdigest()}"


def to_microseconds(milliseconds: Floats) -> Floats:
    """Times rounded to whole microseconds, in milliseconds, as a contiguous array of the same shape."""
    return np.ascontiguousarray(np.round(milliseconds, 3))


def complete_calls(stage: StageProfile, calls: EmpiricalDistribution, rng: np.random.Generator) -> Floats:
    """Calls of a stage with a drawn latency in place of every censored one.

    A call cancelled at `c` gets a draw from the distribution conditional on more than `c`. The rows then
    follow the distribution and stay joint with the other stages. A call cancelled beyond the largest value
    keeps `c`.

    Args:
        calls: Kaplan-Meier distribution of the stage's calls (`StageProfile.distribution`), milliseconds.

    Returns:
        (n, width) latencies, milliseconds; NaN where there was no call.
    """
    if not stage.censored.any():
        return stage.calls_ms
    filled = stage.calls_ms.copy()
    cut = stage.censored & ~np.isnan(filled)
    bounds = filled[cut]
    floor = 1.0 - calls.tail(bounds)
    filled[cut] = np.maximum(bounds, calls.quantile(floor + (1.0 - rng.random(len(bounds))) * (1.0 - floor)))
    return filled
