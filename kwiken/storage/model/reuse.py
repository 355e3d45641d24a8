"""Reuse of blocks: how many I/Os of a state ago a block was touched, measured and drawn.

A lag is counted in I/Os of the same state, so that a hot state keeps its short lags. Drawn lags point at
different I/Os wherever that is possible: an I/O of a trace is the last toucher of its block for one later I/O
only, and lags would come out too short otherwise.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Ints
from kwiken.storage.model.document import ReuseLaw
from kwiken.storage.trace.block_trace import BlockTrace
from kwiken.storage.trace.stack_distance import block_accesses, last_accesses

LAG_QUANTILES: Final = 65  # of a law
GOLDEN: Final = (5**0.5 - 1) / 2
MIN_LAGS: Final = 100  # of a law of its own


def last_touchers(trace: BlockTrace) -> Ints:
    """(n,) index of the last I/O that touched the first block of each I/O; -1 for none."""
    blocks, owner, _ = block_accesses(trace)
    last = last_accesses(blocks)
    first = np.searchsorted(owner, np.arange(len(trace)))
    found = last[first]
    return np.where(found >= 0, owner[found], -1)


def place_in_group(group: Ints) -> Ints:
    """(n,) number of earlier elements of the same group."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    place = np.empty(len(group), dtype=np.int64)
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.concatenate((first, [len(group)])))
    place[order] = np.arange(len(group)) - np.repeat(first, lengths)
    return place


def reuse_laws(leaf: Ints, lags: Ints, again: Bools, offset: Ints) -> list[ReuseLaw]:
    """Laws of a volume's lags: first of all states with few, then of each with `MIN_LAGS` or more.

    An I/O whose block was not touched before tells that its lag is longer than the past of its state: laws
    are Kaplan-Meier estimates (1958), so that the beginning of a trace, where all is new, does not bend them.

    Args:
        leaf: (n,) state of each I/O that is not sequential.
        lags: (n,) number of I/Os of the state since the block was touched, or in all of its past.
        again: (n,) whether the block was touched before.
        offset: (n,) number of bytes from the start of the I/O that touched the block to the I/O's start.
    """
    if not again.any():
        return []
    many = np.bincount(leaf[again], minlength=int(leaf.max()) + 1) >= MIN_LAGS
    few = ~many[leaf]
    laws = [_law(-1, lags[few], again[few], offset[few])]
    order = np.argsort(leaf, kind="stable")
    begins = np.searchsorted(leaf[order], np.arange(len(many) + 1))
    for number in np.flatnonzero(many).tolist():
        members = order[begins[number] : begins[number + 1]]
        laws.append(_law(number, lags[members], again[members], offset[members]))
    return laws


def _law(leaf: int, lags: Ints, again: Bools, offset: Ints) -> ReuseLaw:
    seen, counts = np.unique(lags[again], return_counts=True)
    if not len(seen):
        return ReuseLaw(leaf=leaf, share=0.0, lags=[1.0, 1.0])
    at_risk = len(lags) - np.searchsorted(np.sort(lags), seen, side="left")
    reached = 1.0 - np.cumprod(1.0 - counts / at_risk)
    share = float(reached[-1])
    levels = np.linspace(0, share, LAG_QUANTILES)
    place = np.minimum(np.searchsorted(reached, levels * (1 - 1e-12), side="left"), len(seen) - 1)
    levels = np.linspace(0, 1, LAG_QUANTILES)
    return ReuseLaw(
        leaf=leaf,
        share=min(share, 1.0),
        lags=seen[place].astype(float).tolist(),
        # Starts that occurred, none between them: a start is a multiple of the volume's alignment.
        offsets=np.quantile(offset[again], levels, method="inverted_cdf").astype(int).tolist(),
    )


