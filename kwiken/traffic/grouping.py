"""Groups of services that call one another most, found by modularity where no zones are stated."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints

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
