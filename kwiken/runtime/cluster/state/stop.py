"""Stop of a cluster from outside, by the processes that its state names."""

from __future__ import annotations

import signal
from typing import Final

from kwiken.runtime.cluster.state.files import StateFiles

STOP_S: Final = 30.0  # for a supervisor to stop its cluster
KILL_S: Final = 5.0  # for a killed process to end


def stop_cluster(files: StateFiles, *, stop_s: float = STOP_S) -> bool:
    """Stop a cluster from outside: its supervisor gracefully, and remaining processes by SIGKILL.

    Only processes whose start time matches the state are signalled.

    Args:
        stop_s: time that its supervisor may take, seconds.

    Returns:
        Whether any process was running.

    Raises:
        InputError: the state cannot be read.
    """
    state = files.read()
    if state is None:
        return False
    ran = state.supervisor.signal(signal.SIGTERM)
    if ran and not state.supervisor.wait(stop_s):
        state.supervisor.signal(signal.SIGKILL)
        state.supervisor.wait(KILL_S)
    left = [each.identity for each in state.children]
    gone = [identity for identity in left if identity.signal(signal.SIGKILL)]
    for identity in gone:
        identity.wait(KILL_S)
    files.remove()
    return ran or bool(gone)
