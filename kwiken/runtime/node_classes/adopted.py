"""Process that another program has started: observed by pid and start time, since only parents can wait."""

from __future__ import annotations

import asyncio
from typing import Final

from kwiken.runtime.base.process_id import Identity

POLL_S: Final = 0.05  # interval of checks for its end


class AdoptedProcess:
    """Process under limits that another program has started: its pid, its end, and a wait for the end.

    Attributes:
        identity: pid and start time of the process.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    @property
    def pid(self) -> int:
        """Pid of the process."""
        return self.identity.pid

    @property
    def returncode(self) -> int | None:
        """None while the process lives, else 0: its exit code is told to its parent alone."""
        return None if self.identity.alive else 0

    async def wait(self) -> int:
        """Wait for the end of the process."""
        while self.identity.alive:  # noqa: ASYNC110 - nobody tells of the end of another one's child
            await asyncio.sleep(POLL_S)
        return 0
