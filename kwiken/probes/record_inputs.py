"""Recorder: runs a whole service on requests and records the inputs of one stage; run as a program.

    python -m kwiken.probes.record_inputs MODULE:SERVICE STAGE REQUESTS OUT

REQUESTS holds one JSON body a line. OUT gets the inputs in MessagePack, or the error that stops it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.target import load_target
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas

MAX_INPUTS: Final = 500
DEADLINE_MS: Final = 60_000.0  # of a request: stages run one after the other here


class Recorded(msgspec.Struct, frozen=True):
    """Inputs of one call of a stage.

    Attributes:
        body: answers of the parents, or the request, as they go over the wire.
    """

    body: bytes
    shard: int


class RecordedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """Record that a program in the sandbox leaves in a file.

    Attributes:
        error: reason why there is nothing to go on with; None for none.
    """

    inputs: list[Recorded] = []
    error: str | None = None


class RecordingTransport:
    """Local transport that keeps the inputs of one stage's calls."""

    def __init__(self, service: Service, stage: str) -> None:
        self._local = LocalTransport(service)
        self._stage = stage
        self.inputs: list[Recorded] = []

    async def setup(self) -> None:
        """Set up every stage."""
        await self._local.setup()

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Run a call; see `Transport`."""
        if call.stage == self._stage and len(self.inputs) < MAX_INPUTS:
            self.inputs.append(Recorded(msgspec.msgpack.encode(call.args), call.shard))
        return await self._local.call(replica, call)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Report a replica as alive; see `Transport`."""
        self._local.ask(replica, heard)


async def record(target: str, stage: str, requests: bytes) -> list[Recorded]:
    """Run requests through a service and keep the inputs of one stage.

    Raises:
        KwikenError: the service cannot be run, a request is refused or fails, or none reaches the stage.
    """
    service = load_target(target)
    service[stage]  # raises for an unknown stage
    transport = RecordingTransport(service, stage)
    await transport.setup()
    replicas = local_replicas(service)
    executor = Executor(
        service,
        transport,
        replicas=replicas,
        clock=SystemClock(),
        rng=random.Random(0),  # noqa: S311
    )
    reader = wire.RequestReader(service)
    for number, line in enumerate(requests.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            body = reader.read(line)
        except InputError as error:
            raise InputError(error.problem, where=f"line {number}") from error
        try:
            await executor.run(body, deadline_ms=DEADLINE_MS)
        except KwikenError as error:
            raise KwikenError(f"line {number}: the request fails: {error}") from error
        if len(transport.inputs) >= MAX_INPUTS:
            break
    if not transport.inputs:
        raise KwikenError(f"no request reaches stage {stage!r}")
    return transport.inputs


def main(words: list[str]) -> None:
    """Record, and write the outcome."""
    target, stage, requests, out = words
    try:
        outcome = RecordedRun(inputs=asyncio.run(record(target, stage, Path(requests).read_bytes())))
    except KwikenError as error:
        outcome = RecordedRun(error=str(error))
    Path(out).write_bytes(msgspec.msgpack.encode(outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
