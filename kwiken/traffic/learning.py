"""Learning: from binned flows to a model with windows, rates, and pairs shrunk toward their parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.traffic.document import VERSION, LearnedWindow, PriorWeights, TrafficModel
from kwiken.traffic.flows import BinnedFlows, TrafficEndpoint, of_endpoints, summed
from kwiken.traffic.shrinkage import PairTree, held_out_weight, shrunk
from kwiken.traffic.windows import DAY_S, WHOLE_DAY, DayWindow, candidate_windows

MAX_CELLS: Final = 20_000_000  # pairs that may have traffic, times bins; beyond them, only pairs that had any
WINDOW_PRIOR: Final = 1.0  # weight of the whole day's shares in a window's, for each pair, in median amounts
MAX_GROUPED: Final = 1500  # services; beyond them every service is a group of its own
MAX_ROUNDS: Final = 20
MIN_GAIN: Final = 1e-12  # modularity


def groups_of(traffic: Floats) -> Ints:
    """Number of the group of each service, by greedy merging of groups and moves of single services.

    Modularity (Newman 2004) is the share of the traffic inside of groups, less what it would be if senders
    and receivers met at random. Groups are merged while that raises it; then services move one by one. The
    result depends on nothing but the traffic.

    Args:
        traffic: (n, n) amounts by sender and receiver.

    Returns:
        (n,) numbers from 0, in order of first use.
    """
    count, total = len(traffic), float(traffic.sum())
    if count > MAX_GROUPED or total <= 0:
        return np.arange(count)
    both = (traffic + traffic.T) / (2 * total)
    np.fill_diagonal(both, np.diag(traffic) / total)
    weight = both.sum(axis=1)
    group = _merged(both, weight)
    for _ in range(MAX_ROUNDS):
        if not _moved(both, weight, group):
            break
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(int(each), len(numbers)) for each in group], np.int64)


def _merged(both: Floats, weight: Floats) -> Ints:
    """Groups after merging the pair that raises modularity most, until none does."""
    group = np.arange(len(weight))
    inside, sums = both.copy(), weight.copy()
    alive = np.ones(len(weight), dtype=np.bool_)
    while alive.sum() > 1:
        gain = 2 * (inside - np.outer(sums, sums))
        gain[~alive] = gain[:, ~alive] = -np.inf
        np.fill_diagonal(gain, -np.inf)
        kept, gone = sorted(divmod(int(gain.argmax()), len(weight)))
        if gain[kept, gone] <= MIN_GAIN:
            break
        inside[kept] += inside[gone]
        inside[:, kept] += inside[:, gone]
        sums[kept] += sums[gone]
        alive[gone] = False
        group[group == gone] = kept
    return group


def _moved(both: Floats, weight: Floats, group: Ints) -> bool:
    """Move single services to the group that raises modularity most; whether any moved."""
    changed = False
    for place in range(len(group)):
        names = np.unique(group)
        own = group[place]
        link = np.array(
            [both[place, (group == name) & (np.arange(len(group)) != place)].sum() for name in names]
        )
        sums = np.array([weight[group == name].sum() for name in names])
        sums[names == own] -= weight[place]
        worth = link - weight[place] * sums
        best = int(worth.argmax())
        if worth[best] > worth[names == own][0] + MIN_GAIN:
            group[place] = names[best]
            changed = True
    return changed


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of services and of instances that may have traffic.

    Attributes:
        services: pairs of services, with the pairs of their groups as parents.
        instances: pairs of instances, with the pairs of their services as parents.
    """

    services: PairTree
    instances: PairTree


def learn(flows: BinnedFlows, windows: Sequence[DayWindow] | None = None) -> TrafficModel:
    """Learn who sends how much to whom.

    Args:
        flows: traffic by time bin and pair.
        windows: windows of the day; None for those that predict a day best that was left out.
    """
    flows = replace(flows, endpoints=grouped(flows))
    chosen = _best_windows(flows) if windows is None else tuple(windows)
    return _learned(flows, chosen)


def grouped(flows: BinnedFlows) -> tuple[TrafficEndpoint, ...]:
    """The endpoints with the group of their service."""
    names, service = of_endpoints(flows.endpoints, "service")
    traffic = np.zeros((len(names), len(names)))
    np.add.at(traffic, (service[flows.source], service[flows.target]), flows.total)
    group = groups_of(traffic)
    return tuple(
        msgspec.structs.replace(one, group=str(group[place]))
        for one, place in zip(flows.endpoints, service.tolist(), strict=True)
    )


