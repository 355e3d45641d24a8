"""Guard of a sandbox: a program that removes the files of a probe once the probe has ended in any way.

    python -m kwiken.probes.guard FOLDER

The guard reads a pipe from the probe on its standard input. The pipe closes when the probe ends. The guard
runs in a session of its own, so that Ctrl-C in a terminal does not reach the guard.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path


def main(folder: Path) -> None:
    """Wait for the end of the probe, then remove its folder and what is left of its control groups."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    remove_groups()


def remove_groups() -> None:
    """Remove the control groups of probes that were killed, and end the processes in them."""
    import asyncio

    from kwiken.runtime.node_classes.node_limits import NodeLimits

    async def entered() -> None:
        async with NodeLimits():
            pass  # entering removes what killed programs left

    asyncio.run(entered())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
