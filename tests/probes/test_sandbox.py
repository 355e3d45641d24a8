"""Sandbox: what is copied, what is not, where modules come from, and what is left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kwiken.allocator.contention.errors import ProbeError
from kwiken.probes import sandbox
from kwiken.probes.sandbox import Sandbox


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "service"
    for name in ("app.py", "data/words.txt", ".git/config", ".venv/bin/python", "data/__pycache__/a.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "link").symlink_to("app.py")
    (folder / "folder-link").symlink_to("data")
    os.mkfifo(folder / "pipe")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return folder


async def test_a_copy_without_what_is_large_and_no_part_of_the_service(original: Path) -> None:
    async with Sandbox(original) as box:
        copied = sorted(str(path.relative_to(box.work)) for path in box.work.rglob("*"))
        assert copied == ["app.py", "data", "data/words.txt", "folder-link", "link"]
        assert (box.work / "link").readlink() == Path("app.py")
        (box.work / "app.py").write_text("changed")
        (box.work / "new.txt").write_text("new")
    assert (original / "app.py").read_text() == "app.py"
    assert not (original / "new.txt").exists()
    assert list((original.parent / "temporary").iterdir()) == []


async def test_modules_of_the_folder_come_from_the_copy(
    original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(original), str(original / ".venv/lib"), "/elsewhere", *sys.path])
    async with Sandbox(original) as box:
        first, second, third, *_ = box.environment()["PYTHONPATH"].split(os.pathsep)
        assert (first, third) == (str(box.work), "/elsewhere")
        assert second == str(original / ".venv/lib")  # libraries are not copied


@pytest.mark.parametrize(("limit", "value"), [("MAX_COPY_FILES", 2), ("MAX_COPY_BYTES", 8)])
async def test_a_folder_that_is_too_large_is_refused_and_nothing_is_left(
    original: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(sandbox, limit, value)
    with pytest.raises(ProbeError, match=r"service has more than .* files to copy; start in the folder"):
        async with Sandbox(original):
            pass
    assert list((original.parent / "temporary").iterdir()) == []


async def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, original: Path) -> None:
    with pytest.raises(ProbeError, match="nothing: cannot be copied: No such file or directory"):
        async with Sandbox(tmp_path / "nothing"):
            pass
    assert list((original.parent / "temporary").iterdir()) == []
