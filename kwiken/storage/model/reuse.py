"""Reuse of blocks: how many I/Os ago a block was touched and by what size, measured and drawn.

A lag is counted in I/Os of the whole volume, which a cache serves, or in those of a state that has many. The
size of the I/O that touched the block belongs to the lag: a large I/O at the place of a small one touches one
block again, and one at the place of a large one touches all of them. Drawn lags point at different I/Os: an
I/O of a trace is the last toucher of its first block for one later I/O only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Ints
from kwiken.storage.model.document import ReuseLaw
from kwiken.storage.trace.block_trace import BlockTrace
from kwiken.storage.trace.stack_distance import block_accesses, last_accesses

LAG_QUANTILES: Final = 129  # of a law
OCTAVES: Final = 64  # more than any size has
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


def octave_of(size: Ints) -> Ints:
    """(n,) exponent of the smallest power of two that is no smaller than each number of bytes."""
    found: Ints = np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)
    return found


def reuse_laws(
    leaf: Ints, octave: Ints, lags: Ints, again: Bools, parent: Ints, offset: Ints
) -> list[ReuseLaw]:
    """Laws of a volume's lags by octave of size: of all states with few, and of each with `MIN_LAGS`.

    A state with a law of its own counts its own I/Os, so that a hot block keeps its short lags however the
    walk comes back to it; states with few count those of the volume. An I/O whose block was not touched
    before tells that its lag is longer than the past: laws are Kaplan-Meier estimates (1958), so that the
    beginning of a trace, where all is new, does not bend them.

    Args:
        leaf: (n,) state of each I/O that is not sequential.
        octave: (n,) octave of each I/O's size.
        lags: (n, 2) number of I/Os of the volume, and of the state, since the block was touched; or in all of
            the past.
        again: (n,) whether the block was touched before, by an I/O of the same state.
        parent: (n,) octave of the size of the I/O that touched the block.
        offset: (n,) number of bytes from the start of the I/O that touched the block to the I/O's start.
    """
    if not again.any():
        return []
    key = leaf * OCTAVES + octave
    many = np.bincount(key[again], minlength=int(key.max()) + 1) >= MIN_LAGS
    kind = np.where(many[key], key, octave - OCTAVES)
    laws = []
    order = np.argsort(kind, kind="stable")
    kinds, begins = np.unique(kind[order], return_index=True)
    for number, members in zip(kinds.tolist(), np.split(order, begins[1:]), strict=True):
        if again[members].any():
            columns = (lags[members, int(number >= 0)], again[members], parent[members], offset[members])
            laws.append(_law(number // OCTAVES, number % OCTAVES, *columns))
    return laws


def _law(leaf: int, octave: int, lags: Ints, again: Bools, parent: Ints, offset: Ints) -> ReuseLaw:
    seen, counts = np.unique(lags[again], return_counts=True)
    at_risk = len(lags) - np.searchsorted(np.sort(lags), seen, side="left")
    reached = 1.0 - np.cumprod(1.0 - counts / at_risk)
    share = float(reached[-1])
    # Reuses of one lag share its part of the law; what touched the block stays with the lag.
    order = np.lexsort((offset[again], parent[again], lags[again]))
    steps = np.diff(reached, prepend=0.0) / counts
    passed = np.cumsum(np.repeat(steps, counts))
    levels = (np.arange(LAG_QUANTILES) + 0.5) / LAG_QUANTILES * share
    chosen = order[np.minimum(np.searchsorted(passed, levels * (1 - 1e-12)), len(order) - 1)]
    return ReuseLaw(
        leaf=leaf,
        octave=octave,
        share=min(share, 1.0),
        lags=lags[again][chosen].tolist(),
        parents=parent[again][chosen].tolist(),
        offsets=offset[again][chosen].tolist(),
    )


@dataclass(frozen=True, eq=False)
class DrawnReuse:
    """Reuses of a law, not yet given to I/Os.

    Attributes:
        law: (n,) number of the law that each I/O follows; -1 for none.
        own: (n,) whether the law is of the I/O's state alone, and lags count I/Os of the state.
        lags: (n,) number of I/Os since a block was touched; 0 for no reuse.
        parents: (n,) octave of the size of the I/O that touched the block.
        offsets: (n,) number of bytes from its start to the new start.
    """

    law: Ints
    own: Bools
    lags: Ints
    parents: Ints
    offsets: Ints


def draw_lags(
    laws: list[ReuseLaw], leaf: Ints, octave: Ints, positions: Ints, rng: np.random.Generator
) -> DrawnReuse:
    """As many reuses as the laws of a volume say.

    Args:
        laws: laws of the volume, as `reuse_laws` returns them.
        leaf: (n,) state of each I/O.
        octave: (n,) octave of each I/O's size.
        positions: (n, 2) number of earlier I/Os of the volume and of the state; a longer lag is no reuse.
    """
    law_of = np.full(len(leaf), -1, dtype=np.int64)
    found = np.zeros((3, len(leaf)), dtype=np.int64)
    kinds = np.array([law.leaf * OCTAVES + law.octave for law in laws], dtype=np.int64)
    key = leaf * OCTAVES + octave
    kind = np.where(np.isin(key, kinds), key, octave - OCTAVES)
    for each, (number, law) in enumerate(zip(kinds.tolist(), laws, strict=True)):
        members = np.flatnonzero(kind == number)
        law_of[members] = each
        # Spread evenly over the I/Os of a law, so that the share of reuses hardly varies with the seed.
        coins = (rng.permutation(len(members)) + rng.random(len(members))) / max(len(members), 1)
        chosen = coins < law.share
        level = np.minimum((coins[chosen] / law.share * len(law.lags)).astype(np.int64), len(law.lags) - 1)
        found[:, members[chosen]] = np.array((law.lags, law.parents, law.offsets))[:, level]
    own = kind >= 0
    found[0] = np.where(found[0] <= positions[np.arange(len(leaf)), own.astype(np.int64)], found[0], 0)
    return DrawnReuse(law_of, own, *found)


class Past:
    """Earlier I/Os by group, in the order of their positions.

    Args:
        group: (n,) group of each I/O: its state and the octave of its size.
        position: (n,) number of earlier I/Os of the same volume, or of the same state.
    """

    def __init__(self, group: Ints, position: Ints) -> None:
        self._long = len(position) + 1
        self._names, number = np.unique(group, return_inverse=True)
        self._order = np.lexsort((position, number))
        self._keys = (number * self._long + position)[self._order]

    def before(self, group: Ints, position: Ints) -> Ints:
        """(n,) number of I/Os, in the order of all, that are in earlier groups or before a position."""
        own = np.minimum(np.searchsorted(self._names, group), len(self._names) - 1)
        key = own * self._long + np.maximum(position, 0)
        found: Ints = np.searchsorted(self._keys, np.where(self._names[own] == group, key, 0))
        return found

    def touched(self, group: Ints, position: Ints, lags: Ints) -> Ints:
        """(n,) index of the I/O of each group about so far back, few of them twice; -1 for none.

        Args:
            group: (n,) group to look in.
            position: (n,) number of earlier I/Os, as they are counted.
            lags: (n,) number of I/Os to go back, 1 or more.
        """
        begins = self.before(group, np.zeros_like(position))
        place = self.before(group, position) - begins
        target = np.clip(self.before(group, position - lags + 1) - begins - 1, 0, np.maximum(place - 1, 0))
        found = np.full(len(group), -1, dtype=np.int64)
        there = np.flatnonzero(place > 0)
        own = np.unique(group[there], return_inverse=True)[1].astype(np.int64)
        steps = matched(own, place[there], (place - target)[there])
        there, steps = there[steps > 0], steps[steps > 0]
        found[there] = self._order[(begins + place)[there] - steps]
        return found


def suited(
    drawn: DrawnReuse, chosen: Bools, group: Ints, position: Ints, past: Past, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints, Ints]:
    """Reuses of each law given to I/Os of that law whose past has what was touched so far back.

    A second of two I/Os of a size can be at the first one's place only where there is such a first one, and
    which I/O follows which is the walk's. Short lags choose first; a lag that suits no I/O is no reuse.

    Args:
        chosen: (n,) whether to give the I/O's law to I/Os.
        group: (n,) group of each I/O's state and octave 0; that of another octave is as much higher.
        position: (n,) number of earlier I/Os, as these laws and the past count them.

    Returns:
        (m,) positions of the I/Os that reuse, (m,) lags, (m,) groups to look in, and (m,) offsets.
    """
    free = chosen & (drawn.law >= 0)
    wants = chosen & (drawn.lags > 0)
    width = octave_of(drawn.lags)
    most = int(width[wants].max(initial=0))
    taker = np.full(len(free), -1, dtype=np.int64)
    for step in range(most + 1):
        waiting = wants & (width == step)
        for octave in np.unique(drawn.parents[waiting]).tolist():
            asked = np.flatnonzero(waiting & (drawn.parents == octave))
            able = np.flatnonzero(free & np.isin(drawn.law, drawn.law[asked]))
            since = past.before(group[able] + octave, position[able] - (1 << step))
            until = past.before(group[able] + octave, position[able] - (1 << step >> 1))
            able = able[until > since]
            asked, able = rng.permutation(asked), rng.permutation(able)
            _, one, other = np.intersect1d(
                drawn.law[asked] * len(free) + place_in_group(drawn.law[asked]),
                drawn.law[able] * len(free) + place_in_group(drawn.law[able]),
                assume_unique=True,
                return_indices=True,
            )
            taker[asked[one]] = able[other]
            free[able[other]] = False
    met = np.flatnonzero(taker >= 0)
    found = taker[met]
    return found, drawn.lags[met], group[found] + drawn.parents[met], drawn.offsets[met]


def matched(group: Ints, place: Ints, lags: Ints) -> Ints:
    """(n,) lags changed so that no reuses of a group point at the same earlier I/O; 0 where none is free.

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
    found = np.zeros_like(lags)
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
