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
import math
import mmap
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import KwikenError
from kwiken.probes.record_inputs import Recorded, RecordedRun
from kwiken.runtime.base.target import load_target
from kwiken.runtime.replica.stage_calls import DEFAULT_SETTINGS, Ending, ReceivedCall, StageCalls

CONTROL_BYTES: Final = 8192
# Fields of the page, 8 bytes each: those that the prober writes, then those of this process.
RUN, INTERVAL_NS, READY, DONE, DONE_AT_NS, WORK_NS, WORK_SQUARED = range(0, 56, 8)
LATENCIES: Final = 64  # number of calls by bucket of their latency, from here on
CELLS: Final = (CONTROL_BYTES - LATENCIES) // 8
CELLS_PER_OCTAVE: Final = 32  # buckets for a factor of 2; each 2.2% wide
FIRST_CELL: Final = -20 * CELLS_PER_OCTAVE  # the first bucket ends at a microsecond, the last at 40 minutes
CALLERS: Final = 2  # calls at once: a handler that awaits leaves the processor to another
MAX_WORK_NS: Final = 10**11  # work of one call that counts at most, so that the sums cannot overflow
SQUARED_UNIT_NS: Final = 1000  # unit of the work whose squares are summed
MAX_LATE_S: Final = 2.0  # that calls may fall behind their pace; further behind they begin anew
PAUSE_S: Final = 0.002  # between looks at the page while paused


def quantile_s(counts: Sequence[int], share: float) -> float:
    """Latency that a share of some calls do not exceed, seconds, from the numbers of calls by bucket.

    Args:
        counts: number of calls by bucket, one or more calls.
        share: share of the calls, above 0 and at most 1.
    """
    rank, seen = share * sum(counts), 0
    for cell, count in enumerate(counts):
        seen += count
        if count and seen >= rank - 1e-9:
            return float(2.0 ** ((cell + FIRST_CELL) / CELLS_PER_OCTAVE))
    raise ValueError("there are no calls")


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

    def count(self, latency_s: float) -> None:
        """Count the latency of a call, seconds."""
        cell = math.ceil(math.log2(max(latency_s, 1e-9)) * CELLS_PER_OCTAVE) - FIRST_CELL
        field = LATENCIES + 8 * min(max(cell, 0), CELLS - 1)
        self.write(field, self.read(field) + 1)

    def latencies(self) -> tuple[int, ...]:
        """Number of calls so far, by bucket of their latency."""
        return struct.unpack_from(f"={CELLS}Q", self._memory, LATENCIES)

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
    pace = _Pace(page)
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(_call(calls, turns, page, pace))


class _Pace:
    """Moments at which calls are due: at equal intervals, or at once where the page has no interval."""

    def __init__(self, page: SharedPage) -> None:
        self._page = page
        self._due = 0.0

    async def next(self) -> float:
        """Wait until the next call is due; returns that moment, from which its latency counts."""
        interval_s = self._page.read(INTERVAL_NS) / 1e9
        now = time.monotonic()
        if not interval_s:
            return now
        if now - self._due > MAX_LATE_S:  # after a pause
            self._due = now
        self._due += interval_s
        due = self._due
        await asyncio.sleep(max(0.0, due - now))
        return due


async def _call(calls: StageCalls, turns: Iterator[Recorded], page: SharedPage, pace: _Pace) -> None:
    while True:
        if not page.read(RUN):
            await asyncio.sleep(PAUSE_S)
            continue
        due = await pace.next()
        recorded = next(turns)
        settings = msgspec.structs.replace(DEFAULT_SETTINGS, shard=recorded.shard)
        ended = await calls.serve(ReceivedCall(recorded.body, time.monotonic(), settings=settings))
        if ended.ending is not Ending.ANSWERED:
            raise KwikenError(f"a recorded call fails: {_reason(ended.body)}")
        page.write(DONE, page.read(DONE) + 1)
        page.count(time.monotonic() - due)
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
