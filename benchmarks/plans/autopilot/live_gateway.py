"""Gateway of the live day, with all stages in its process; a program of its own.

`kwiken serve --local` would count the time for which a handler waits as work, and nothing would seem to be
gained by copies of calls that stall. Here no work is stated, as by services of others.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
from pathlib import Path

from benchmarks.plans.autopilot.live_service import day
from kwiken.otel.write.observer import make_observer
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.trace_sampling import TraceSampler
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas


class Unmeasured(LocalTransport):
    """Calls in this process, without a statement of their work."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Run the handler."""
        return Reply((await super().call(replica, call)).value)


async def serve(traces: Path, share: float, token: str) -> None:
    """Serve until told to stop; prints the address once requests are answered."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    observer = make_observer(day.name, traces=traces)
    executor = Executor(
        day,
        Unmeasured(day),
        replicas=local_replicas(day),
        clock=SystemClock(),
        rng=random.Random(),
        observer=observer,
        sampler=TraceSampler(share) if share < 1 else None,
    )
    gateway = Gateway(day, executor, GatewaySettings(remote=False, token=token))
    await gateway.start()
    print(gateway.url, flush=True)
    await stop.wait()
    await gateway.stop(grace_s=1.0)
    observer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument(
        "--share", type=float, required=True, help="share of ordinary requests that is traced"
    )
    parser.add_argument("--token", required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.traces, options.share, options.token))
