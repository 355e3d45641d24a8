"""Volumes that are alike: how they are found, and what a model that they share keeps of each."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.export.block_io.fio import fio_job
from kwiken.storage.model.document import StorageModel
from kwiken.storage.model.generator import IODrawing, generate
from kwiken.storage.model.states import alike_volumes, is_free
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace
from tests.support.data.storage.traces import striped_trace


def test_parts_of_a_stripe_are_alike_and_a_log_is_not() -> None:
    trace = striped_trace(4000, parts=5)
    model = train(trace)
    assert [volume.names for volume in model.volumes] == [["0", "1", "2", "3", "4"], ["log"]]
    assert [name for _, name in model.members] == ["0", "1", "2", "3", "4", "log"]
    assert len(model.streams) == 2


def test_volumes_of_one_law_share_a_group_nearly_always() -> None:
    largest = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        volumes, each = int(rng.integers(2, 12)), int(rng.integers(100, 600))
        volume = np.tile(np.arange(volumes), each)
        start = (rng.beta(2, 5, len(volume)) * 1e9).astype(np.int64)
        kind = rng.integers(3, size=len(volume))
        found = alike_volumes(volume, start, kind, np.ones(volumes, dtype=bool))
        assert found[0] == 0
        assert set(np.diff(np.unique(found))) <= {1}
        largest.append(np.bincount(found).max() / volumes)
    # One in a hundred is left out of a group by chance, and may lead another one.
    assert np.mean(largest) > 0.95


@pytest.mark.parametrize("what", ["places", "shifted", "kinds", "runs", "few", "unfit"])
def test_volumes_that_differ_are_kept_apart(what: str) -> None:
    rng = np.random.default_rng(3)
    each = 80 if what == "few" else 500
    start = (rng.random((2, each)) * 1e9).astype(np.int64)
    kind = rng.integers(2, size=(2, each))
    if what == "places":
        start[1] = (rng.random(each) ** 2 * 1e9).astype(np.int64)
    elif what == "shifted":
        start[1] += 10**9
    elif what == "kinds":
        kind[1] = rng.random(each) < 0.8
    elif what == "runs":
        start[1] = np.sort(start[1])
    fit = np.array([what != "unfit", True])
    found = alike_volumes(np.repeat([0, 1], each), start.ravel(), kind.ravel(), fit)
    assert found.tolist() == [0, 1]


def test_groups_are_numbered_by_their_first_volumes() -> None:
    rng = np.random.default_rng(4)
    volume = np.repeat([0, 1, 2, 3], [200, 300, 400, 500])
    start = (rng.random(len(volume)) * 1e6).astype(np.int64) + np.where(volume % 2, 0, 10**9)
    found = alike_volumes(volume, start, np.zeros(len(volume), dtype=np.int64), np.ones(4, dtype=bool))
    assert found.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("laps", [1, 2])
def test_a_drawn_trace_keeps_states_kinds_and_shares_of_alike_volumes(laps: int) -> None:
    trace = striped_trace(4000, parts=5)
    made = generate(train(trace), np.random.default_rng(1), IODrawing(ios=4000 * laps))
    assert made.volumes == trace.volumes
    assert made.read.sum() == laps * trace.read.sum()
    assert (
        np.bincount(made.size)[[4096, 8192]].tolist()
        == (laps * np.bincount(trace.size)[[4096, 8192]]).tolist()
    )
    known, drawn = (np.bincount(each.volume) / len(each) for each in (trace, made))
    assert np.abs(known - drawn).max() < 0.015
    assert made.sequential[made.volume == 5].mean() > 0.9
    # Hot blocks are those of all parts, and each part holds the stripe's share of them.
    hot = [(each.start < 1 << 26)[each.volume < 5].mean() for each in (trace, made)]
    assert hot[0] == pytest.approx(hot[1], abs=0.005)


def test_one_part_is_told_by_all() -> None:
    """The share of a range in one volume is nearer to the law's with the I/Os of all alike volumes."""
    right = _quarters(striped_trace(60_000, parts=8, seed=99))
    errors = []
    for seed in range(6):
        trace = striped_trace(3000, parts=8, seed=seed)
        model = train(trace)
        drawn = np.mean(
            [_quarters(generate(model, np.random.default_rng(each))) for each in range(8)], axis=0
        )
        errors.append((np.abs(drawn - right).mean(), np.abs(_quarters(trace) - right).mean()))
    of_model, of_trace = np.mean(errors, axis=0)
    assert of_model < 0.7 * of_trace


