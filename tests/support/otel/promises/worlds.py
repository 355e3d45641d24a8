"""Worlds of one replicated backend with a drawn cause of slowness, and the true effect of copies in them.

Seeds, ranges and rules were fixed before the code that they judge. The effect of copies comes from the world
itself: a late call is sent again, to another pod, at the time at which a copy would leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints

Kind = Literal["one_pod", "together", "request", "independent"]
KINDS: Final[tuple[Kind, ...]] = ("one_pod", "together", "request", "independent")
SIBLINGS: Final = 10  # cases of each kind
SEED: Final = 20261127
TRUTH_REQUESTS: Final = 40_000  # requests that the true cut is measured on
ATTRIBUTES: Final = ("tenant.id", "customer.tier", "app.account", "db.collection.name", "shop.region")
SIZES: Final = ("http.request.body.size", "app.rows", "cart.items")


@dataclass(frozen=True)
class Holds:
    """Times at which a pod does nothing; (k,) starts and ends, ascending, milliseconds."""

    starts_ms: Floats
    ends_ms: Floats

    def latency(self, at_ms: Floats, work_ms: Floats) -> Floats:
        """(n,): latency of calls that begin at these times; a call in a hold, or met by one, waits for its end."""
        if not len(self.starts_ms):
            return work_ms
        before = np.searchsorted(self.starts_ms, at_ms, side="right") - 1
        inside = (before >= 0) & (at_ms < self.ends_ms[np.maximum(before, 0)])
        wait = np.where(inside, self.ends_ms[np.maximum(before, 0)] - at_ms, 0.0)
        following = np.minimum(before + 1, len(self.starts_ms) - 1)
        met = ~inside & (before + 1 < len(self.starts_ms)) & (self.starts_ms[following] < at_ms + work_ms)
        wait += np.where(met, self.ends_ms[following] - self.starts_ms[following], 0.0)
        return np.asarray(work_ms + wait)


@dataclass(frozen=True)
class Requests:
    """Requests of a world; (n,) arrays.

    Attributes:
        at_ms: start of each request.
        weight: factor of the work that the request itself causes, on whatever pod.
        named: by attribute of the root span: value of each request.
    """

    at_ms: Floats
    weight: Floats
    named: dict[str, list[str | int]]


@dataclass(frozen=True, kw_only=True)
class World:
    """One service, its caller, and the cause of slowness.

    Attributes:
        rate_per_s: requests a second (Poisson).
        own_ms: time of the caller before its call, and again after it.
        stall_share: share of the calls that stall by themselves, by pod.
        holds: holds of each pod, over the time of the longest run.
        heavy: share of the requests that are heavy, where the request is the cause.
        attribute: attribute that parts heavy from light requests; empty where none does.
        sized: whether that attribute is a number that the work is in proportion to.
        decoys: attributes that have nothing to do with latency.
        skew_ms: by pod, what its clock is ahead.
        whole_ms: whether spans of the caller are cut to whole milliseconds.
        form: format of the traces.
        instance: attribute that names the pods.
    """

    kind: Kind
    seed: int
    pods: int
    rate_per_s: float
    count: int
    work_ms: float
    spread: float
    own_ms: float
    stall_share: tuple[float, ...]
    stall_ms: tuple[float, float]
    holds: tuple[Holds, ...] = field(repr=False)
    period_s: float
    heavy: float
    times: float
    attribute: str
    sized: bool
    decoys: tuple[str, ...]
    skew_ms: tuple[float, ...]
    whole_ms: bool
    form: str
    instance: str

    def requests(self, rng: np.random.Generator, count: int) -> Requests:
        """Draw requests with their attributes."""
        at_ms = np.cumsum(rng.exponential(1000 / self.rate_per_s, count))
        weight = np.ones(count)
        named: dict[str, list[str | int]] = {
            name: [f"v{value}" for value in rng.integers(4 + place, size=count)]
            for place, name in enumerate(self.decoys)
        }
        if self.attribute and self.sized:
            size = np.exp(rng.normal(0, 1, count))
            weight = np.maximum(1.0, self.times * size / np.exp(2.33))  # heaviest hundredth: `times`
            named[self.attribute] = [int(each) for each in np.ceil(1000 * size)]
        elif self.attribute:
            owners = rng.random(count)
            heavy = owners < self.heavy
            weight = np.where(heavy, self.times, 1.0)
            light = rng.integers(12, size=count)
            named[self.attribute] = [
                f"big{int(2 * owner / self.heavy)}" if big else f"t{each}"
                for owner, big, each in zip(owners, heavy, light, strict=True)
            ]
        return Requests(at_ms, weight, named)

    def calls(self, rng: np.random.Generator, at_ms: Floats, pod: Ints, weight: Floats) -> Floats:
        """(n,): latency of calls that begin at these times at these pods, milliseconds."""
        work = self.work_ms * rng.lognormal(0.0, self.spread, len(at_ms)) * weight
        stalls: Bools = rng.random(len(at_ms)) < np.asarray(self.stall_share)[pod]
        work += np.where(stalls, rng.uniform(*self.stall_ms, len(at_ms)), 0.0)
        found = work.copy()
        for each in range(self.pods):
            here = pod == each
            found[here] = self.holds[each].latency(at_ms[here], work[here])
        return found

    def true_cut(self, after_ms: float, probability: float = 1.0) -> float:
        """Share by which p99 truly falls when calls older than `after_ms` get one copy, at another pod."""
        rng = np.random.default_rng([self.seed, 1])
        sent = self.requests(rng, TRUTH_REQUESTS)
        begun = sent.at_ms + self.own_ms
        pod = rng.integers(self.pods, size=TRUTH_REQUESTS)
        alone = self.calls(rng, begun, pod, sent.weight)
        other = (pod + rng.integers(1, self.pods, size=TRUTH_REQUESTS)) % self.pods
        copy = after_ms + self.calls(rng, begun + after_ms, other, sent.weight)
        copied = (alone > after_ms) & (rng.random(TRUTH_REQUESTS) < probability)
        raced = np.where(copied, np.minimum(alone, copy), alone)
        before, after = (np.percentile(2 * self.own_ms + each, 99) for each in (alone, raced))
        return float(1 - after / before)

    @property
    def reference_cut(self) -> float:
        """True cut with copies after the 95th percentile of the calls, by which cases are told apart."""
        rng = np.random.default_rng([self.seed, 2])
        sent = self.requests(rng, TRUTH_REQUESTS)
        pod = rng.integers(self.pods, size=TRUTH_REQUESTS)
        return self.true_cut(float(np.percentile(self.calls(rng, sent.at_ms, pod, sent.weight), 95)))


def world(kind: Kind, sibling: int) -> World:
    """Draw one case.

    Args:
        sibling: number of the case, from 0.
    """
    seed = SEED + 100 * KINDS.index(kind) + sibling
    rng = np.random.default_rng(seed)
    pods = int(rng.integers(2, 6))
    rate = float(np.exp(rng.uniform(np.log(4), np.log(40))))
    count = int(rng.integers(2000, 5000))
    span_ms = 1000 * max(count, TRUTH_REQUESTS) / rate * 1.1
    share = float(rng.uniform(0.015, 0.06))
    period_s = float(rng.uniform(10, 75))
    names = list(rng.permutation(ATTRIBUTES))
    sized = kind == "request" and sibling % 3 == 2
    own = kind == "independent" and sibling % 2 == 1  # single calls stall, not pods
    none = Holds(np.empty(0), np.empty(0))
    holds: tuple[Holds, ...] = (none,) * pods
    if kind == "together":
        holds = (_regular(rng, span_ms, period_s * 1000, share),) * pods
    elif kind == "independent" and not own:
        length = float(rng.uniform(60, 500))
        holds = tuple(_irregular(rng, span_ms, length, share) for _ in range(pods))
    stalls = [share if own else 0.0] * pods
    if kind == "one_pod":
        stalls[int(rng.integers(pods))] = float(min(0.5, share * pods))
    shortest = float(rng.uniform(80, 250))
    return World(
        kind=kind,
        seed=seed,
        pods=pods,
        rate_per_s=rate,
        count=count,
        work_ms=float(rng.uniform(4, 20)),
        spread=float(rng.uniform(0.08, 0.3)),
        own_ms=float(rng.uniform(1, 4)),
        stall_share=tuple(stalls),
        stall_ms=(shortest, shortest * float(rng.uniform(1.2, 2.5))),
        holds=holds,
        period_s=period_s if kind == "together" else 0.0,
        heavy=share,
        times=float(rng.uniform(6, 18)),
        attribute="" if kind != "request" else str(rng.choice(SIZES)) if sized else str(names[0]),
        sized=sized,
        decoys=tuple(str(each) for each in names[1 : 1 + int(rng.integers(1, 3))]),
        skew_ms=tuple(rng.uniform(-60, 60, pods).tolist()) if sibling % 2 else (0.0,) * pods,
        whole_ms=sibling % 4 == 3,
        form=("otlp", "jaeger", "zipkin")[sibling % 3],
        instance=str(rng.choice(["k8s.pod.name", "service.instance.id", "host.name"])),
    )


def _regular(rng: np.random.Generator, span_ms: float, period_ms: float, share: float) -> Holds:
    """Holds once a period, each at nearly the same time of it."""
    starts = np.arange(rng.uniform(0.1, 0.9) * period_ms, span_ms, period_ms)
    starts = starts + rng.uniform(0, 0.02 * period_ms, len(starts))
    return Holds(starts, starts + share * period_ms * rng.uniform(0.9, 1.1, len(starts)))


def _irregular(rng: np.random.Generator, span_ms: float, length_ms: float, share: float) -> Holds:
    """Holds at random times."""
    gaps = length_ms + rng.exponential(length_ms / share - length_ms, int(1.5 * span_ms * share / length_ms))
    starts = np.cumsum(gaps)
    starts = starts[starts < span_ms]
    return Holds(starts, starts + length_ms * rng.uniform(0.7, 1.0, len(starts)))
