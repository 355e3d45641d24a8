"""Build of the contention kernels with the machine's C compiler; the user's cache keeps the program."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Final

from kwiken.allocator.contention.errors import ProbeError
from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_own, own_folder

SOURCE: Final = Path(__file__).with_name("kernels.c")
COMPILERS: Final = ("cc", "gcc", "clang")
# Neither -march nor -ffast-math: the kernels must be the same on machines of one architecture.
FLAGS: Final = ("-O2", "-pthread", "-w")
MAX_REASON: Final = 200  # letters of a compiler's message


async def build_kernels() -> Path:
    """Path of the built kernels; builds them where the cache does not hold these sources' program.

    Raises:
        ProbeError: no C compiler, or it fails, or the cache cannot be written.
    """
    source = SOURCE.read_bytes()
    machine = f"{platform.system()} {platform.machine()} {platform.libc_ver()}"
    digest = hashlib.sha256(source + machine.encode() + " ".join(FLAGS).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kwiken"
    built = folder / f"probe-kernels-{digest}"
    try:
        own_folder(folder)
        os.close(open_own(built, os.O_RDONLY))
    except FileNotFoundError:
        pass
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProbeError(f"cannot keep its kernels in {folder}: {reason}") from error
    else:
        return built
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise ProbeError("needs a C compiler and found none: install gcc or clang, or set CC")
    try:
        # Built beside its place and moved there: two builds at once do not see each other's halves.
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as scratch:
            fresh = Path(scratch) / "kernels"
            await _compile(compiler, fresh)
            fresh.chmod(0o700)
            fresh.replace(built)
    except OSError as error:
        raise ProbeError(f"cannot keep its kernels in {folder}: {error.strerror or error}") from error
    return built


async def _compile(compiler: str, out: Path) -> None:
    command = [*compiler.split(), *FLAGS, "-o", str(out), str(SOURCE)]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise ProbeError(f"cannot run the C compiler {compiler!r}: {error.strerror or error}") from error
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        reason = (said.decode(errors="replace").strip().splitlines() or ["no message"])[-1][:MAX_REASON]
        raise ProbeError(f"the C compiler {compiler!r} fails: {reason}")
