"""Process of an autopilot beside a gateway: started, replaced when it ends, and ended with its owner."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kwiken.runtime.base.log_events import Event, about

LOG = logging.getLogger("kwiken.autopilot")
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0  # before another start, doubled each time
STOP_S: Final = 10.0  # for an orderly end


class AutopilotProcess:
    """Process that steers a service.

    Planning takes a processor for seconds, which a gateway's event loop must not wait for.

    Args:
        command: program and arguments of the process; it ends when its standard input is closed.
        env: function that returns variables beside those of this process, as they are at a start.
    """

    def __init__(self, command: Sequence[str], env: Callable[[], Mapping[str, str]]) -> None:
        self._command = command
        self._env = env

    async def keep(self) -> None:
        """Run the process until cancelled; start it again when it ends, with growing pauses."""
        pause_s = FIRST_PAUSE_S
        while True:
            code = await self._run()
            LOG.warning(
                "the autopilot ended with code %d; it is started again in %g s",
                code,
                pause_s,
                extra=about(Event.AUTOPILOT_ENDED),
            )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _run(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env={**os.environ, **self._env()},
            start_new_session=True,  # Ctrl-C must reach its owner alone, which ends it
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                try:
                    async with asyncio.timeout(STOP_S):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()
