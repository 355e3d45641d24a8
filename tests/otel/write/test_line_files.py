"""Rotating line files: bounded, whole lines only, and no errors raised to the writer."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.otel.write.rotating_files import LineFiles


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_the_open_file_is_marked_and_a_closed_one_is_not(tmp_path: Path) -> None:
    files = LineFiles(tmp_path / "deep" / "er", "shop")
    folder = tmp_path / "deep" / "er"
    assert names(folder) == []
    files.write([b"one\n"])
    assert names(folder) == [f"shop.{os.getpid()}.000001.jsonl.part"]
    files.close()
    assert names(folder) == [f"shop.{os.getpid()}.000001.jsonl"]
    files.write([b"two\n"])
    files.close()
    files.close()
    assert content(folder) == b"one\ntwo\n"
    assert files.counts.lines == 2


def test_files_rotate_at_whole_lines_and_the_oldest_go(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, "shop", max_bytes=100, max_files=3)
    for number in range(40):
        files.write([f"{number:029d}\n".encode()])
    files.close()
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 3
    assert all(path.stat().st_size <= 100 and path.read_bytes().endswith(b"\n") for path in kept)
    assert content(tmp_path).splitlines()[-1] == f"{39:029d}".encode(), "the newest stay"
    assert files.counts.lines == 40


def test_another_services_files_are_left_alone(tmp_path: Path) -> None:
    for other in ("shop.x.1.000001.jsonl", "shopping.1.000001.jsonl", "notes.txt", "shop.jsonl"):
        (tmp_path / other).write_text("keep\n")
    files = LineFiles(tmp_path, "shop", max_bytes=10, max_files=1)
    for _ in range(5):
        files.write([b"123456789\n"])
    files.close()
    assert len(names(tmp_path)) == 5


def test_names_unfit_for_files_are_made_fit(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, "../a b/ü")
    files.write([b"x\n"])
    files.close()
    (name,) = names(tmp_path)
    assert name.startswith(".._a_b_.")


def test_a_line_longer_than_a_file_is_lost_and_counted(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, "shop", max_bytes=10)
    files.write([b"short\n", b"much too long\n", b"fine\n"])
    files.close()
    assert content(tmp_path) == b"short\nfine\n"
    assert (files.counts.lines, files.counts.lost_lines) == (2, 1)


def test_an_unused_open_file_leaves_nothing(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, "shop")
    files.write([])
    files.close()
    assert names(tmp_path) == []


class FullDisk:
    """Lets so many bytes through, then is full, writing half of what it is given, until there is space again."""

    def __init__(self, space: int) -> None:
        self.space = space
        self._write = os.write

    def __call__(self, fd: int, data: Any) -> int:
        size = len(data)
        if size <= self.space:
            self.space -= size
            return self._write(fd, data)
        if self.space:
            half, self.space = self.space, 0
            return self._write(fd, bytes(data)[:half])
        raise OSError(errno.ENOSPC, "No space left on device")


@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), max_size=12), st.integers(0, 300))
def test_a_full_disk_tears_no_line(batches: list[list[int]], space: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        now = 0.0
        patch.setattr(os, "write", FullDisk(space))
        files = LineFiles(folder, "shop", max_bytes=80, clock=lambda: now)
        sent = 0
        for batch in batches:
            now += 2.0
            files.write([b"x" * (size - 1) + b"\n" for size in batch])
            sent += len(batch)
        files.close()
        lines = content(folder).splitlines(keepends=True)
        assert all(line.endswith(b"\n") for line in lines)
        assert files.counts.lines + files.counts.lost_lines == sent
        assert len(lines) == files.counts.lines


def test_writing_goes_on_once_there_is_space_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    disk = FullDisk(4)
    monkeypatch.setattr(os, "write", disk)
    files = LineFiles(tmp_path, "shop", clock=lambda: now)
    files.write([b"aaa\n"])
    files.write([b"bbb\n"])
    assert "No space" in (files.counts.last_error or "")
    disk.space = 100
    files.write([b"ccc\n"])
    files.close()
    assert content(tmp_path) == b"aaa\nccc\n"
    assert (files.counts.lines, files.counts.lost_lines) == (2, 1)


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "spans"
    files = LineFiles(folder, "shop")
    folder.rmdir()
    folder.parent.rmdir()
    files.write([b"x\n"])
    files.close()
    assert (content(folder), files.counts.lost_lines) == (b"x\n", 0)


def test_a_folder_that_cannot_be_made_costs_lines_but_raises_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "spans"
    files = LineFiles(folder, "shop")
    folder.rmdir()
    folder.write_text("a file in place of the folder")
    files.write([b"x\n"])
    files.write([b"x\n"])
    files.close()
    assert files.counts.lost_lines == 2
    assert files.counts.errors == 1, "a failing folder is not tried at every line"
