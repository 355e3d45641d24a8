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
from kwiken.storage.model.reuse import is_reuse, last_touchers, place_in_group, reuse_laws
from kwiken.storage.model.states import StateTree, even_tree, refined_tree
from kwiken.storage.trace import BlockTrace

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
    trees = [_tree(trace, volume, levels) for volume in range(len(trace.volumes))]
    leaf = np.empty(len(trace), dtype=np.int64)
    for volume, tree in enumerate(trees):
        chosen = trace.volume == volume
        leaf[chosen] = tree.leaf_of(trace.start[chosen])
    sequential, last = trace.sequential, last_touchers(trace)
    reuse = ~sequential & is_reuse(last, leaf, trace.volume)
    stream = _streams(trace)
    joined = np.concatenate(([False], stream[1:] == stream[:-1]))
    classes, number = _classes(trace, joined)
    states = np.concatenate(([0], np.cumsum([len(tree) for tree in trees])))
    place = place_in_group(states[trace.volume] + leaf)
    gaps = np.diff(trace.t_s) * 1e3
    return StorageModel(
        version=STORAGE_VERSION,
        trained=TrainedOn(
            digest=digest_of(trace), ios=len(trace), duration_s=trace.duration_s, levels=levels
        ),
        classes=classes,
        volumes=[
            _volume(
                trace, volume, tree, leaf, reuse, place, place - place[last], trace.start - trace.start[last]
            )
            for volume, tree in enumerate(trees)
        ],
        streams=[
            _stream(volume, int(trace.thread[found[0]]), trees[volume], leaf[found], number[found], flat=flat)
            for found in _members(stream)
            for volume in (int(trace.volume[found[0]]),)
        ],
        order=_order(stream),
        gaps=laws_of(gaps, trace.read[1:], sequential[1:], joined[1:]),
        window_s=window_s,
        windows=np.bincount((trace.t_s // window_s).astype(np.int64)).tolist(),
    )


def _tree(trace: BlockTrace, volume: int, levels: int | None) -> StateTree:
    start = trace.start[trace.volume == volume]
    low, high = int(start.min()), int(trace.end[trace.volume == volume].max())
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


def _members(stream: Ints) -> list[Ints]:
    order = np.argsort(stream, kind="stable")
    return [order[chosen] for chosen in np.split(np.arange(len(order)), np.cumsum(np.bincount(stream))[:-1])]


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
    volume: int,
    tree: StateTree,
    leaf: Ints,
    reuse: Bools,
    place: Ints,
    lag: Ints,
    offset: Ints,
) -> VolumeModel:
    chosen = trace.volume == volume
    apart = chosen & ~trace.sequential
    return VolumeModel(
        name=trace.volumes[volume],
        low=tree.low,
        high=tree.high,
        align=_alignment(trace.start[chosen]),
        levels=tree.level.tolist(),
        indices=tree.index.tolist(),
        reuse=reuse_laws(leaf[apart], np.where(reuse, lag, place)[apart], reuse[apart], offset[apart]),
    )


def _alignment(start: Ints) -> int:
    """Largest power of two that nearly all starts are multiples of."""
    align = 1
    while align < 1 << 20 and (start % (2 * align) == 0).mean() >= ALIGNED:
        align *= 2
    return align


def _stream(
    volume: int, thread: int, tree: StateTree, leaf: Ints, number: Ints, *, flat: bool
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
