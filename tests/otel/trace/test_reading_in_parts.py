"""Files that several processes read: the same forest and profile as in one go, whatever is sampled or refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from joblib import Parallel, delayed

from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, one_by_one
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.read import columns
from kwiken.otel.trace import load
from kwiken.otel.trace.load import read_forest
from kwiken.otel.write.observer import make_observer
from tests.support.otel.folders import folder_of
from tests.support.otel.span_trees import MS, T0, random_dag, record


def in_processes(jobs: Sequence[Job]) -> list[Any]:
    return list(Parallel(n_jobs=2)(delayed(function)(*arguments) for function, arguments in jobs))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(load, "PART_BYTES", 30_000)
    monkeypatch.setattr(load, "PARTS_AT_ONCE", 3)
    return folder_of(tmp_path, files=9, lines=60)


def assert_same(folder: Path, spread: Any = one_by_one, **options: Any) -> None:
    here, there = read_forest([folder], **options), read_forest([folder], spread=spread, **options)
    assert here.counts == there.counts
    for name in ("spans", "owns", "links", "trace", "parent", "start", "end", "state"):
        assert np.array_equal(getattr(here, name), getattr(there, name), equal_nan=False) or (
            getattr(here, name).tobytes() == getattr(there, name).tobytes()
        ), name
    assert here.names.operations == there.names.operations
    assert here.names.texts == there.names.texts
    assert here.names.kinds == there.names.kinds
    assert here.names.methods == there.names.methods
    assert here.names.from_paths == there.names.from_paths
    assert here.names.homes == there.names.homes
    assert here.names.stated == there.names.stated


def test_a_folder_in_parts_is_the_folder_in_one_go(folder: Path) -> None:
    assert_same(folder)
    assert_same(folder, kind_by="tenant")
    assert_same(folder, in_processes)


@settings(max_examples=15, deadline=None)
@given(most=st.integers(20, 1600))
def test_what_is_sampled_is_the_same(most: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("sampled")
    folder_of(path, files=5, lines=70, seed=most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "PART_BYTES", 20_000)
        patch.setattr(load, "PARTS_AT_ONCE", 2)
        assert_same(path, max_spans=most)


def test_the_profile_has_the_same_digest(folder: Path) -> None:
    fit = partial(fit_profile, [folder], kind_by="tenant")
    assert fit().digest == fit(spread=in_processes).digest == fit(spread=one_by_one).digest


def test_own_spans_keep_their_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "PART_BYTES", 1)  # a file a part
    rng = random.Random(4)
    dag = random_dag(rng, 5)
    for file in range(4):
        observer = make_observer("shop", traces=tmp_path / str(file))
        for number in range(15):
            start = T0 + (15 * file + number) * 50 * MS
            observer.request_finished(record(rng, dag, start=start, widths={0: 3}, copies=0.4))
        observer.close()
    assert_same(tmp_path)
    assert fit_profile([tmp_path]).digest == fit_profile([tmp_path], spread=in_processes).digest


def test_too_many_names_are_read_in_one_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # From half of the bound on, instances are left out: which ones depends on all that was read before.
    from kwiken.otel.read import span_store

    for module in (columns, span_store):
        monkeypatch.setattr(module, "MAX_NAMES", 14)
    assert_same(folder)


def test_the_first_broken_file_is_named(folder: Path) -> None:
    (folder / "part-004.jsonl").write_text('{"resourceSpans": [{"scopeSpans": 3}]}\n')
    (folder / "part-007.jsonl").write_text("no JSON")
    for spread in (None, one_by_one, in_processes):
        with pytest.raises(InputError, match=r"part-004\.jsonl:1: "):
            fit_profile([folder], spread=spread)


def test_progress_tells_of_every_byte(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    read_forest([folder], on_progress=lambda *both: told.append(both), spread=one_by_one)
    total = sum(file.stat().st_size for file in folder.iterdir())
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
