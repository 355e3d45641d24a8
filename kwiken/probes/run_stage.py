"""Stage under measurement: runs recorded calls one after the other as a replica would; run as a program.

    python -m kwiken.probes.run_stage MODULE:SERVICE STAGE INPUTS CONTROL_FD FAILURE

A page of shared memory tells when to run and counts what is completed. Inputs are decoded and answers encoded
as in a replica. The hop between processes is left out, so that the prober's work does not limit the stage.
FAILURE is the file that gets an error, in MessagePack.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import mmap
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import KwikenError
from kwiken.probes.record_inputs import Recorded, RecordedRun
from kwiken.runtime.base.target import load_target
from kwiken.runtime.replica.stage_calls import DEFAULT_SETTINGS, Ending, ReceivedCall, StageCalls

CONTROL_BYTES: Final = 4096
# Fields of the page, 8 bytes each: those that the prober writes, then those of this process.
RUN, READY, DONE, DONE_AT_NS, WORK_NS, WORK_SQUARED = range(0, 48, 8)
CALLERS: Final = 2  # calls at once: a handler that awaits leaves the processor to another
MAX_WORK_NS: Final = 10**11  # work of one call that counts at most, so that the sums cannot overflow
SQUARED_UNIT_NS: Final = 1000  # unit of the work whose squares are summed
PAUSE_S: Final = 0.002  # between looks at the page while paused


class SharedPage:
    """Page of shared memory between the prober and a stage under measurement."""

    def __init__(self, number: int) -> None:
        self._memory = mmap.mmap(number, CONTROL_BYTES)

    def read(self, field: int) -> int:
        """Value of a field."""
        return int(struct.unpack_from("=Q", self._memory, field)[0])

    def write(self, field: int, value: int) -> None:
        """Set a field."""
        struct.pack_into("=Q", self._memory, field, value)

    def close(self) -> None:
        """Unmap the page."""
        self._memory.close()


async def run_stage(target: str, stage: str, inputs: list[Recorded], page: SharedPage) -> None:
    """Run recorded calls while the page says so; ends with a call that fails.

    Args:
        inputs: recorded calls, taken in turn.

    Raises:
        KwikenError: the service cannot be run, or a call fails.
    """
    service = load_target(target)
    calls = StageCalls(service, stage, max_inflight=2 * CALLERS, observer=None)
    await calls.set_up()
    page.write(READY, 1)
    turns = itertools.cycle(inputs)
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(_call(calls, turns, page))


async def _call(calls: StageCalls, turns: Iterator[Recorded], page: SharedPage) -> None:
    while True:
        if not page.read(RUN):
            await asyncio.sleep(PAUSE_S)
            continue
        recorded = next(turns)
        settings = msgspec.structs.replace(DEFAULT_SETTINGS, shard=recorded.shard)
        ended = await calls.serve(ReceivedCall(recorded.body, time.monotonic(), settings=settings))
        if ended.ending is not Ending.ANSWERED:
            raise KwikenError(f"a recorded call fails: {_reason(ended.body)}")
        page.write(DONE, page.read(DONE) + 1)
        work_ns = min(round(ended.busy_ms * 1e6), MAX_WORK_NS)
        page.write(WORK_NS, page.read(WORK_NS) + work_ns)
        page.write(WORK_SQUARED, page.read(WORK_SQUARED) + (work_ns // SQUARED_UNIT_NS) ** 2)
        page.write(DONE_AT_NS, time.monotonic_ns())


def _reason(body: bytes) -> str:
    """Kind and message of an error that a replica answers with."""
    try:
        told: dict[str, str] = msgspec.msgpack.decode(body, type=dict[str, str])
    except msgspec.MsgspecError:
        return body.decode(errors="replace")
    return f"{told.get('kind', '')}: {told.get('error', '')}"


def main(words: list[str]) -> None:
    """Run until this process is ended, or write the error that stops it."""
    target, stage, inputs, number, failure = words
    logging.disable()  # a handler's traceback goes nowhere here; the error is reported
    try:
        outcome = msgspec.msgpack.decode(Path(inputs).read_bytes(), type=RecordedRun)
        asyncio.run(run_stage(target, stage, outcome.inputs, SharedPage(int(number))))
    except* KwikenError as group:
        errors = group.exceptions
        Path(failure).write_bytes(msgspec.msgpack.encode(RecordedRun(error=str(errors[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
