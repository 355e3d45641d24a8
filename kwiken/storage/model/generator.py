"""Generator: I/Os drawn from a model in virtual time, as a walk over states.

Each stream walks through all of its counted moves, so that a trace of as many I/Os as were trained on has the
trained shares to the last I/O; an I/O that is joined to the one before it in its stream follows it directly
in the whole trace. Runs of joined I/Os are laid in the order of a walk over the streams. Then starts are
resolved: a sequential I/O begins where the one before it ended, a reuse where an earlier I/O of its state
began, and others are spread evenly over their state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError
from kwiken.storage.model.chain import Moves, closed_walk, free_order, moves_of
from kwiken.storage.model.document import StorageModel, StreamModel, VolumeModel
from kwiken.storage.model.gap_laws import draw_gaps
from kwiken.storage.model.reuse import (
    OCTAVES,
    Past,
    draw_lags,
    octave_of,
    place_in_group,
    resolve,
    spread_apart,
    suited,
)
from kwiken.storage.model.states import StateTree
from kwiken.storage.trace.block_trace import BlockTrace

MAX_GENERATED: Final = 50_000_000  # I/Os of one call
MIN_WINDOW_IOS: Final = 200  # in a compressed window, below which its rate is uncertain


@dataclass(frozen=True, kw_only=True)
class IODrawing:
    """How to draw I/Os.

    Attributes:
        ios: number of I/Os; None for as many as the model was trained on.
        scale: factor of every gap: below 1 the load is more intense.
        compress: factor by which the time in each window is shorter; gaps stay as they are.
    """

    ios: int | None = None
    scale: float = 1.0
    compress: float = 1.0


def generate(model: StorageModel, rng: np.random.Generator, drawing: IODrawing | None = None) -> BlockTrace:
    """Draw a trace from a model.

    Args:
        drawing: how many I/Os, at which scale; all as trained by default.

    Raises:
        InputError: no I/O or too many are asked for, or a factor is not above 0.
    """
    asked = drawing or IODrawing()
    if not (asked.scale > 0 and asked.compress > 0):
        raise InputError("scale and compress must be above 0", where="generate")
    ios = max(1, round((model.trained.ios if asked.ios is None else asked.ios) / asked.compress))
    if ios > MAX_GENERATED:
        raise InputError(f"{ios} I/Os are more than {MAX_GENERATED}, the most of one call", where="generate")
    trees = [tree_of(volume) for volume in model.volumes]
    member, leaf, number = (column[:ios] for column in _walked(model, trees, ios, rng))
    size = np.array([each.size for each in model.classes])[number]
    read = np.array([each.read for each in model.classes])[number]
    sequential = np.array([each.sequential for each in model.classes])[number]
    joined = np.array([each.joined for each in model.classes])[number]
    names = {name: at for at, name in enumerate(name for each in model.volumes for name in each.names)}
    volume = np.array([names[name] for _, name in model.members])[member]
    start = _starts(model, _Laid(member, volume, leaf, sequential, size), rng)
    gaps = draw_gaps(model.gaps, read, sequential, joined, rng)
    gaps[0] = 0.0
    t_s = np.cumsum(gaps) * 1e-3 * asked.scale
    return BlockTrace(
        t_s=_at_rates(model, t_s, asked),
        volume=volume,
        start=start,
        size=size,
        read=read,
        thread=np.array([model.streams[stream].thread for stream, _ in model.members])[member],
        volumes=tuple(names),
    )


def tree_of(volume: VolumeModel) -> StateTree:
    """States of a volume."""
    return StateTree(volume.low, volume.high, np.array(volume.levels), np.array(volume.indices))


@dataclass(frozen=True, eq=False)
class _Laid:
    """I/Os in their order, without starts: arrays of member, volume, state, sequence and bytes."""

    member: Ints
    volume: Ints
    leaf: Ints
    sequential: Bools
    size: Ints


def _walked(
    model: StorageModel, trees: list[StateTree], ios: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Member, state and class of `ios` I/Os or more: whole laps of the trained trace, then a part of one."""
    trained = sum(sum(each.occupancy) for each in model.streams)
    if trained > MAX_GENERATED:
        raise InputError(f"{trained} I/Os of the model are too many to draw from", where="generate")
    whole, rest = divmod(ios, trained)
    ends = np.full(len(model.streams), -1)
    laps = []
    for times in (whole, int(rest > 0)):
        if times:
            walks = [_walk(model, stream, trees[stream.volume], times, rng) for stream in model.streams]
            laps.append(_lap(model, walks, ends, times, rng))
            ends = np.array([walk.source[0] for walk in walks])
    member, leaf, number = (np.concatenate(parts) for parts in zip(*laps, strict=True))
    return member, leaf, number


