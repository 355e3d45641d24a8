"""Sandbox of a probe: a copy of the working folder, which a guard removes however the probe ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kwiken.allocator.contention.errors import ProbeError

MAX_COPY_BYTES: Final = 256 << 20
MAX_COPY_FILES: Final = 20_000
# Neither code nor data of a service, and often large.
LEFT_OUT: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".kwiken"),
    }
)
GUARD_S: Final = 10.0  # for the guard to remove the folder


class Sandbox:
    """Copy of a working folder for as long as the context lasts; an asynchronous context manager.

    Attributes:
        work: the copy, the working folder of what runs in the sandbox.
        scratch: empty folder beside the copy, for files of the probe itself.
    """

    def __init__(self, original: Path) -> None:
        self._original = original.resolve()
        self._folder: Path | None = None
        self._guard: asyncio.subprocess.Process | None = None
        self.work = self.scratch = self._original

    async def __aenter__(self) -> Self:
        """Copy the folder.

        Raises:
            ProbeError: the folder is too large to copy, or cannot be read.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="kwiken-probe-"))
        try:
            # The guard first: from here on nothing is left behind.
            self._guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kwiken.probes.guard", str(self._folder)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
            self.work, self.scratch = self._folder / "work", self._folder / "scratch"
            self.scratch.mkdir()
            await asyncio.to_thread(copy_folder, self._original, self.work)
        except BaseException:
            await self._remove()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the copy."""
        await self._remove()

    async def _remove(self) -> None:
        folder, guard = self._folder, self._guard
        self._folder = self._guard = None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GUARD_S):
                    await guard.wait()

    def environment(self) -> dict[str, str]:
        """Environment of processes in the sandbox: modules of the working folder come from the copy."""
        paths = []
        for entry in sys.path:
            path = Path(entry or ".").resolve()
            inside = path.is_relative_to(self._original) and not LEFT_OUT & set(
                path.relative_to(self._original).parts
            )
            paths.append(str(self.work / path.relative_to(self._original) if inside else path))
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def copy_folder(original: Path, copy: Path) -> None:
    """Copy a folder, without version control, virtual environments and caches; links stay links.

    Args:
        copy: path of the copy, which does not exist yet.

    Raises:
        ProbeError: the folder has too many bytes or files, or cannot be read.
    """
    copied_bytes = copied_files = 0
    try:
        copy.mkdir()
        for here, folders, files in os.walk(original, onerror=_raise):
            folders[:] = [name for name in folders if name not in LEFT_OUT]
            place = copy / Path(here).relative_to(original)
            for name in folders:
                source = Path(here) / name
                if source.is_symlink():
                    (place / name).symlink_to(source.readlink())
                else:
                    (place / name).mkdir()
            for name in files:
                source = Path(here) / name
                if not (source.is_file() or source.is_symlink()):
                    continue  # a socket, a pipe or a device
                copied_files += 1
                copied_bytes += source.lstat().st_size
                if copied_files > MAX_COPY_FILES or copied_bytes > MAX_COPY_BYTES:
                    raise ProbeError(
                        f"{original} has more than {MAX_COPY_BYTES >> 20} MiB or {MAX_COPY_FILES} files "
                        "to copy; start in the folder of the service alone, or name it by --working-folder"
                    )
                shutil.copy2(source, place / name, follow_symlinks=False)
    except OSError as error:
        raise ProbeError(f"{error.filename or original}: cannot be copied: {error.strerror}") from error


def _raise(error: OSError) -> None:
    raise error
