"""What copies would have taken, where none were sent: the same work again, and another call's wait.

A call's latency is work and waiting. The work comes with the request (its size), so a copy does it again; the
wait for a replica, its queue, its pauses and the network, is another's on another replica. Where a replica
measures its work (its CPU time), each late call therefore tells what a copy of it would have taken, and what
the requests' sizes explain is told from what the replicas' states do, without a single duplicate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Floats

Ints = NDArray[np.int64]

LATE = 0.1  # share of the calls, the slowest, that are late at most,
TELLING_SHARE = 0.9  # or so few as hold this share of the squares above the median: what copies are sent for,
FEWEST_LATE = 10  # but so many
MOST_GUESSES = 1000
FEWEST_CALLS = 100
LEAST = 1e-3  # of the usual work: what is taken for none
TELLING = 0.1  # least share of a usual call that is work: of less, the rest may come with the request as well


def guess_copies(latency_ms: Floats, busy_ms: Floats, replica: Ints, started: Floats | Ints) -> Floats | None:
    """Late calls of a stage, and what copies of them would have taken.

    Args:
        latency_ms: (k,) of calls, NaN where it is not known.
        busy_ms: (k,) work of each, as its replica measured it; NaN where it did not.
        replica: (k,) number of the replica that took the call; below 0 where it is not known.
        started: (k,) when each began, in any unit.

    Returns:
        (m, 2): latency of late calls, and for each its own work, at the pace of another replica, plus the
        wait of the next call that went to that replica; milliseconds. None where too little is known, or
        work is so small a part of usual calls that it tells nothing.
    """
    known = np.flatnonzero(~np.isnan(latency_ms) & ~np.isnan(busy_ms))
    if len(known) < FEWEST_CALLS:
        return None
    order = known[np.argsort(started[known], kind="stable")]
    latency, replica = latency_ms[order], replica[order]
    busy = np.minimum(busy_ms[order], latency)
    if np.median(busy) < TELLING * np.median(latency):
        return None
    late = _late(latency)
    other = _next_elsewhere(replica)[late]
    pace = _pace(busy, replica)
    work = busy[late] * pace[other] / pace[late]
    return np.column_stack((latency[late], work + latency[other] - busy[other]))


def guess_by_kind(calls_ms: Floats, kinds: Ints, started: Floats | Ints) -> Floats | None:
    """Late calls of a stage, and what copies would have taken, by what others of their kind did take.

    Where work is not measured, as in other people's traces, kinds of requests tell what comes with a request,
    as far as the kind does. It is a lower bound: requests of one kind differ among themselves too.

    Args:
        calls_ms: (n, width) latencies; NaN for no call.
        kinds: (n,) kind of each request; below 0 where it says nothing.
        started: (n,) when each request began, in any unit.

    Returns:
        (m, 2): latency of late calls, and of the same shard's call in the next request of the kind, ms. None
        where too little is known.
    """
    order = np.lexsort((started, kinds))
    order = order[kinds[order] >= 0]
    if not len(order):
        return None
    kind = kinds[order]
    last = np.append(kind[1:] != kind[:-1], True)
    first = np.flatnonzero(np.append(True, last[:-1]))
    after = np.arange(1, len(order) + 1)
    after[last] = first  # the last of a kind is followed by its first
    pairs = np.stack((calls_ms[order], calls_ms[order[after]]), axis=2)[after != np.arange(len(order))]
    pairs = pairs[~np.isnan(pairs).any(axis=2)]
    return pairs[_late(pairs[:, 0])] if len(pairs) >= FEWEST_CALLS else None


def _late(latency: Floats) -> Ints:
    """(m,): places, ascending, of the calls that make the stage vary.

    Less late calls may be so for other reasons: by size in most of the slowest tenth, and by replicas' pauses
    in the last hundredth. The choice looks at the calls' latency alone, so it does not bias what is learned
    of the copies.
    """
    slowest = np.argsort(-latency, kind="stable")
    over = np.maximum(0.0, latency[slowest] - np.median(latency)) ** 2
    enough = int(np.searchsorted(np.cumsum(over), TELLING_SHARE * over.sum())) + 1
    number = max(FEWEST_LATE, min(enough, int(LATE * len(latency))))
    places = np.sort(slowest[:number])
    return np.asarray(places[:: -(-number // MOST_GUESSES)])


def _next_elsewhere(replica: Ints) -> Ints:
    """(k,): for each call the next one that went to another replica; the next at all where there is but one.

    Past the last it goes on from the first.
    """
    k = len(replica)
    places = np.arange(k)
    changes = np.flatnonzero(replica != np.roll(replica, 1))
    if not len(changes):
        return (places + 1) % k
    return changes[np.searchsorted(changes, places, side="right") % len(changes)]


def _pace(busy: Floats, replica: Ints) -> Floats:
    """(k,): how long the replica of each call takes for the same work, relative to the others.

    From means of logs, each shrunk towards their mean by what chance alone would make of replicas that are
    alike (empirical Bayes).
    """
    logs = np.log(np.maximum(busy, LEAST * max(float(np.median(busy)), np.finfo(float).tiny)))
    _, place, calls = np.unique(replica, return_inverse=True, return_counts=True)
    means = np.bincount(place, logs) / calls
    noise = np.bincount(place, (logs - means[place]) ** 2).sum() / max(1, len(logs) - len(calls)) / calls
    away = means - means.mean()
    spread = max(0.0, float((away**2).sum()) / max(1, len(calls) - 1) - float(noise.mean()))
    share = spread / np.maximum(spread + noise, np.finfo(float).tiny)
    return np.asarray(np.exp(share * away)[place])
