"""Evidence, in traces without copies, that a copy would be as slow as its call.

There are three questions to a slow call:
1. Are other replicas slow at that moment? Calls to other replicas that begin while it runs tell: each is what
   a copy would have been, so the share of the remaining time that it would have saved is known.
2. Does slowness come with the request? Other requests with the same value of an attribute, or of nearly the
   same size, tell: if they are as slow, so is a copy.
3. Is it one replica? Then its share of the slowest calls is far above its share of all calls, and a copy goes
   to another one.

The answers give the probability that a copy is of no use, in bands of the latency of its call: a stall of a
whole service and contention for processors are different in that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import msgspec
import numpy as np
from scipy.special import betainc, betaincinv

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.model.latency import start_times
from kwiken.model.plan.plan import CopyDoubt, Plan
from kwiken.model.profile.profile import CopyDependence, Profile, SlowBand, StageProfile

MIN_SLOW_CALLS: Final = 8  # of a stage, below which nothing is estimated
SLOW_TIMES: Final = 2.0  # of the median, from which a call is slow
SLOW_QUANTILES: Final = (0.9, 0.98)  # slow calls are at most the slowest tenth and at least the slowest 2%
STALL_TIMES: Final = 3.0  # longest call over least slow one, from which stalls are a band of their own
MIN_LEFT: Final = (
    1.5  # of the least slow latency, that a call lasts after another begins: else it tells nothing
)
MIN_SAVED: Final = 0.4  # of the remaining time, that a copy of use saves
ALIKE: Final = 0.6  # of a call's latency, from which another call of the same kind is as slow
MIN_EPISODES: Final = 5  # separate times of slowness, or slow calls of one replica, that tell for certain
MAX_SLOW_CALLS: Final = 1000  # of one shard, that are compared
PRIOR: Final = 0.5  # successes and failures before any evidence (Jeffreys)
INTERVAL: Final = (0.05, 0.95)
MAX_CHANCE: Final = 1e-4  # that chance alone makes a replica's or an attribute's share of slow calls
MAX_REPEATED: Final = 200  # slow calls, that are compared with others of the same attribute
MIN_REPEATED: Final = 0.5  # of the slow calls, whose attribute other requests share
SIZE_BIN: Final = 10  # requests of nearly the same size that are compared
MIN_SIZES: Final = 50  # different numbers, from which an attribute is a size
MAX_NAMED: Final = 3  # values of an attribute that are named
MIN_CAUSE: Final = 0.5  # probability that a copy is of no use, from which its cause is named
MAX_JITTER: Final = 0.15  # of a period, by which stalls of all replicas may be off it
MIN_REGULAR: Final = 0.8  # share of the stalls that come after whole periods
MIN_PERIODS: Final = 4


@dataclass(frozen=True)
class Trait:
    """One attribute of the requests.

    Attributes:
        values: texts of its values.
        numbers: (n,) index in `values` of each request; -1 where the attribute is missing.
    """

    name: str
    values: Sequence[str]
    numbers: Ints


@dataclass(frozen=True)
class _Calls:
    """Calls of one shard of a stage; (k,) arrays in order of start, milliseconds."""

    start: Floats
    latency: Floats
    replica: Ints
    request: Ints


@dataclass(frozen=True)
class _Evidence:
    """Share of slow calls for which a copy is of no use, and the number of independent events behind it."""

    useless: float
    events: float

    def bounds(self) -> tuple[float, float, float]:
        """Posterior mean, and ends of its interval."""
        bad = PRIOR + self.useless * self.events
        good = PRIOR + (1 - self.useless) * self.events
        low, high = (float(betaincinv(bad, good, at)) for at in INTERVAL)
        return bad / (bad + good), low, high


def with_dependence(profile: Profile, traits: Sequence[Trait] = ()) -> Profile:
    """Add to each stage that may be copied what the traces tell of its copies.

    Args:
        traits: attributes of the requests.
    """
    ends: dict[str, Floats] = {}
    stages = []
    for stage in profile.stages:
        begun = start_times(stage, ends)
        latency = stage.latency_ms
        ends[stage.name] = latency if begun is None else begun + latency
        if stage.reissuable:
            start = profile.started_s * 1000 + (0.0 if begun is None else begun)
            stages.append(replace(stage, dependence=_dependence(stage, start, traits)))
        else:
            stages.append(stage)
    return replace(profile, stages=tuple(stages))


def at_end(profile: Profile, end: Literal["low", "high"]) -> Profile:
    """The profile with the lower or the upper bounds of its copies' dependence in place of the estimates."""
    return replace(profile, stages=tuple(_at_end(stage, end) for stage in profile.stages))


