"""A place for one process of a cluster, whichever process fills it at the time."""

from __future__ import annotations

import time
from typing import Final

from kwiken.runtime.cluster.child_process import Child
from kwiken.runtime.cluster.state import ProcessState

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 10.0
SETTLED_S: Final = 10.0


class Slot:
    """A place for one process: the gateway's, or one replica's.

    Attributes:
        name: of the process.
        stage: of a replica; None for the gateway.
        child: the process that fills it now.
        restarts: how often it was filled again.
    """

    def __init__(self, name: str, stage: str | None) -> None:
        self.name = name
        self.stage = stage
        self.child: Child | None = None
        self.restarts = 0
        self._quick_ends = 0
        self._since = 0.0

    def fill(self, child: Child) -> None:
        """A process is ready."""
        self.child = child
        self._since = time.monotonic()

    def emptied(self) -> float:
        """The process has ended; seconds to wait before the next, more each time that it ends soon."""
        self.child = None
        lasted = time.monotonic() - self._since
        self._quick_ends = 0 if lasted >= SETTLED_S else self._quick_ends + 1
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._quick_ends, 20))

    def state(self) -> ProcessState | None:
        """What is noted of the process; None while there is none."""
        if self.child is None:
            return None
        return ProcessState(
            identity=self.child.identity,
            url=self.child.url,
            restarts=self.restarts,
            stage=self.stage,
            replica=self.name if self.stage is not None else None,
        )
