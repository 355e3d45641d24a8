"""Bounded reads of files that a user names: devices, pipes and long files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.base.machine.files import read_file
from kwiken.runtime.cluster.state.files import StateFiles
from kwiken.runtime.process.tokens import read_tokens


def test_a_file_and_a_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").symlink_to("a")
    assert read_file(tmp_path / "a", 5) == read_file(tmp_path / "b", 5) == b"12345"
    with pytest.raises(InputError, match="a: is larger than 4 bytes"):
        read_file(tmp_path / "a", 4)


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_what_never_ends_is_refused_at_once(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=f"{name}: is not a regular file"):
        read_file(tmp_path / name, 1 << 20)
    with pytest.raises(InputError, match=f"{name}: is not a regular file"):
        read_tokens(str(tmp_path / name))


def test_a_folder_is_refused_and_no_handle_is_left(tmp_path: Path) -> None:
    before = handles()
    for _ in range(10):
        with pytest.raises(InputError, match=r"Is a directory|not a regular file"):
            read_tokens(str(tmp_path))
    assert handles() <= before


def handles() -> int:
    """Number of open files of this process; always 0 where the system does not report it."""
    told = Path("/proc/self/fd")
    return len(list(told.iterdir())) if told.is_dir() else 0


def test_a_token_is_short_text(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="token: is not text"):
        read_tokens(str(tmp_path / "token"))
    (tmp_path / "token").write_bytes(b"x" * 10_000)
    with pytest.raises(InputError, match="token: is larger than"):
        read_tokens(str(tmp_path / "token"))
    (tmp_path / "token").write_bytes(b" secret\n")
    assert read_tokens(str(tmp_path / "token")) == ("secret",)


def test_a_clusters_state_is_a_regular_file(tmp_path: Path) -> None:
    files = StateFiles(tmp_path, "echo")
    os.mkfifo(files.state)
    with pytest.raises(InputError, match=r"echo\.json: is not a regular file"):
        files.read()