def _walk(
    model: StorageModel, stream: StreamModel, tree: StateTree, times: int, rng: np.random.Generator
) -> Moves:
    moves = moves_of(stream, tree, times, rng)
    if stream.free:
        return free_order(moves, len(model.volumes[stream.volume].names), rng)
    return closed_walk(moves, rng)


def _lap(
    model: StorageModel, walks: list[Moves], ends: Ints, times: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Member, state and class of all I/Os of closed walks of the streams.

    The walk of volumes that are alike is cut into as many runs for each of them as the order of members says.

    Args:
        ends: (s,) state in which the lap before ended on each stream, where this one begins if it can; -1 for
            none.
    """
    joins = np.array([each.joined for each in model.classes])
    stream_of = np.array([stream for stream, _ in model.members])
    runs = []
    for stream, end in enumerate(ends.tolist()):
        walk = walks[stream]
        # A run is an I/O that is not joined to the one before, with those that are joined to it.
        begins = ~joins[walk.number] if len(stream_of) > 1 else np.ones(len(walk), dtype=bool)
        fits = begins & (walk.source == end)
        turn = np.roll(np.arange(len(walk)), -int((fits if fits.any() else begins).argmax()))
        walks[stream] = walk.taken(turn)
        runs.append(np.maximum(np.cumsum(begins[turn]), 1))
    if len(stream_of) == 1:
        return np.zeros(len(walks[0]), dtype=np.int64), walks[0].target, walks[0].number
    order = _order_of_runs(model, np.array([run[-1] for run in runs]), times, rng)
    # Positions in the order of each stream's runs: all of its first member, then of the next.
    by_member = np.argsort(order, kind="stable")
    begins_at = np.searchsorted(stream_of[order[by_member]], np.arange(len(walks)))
    position = np.concatenate([by_member[begins_at[stream] + run - 1] for stream, run in enumerate(runs)])
    laid = np.argsort(position, kind="stable")
    return (
        order[position][laid],
        np.concatenate([walk.target for walk in walks])[laid],
        np.concatenate([walk.number for walk in walks])[laid],
    )


def _order_of_runs(model: StorageModel, runs: Ints, times: int, rng: np.random.Generator) -> Ints:
    """Member of each run, by a closed walk over members in which no member follows itself.

    The first I/O of a trace may be of the stream of its last one, which is a run more than there are moves.

    Args:
        runs: (s,) number of runs of each stream.
    """
    rows = np.array(model.order, dtype=np.int64).reshape(-1, 3)
    if sum(row[2] for row in model.order) * times > 2 * MAX_GENERATED:
        raise InputError("order: counts are higher than those of I/Os", where="model")
    source, target = np.repeat(rows[:, :2], rows[:, 2] * times, axis=0).T
    moves = Moves(source, target, source, target, np.zeros(len(source), dtype=np.int64))
    stream_of = np.array([stream for stream, _ in model.members])
    order = closed_walk(moves, rng).target if len(moves) else np.arange(len(stream_of))
    seen = np.bincount(stream_of[order], minlength=len(runs))
    missing = runs - seen
    if ((missing > 0) & (seen == 0)).any():
        raise InputError("order: names no moves of a stream that has I/Os", where="model")
    repeats = np.ones(len(order), dtype=np.int64)
    for stream in np.flatnonzero(missing > 0).tolist():
        at = rng.permutation(np.flatnonzero(stream_of[order] == stream))
        np.add.at(repeats, at[np.arange(missing[stream]) % len(at)], 1)
    return np.repeat(order, repeats)


def _starts(model: StorageModel, laid: _Laid, rng: np.random.Generator) -> Ints:
    """(n,) first byte of each I/O."""
    count = len(laid.size)
    volumes = [each for each in model.volumes for _ in each.names]
    trees = [tree_of(each) for each in volumes]
    sizes = [len(tree) for tree in trees]
    first = np.concatenate(([0], np.cumsum(sizes)))
    state = first[laid.volume] + laid.leaf
    parent, offset = np.arange(count), np.zeros(count, dtype=np.int64)
    before = _before_in_stream(laid.member)
    follows = laid.sequential & (before >= 0)
    parent[follows], offset[follows] = before[follows], laid.size[before[follows]]
    positions = np.stack((place_in_group(laid.volume), place_in_group(state)), axis=1)
    octave = octave_of(laid.size)
    pasts = [Past(state * OCTAVES + octave, positions[:, each]) for each in (0, 1)]
    for number, volume in enumerate(volumes):
        own = np.flatnonzero(~follows & (laid.volume == number))
        drawn = draw_lags(volume.reuse, laid.leaf[own], octave[own], positions[own], rng)
        for each, past in enumerate(pasts):
            position = positions[own, each]
            group = state[own] * OCTAVES
            chosen, lags, wanted, moved = suited(drawn, drawn.own == bool(each), group, position, past, rng)
            touched = past.touched(wanted, position[chosen], lags)
            known = touched >= 0
            parent[own[chosen[known]]], offset[own[chosen[known]]] = touched[known], moved[known]
    roots = parent == np.arange(count)
    base = np.zeros(count, dtype=np.int64)
    edges = np.concatenate([tree.edges[:-1] for tree in trees])
    ends = np.concatenate([tree.edges[1:] for tree in trees])
    align = np.repeat([each.align for each in volumes], sizes)
    base[roots] = spread_apart(state[roots], laid.size[roots], edges, ends, align, rng)
    found = resolve(parent, offset, base)
    return _wrapped(volumes, laid, found)


def _wrapped(volumes: list[VolumeModel], laid: _Laid, start: Ints) -> Ints:
    """Starts within each volume: what runs over its end goes on at its beginning."""
    low = np.array([each.low for each in volumes])[laid.volume]
    high = np.array([each.high for each in volumes])[laid.volume]
    align = np.array([each.align for each in volumes])[laid.volume]
    room = np.maximum((high - low) // align * align, align)
    over = (start + laid.size > high) | (start < low)
    wrapped = low // align * align + (start - low // align * align) % room
    fits = np.maximum((high - laid.size) // align * align, 0)
    return np.where(over, np.minimum(wrapped, fits), start)


def _before_in_stream(stream: Ints) -> Ints:
    """(n,) index of the I/O before each one in its stream; -1 for the first."""
    order = np.argsort(stream, kind="stable")
    before = np.full(len(stream), -1, dtype=np.int64)
    same = stream[order[1:]] == stream[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _at_rates(model: StorageModel, t_s: Floats, asked: IODrawing) -> Floats:
    """(n,) issue times, with the rate of each window instead of the mean rate."""
    if len(model.windows) < 2:  # noqa: PLR2004 - one window has the mean rate
        return t_s
    counts = np.array(model.windows, dtype=np.float64)
    length = np.full(len(counts), model.window_s)
    length[-1] = max(model.trained.duration_s - model.window_s * (len(counts) - 1), 1e-9)
    # Share of the I/Os and share of the time that have passed at each border.
    done = np.concatenate(([0.0], np.cumsum(counts))) / counts.sum()
    passed = np.concatenate(([0.0], np.cumsum(length))) / length.sum()
    whole = max(float(t_s[-1]), 1e-300) if len(t_s) > 1 else 1.0
    repeats = max(1.0, len(t_s) * asked.compress / model.trained.ios)
    phase = t_s / whole * repeats
    within = np.interp(phase % 1.0, done, passed)
    found: Floats = (np.minimum(np.floor(phase), repeats) + within) * whole / repeats
    return found


def thin_windows(model: StorageModel, compress: float) -> int:
    """Number of windows that hold fewer than `MIN_WINDOW_IOS` I/Os once compressed."""
    counts: Bools = np.array(model.windows) / compress < MIN_WINDOW_IOS
    return int(counts.sum())
