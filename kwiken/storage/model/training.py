"""Training: from a trace to states, transitions, classes, gaps and the rate by window."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Ints
from kwiken.base.errors import InputError
from kwiken.storage.model.document import (
    STORAGE_VERSION,
    IOClass,
    StorageModel,
    StreamModel,
    TrainedOn,
    VolumeModel,
    digest_of,
)
from kwiken.storage.model.gap_laws import laws_of
from kwiken.storage.model.reuse import is_reuse, last_touchers, octave_of, place_in_group, reuse_laws
from kwiken.storage.model.states import StateTree, alike_volumes, even_tree, is_free, refined_tree
from kwiken.storage.trace.block_trace import BlockTrace

MIN_IOS: Final = 2  # a transition needs two
WINDOW_S: Final = 1800.0  # in which a rate is taken to be constant
MAX_SIZES: Final = 64  # of I/Os that are told apart; rarer ones go to the nearest
MIN_STREAM_SHARE: Final = 0.01  # of its volume's I/Os that a thread of its own needs
MAX_THREADS: Final = 32  # of one volume that are told apart
ALIGNED: Final = 0.99  # share of starts that are multiples of the alignment


def train(
    trace: BlockTrace, *, levels: int | None = None, window_s: float = WINDOW_S, flat: bool = False
) -> StorageModel:
    """Learn the model of a trace.

    Volumes that are alike, as those of a stripe are, share states and moves, so that what is learned of each
    is what all of them tell. An even tree, as published, is of each volume alone.

    Args:
        trace: I/Os of any number of volumes and threads.
        levels: depth of an even tree of states, 1 to 8; None to refine states where accesses are.
        window_s: length of a window of the rate, seconds.
        flat: whether all pairs of states get transitions of their own, which needs an even tree: the
            published baseline of the hierarchy.

    Raises:
        InputError: fewer than two I/Os, or no time passes between them.
    """
    if len(trace) < MIN_IOS:
        raise InputError(f"holds {len(trace)} I/O; a model needs {MIN_IOS} or more", where="trace")
    if trace.duration_s <= 0:
        raise InputError("all I/Os have one time; gaps cannot be learned", where="trace")
    trace = trace.without_empty_volumes()
    sequential, last = trace.sequential, last_touchers(trace)
    alike = np.arange(len(trace.volumes)) if levels is not None else _alike(trace, last)
    model = alike[trace.volume]
    trees = [_tree(trace, model == number, levels) for number in range(int(alike.max()) + 1)]
    leaf = np.empty(len(trace), dtype=np.int64)
    for each, tree in enumerate(trees):
        chosen = model == each
        leaf[chosen] = tree.leaf_of(trace.start[chosen])
    reuse = ~sequential & is_reuse(last, leaf, trace.volume)
    stream, members = _members(_streams(trace), model, np.bincount(alike)[model] > 1)
    joined = np.concatenate(([False], stream[1:] == stream[:-1]))
    classes, number = _classes(trace, joined)
    states = np.concatenate(([0], np.cumsum([len(trees[each]) for each in alike.tolist()])))
    place = np.stack((place_in_group(trace.volume), place_in_group(states[trace.volume] + leaf)), axis=1)
    gaps = np.diff(trace.t_s) * 1e3
    return StorageModel(
        version=STORAGE_VERSION,
        trained=TrainedOn(
            digest=digest_of(trace), ios=len(trace), duration_s=trace.duration_s, levels=levels
        ),
        classes=classes,
        volumes=[
            _volume(
                trace,
                np.flatnonzero(alike == each),
                tree,
                leaf,
                reuse,
                place,
                place - place[last],
                last,
            )
            for each, tree in enumerate(trees)
        ],
        streams=[
            _stream(
                each,
                int(trace.thread[found[0]]),
                trees[each],
                leaf[found],
                number[found],
                free=_free(trace, stream, found),
                flat=flat,
            )
            for found in members
            for each in (int(model[found[0]]),)
        ],
        order=_order(stream),
        gaps=laws_of(gaps, trace.read[1:], sequential[1:], joined[1:]),
        window_s=window_s,
        windows=np.bincount((trace.t_s // window_s).astype(np.int64)).tolist(),
    )


def _alike(trace: BlockTrace, last: Ints) -> Ints:
    """(v,) number of each volume's model: volumes of one stream each that are alike have one."""
    kinds = np.unique(
        np.stack((trace.size, trace.read, trace.sequential, last >= 0)), axis=1, return_inverse=True
    )[1].ravel()
    streams = np.bincount(trace.volume[np.unique(trace.streams, return_index=True)[1]])
    return alike_volumes(trace.volume, trace.start, kinds, streams == 1)


def _free(trace: BlockTrace, stream: Ints, found: Ints) -> bool:
    """Whether the places of a chain's I/Os, stream by stream, do not depend on those before."""
    begins = np.concatenate(([True], np.diff(stream[found]) != 0))
    if begins.sum() == 1 or trace.sequential[found].any():
        return False
    return is_free(trace.start[found], np.flatnonzero(~begins))


def _tree(trace: BlockTrace, chosen: Bools, levels: int | None) -> StateTree:
    start = trace.start[chosen]
    low, high = int(start.min()), int(trace.end[chosen].max())
    return refined_tree(start, low, high) if levels is None else even_tree(low, high, levels)