def draw_lags(laws: list[ReuseLaw], leaf: Ints, place: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Number of I/Os of the state since each block was touched, 0 for a block that was not; and offsets.

    Args:
        laws: laws of the volume, first that of all states without their own.
        leaf: (n,) state of each I/O.
        place: (n,) number of earlier I/Os of its state.

    Returns:
        (n,) number of I/Os, and (n,) number of bytes from the earlier start to the new one.
    """
    lags, offsets = np.zeros(len(leaf), dtype=np.int64), np.zeros(len(leaf), dtype=np.int64)
    if not laws:
        return lags, offsets
    number = np.zeros(int(leaf.max(initial=0)) + 1, dtype=np.int64)
    for each, law in enumerate(laws[1:], start=1):
        if law.leaf < len(number):
            number[law.leaf] = each
    law_of = number[leaf]
    coins = np.empty(len(leaf))
    for each, law in enumerate(laws):
        members = np.flatnonzero(law_of == each)
        # Spread evenly over the I/Os of a law, so that the share of reuses hardly varies with the seed.
        coins[members] = (rng.permutation(len(members)) + rng.random(len(members))) / max(len(members), 1)
        chosen = members[coins[members] < law.share]
        logs = np.log(np.maximum(law.lags, 1.0))
        levels = np.linspace(0, law.share, len(logs))
        lags[chosen] = np.maximum(np.rint(np.exp(np.interp(coins[chosen], levels, logs))), 1).astype(np.int64)
        if law.offsets:
            offsets[chosen] = np.array(law.offsets)[_evenly(len(chosen), len(law.offsets), rng)]
    return np.where(lags <= place, lags, 0), offsets


def _evenly(count: int, kinds: int, rng: np.random.Generator) -> Ints:
    """(n,) kinds from 0 on, each as often as the others to within one, in random order."""
    found: Ints = rng.permutation(
        ((np.arange(count) + rng.random()) * kinds / max(count, 1)).astype(np.int64)
    )
    return np.minimum(found, kinds - 1)


def matched(group: Ints, place: Ints, lags: Ints) -> Ints:
    """(n,) lags changed so that few reuses of a group point at the same earlier I/O.

    The shortest lags choose first. A reuse whose I/O is taken goes on to the nearest earlier one that is
    free, which matters little for a long lag.

    Args:
        group: (n,) state of each reuse.
        place: (n,) number of earlier I/Os of its state.
        lags: (n,) drawn lags, 1 to `place`.
    """
    if not len(lags):
        return lags
    # Places of all groups in one line: those of a group are consecutive.
    lengths = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.maximum.at(lengths, group, place + 1)
    first = np.concatenate(([0], np.cumsum(lengths)))
    target = first[group] + place - lags
    free = np.ones(int(first[-1]), dtype=bool)
    found = lags.copy()
    octave = np.log2(lags).astype(np.int64)
    for each in np.unique(octave):
        chosen = np.flatnonzero(octave == each)
        chosen = chosen[np.argsort(target[chosen], kind="stable")]
        slots = np.flatnonzero(free)
        wanted = np.searchsorted(slots, target[chosen], side="right") - 1
        steps = np.arange(len(chosen))
        # The highest falling sequence, read from the end, that is nowhere above what is wanted.
        got = np.minimum.accumulate((wanted - steps)[::-1])[::-1] + steps
        fits = got >= 0
        chosen, got = chosen[fits], slots[got[fits]]
        fits = got >= first[group[chosen]]
        chosen, got = chosen[fits], got[fits]
        free[got] = False
        found[chosen] = first[group[chosen]] + place[chosen] - got
    return found


def resolve(parent: Ints, offset: Ints, base: Ints) -> Ints:
    """(n,) start of each I/O from its parent's: base of the root plus the offsets on the way.

    Args:
        parent: (n,) index of an earlier I/O, or the I/O's own for a root.
        offset: (n,) number of bytes to add to the parent's start; 0 for a root.
        base: (n,) start of each root.
    """
    jump, total = parent.copy(), offset.copy()
    while True:
        further = jump[jump]
        if (further == jump).all():
            break
        total += total[jump]
        jump = further
    return base[jump] + total


def spread_apart(
    group: Ints, size: Ints, low: Ints, high: Ints, align: Ints, rng: np.random.Generator
) -> Ints:
    """(n,) starts that fill the range of each group evenly and touch no block twice while there is room.

    A range is cut into slots as wide as its widest I/O, or narrower where it has more I/Os than such slots;
    the slots are taken in steps of about the golden ratio of their number.

    Args:
        group: (n,) group of each I/O.
        size: (n,) number of bytes of each I/O.
        low: (g,) first byte of each group's range.
        high: (g,) byte after the last of each group's range.
        align: (g,) number of bytes that starts in a group are multiples of.
    """
    draws = np.maximum(np.bincount(group, minlength=len(low)), 1)
    widest = np.zeros(len(low), dtype=np.int64)
    np.maximum.at(widest, group, size)
    begin = -(-low // align) * align
    width = np.maximum(high - begin, align)
    units = np.maximum(np.minimum(-(-widest // align), width // (align * draws)), 1)
    slots = np.maximum(width // (align * units), 1)
    step = np.maximum(np.rint(slots * GOLDEN).astype(np.int64), 1)
    while (shared := np.gcd(step, slots) > 1).any():
        step[shared] += 1
    shift = (rng.random(len(low)) * slots).astype(np.int64)
    slot = (shift[group] + place_in_group(group) % slots[group] * step[group]) % slots[group]
    starts: Ints = begin[group] + slot * (align * units)[group]
    return starts


def is_reuse(last: Ints, leaf: Ints, volume: Ints) -> Bools:
    """(n,) whether the last toucher of an I/O's block is in the I/O's own state."""
    found: Bools = (last >= 0) & (leaf[last] == leaf) & (volume[last] == volume)
    return found
