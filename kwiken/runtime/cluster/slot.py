"""Slot of a cluster: the place of one process across restarts, with a growing pause between them."""

from __future__ import annotations

import time
from typing import Final

from kwiken.runtime.cluster.child_process import Child
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.cluster.state.documents import ProcessState

FIRST_WAIT_S: Final = 0.1  # pause before the first restart
LONGEST_WAIT_S: Final = 10.0  # pause before further restarts
SETTLED_S: Final = 10.0  # running time after which the pause starts again from the first


class Slot:
    """Place of one process: the gateway's, or one replica's.

    Attributes:
        stage: stage of a replica; None for the gateway.
        place: node and cores of a replica; None where it has neither.
        killed: whether the last process was ended by somebody's SIGKILL, as all processes of a lost machine
            are; not if it hung, and its supervisor killed it.
        failed_starts: starts that failed since the last process that was ready.
        child: present process; None while there is none.
        restarts: number of restarts, 0 or more.
    """

    def __init__(self, name: str, stage: str | None, place: ReplicaPlace | None = None) -> None:
        self.name = name
        self.stage = stage
        self.place = place
        self.killed = False
        self.failed_starts = 0
        self.child: Child | None = None
        self.restarts = 0
        self._quick_ends = 0
        self._since = 0.0

    @property
    def node(self) -> str:
        """Name of the node that the gateway is told."""
        return self.place.node if self.place is not None else "local"

    def fill(self, child: Child) -> None:
        """Record the process that is now ready."""
        self.child = child
        self.killed = False
        self.failed_starts = 0
        self._since = time.monotonic()

    def emptied(self) -> float:
        """Record the end of the process; returns the pause before the next one, seconds."""
        self.child = None
        lasted = time.monotonic() - self._since
        self._quick_ends = 0 if lasted >= SETTLED_S else self._quick_ends + 1
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._quick_ends, 20))

    def state(self) -> ProcessState | None:
        """State of the process for the state file; None while there is none."""
        if self.child is None:
            return None
        return ProcessState(
            identity=self.child.identity,
            url=self.child.url,
            restarts=self.restarts,
            stage=self.stage,
            replica=self.name if self.stage is not None else None,
            node=self.place.node if self.place is not None else None,
            cores=self.place.cores if self.place is not None else None,
        )