def unshown_stages(profile: Profile, plan: Plan) -> tuple[str, ...]:
    """Stages with copies in a plan, of which no trace shows how a copy fares when its call is slow."""
    copied = {
        name
        for name, each in plan.stages.items()
        if each.reissue is not None or (each.catch_up is not None and each.catch_up.reissue)
    }
    return tuple(each.name for each in profile.stages if each.name in copied and not each.copies_shown)


def copy_doubts(profile: Profile) -> tuple[CopyDoubt, ...]:
    """What the traces tell against copies of stages that may be copied: the one place that decides that."""
    return tuple(doubt for stage in profile.stages if stage.reissuable for doubt in _doubts(stage))


def _doubts(stage: StageProfile) -> Iterator[CopyDoubt]:
    name, known = stage.name, stage.dependence
    if stage.lone:
        yield CopyDoubt(kind="one_replica", stage=name)
    if known is None:
        return
    if known.replica:
        yield CopyDoubt(kind="replica", stage=name, name=known.replica)
    if known.together:
        yield CopyDoubt(kind="together", stage=name, period_s=known.period_s)
    if known.attribute:
        yield CopyDoubt(kind="requests", stage=name, name=known.attribute, values=known.values)


def uncertain(stage: StageProfile) -> bool:
    """Whether the dependence of a stage's copies has an interval of some width."""
    return stage.dependence is not None and any(band.low < band.high for band in stage.dependence.bands)


def _at_end(stage: StageProfile, end: Literal["low", "high"]) -> StageProfile:
    known = stage.dependence
    if known is None or not known.bands:
        return stage
    bands = tuple(msgspec.structs.replace(band, share=getattr(band, end)) for band in known.bands)
    return replace(stage, dependence=msgspec.structs.replace(known, bands=bands))


def _dependence(stage: StageProfile, start_ms: Floats, traits: Sequence[Trait]) -> CopyDependence | None:
    shards = list(_shards(stage, start_ms))
    latency = np.concatenate([each.latency for each in shards]) if shards else np.empty(0)
    if not len(latency):
        return None
    median, *tenths = np.quantile(latency, (0.5, *SLOW_QUANTILES)).tolist()
    slow_ms = min(max(SLOW_TIMES * median, tenths[0]), tenths[1])
    slow = latency > slow_ms
    if slow.sum() < MIN_SLOW_CALLS:
        return None
    request = np.concatenate([each.request for each in shards])
    replica = np.concatenate([each.replica for each in shards])
    told = np.concatenate([_useless_shares(each, slow_ms) for each in shards])
    episode = np.concatenate([_episodes(each, slow_ms) + i * len(latency) for i, each in enumerate(shards)])
    by_request = _by_request(latency, request, slow, traits)
    one = _one_replica(replica, slow)
    pooled = _evidence(told, episode, slow)
    if pooled.events < MIN_EPISODES and one is not None:
        pooled = _Evidence(0.0, float(slow.sum()) * one[1])
    longest = float(latency.max())
    edges = [slow_ms, *([float(np.sqrt(slow_ms * longest))] if longest > STALL_TIMES * slow_ms else [])]
    bands = []
    for low, high in zip(edges, [*edges[1:], np.inf], strict=True):
        which = (latency > low) & (latency <= high)
        own = _evidence(told, episode, which)
        own = own if own.events >= MIN_EPISODES else pooled
        known = which.sum() >= MIN_SLOW_CALLS
        from_request, trait, values = _by_request(latency, request, which, traits) if known else by_request
        share, least, most = (1 - (1 - each) * (1 - from_request) for each in own.bounds())
        bands.append(SlowBand(from_ms=low, share=share, low=least, high=most))
    # Causes are those of the slowest band, which makes the tail: less slow calls are of the usual spread.
    together = own.events > 0 and own.bounds()[0] >= MIN_CAUSE
    shown = pooled.events >= MIN_EPISODES or own.bounds()[1] >= MIN_CAUSE
    return CopyDependence(
        bands=tuple(bands) if pooled.events or from_request > 0 else (),
        shown=shown or from_request >= MIN_CAUSE,
        events=pooled.events,
        attribute=trait,
        values=values,
        replica="" if one is None else stage.replica_names[one[0]],
        together=together,
        period_s=_period_s(shards, edges[-1]) if together else 0.0,
    )


