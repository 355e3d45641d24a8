"""Estimates about copies that were not sent: their latencies, and the time that none of them would save.

The latency of a call is work plus waiting time. The work depends on the request (its size), so a copy repeats
it. The waiting time (queue, pauses and network of a replica) of a copy is that of another call on another
replica. Where replicas measure their work (CPU time), each late call therefore gives an estimate of its
copy's latency. This separates slowness due to requests from slowness due to replicas, without a single
duplicate.

A busy caller reads answers late (`gateway_lag`). It sends copies as late, and only for calls whose answer has
not arrived, so that part of a latency stays whatever is sent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.model.profile.profile import Profile, StageProfile

Ints = NDArray[np.int64]

NS_PER_MS = 1e6
MAX_LATE_SHARE = 0.1  # of the calls: at most the slowest tenth counts as late
VARIATION_SHARE = (
    0.9  # of the squared distances above the median: the slowest calls that make it up count as late
)
MIN_LATE_CALLS = 10
MAX_GUESSES = 1000
MIN_CALLS_TO_GUESS = 100
MIN_RELATIVE_WORK = 1e-3  # of the median work: less is raised to that, so that its logarithm is finite
MAX_LAG_MS = 100.0  # a longer wait is a packet sent again (TCP waits 200 ms) or a paused replica: copies help
CALLS_FOR_BASE = 200  # calls to a replica, in a row, whose quickest way back is taken for one without lag
LATE_QUANTILE = 0.95  # calls beyond it are late, for the share of the time that their answers lay unread
MIN_UNREAD_SHARE = 0.1  # of the lateness of a stage: less does not matter
MIN_WORK_SHARE = 0.1  # of the median latency: with less, the waiting time may depend on the request too


def guess_copies(latency_ms: Floats, busy_ms: Floats, replica: Ints, started: Floats | Ints) -> Floats | None:
    """Late calls of a stage with estimated latencies of their copies, from measured work.

    Args:
        latency_ms: (k,) latencies of calls, milliseconds; NaN where not known.
        busy_ms: (k,) work of each call as measured by its replica, milliseconds; NaN where not measured.
        replica: (k,) number of the replica that took the call; below 0 where not known.
        started: (k,) start of each call, in any unit.

    Returns:
        (m, 2): latency of late calls, and estimate for a copy: the call's own work, at the pace of another
        replica, plus the waiting time of the next call to that replica; milliseconds. None where there are
        too few calls, or work is too small a part of the median latency.
    """
    known = np.flatnonzero(~np.isnan(latency_ms) & ~np.isnan(busy_ms))
    if len(known) < MIN_CALLS_TO_GUESS:
        return None
    order = known[np.argsort(started[known], kind="stable")]
    latency, replica = latency_ms[order], replica[order]
    busy = np.minimum(busy_ms[order], latency)
    if np.median(busy) < MIN_WORK_SHARE * np.median(latency):
        return None
    late = _late(latency)
    other = _next_elsewhere(replica)[late]
    pace = _pace(busy, replica)
    work = busy[late] * pace[other] / pace[late]
    return np.column_stack((latency[late], work + latency[other] - busy[other]))


def guess_by_kind(calls_ms: Floats, kinds: Ints, started: Floats | Ints) -> Floats | None:
    """Late calls of a stage with estimated latencies of their copies, from requests of the same kind.

    For traces without measured work. The kind of a request stands for its size. The correlation found is a
    lower bound, since requests of one kind differ in size too.

    Args:
        calls_ms: (n, width) latencies, milliseconds; NaN for no call.
        kinds: (n,) kind of each request; below 0 where it is not known.
        started: (n,) start of each request, in any unit.

    Returns:
        (m, 2): latency of late calls, and of the same shard's call in the next request of the kind,
        milliseconds. None where there are too few calls.
    """
    order = np.lexsort((started, kinds))
    order = order[kinds[order] >= 0]
    if not len(order):
        return None
    kind = kinds[order]
    last = np.append(kind[1:] != kind[:-1], True)
    first = np.flatnonzero(np.append(True, last[:-1]))
    after = np.arange(1, len(order) + 1)
    after[last] = first  # the last request of a kind takes the first of that kind
    pairs = np.stack((calls_ms[order], calls_ms[order[after]]), axis=2)[after != np.arange(len(order))]
    pairs = pairs[~np.isnan(pairs).any(axis=2)]
    return pairs[_late(pairs[:, 0])] if len(pairs) >= MIN_CALLS_TO_GUESS else None


def gateway_lag(read_ns: Ints, served_ns: Ints, replica: Ints) -> Floats:
    """Time that answers lay at the caller before the caller read them.

    From the ends of the caller's and the replica's spans. Clocks of two machines differ, and every answer
    takes its way, so what counts is how much longer the way back took than the quickest one from the same
    replica at about that time.

    Args:
        read_ns: (k,) end of each call by the caller's clock, nanoseconds.
        served_ns: (k,) end of each call by its replica's clock, nanoseconds.
        replica: (k,) number of the replica.

    Returns:
        (k,) milliseconds, 0 or more; 0 for waits above `MAX_LAG_MS`, which have other causes.
    """
    if not len(read_ns):
        return np.empty(0)
    way = (read_ns - served_ns) / NS_PER_MS
    order = np.lexsort((read_ns, replica))
    first = np.r_[True, np.diff(replica[order]) != 0]
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(first, place, 0))
    starts = np.flatnonzero(rank % CALLS_FOR_BASE == 0)
    least = np.minimum.reduceat(way[order], starts)
    lag = np.empty(len(way))
    lag[order] = way[order] - np.repeat(least, np.diff(np.r_[starts, len(order)]))
    return np.where(lag <= MAX_LAG_MS, lag, 0.0)


def unread_shares(profile: Profile) -> dict[str, float]:
    """Share of what late calls took beyond the median in which their answers lay at the caller, by stage.

    No copy shortens that share of a stage's tail.

    Args:
        profile: recorded calls; the slowest 5% of each stage's calls are late.

    Returns:
        Shares from `MIN_UNREAD_SHARE` to 1; stages below it are left out.
    """
    shares = {stage.name: _unread(stage) for stage in profile.stages}
    return {name: share for name, share in shares.items() if share >= MIN_UNREAD_SHARE}


def _unread(stage: StageProfile) -> float:
    """Share of the time beyond the median that answers of late calls lay at the caller."""
    if stage.lag_ms is None or np.isnan(stage.calls_ms).all():
        return 0.0
    median, late_ms = np.nanquantile(stage.calls_ms, (0.5, LATE_QUANTILE))
    late = stage.calls_ms > late_ms
    beyond = stage.calls_ms[late] - median
    return float(np.minimum(stage.lag_ms[late], beyond).sum() / beyond.sum()) if late.any() else 0.0


def _late(latency: Floats) -> Ints:
    """(m,): indices, ascending, of the late calls that cause most of the stage's variance.

    Less late calls may have other causes, such as size in most of the slowest tenth and pauses of replicas in
    the last hundredth. The selection uses the latency of calls alone, so it does not bias the estimates of
    their copies.
    """
    slowest = np.argsort(-latency, kind="stable")
    over = np.maximum(0.0, latency[slowest] - np.median(latency)) ** 2
    enough = int(np.searchsorted(np.cumsum(over), VARIATION_SHARE * over.sum())) + 1
    number = max(MIN_LATE_CALLS, min(enough, int(MAX_LATE_SHARE * len(latency))))
    places = np.sort(slowest[:number])
    return np.asarray(places[:: -(-number // MAX_GUESSES)])


def _next_elsewhere(replica: Ints) -> Ints:
    """(k,): index of the next call that went to another replica; with one replica, of the next call.

    After the last call comes the first.
    """
    k = len(replica)
    places = np.arange(k)
    changes = np.flatnonzero(replica != np.roll(replica, 1))
    if not len(changes):
        return (places + 1) % k
    return changes[np.searchsorted(changes, places, side="right") % len(changes)]


def _pace(busy: Floats, replica: Ints) -> Floats:
    """(k,): time that the replica of each call takes for the same work, as a ratio to an average replica.

    From means of logarithms, each shrunk towards their mean by the spread that chance alone would give equal
    replicas (empirical Bayes).
    """
    logs = np.log(np.maximum(busy, MIN_RELATIVE_WORK * max(float(np.median(busy)), np.finfo(float).tiny)))
    _, place, calls = np.unique(replica, return_inverse=True, return_counts=True)
    means = np.bincount(place, logs) / calls
    noise = np.bincount(place, (logs - means[place]) ** 2).sum() / max(1, len(logs) - len(calls)) / calls
    away = means - means.mean()
    spread = max(0.0, float((away**2).sum()) / max(1, len(calls) - 1) - float(noise.mean()))
    share = spread / np.maximum(spread + noise, np.finfo(float).tiny)
    return np.asarray(np.exp(share * away)[place])
