"""Building the kernels: once for each machine, with one clear line where it cannot be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwiken.allocator.contention.errors import ProbeError
from kwiken.probes.build import build_kernels
from tests.support.project.compilers import needs_compiler


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "cache"


@needs_compiler
async def test_a_program_is_built_once(empty_cache: Path) -> None:
    built = await build_kernels()
    assert built.is_relative_to(empty_cache)
    first = built.stat()
    assert first.st_mode & 0o777 == 0o700
    assert [path.name for path in built.parent.iterdir()] == [built.name]  # nothing of the build is left
    assert await build_kernels() == built
    assert built.stat().st_mtime_ns == first.st_mtime_ns


async def test_no_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ProbeError, match="needs a C compiler and found none: install gcc or clang, or set CC"
    ):
        await build_kernels()


async def test_a_compiler_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "broken-cc"
    compiler.write_text("#!/bin/sh\necho 'first'\necho 'internal error' >&2\nexit 4\n")
    compiler.chmod(0o700)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(ProbeError, match="broken-cc' fails: internal error"):
        await build_kernels()
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with pytest.raises(ProbeError, match=r"cannot run the C compiler .*none'"):
        await build_kernels()


async def test_a_cache_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("CC", "true")
    with pytest.raises(ProbeError, match=r"cannot keep its kernels in .*file/kwiken: Not a directory"):
        await build_kernels()
