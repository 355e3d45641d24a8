"""Supervisor of jobs without a service: runs the jobs of a folder on two nodes until it is ended or killed.

`python -m tests.support.allocation.jobs.supervisor STATE` prints a line once it runs jobs.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

from kwiken.runtime.cluster.state.jobs.folder import JobFolder
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.upkeep.jobs.job_runner import JobRunner
from tests.support.allocation.jobs.fixed_room import FixedRoom

NODES = {"fast": (1.0, 2.0), "slow": (0.4, 2.0)}


async def supervise(state: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    folder = JobFolder(state)
    while not folder.lock():  # noqa: ASYNC110 - a killed one may still be ending
        await asyncio.sleep(0.01)
    async with NodeLimits() as limits:
        for name in NODES:
            limits.add_node(name, Limit(2.0, 1.0))
        runner = JobRunner(folder, FixedRoom(NODES), limits, say=logging.warning)
        runner.resume()
        sys.stdout.write("up\n")
        sys.stdout.flush()
        task = asyncio.create_task(runner.run())
        await stop.wait()
        task.cancel()
        await asyncio.wait([task])
        await runner.close()


if __name__ == "__main__":
    asyncio.run(supervise(Path(sys.argv[1])))
