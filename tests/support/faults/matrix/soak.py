"""Long run of one stack under load with random faults: what was done, what clients lost, and what grew."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tests.support.faults.matrix.clients import HUNG_UP, OK, WRONG, Clients, Ended
from tests.support.faults.matrix.faults import FAULTS, Cell, heal
from tests.support.faults.matrix.levers import ALL
from tests.support.faults.matrix.processes import Stack
from tests.support.faults.matrix.service import capacity_per_s
from tests.support.runtime.flatness import KINDS, described, sample_of
from tests.support.runtime.waiting import until

LANE_MS: Final = 160.0  # much more than a busy machine adds
SOAKED_LOOKS: Final = 6  # replicas: without one of them the load is 84% of the capacity
CAPACITY_PER_S: Final = capacity_per_s(SOAKED_LOOKS, LANE_MS)
SETTLED: Final = 24  # requests in flight, about twice as many as usual, above which no further fault comes
LOAD: Final = 0.7  # of the capacity
PAUSE_S: Final = 3.0  # mean pause between two faults
EVERY_S: Final = 0.5  # interval of samples
WARM_UP: Final = 1 / 3  # of the time, after which growth counts, and no gateway is killed any more
GATEWAY: Final = "gateway killed"
# Requests are lost by nature while all replicas are gone, and a plan that a person puts stops the autopilot.
LEFT_OUT: Final = frozenset({"all gone", "plan swapped"})
# Without memory, gRPC's core ends the process, and with HTTP the heap of glibc keeps what one call needed.
ENDS_PROCESSES: Final = frozenset({"kill", "out of memory"})
AUTOPILOT: Final = "autopilot"
# Share of the time from which on a gateway that waits for a processor says nothing of what the service would do.
STARVED: Final = 0.5
NEVER_LATE: Final = (HUNG_UP, WRONG)  # whatever the machine does
MIN_RISE: Final = 1.0  # MiB, files or threads a minute, up to which a busy machine may tell of growth
STEERED_S: Final = (
    1200.0  # from which on the autopilot's growth counts: until then it gathers what it learns from
)
FIRST: Final = (
    0  # number of the replica whose process is killed; the others live from the first second to the last
)


def waited_s(pid: int) -> float:
    """Time for which a process's main thread could have run and waited for a processor, seconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