def _shards(stage: StageProfile, start_ms: Floats) -> Iterator[_Calls]:
    """Calls of each shard that ended: a copy goes to another replica of the same shard."""
    for column in range(stage.calls_ms.shape[1]):
        latency = stage.calls_ms[:, column]
        ended = np.flatnonzero(~np.isnan(latency) & ~stage.censored[:, column])
        order = ended[np.argsort(start_ms[ended], kind="stable")]
        if len(order):
            asked = np.full(len(latency), -1) if stage.asked is None else stage.asked[:, column]
            yield _Calls(start_ms[order], latency[order], asked[order].astype(np.int64), order)


def _useless_shares(calls: _Calls, slow_ms: float) -> Floats:
    """(k,): share of the other replicas' calls, begun while a slow call ran, that were of no use as copies.

    NaN for calls that are not slow, and where no such call tells.
    """
    found = np.full(len(calls.start), np.nan)
    end = calls.start + calls.latency
    some = np.flatnonzero((calls.latency > slow_ms) & (calls.replica >= 0))
    some = some[:: max(1, -(-len(some) // MAX_SLOW_CALLS))]
    last = np.searchsorted(calls.start, end[some] - MIN_LEFT * slow_ms, side="right")
    for call, upto in zip(some.tolist(), last.tolist(), strict=True):
        others = np.arange(call + 1, upto)
        others = others[(calls.replica[others] != calls.replica[call]) & (calls.replica[others] >= 0)]
        if len(others):
            left = end[call] - calls.start[others]
            found[call] = float((end[call] - end[others] < MIN_SAVED * left).mean())
    return found


def _episodes(calls: _Calls, slow_ms: float) -> Ints:
    """(k,): number of the time of slowness to which each slow call belongs: those that overlap are one."""
    slow = np.flatnonzero(calls.latency > slow_ms)
    number = np.zeros(len(calls.start), np.int64)
    if len(slow):
        reach = np.maximum.accumulate(calls.start[slow] + calls.latency[slow])
        number[slow] = np.cumsum(np.r_[0, calls.start[slow][1:] > reach[:-1]])
    return number


def _evidence(told: Floats, episode: Ints, which: Bools) -> _Evidence:
    known = which & ~np.isnan(told)
    if not known.any():
        return _Evidence(0.0, 0.0)
    return _Evidence(float(told[known].mean()), float(len(np.unique(episode[known]))))


def _one_replica(replica: Ints, slow: Bools) -> tuple[int, float] | None:
    """Replica with far more of the slow calls than of all, and its share beyond that; None without one."""
    named = replica >= 0
    if not named.any():
        return None
    of_all, of_slow = np.bincount(replica[named]), np.bincount(replica[named & slow], minlength=1)
    of_slow = np.pad(of_slow, (0, len(of_all) - len(of_slow)))
    if (of_all > 0).sum() < 2:  # noqa: PLR2004 - one replica has no other beside it
        return None
    usual, number = of_all / of_all.sum(), int(of_slow.sum())
    most = int(np.argmax(of_slow - number * usual))
    seen, share = int(of_slow[most]), float(usual[most])
    chance = float(betainc(seen, number - seen + 1, share)) if seen else 1.0
    beyond = (seen / max(1, number) - share) / (1 - share)
    return (most, beyond) if chance < MAX_CHANCE and beyond >= MIN_CAUSE else None


def _by_request(
    latency: Floats, request: Ints, slow: Bools, traits: Sequence[Trait]
) -> tuple[float, str, tuple[str, ...]]:
    """Probability that slowness comes with the request, with the attribute and the values that tell."""
    best: tuple[float, str, tuple[str, ...]] = (0.0, "", ())
    for trait in traits:
        kinds, sized = _kinds(trait)
        share = _repeats(latency, kinds[request], slow)
        if share > best[0]:
            named = () if sized else _slow_values(trait, request[slow])
            best = share, trait.name, named
    return best


def _kinds(trait: Trait) -> tuple[Ints, bool]:
    """(n,) kind of each request, -1 where unknown, and whether the attribute is a size."""
    sizes = _numbers(trait.values)
    if sizes is None:
        return trait.numbers, False
    size = np.where(trait.numbers >= 0, sizes[trait.numbers], np.nan)
    order = np.argsort(size, kind="stable")[: int((trait.numbers >= 0).sum())]
    kinds = np.full(len(size), -1, np.int64)
    kinds[order[::-1]] = np.arange(len(order)) // SIZE_BIN  # from the largest, where few are slow
    return kinds, True


def _numbers(values: Sequence[str]) -> Floats | None:
    """Values as numbers; None where they are names."""
    if len(values) < MIN_SIZES:
        return None
    try:
        sizes = np.array([float(value) for value in values])
    except ValueError:
        return None
    return sizes if np.isfinite(sizes).all() else None


def _repeats(latency: Floats, kinds: Ints, slow: Bools) -> float:
    """Share of slow calls beside which another request of the same kind is as slow, beyond chance.

    0 where chance explains it, or too few of the slow calls have another request of their kind.
    """
    order = np.lexsort((latency, kinds))
    kind, ascending = kinds[order], latency[order]
    first = np.searchsorted(kind, kind, side="left")
    count = np.searchsorted(kind, kind, side="right") - first
    asked = slow[order] & (kind >= 0) & (count > 1)
    if asked.sum() < max(MIN_SLOW_CALLS, MIN_REPEATED * slow.sum()):
        return 0.0
    alike, whole = [], []
    everyone = np.sort(latency)
    some = np.flatnonzero(asked)
    for place in some[:: -(-len(some) // MAX_REPEATED)].tolist():
        at_least = ALIKE * ascending[place]
        upto = first[place] + count[place]
        among = upto - (first[place] + np.searchsorted(ascending[first[place] : upto], at_least))
        alike.append((among - 1) / (count[place] - 1))
        whole.append(1 - np.searchsorted(everyone, at_least) / len(everyone))
    seen, usual, number = float(np.mean(alike)), float(np.mean(whole)), len(alike)
    chance = float(betainc(max(1e-9, seen * number), number * (1 - seen) + 1, usual))
    return max(0.0, (seen - usual) / (1 - usual)) if chance < MAX_CHANCE else 0.0


def _slow_values(trait: Trait, slow: Ints) -> tuple[str, ...]:
    """Values that most slow requests have, most frequent first."""
    numbers = trait.numbers[slow]
    count = np.bincount(numbers[numbers >= 0], minlength=len(trait.values))
    rate = count / np.maximum(1, np.bincount(trait.numbers[trait.numbers >= 0], minlength=len(count)))
    order = np.argsort(-count, kind="stable")[:MAX_NAMED].tolist()
    return tuple(trait.values[each] for each in order if rate[each] >= MIN_CAUSE)


def _period_s(shards: Sequence[_Calls], slow_ms: float) -> float:
    """Period of times of slowness, seconds; 0 where they do not come regularly."""
    calls = max(shards, key=lambda each: len(each.start))
    slow = calls.latency > slow_ms
    number = _episodes(calls, slow_ms)[slow]
    ends = np.sort(calls.start[slow] + calls.latency[slow])[np.r_[np.diff(number) > 0, True]]
    gaps = np.diff(ends) / 1000
    if len(gaps) < MIN_PERIODS:
        return 0.0
    period = float(np.median(gaps))
    turns = gaps / period
    off = np.abs(turns - np.round(turns))
    regular = (np.round(turns) >= 1).mean() > MIN_REGULAR and np.quantile(off, MIN_REGULAR) < MAX_JITTER
    return period if regular else 0.0
