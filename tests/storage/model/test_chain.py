"""Closed walks: every counted move is taken as often as it was counted, each from where the last one ended."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.storage.model.chain import Moves, closed_walk
from kwiken.storage.model.document import StorageModel
from kwiken.storage.model.generator import IODrawing, generate
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace
from tests.support.data.storage.traces import log_and_hot_zone, zipf_trace


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(0, 1000))
def test_a_walk_takes_all_moves_of_a_round_trip(states: list[int], seed: int) -> None:
    source, target = np.array(states), np.roll(states, -1)
    moves = Moves(source, target, source, target, np.arange(len(states)))
    walk = closed_walk(moves, np.random.default_rng(seed))
    assert np.array_equal(walk.source, np.roll(walk.target, 1))
    taken = Counter(zip(walk.source.tolist(), walk.target.tolist(), strict=True))
    assert taken == Counter(zip(source.tolist(), target.tolist(), strict=True))
    # Each move keeps its class.
    assert sorted(walk.number.tolist()) == list(range(len(states)))


def test_walks_are_in_another_order_for_each_seed() -> None:
    states = np.random.default_rng(0).integers(0, 5, 300)
    moves = Moves(states, np.roll(states, -1), states, np.roll(states, -1), np.zeros(300, dtype=np.int64))
    first, other = (closed_walk(moves, np.random.default_rng(seed)).target for seed in (1, 2))
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("source", "target", "pattern"),
    [([0, 0, 1], [1, 1, 0], "left as often"), ([0, 1, 2, 3], [1, 0, 3, 2], "no walk")],
)
def test_moves_without_a_round_trip_are_refused(source: list[int], target: list[int], pattern: str) -> None:
    one, two = np.array(source), np.array(target)
    with pytest.raises(InputError, match=pattern):
        closed_walk(Moves(one, two, one, two, one), np.random.default_rng(0))


def mix(trace: BlockTrace) -> Counter[tuple[Any, ...]]:
    """Number of I/Os of each stream, size and kind."""
    columns = (trace.volume, trace.thread, trace.size, trace.read)
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("laps", [1, 3])
def test_whole_laps_have_the_trained_mix_to_the_last_io(laps: int, seed: int) -> None:
    trace = log_and_hot_zone(3000)
    made = generate(train(trace), np.random.default_rng(seed), IODrawing(ios=laps * 3000))
    assert mix(made) == Counter({key: laps * count for key, count in mix(trace).items()})
    first = made.taken(np.arange(3000))
    assert mix(first).total() == mix(trace).total()


def test_states_have_the_trained_shares_whatever_the_seed() -> None:
    trace = zipf_trace(4000)
    model = train(trace, levels=2)
    width = int(trace.start.min()), int(trace.end.max())
    for seed in range(3):
        made = generate(model, np.random.default_rng(seed))
        shares = [
            np.bincount(16 * (each.start - width[0]) // (width[1] - width[0]), minlength=16)
            for each in (trace, made)
        ]
        # A sequential I/O may begin beyond the end of its state.
        assert np.abs(shares[0] - shares[1]).sum() <= 0.005 * len(trace)


def test_what_follows_what_is_kept() -> None:
    trace = log_and_hot_zone(4000, threads=False)
    made = generate(train(trace), np.random.default_rng(5))

    def pairs(each: BlockTrace) -> Counter[tuple[int, int]]:
        return Counter(pairwise((each.start >> 30).tolist()))

    seen, drawn = pairs(trace), pairs(made)
    for pair, count in seen.items():
        assert drawn[pair] == pytest.approx(count, abs=0.02 * len(trace))


@pytest.mark.parametrize("ios", [1, 7, 2999, 3001, 4500])
def test_any_number_of_ios_is_drawn(ios: int) -> None:
    made = generate(train(log_and_hot_zone(3000)), np.random.default_rng(0), IODrawing(ios=ios))
    assert len(made) == ios
    assert (np.diff(made.t_s) >= 0).all()


def broken(model: StorageModel, **fields: Any) -> StorageModel:
    stream = msgspec.structs.replace(model.streams[0], **fields)
    return msgspec.structs.replace(model, streams=[stream, *model.streams[1:]])


@pytest.mark.parametrize("field", ["entries", "departures", "transitions", "occupancy"])
def test_counts_that_do_not_agree_are_refused(field: str) -> None:
    model = train(zipf_trace(2000))
    rows = list(getattr(model.streams[0], field))
    last = rows[-1]
    rows[-1] = last + 1 if isinstance(last, int) else (*last[:-1], 1 << 50)
    with pytest.raises(InputError, match="counts"):
        generate(broken(model, **{field: rows}), np.random.default_rng(0))


def test_entries_of_other_states_are_refused() -> None:
    model = train(log_and_hot_zone(2000, threads=False))
    moved = [(level, 0, count) for level, _, count in model.streams[0].entries]
    with pytest.raises(InputError, match=r"agree|as often"):
        generate(broken(model, entries=moved), np.random.default_rng(0))


def test_an_order_without_a_stream_is_refused() -> None:
    model = train(log_and_hot_zone(2000))
    assert len(model.streams) > 2
    kept = [row for row in model.order if 0 not in row[:2]]
    with pytest.raises(InputError, match=r"order|often|no walk"):
        generate(msgspec.structs.replace(model, order=kept), np.random.default_rng(0))
