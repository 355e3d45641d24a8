"""Detached start of a cluster's supervisor, for `kwiken up --detach`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwiken.apps.console.output import note, room_in
from kwiken.base.errors import InputError, KwikenError

if TYPE_CHECKING:
    from kwiken.runtime.cluster.state.documents import ClusterState
    from kwiken.runtime.cluster.state.files import StateFiles

READY_S: Final = 240.0
POLL_S: Final = 0.05
STOP_S: Final = 5.0
MAX_TAIL: Final = 4000  # bytes of the log that are searched for the last line
MIN_ROOM: Final = 1 << 12  # free bytes; fewer hold no state and no log


def start_detached(services: Sequence[StateFiles], arguments: Sequence[str]) -> list[str]:
    """Start a supervisor that outlives this process, and wait until its clusters serve requests.

    If the wait ends early, by Ctrl-C for example, the supervisor is stopped.

    Args:
        services: paths of the state of each service; the log of the first one is that of the supervisor.
        arguments: arguments of its own `kwiken up`.

    Returns:
        The gateways' addresses, one for each service.

    Raises:
        KwikenError: when it does not start; with the last line of its log.
    """
    files = services[0]
    try:
        log = files.open_log()
    except OSError as error:
        raise InputError(f"cannot be used: {error.strerror}", where=str(files.folder)) from error
    with log:
        start = log.tell()
        process = subprocess.Popen(  # noqa: S603 - this very program, with the options that it was given
            [sys.executable, "-m", "kwiken", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + READY_S
        states = [_once_ready(process, each, files.log, start, deadline) for each in services]
    except BaseException:
        _end(process)
        raise
    for state in states:
        note(f"{state.service} is up with {len(state.replicas)} replicas; its log is {files.log}")
    return [state.url for state in states]


def _once_ready(
    process: subprocess.Popen[bytes], files: StateFiles, log: Path, start: int, deadline: float
) -> ClusterState:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise KwikenError(_last_log_line(log, start))
        with contextlib.suppress(InputError):  # torn by an earlier crash; the new supervisor overwrites it
            state = files.read()
            if state is not None and state.ready and state.supervisor.pid == process.pid:
                return state
        time.sleep(POLL_S)
    raise KwikenError(f"{files.service} was not up within {READY_S:g} s; its log is {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the supervisor; its child processes end with it."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_log_line(log: Path, start: int) -> str:
    """Reason why the supervisor ended: the last line of its log."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read()[-MAX_TAIL:].decode(errors="replace").strip().splitlines()
    if lines:
        return lines[-1].removeprefix("kwiken: ")
    if room_in(log.parent) < MIN_ROOM:
        return f"{log.parent}: the disk is full, so the state of the cluster cannot be written"
    return f"the supervisor ended without a message; its log is {log}"