@dataclass
class Soak:
    """One run and what was seen.

    Attributes:
        seconds: length of the run.
        seed: seed of the faults and the requests.
        done: number of times that each fault was injected.
        lost: requests that were not answered although none of them was in flight in a killed gateway.
        jumped: requests over gRPC that ended early while the clock jumped.
        samples: memory, files and threads of each process by its name and pid.
        waits: share of each interval of samples in which a gateway could have run and waited for a processor.
    """

    stack: Stack
    clients: Clients
    seconds: float
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    lost: list[Ended] = field(default_factory=list)
    jumped: list[Ended] = field(default_factory=list)
    samples: dict[tuple[str, int], list[tuple[float, float, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    waits: list[float] = field(default_factory=list)
    _jumps: list[tuple[float, float]] = field(default_factory=list)

    async def run(self) -> None:
        """Send requests for the whole time, with a fault after each pause."""
        self.clients.lane_ms, self.clients.patient = LANE_MS, True
        load = asyncio.create_task(self.clients.at_rate(LOAD * CAPACITY_PER_S, self.seconds, self.seed))
        watching = asyncio.create_task(self._watch())
        try:
            await self._faults()
            await load
        finally:
            watching.cancel()
            load.cancel()
            await asyncio.gather(watching, load, return_exceptions=True)
        self._judge()

    async def _faults(self) -> None:
        loop, rng = asyncio.get_running_loop(), random.Random(self.seed)
        begin = loop.time()
        last = begin + self.seconds - 2 * PAUSE_S
        while True:
            await asyncio.sleep(min(0.5 + rng.expovariate(1 / PAUSE_S), 4 * PAUSE_S))
            # On a machine that cannot serve the load for a while fewer faults come; what is lost counts all the same.
            await until(
                lambda: len(self.clients.in_flight) <= SETTLED or loop.time() > last, within_s=self.seconds
            )
            past = loop.time() - begin
            if loop.time() > last:
                return
            able = [
                each
                for each in FAULTS
                if each.name not in LEFT_OUT
                and (each.name != GATEWAY or past < WARM_UP * self.seconds - 2 * PAUSE_S)
                and (each.name != "lost packets" or self.stack.far is not None)
            ]
            fault = rng.choice(able)
            victim = FIRST if fault.name in ENDS_PROCESSES else rng.randrange(SOAKED_LOOKS)
            cell = Cell(self.stack, self.clients, victim, ALL)
            at, self.clients.fault = loop.time(), fault.name
            try:
                await fault.inject(cell)
            finally:
                await heal(cell)
            self.done[fault.name] += 1
            if fault.name == "clock jump":
                self._jumps.append((at, loop.time()))

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        before: tuple[int, float, float] | None = None
        while True:
            for name, pid in self._pids():
                with contextlib.suppress(OSError, IndexError):
                    self.samples[name, pid].append((loop.time() - begin, *sample_of(pid)))
                    if name == "gateway":
                        now = pid, loop.time(), waited_s(pid)
                        if before is not None and before[0] == pid:
                            self.waits.append((now[2] - before[2]) / (now[1] - before[1]))
                        before = now
            await asyncio.sleep(EVERY_S)

    def _pids(self) -> Iterator[tuple[str, int]]:
        stack = self.stack
        for name, places in (("gateway", [stack.gateway]), ("look", stack.looks), ("join", stack.joins)):
            for number, place in enumerate(places):
                if place.process is not None and place.process.poll() is None:
                    yield f"{name} {number}" if len(places) > 1 else name, place.process.pid
        for pid in stack.children():
            yield AUTOPILOT, pid

    def _judge(self) -> None:
        for each in self.clients.failed:
            jumps = self.stack.protocol.scheme == "grpc" and any(
                first <= each.at + each.took and each.at <= last for first, last in self._jumps
            )
            if self.clients.ended_by_a_kill(each):
                continue
            (self.jumped if jumps else self.lost).append(each)

    @property
    def starved(self) -> bool:
        """Whether the gateway waited for a processor for most of the time, and no answer was wrong or cut off."""
        late = not any(each.how.startswith(NEVER_LATE) for each in self.lost)
        return late and bool(self.waits) and float(np.median(self.waits)) > STARVED

    def growth(self) -> tuple[list[str], list[str]]:
        """Lines on all processes that lived to the end, and those of them that tell of growth."""
        lines: list[str] = []
        growing: list[str] = []
        since = WARM_UP * self.seconds
        length = self.seconds - since
        steered = self.seconds >= STEERED_S
        lived = [
            (name, values)
            for (name, _), taken in sorted(self.samples.items())
            # Others began or ended in between.
            if len(values := np.array([each[1:] for each in taken if each[0] >= since])) * EVERY_S
            >= 0.8 * length
        ]
        for name, values in lived:
            spare = tuple(max(MIN_RISE * length / 60, 0.02 * each) for each in values.mean(axis=0))
            told, risen = described(name, values, length, series=len(KINDS) * len(lived), spare=spare)
            lines += told
            growing += risen if steered or name != AUTOPILOT else []
        return lines, growing

    def report(self) -> list[str]:
        """What was done and seen, line by line."""
        ended = self.clients.ended
        took = np.array([each.took for each in ended if each.how == OK]) * 1e3
        answered = len(took)
        p50, p99 = np.quantile(took, (0.5, 0.99)) if answered else (float("nan"), float("nan"))
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))
        refused = ", ".join(f"{count} after {name}" for name, count in sorted(self.clients.refused.items()))
        in_killed = len(self.clients.failed) - len(self.lost) - len(self.jumped)
        return [
            f"{self.stack.protocol}: {self.seconds:g} s, seed {self.seed}, {LOAD:.0%} of {CAPACITY_PER_S:g} requests a second",
            f"faults: {done}",
            f"refused because the service was full, and sent again: {refused or 'none'}",
            (
                f"{len(ended)} requests, {answered} answered; p50 {p50:.0f} ms, p99 {p99:.0f} ms; "
                f"{sum(each.partial for each in ended)} partial"
            ),
            (
                f"lost: {len(self.lost)}; in flight in a killed gateway: {in_killed}; "
                f"ended early by a clock that jumps, over gRPC: {len(self.jumped)}"
            ),
            f"the gateway waited for a processor in {np.median(self.waits or [0.0]):.0%} of a usual half second",
            *(f"  lost {each.number}: {each.how}" for each in self.lost[:10]),
        ]
