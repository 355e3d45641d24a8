"""Store of the index on disk: one index for each version of Python and of this code, checked when read.

A part is a file: eight bytes that name the format, the CRC-32 of the rest, then MessagePack. It is written to
a temporary file and renamed, so a reader sees a complete part or none. A part that fails its check is built
again. Readers map the file, so all processes share one copy of the arrays in memory.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.services.search.index import source
from kwiken.services.search.index.parts import PARTS, IndexPart

P = TypeVar("P", bound=IndexPart)

_MAGIC = b"kwsearch"
_HEAD = struct.Struct("<8sI")
_BUILDER_MODULES = ("build", "corpus", "names", "native", "parts", "source", "store", "text")
BUILD_SECONDS = 300.0
MAX_INDEXES = 4


class BuildError(KwikenError):
    """The index could not be built."""


def cache_folder() -> Path:
    """Folder of all indexes: KWIKEN_CACHE, or the user's cache folder."""
    given = os.environ.get("KWIKEN_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    return Path(base) / "kwiken"


@cache
def key() -> str:
    """Digest that names the index of this interpreter, its standard library and this code."""
    digest = blake2b(f"{sys.version} {sys.byteorder}".encode(), digest_size=8)
    here = Path(__file__).parent
    for name in _BUILDER_MODULES:
        digest.update((here / f"{name}.py").read_bytes())
    from sysconfig import get_path

    for name, path in source.files(Path(get_path("stdlib"))):
        found = path.stat()
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def folder() -> Path:
    """Folder of this interpreter's index, which may not exist yet."""
    return cache_folder() / f"search-{key()}"


def write(place: Path, part: IndexPart) -> None:
    """Write one part, whole or not at all."""
    body = msgspec.msgpack.encode(part)
    place.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place, prefix=f".{part.file}-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(_HEAD.pack(_MAGIC, crc32(body)))
            out.write(body)
        Path(name).replace(place / part.file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(place: Path, kind: type[P]) -> P:
    """Read one part; its arrays are mapped from the file.

    Raises:
        InputError: naming the file, where it is missing, cut, changed or of another format.
    """
    path = place / kind.file
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error}); it will be built", where=str(path)) from None
    view = memoryview(data)
    if len(view) < _HEAD.size or _HEAD.unpack_from(view) != (_MAGIC, crc32(view[_HEAD.size :])):
        raise InputError("is damaged; it will be built anew", where=str(path))
    try:
        return msgspec.msgpack.decode(view[_HEAD.size :], type=kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"is of another format ({error}); it will be built anew", where=str(path)) from None


def load(kind: type[P]) -> P:
    """One part of this interpreter's index, built first where it is missing or damaged.

    Raises:
        BuildError: when it cannot be built.
    """
    with suppress(InputError):
        return read(folder(), kind)
    build()
    return read(folder(), kind)


def build(*, force: bool = False) -> Path:
    """Build the index unless it is complete; one process builds at a time and the others wait.

    Args:
        force: whether to build even where a complete index exists.

    Raises:
        BuildError: when the builder fails; its last lines are in the message.
    """
    place = folder()
    with _lock(place.with_suffix(".lock")):
        if force or not whole(place):
            _run_builder(place)
            _remove_old(place)
    return place


def whole(place: Path) -> bool:
    """True if every part exists and passes its check."""
    try:
        return all(read(place, kind).key == key() for kind in PARTS)
    except InputError:
        return False


def _run_builder(place: Path) -> None:
    """Build in a new process, since building imports 67 C modules and needs ten times a replica's memory."""
    root = str(Path(__file__).resolve().parents[4])
    known = os.environ.get("PYTHONPATH")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *([known] if known else [])])}
    command = [sys.executable, "-m", "kwiken.services.search.index.build", str(place)]
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, env=env, capture_output=True, timeout=BUILD_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"building the search index failed: {error}") from error
    if done.returncode:
        last = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise BuildError(f"building the search index failed: {last or f'exit code {done.returncode}'}")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file; without it after `BUILD_SECONDS`, as its holder may hang and writes are atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _acquire(file.fileno(), time.monotonic() + BUILD_SECONDS)
        yield  # the lock goes with the file


def _acquire(handle: int, until: float) -> None:
    try:
        import fcntl
    except ImportError:
        return  # Windows: several processes may build, which is safe because parts are renamed into place
    while time.monotonic() < until:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.05)
        else:
            return


def _remove_old(keep: Path) -> None:
    """Remove all but the newest indexes; readers of a removed one keep their mapped files."""
    others = [path for path in keep.parent.glob("search-*") if path.is_dir() and path != keep]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[MAX_INDEXES - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