def _quarters(trace: BlockTrace) -> Floats:
    """(8, 4) share of each part's I/Os in its quarters."""
    counts = np.array(
        [np.bincount(trace.start[trace.volume == each] >> 28, minlength=4) for each in range(8)]
    )
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def test_places_that_do_not_depend_on_those_before_come_in_any_order() -> None:
    trace = striped_trace(4000, parts=5)
    model = train(trace)
    assert [stream.free for stream in model.streams] == [True, False]
    made = generate(model, np.random.default_rng(2))
    hot = np.array([(made.start < 1 << 26)[made.volume == each].mean() for each in range(5)])
    # Of each volume alone a draw of 720 I/Os would have a standard deviation of 0.018.
    assert hot.max() - hot.min() < 0.02
    part = made.start[made.volume == 0] >= 1 << 26
    assert np.corrcoef(part[1:], part[:-1])[0, 1] == pytest.approx(0, abs=0.15)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(200, 2000))
def test_what_is_sticky_is_not_free(seed: int, ios: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 1 << 30, ios)
    again = rng.random(ios) < 0.5
    last = np.maximum.accumulate(np.where(again, 0, np.arange(ios)))
    assert not is_free(start[last] + rng.integers(0, 4096, ios), np.arange(1, ios))


def test_independent_places_are_free_nearly_always() -> None:
    rng = np.random.default_rng(8)
    found = [is_free((rng.beta(2, 5, 800) * 1e9).astype(np.int64), np.arange(1, 800)) for _ in range(100)]
    assert sum(found) > 90


@pytest.mark.parametrize("start", [np.zeros(300, dtype=np.int64), np.arange(2) * 4096])
def test_places_that_tell_nothing_are_free(start: Ints) -> None:
    assert is_free(start, np.arange(1, len(start)))


def test_each_volume_has_its_own_job_and_file() -> None:
    trace = striped_trace(4000, parts=5)
    text = fio_job(train(trace), ios=4000)
    assert text.count("[stream-") == 6
    assert len({line for line in text.splitlines() if line.startswith("filename=")}) == 6
    planned = [int(line.partition("=")[2]) for line in text.splitlines() if line.startswith("number_ios=")]
    assert planned == pytest.approx(np.bincount(trace.volume), abs=40)


def test_an_even_tree_is_of_each_volume_alone() -> None:
    model = train(striped_trace(4000, parts=5), levels=1)
    assert len(model.volumes) == 6
    assert not any(volume.others for volume in model.volumes)


def test_documents_whose_volumes_do_not_fit_are_refused() -> None:
    model = train(striped_trace(4000, parts=5))
    assert StorageModel.from_json(model.to_json(), where="x") == model
    first = model.volumes[0]
    twice = msgspec.structs.replace(first, others=["1", "1"])
    parted = msgspec.structs.replace(model, streams=[model.streams[0], *model.streams])
    for wrong, reason in (
        (msgspec.structs.replace(model, volumes=[twice, model.volumes[1]]), "twice"),
        (parted, "have one stream"),
        (msgspec.structs.replace(model, order=[(0, 6, 1), *model.order]), "order"),
    ):
        with pytest.raises(InputError, match=reason):
            StorageModel.from_json(json.dumps(json.loads(wrong.to_json())), where="x")
