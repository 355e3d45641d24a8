"""Folders whose file system turns read-only: requests go on, what is lost is counted, and one line tells a start.

Linux refuses to remount a file system read-only while a file on it is open for writing, as the lock of a state
folder is while a service is up. So a state folder can only be read-only from the start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runtime.door_processes import DoorProcess, listens
from tests.support.runtime.server_processes import KWIKEN, ROOT, ask, free_port
from tests.support.runtime.waiting import soon

TARGET = "tests.support.services.http:service"
UNSHARE = [shutil.which("unshare") or "unshare", "--mount", "--propagation", "private"]


def may_mount() -> bool:
    """Whether this process may mount file systems in a namespace of its own."""
    with contextlib.suppress(OSError):
        words = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    return False


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not may_mount(), reason="mounts need Linux and its administrator"
)


def within(folder: Path, then: str, *words: str) -> subprocess.Popen[str]:
    """Run a command in a mount namespace, where the folder is an empty file system of its own.

    Args:
        then: shell command that is run before.
    """
    script = f'mount -t tmpfs -o mode=755 none "$0" && {then} && exec "$@"'
    return subprocess.Popen(
        [*UNSHARE, "sh", "-c", script, str(folder), *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def remount(process: subprocess.Popen[str], folder: Path, how: str) -> int:
    """Mount the file system anew in the namespace of a process; returns the exit code."""
    enter = [shutil.which("nsenter") or "nsenter", f"--mount=/proc/{process.pid}/ns/mnt"]
    words = [*enter, "mount", "-o", f"remount,{how}", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode


@contextlib.contextmanager
def traced(folder: Path) -> Iterator[tuple[subprocess.Popen[str], DoorProcess]]:
    """A gateway with both doors whose traces go to a file system of its own."""
    port, grpc_port = free_port(), free_port()
    words = [
        *KWIKEN, "serve", TARGET, "--local", "--port", str(port), "--grpc-port", str(grpc_port),
        "--traces", str(folder / "traces"), "--trace", "all",
    ]  # fmt: skip
    process = within(folder, "true", *words)
    try:
        for each in (port, grpc_port):
            soon(lambda: listens(each, process))  # noqa: B023 - called at once
        yield process, DoorProcess(process, port, grpc_port)  # type: ignore[arg-type]
    finally:
        process.kill()
        process.communicate()


def test_traces_on_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    """The file system is made writable again afterwards, and spans are written from then on."""
    with traced(tmp_path) as (process, gateway):
        place = Path(f"/proc/{process.pid}/root{tmp_path}/traces")

        def size() -> int:
            return sum(each.stat().st_size for each in place.iterdir())

        assert remount(process, tmp_path, "ro") == 0
        for _ in range(20):
            assert gateway.serves_http()
        assert gateway.serves_grpc()
        assert size() == 0
        assert remount(process, tmp_path, "rw") == 0

        def written() -> bool:
            assert gateway.serves_http()
            return size() > 0

        soon(written)
        assert ask(f"http://127.0.0.1:{gateway.port}", "/readyz")[0] == 200


@pytest.mark.parametrize("what", ["--state", "--traces"])
def test_a_read_only_folder_is_one_line_at_the_start(what: str, tmp_path: Path) -> None:
    words = [
        "up",
        TARGET,
        "--port",
        "0",
        "--state",
        str(tmp_path / "other"),
        what,
        str(tmp_path / "ro" / "x"),
    ]
    (tmp_path / "ro").mkdir()
    folder = tmp_path / "ro"
    process = within(folder, f"mount -o remount,ro {folder}", *KWIKEN, *words)
    try:
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2, (out, errors)
    (line,) = errors.strip().splitlines()
    assert "ead-only" in line
    assert str(folder) in line
    assert "Traceback" not in errors
    assert os.listdir(folder) == []  # noqa: PTH208