def _streams(trace: BlockTrace) -> Ints:
    """(n,) stream of each I/O; threads with few I/Os of a volume share one."""
    streams = trace.streams
    counts = np.bincount(streams)
    _, member = np.unique(streams, return_index=True)
    volume_of = trace.volume[member]
    of_volume = np.bincount(trace.volume)
    kept = counts >= np.maximum(MIN_STREAM_SHARE * of_volume[volume_of], 1)
    rank = np.empty(len(counts), dtype=np.int64)
    order = np.lexsort((-counts, volume_of))
    rank[order] = place_in_group(volume_of[order])
    merged = np.where(kept & (rank < MAX_THREADS), np.arange(len(counts)), len(counts) + volume_of)
    return np.unique(merged[streams], return_inverse=True)[1].astype(np.int64)


def _members(stream: Ints, model: Ints, shared: Bools) -> tuple[Ints, list[Ints]]:
    """(n,) stream of each I/O, numbered so that those of one model follow each other; and I/Os of each chain.

    Args:
        stream: (n,) stream of each I/O.
        model: (n,) model of each I/O's volume.
        shared: (n,) whether more volumes than the I/O's have that model, and so one chain.
    """
    count = int(stream.max()) + 1
    first = np.unique(stream, return_index=True)[1]
    lead = np.arange(count)
    least = np.full(int(model.max()) + 1, count)
    np.minimum.at(least, model[first], lead)
    lead = np.where(shared[first], least[model[first]], lead)
    order = np.argsort(lead, kind="stable")
    renumbered = np.argsort(order)[stream].astype(np.int64)
    lengths = np.bincount(lead[stream])
    ends = np.cumsum(lengths[lengths > 0])[:-1]
    return renumbered, np.split(np.argsort(renumbered, kind="stable"), ends)


def _classes(trace: BlockTrace, joined: Bools) -> tuple[list[IOClass], Ints]:
    """Classes that occur, and (n,) the class of each I/O."""
    sizes, counts = np.unique(trace.size, return_counts=True)
    common = np.sort(sizes[np.argsort(counts, kind="stable")[-MAX_SIZES:]])
    size = np.searchsorted((common[1:] + common[:-1]) // 2, trace.size, side="left")
    key = ((size * 2 + trace.read) * 2 + trace.sequential) * 2 + joined
    keys, number = np.unique(key, return_inverse=True)
    classes = [
        IOClass(
            size=int(common[key // 8]),
            read=bool(key // 4 % 2),
            sequential=bool(key // 2 % 2),
            joined=bool(key % 2),
        )
        for key in keys.tolist()
    ]
    return classes, number.astype(np.int64)


def _volume(
    trace: BlockTrace,
    alike: Ints,
    tree: StateTree,
    leaf: Ints,
    reuse: Bools,
    place: Ints,
    lag: Ints,
    last: Ints,
) -> VolumeModel:
    octave, offset = octave_of(trace.size), trace.start - trace.start[last]
    chosen = np.isin(trace.volume, alike)
    apart = chosen & ~trace.sequential
    names = [trace.volumes[number] for number in alike.tolist()]
    return VolumeModel(
        name=names[0],
        others=names[1:],
        low=tree.low,
        high=tree.high,
        align=_alignment(trace.start[chosen]),
        levels=tree.level.tolist(),
        indices=tree.index.tolist(),
        reuse=reuse_laws(
            leaf[apart],
            octave[apart],
            np.where(reuse[:, None], lag, place)[apart],
            reuse[apart],
            octave[last[apart]],
            offset[apart],
        ),
    )


def _alignment(start: Ints) -> int:
    """Largest power of two that nearly all starts are multiples of."""
    align = 1
    while align < 1 << 20 and (start % (2 * align) == 0).mean() >= ALIGNED:
        align *= 2
    return align


def _stream(
    volume: int, thread: int, tree: StateTree, leaf: Ints, number: Ints, *, free: bool, flat: bool
) -> StreamModel:
    """Transitions of a stream, whose last I/O is followed by its first: each state has a way out."""
    source, target, classes = leaf, np.roll(leaf, -1), np.roll(number, -1)
    level, left, entered = tree.level[source].copy(), tree.index[source].copy(), tree.index[target].copy()
    for each in range(tree.depth, tree.depth - 1 if flat else 0, -1):
        above = tree.ancestors(each)
        differs = (above[source] != above[target]) & (above[source] >= 0) & (above[target] >= 0)
        level[differs], left[differs], entered[differs] = each, above[source][differs], above[target][differs]
    rows, counts = np.unique(np.stack((level, left, entered, classes)), axis=1, return_counts=True)
    moved = source != target
    return StreamModel(
        volume=volume,
        thread=thread,
        free=free,
        occupancy=np.bincount(leaf, minlength=len(tree)).tolist(),
        transitions=[tuple(row) for row in np.vstack((rows, counts)).T.tolist()],
        entries=_counted(level[moved], target[moved]),
        departures=_counted(level[moved], source[moved]),
    )


def _counted(first: Ints, second: Ints) -> list[tuple[int, int, int]]:
    """Rows of the pairs that occur, with their counts."""
    pairs, counts = np.unique(np.stack((first, second)), axis=1, return_counts=True)
    return [tuple(row) for row in np.vstack((pairs, counts)).T.tolist()]


def _order(stream: Ints) -> list[tuple[int, int, int]]:
    """Rows of stream, next stream and count, of I/Os after which another stream follows; a round trip."""
    after = np.roll(stream, -1)
    moved = stream != after
    return _counted(stream[moved], after[moved])
