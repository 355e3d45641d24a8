"""The file of a replay: nobody else's is written to, nothing is left of it, and no thread outlives it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.cli.data.storage.replay_file import made_file, replay
from kwiken.storage.trace.block_trace import BlockTrace
from tests.support.data.storage.traces import log_and_hot_zone
from tests.support.project.commands import refused, run

SIZE = 1 << 20


def writes(count: int, at_s: float, size: int = 4096) -> BlockTrace:
    """Writes at one moment, each to a place of its own."""
    return BlockTrace(
        t_s=np.full(count, at_s),
        volume=np.zeros(count, np.int64),
        start=np.arange(count) * size,
        size=np.full(count, size),
        read=np.zeros(count, bool),
        thread=np.zeros(count, np.int64),
        volumes=("disk",),
    )


def test_a_file_that_is_not_kept_has_no_name_while_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "disk.dat"
    with made_file(str(path), SIZE, keep=False) as (number, _):
        assert not list(tmp_path.iterdir())
        assert os.fstat(number).st_size == SIZE
        path.write_text("of somebody else")
    assert path.read_text() == "of somebody else"


def test_a_file_that_is_kept_stays(tmp_path: Path) -> None:
    path = tmp_path / "disk.dat"
    with made_file(str(path), SIZE, keep=True):
        pass
    assert path.stat().st_size == SIZE


def test_no_thread_writes_once_a_replay_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            if not asked:
                asked.append(True)
                raise KeyboardInterrupt
            super().join(timeout)

    asked: list[bool] = []
    monkeypatch.setattr(threading, "Thread", Interrupted)
    before = threading.active_count()
    path = tmp_path / "of-others"
    path.write_bytes(bytes(SIZE))
    number = os.open(path, os.O_RDWR)
    with pytest.raises(KeyboardInterrupt):
        replay(writes(8, 5.0), number, SIZE, workers=8, direct=False)
    assert threading.active_count() == before
    os.close(number)
    assert path.read_bytes() == bytes(SIZE)


def test_a_failure_of_one_worker_is_told(tmp_path: Path) -> None:
    path = tmp_path / "read-only"
    path.write_bytes(bytes(SIZE))
    number = os.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        replay(writes(8, 0.0), number, SIZE, workers=4, direct=False)
    os.close(number)


def test_large_ios_of_many_workers_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    with (
        made_file(str(tmp_path / "disk.dat"), 8 * SIZE, keep=False) as (number, direct),
        pytest.raises(InputError, match="give fewer --workers"),
    ):
        replay(writes(1000, 0.0, 4 * SIZE), number, 8 * SIZE, workers=1000, direct=direct)


def test_gaps_that_contradict_their_mean_do_not_lengthen_a_run(tmp_path: Path) -> None:
    from kwiken.storage.model.training import train

    document = json.loads(train(log_and_hot_zone(500)).to_json())
    for law in document["gaps"]:
        law["quantiles_ms"] = [1e12, 1e12]
    model = tmp_path / "model.json"
    model.write_text(json.dumps(document))
    words = ("storage", "replay", str(model), str(tmp_path / "x"), "--seconds", "0.1", "--size", "1")
    refused(run(*words), "draws no second I/O within 0.1 s")
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("words", [("--scale", "1e-300"), ("--scale", "nan"), ("--compress", "1e300")])
def test_factors_beyond_reason_are_refused(words: tuple[str, str]) -> None:
    refused(run("storage", "generate", "model.json", *words), "range|number")