def _learned(flows: BinnedFlows, windows: Sequence[DayWindow]) -> TrafficModel:
    pairs = _pairs_of(flows)
    spread = _spread(flows, pairs.instances)
    by_service = np.zeros((len(flows.starts_s), pairs.instances.parents))
    np.add.at(by_service.T, pairs.instances.parent, spread.T)
    weights = PriorWeights(
        service=held_out_weight(pairs.services, by_service),
        instance=held_out_weight(pairs.instances, spread),
    )
    whole = _shares(pairs, spread.sum(axis=0), weights)
    found = []
    for window in windows:
        bins = np.flatnonzero(window.holds(flows.starts_s))
        shares = whole
        if window != WHOLE_DAY:
            own = spread[bins].sum(axis=0)
            prior = WINDOW_PRIOR * float(np.median(spread.sum(axis=0))) * len(own)
            shares = (own + prior * whole) / (own.sum() + prior)
        found.append(
            LearnedWindow(
                window=window,
                seconds=flows.bin_s * len(bins),
                amount=float(spread[bins].sum()),
                shares=[float(share) for share in shares],
            )
        )
    return TrafficModel(
        version=VERSION,
        unit=flows.unit,
        bin_s=flows.bin_s,
        from_s=float(flows.starts_s[0]),
        until_s=float(flows.starts_s[-1] + flows.bin_s),
        endpoints=list(flows.endpoints),
        source=[int(place) for place in pairs.instances.source],
        target=[int(place) for place in pairs.instances.target],
        seen=[float(amount) for amount in spread.sum(axis=0)],
        prior=weights,
        windows=found,
    )


def _shares(pairs: _Pairs, amount: Floats, weights: PriorWeights) -> Floats:
    """(p,) share of each pair of instances, with both weights."""
    by_service = summed(pairs.instances.parent, amount, pairs.instances.parents)
    above = shrunk(pairs.services, by_service, weights.service)
    found = shrunk(pairs.instances, amount, weights.instance, above)
    return np.asarray(found / found.sum())


def _pairs_of(flows: BinnedFlows) -> _Pairs:
    names, service = of_endpoints(flows.endpoints, "service")
    _, group_of = of_endpoints(flows.endpoints, "group")
    group = np.zeros(len(names), np.int64)
    group[service] = group_of
    instances = _candidates(flows, service)
    used = np.unique(service[flows.source] * len(names) + service[flows.target])
    sender, receiver = used // len(names), used % len(names)
    keys, parent = np.unique(group[sender] * len(names) + group[receiver], return_inverse=True)
    return _Pairs(PairTree(sender, receiver, parent.astype(np.int64), len(keys)), instances)


def _candidates(flows: BinnedFlows, service: Ints) -> PairTree:
    """Pairs of instances that may have traffic: all of services that had any, if they are not too many."""
    source, target = flows.source, flows.target
    count, places = len(service), int(service.max()) + 1
    used = np.unique(service[source] * places + service[target])
    members = np.bincount(service, minlength=places)
    number = int((members[used // places] * members[used % places]).sum())
    if number * len(flows.starts_s) <= MAX_CELLS:
        order = np.argsort(service, kind="stable")
        firsts = np.searchsorted(service[order], np.arange(places + 1))
        blocks = [
            (order[firsts[a] : firsts[a + 1]], order[firsts[b] : firsts[b + 1]])
            for a, b in zip((used // places).tolist(), (used % places).tolist(), strict=True)
        ]
        keys = np.concatenate([(some[:, None] * count + others).ravel() for some, others in blocks])
    else:
        keys = source * count + target
    keys = np.unique(keys)
    keys = keys[keys // count != keys % count]
    rows, columns = keys // count, keys % count
    parent = np.searchsorted(used, service[rows] * places + service[columns])
    return PairTree(rows, columns, parent.astype(np.int64), len(used))


def _spread(flows: BinnedFlows, tree: PairTree) -> Floats:
    """(b, p) amounts by bin over the pairs of a tree, which hold those of the flows."""
    count = len(flows.endpoints)
    at = np.searchsorted(tree.source * count + tree.target, flows.source * count + flows.target)
    found = np.zeros((len(flows.starts_s), len(tree.source)))
    found[:, at] = flows.amounts
    return found


def _best_windows(flows: BinnedFlows) -> tuple[DayWindow, ...]:
    """Windows that predict a day best that was left out: amount by pair and window."""
    candidates = candidate_windows(flows.starts_s)
    if len(candidates) == 1:
        return candidates[0]
    days = np.floor(flows.starts_s / DAY_S)
    errors = [np.mean([_day_error(flows, days, day, some) for day in np.unique(days)]) for some in candidates]
    return candidates[int(np.argmin(errors))]


def _day_error(flows: BinnedFlows, days: Floats, day: float, windows: Sequence[DayWindow]) -> float:
    """Difference between a day's amounts by hour and pair and those that the other days' windows expect."""
    others, today = np.flatnonzero(days != day), np.flatnonzero(days == day)
    if not len(others) or not len(today):
        return 0.0
    gap = 0.0
    for window in windows:
        learned = others[window.holds(flows.starts_s[others])]
        left = today[window.holds(flows.starts_s[today])]
        expected = flows.amounts[learned].mean(axis=0) if len(learned) else np.zeros(len(flows.source))
        gap += float(np.abs(flows.amounts[left] - expected).sum())
    return gap / float(flows.amounts[today].sum())
