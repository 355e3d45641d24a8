"""Run of the demonstration: three racks, a service, eight jobs scheduled three ways, a rack that stops."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.command.demo_place.traffic import ClientOrder, ClientStream, LoadPhase, p99_ms
from benchmarks.plans.racks_live import jobs as demo_jobs
from benchmarks.plans.racks_live.namespaces import LocalRacks, local_racks, one_network
from benchmarks.plans.racks_live.outcome import BatchArm, BatchDemo
from benchmarks.plans.racks_live.processes import (
    START_S,
    THREADS,
    WORKERS,
    DemoProcesses,
    processes,
    start_dask,
    start_service,
)
from kwiken.apps.batch_run.dask_jobs import RACK_RESOURCE, DaskJobs, connect, workers_by_rack, workers_of
from kwiken.apps.batch_run.run import BatchRun, BatchRunOutcome
from kwiken.base.errors import KwikenError
from kwiken.batch.racks.document import RackPlan, rack_plan
from kwiken.batch.racks.planning import plan_racks
from kwiken.batch.racks.problem import problem_of
from kwiken.batch.racks.response import RackHardware, RackJob, RackStage, rack_response_s

RACKS: Final = ("rack-1", "rack-2", "rack-3")
UPLINK_MBIT: Final = 20.0
OVERSUBSCRIPTION: Final = 5.0
RATE_PER_S: Final = 10.0  # of the service's requests
ALONE_S: Final = 20.0
CHUNK_S: Final = 10.0  # of load that one client sends; further ones follow while jobs run
AHEAD_S: Final = 1.0  # from a client's start to its first request
STOP_AFTER_S: Final = 9.0  # from the start of the jobs to the stop of a rack
TASK_OVERHEAD_S: Final = 0.05  # of a task of Dask
BYTES_OF_MBIT: Final = 1e6 / 8
ARMS: Final = (("Dask's own", False, False), ("plan, data anywhere", True, False), ("plan", True, True))
QUESTIONS: Final = (
    *("open a file", "sort a list", "parse json", "start a thread", "read csv", "http server"),
    *("regular expression", "walk a directory", "random numbers", "date from string"),
)
Say = Callable[[str], None]


def demo_plan() -> RackPlan:
    """Plan of the jobs, by what their definition says of tasks and bytes."""
    uplink = UPLINK_MBIT * BYTES_OF_MBIT
    rack = RackHardware(WORKERS * THREADS, WORKERS, uplink * OVERSUBSCRIPTION / WORKERS, uplink)
    jobs = []
    for name, (megabytes, maps, reduces, seconds) in demo_jobs.SIZES.items():
        size = float(megabytes * demo_jobs.MB)
        stages = (
            RackStage(maps, seconds + TASK_OVERHEAD_S),
            RackStage(reduces, seconds + TASK_OVERHEAD_S, size, (0,)),
        )
        jobs.append(RackJob(name, 0.0, size, stages))
    problem = problem_of(
        [(job.name, 0.0, job.input_bytes, rack_response_s(job, len(RACKS), rack)) for job in jobs]
    )
    return rack_plan(plan_racks(problem, "makespan"), "makespan", RACKS)


async def run_racks_live(*, seed: int, say: Say, log: Path) -> BatchDemo:
    """Run the demonstration; about four minutes.

    Args:
        seed: seed of the service's load.
        say: takes one line for each step and decision.
        log: file for the output of all processes; the plan is written beside it.

    Raises:
        KwikenError: a process fails.
    """
    plan = demo_plan()
    (log.parent / "rack-plan.json").write_text(plan.to_json())
    with _racks(say) as racks:
        async with processes(log) as started:
            address, workers = await start_dask(started, racks, RACK_RESOURCE)
            url = await start_service(started, racks)
            await _all_workers(address)
            say(
                f"the search service answers at {url}, its stages in three racks; "
                f"{len(RACKS) * WORKERS} workers"
            )
            load = _Load(url, racks, seed)
            alone = await _alone(load, say)
            arms = []
            for name, follow, place_data in ARMS:
                say(f"{len(demo_jobs.SIZES)} jobs: {name}")
                run = _batch_run(plan, say, follow=follow, place_data=place_data)
                arms.append(await _arm(name, run, address, load))
            lost_rack = RACKS[-1]
            say(f"{len(demo_jobs.SIZES)} jobs by the plan; {lost_rack} is stopped after {STOP_AFTER_S:g} s")
            run = _batch_run(plan, say, follow=True, place_data=True)
            stopping = asyncio.create_task(_stop(started, workers[lost_rack], run, say, lost_rack))
            try:
                lost = await _arm("plan, a rack stopped", run, address, load)
            finally:
                stopping.cancel()
                await asyncio.gather(stopping, return_exceptions=True)
    return BatchDemo(
        limited=racks.limited,
        alone=alone,
        arms=arms,
        lost=lost,
        lost_rack=lost_rack,
        again=run.outcome.again,
        jobs=len(demo_jobs.SIZES),
    )


@contextlib.contextmanager
def _racks(say: Say) -> Iterator[LocalRacks]:
    """Racks in namespaces; where they cannot be made, one network, which is said."""
    with contextlib.ExitStack() as held:
        try:
            racks = held.enter_context(local_racks(RACKS, UPLINK_MBIT))
        except KwikenError as error:
            say(
                "racks share this machine's loopback, without limits, since namespaces cannot be made: "
                f"{error}"
            )
            racks = one_network(RACKS)
        else:
            say(
                f"{len(RACKS)} racks in network namespaces, uplinks of {UPLINK_MBIT:g} Mbit/s, "
                f"oversubscribed {OVERSUBSCRIPTION:g}:1"
            )
        yield racks


def _batch_run(plan: RackPlan, say: Say, *, follow: bool, place_data: bool) -> BatchRun:
    jobs = DaskJobs(demo_jobs.JOBS, demo_jobs.DATA)
    return BatchRun(plan, jobs, lambda line: say(f"  {line}"), place_data=place_data, follow=follow)


async def _all_workers(address: str) -> None:
    from distributed import Client

    client = await Client(address, asynchronous=True, timeout=START_S)
    try:
        await client.wait_for_workers(len(RACKS) * WORKERS, timeout=START_S)
    finally:
        await client.close()


class _Load:
    """Open-loop load on the service, sent by clients of their own process in the first rack."""

    def __init__(self, url: str, racks: LocalRacks, seed: int) -> None:
        self._url, self._racks, self._seed = url, racks, seed
        self._chunk = 0

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[ClientStream]:
        """Send load until the block ends; the stream holds every request when it has ended."""
        stream = ClientStream()
        stop = asyncio.Event()
        task = asyncio.create_task(self._until(stop, stream))
        try:
            yield stream
        finally:
            stop.set()
            await task

    async def _until(self, stop: asyncio.Event, stream: ClientStream) -> None:
        begin_s = time.monotonic() + AHEAD_S
        pending: set[asyncio.Task[ClientStream]] = set()
        while not stop.is_set():
            self._chunk += 1
            pending.add(asyncio.create_task(self._send(begin_s, self._seed + self._chunk)))
            begin_s += CHUNK_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(0.0, begin_s - AHEAD_S - time.monotonic()))
        for found in await asyncio.gather(*pending):
            stream.due_s += found.due_s
            stream.latency_ms += found.latency_ms
            stream.late_ms += found.late_ms

    async def _send(self, begin_s: float, seed: int) -> ClientStream:
        order = ClientOrder(
            urls={"search": f"{self._url}/v1/request"},
            bodies={"search": [msgspec.json.encode({"query": text}).decode() for text in QUESTIONS]},
            phases=[LoadPhase(seconds=CHUNK_S, rates_per_s={"search": RATE_PER_S})],
            start_s=begin_s,
            seed=seed,
        )
        process = await asyncio.create_subprocess_exec(
            *self._racks.racks[0].prefix,
            *(sys.executable, "-m", "benchmarks.command.demo_place.client"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            output, _ = await process.communicate(msgspec.json.encode(order))
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise KwikenError(f"the client ended with exit code {process.returncode}")
        return msgspec.json.decode(output, type=dict[str, ClientStream])["search"]


def _measured(
    name: str,
    stream: ClientStream,
    first_s: float,
    last_s: float,
    *,
    ended: int,
    crossing: tuple[float, float],
) -> BatchArm:
    latencies = stream.between(first_s, last_s)
    failed = sum(1 for latency in latencies if latency == float("inf"))
    p99 = p99_ms(latencies)
    return BatchArm(
        name=name,
        makespan_s=last_s - first_s,
        ended=ended,
        crossing_mb=crossing[0] / 1e6,
        fetched_mb=crossing[1] / 1e6,
        p99_ms=None if p99 == float("inf") else p99,
        p50_ms=statistics.median(latencies) if latencies else 0.0,
        requests=len(latencies),
        failed=failed,
    )


async def _alone(load: _Load, say: Say) -> BatchArm:
    say(f"the service alone for {ALONE_S:g} s")
    async with load.sending() as stream:
        await asyncio.sleep(AHEAD_S + 1.0)
        first_s = time.monotonic()
        await asyncio.sleep(ALONE_S)
        last_s = time.monotonic()
    return _measured("service alone", stream, first_s, last_s, ended=0, crossing=(0.0, 0.0))


async def _arm(name: str, run: BatchRun, address: str, load: _Load) -> BatchArm:
    before = await _fetched(address)
    times: list[float] = []
    async with load.sending() as stream:
        await asyncio.sleep(AHEAD_S)
        outcome: BatchRunOutcome = await run.run(address, started=lambda: times.append(time.monotonic()))
        times.append(time.monotonic())
    after = await _fetched(address)
    crossing = [0.0, 0.0]
    for worker, (across, total) in after.items():  # a worker that is lost takes its counts along
        earlier = before.get(worker, (0.0, 0.0))
        crossing[0] += across - earlier[0]
        crossing[1] += total - earlier[1]
    last_s = times[0] + outcome.makespan_s
    return _measured(
        name, stream, times[0], last_s, ended=len(outcome.ended_s), crossing=(crossing[0], crossing[1])
    )


async def _fetched(address: str) -> dict[str, tuple[float, float]]:
    """By worker that answers, bytes that it has fetched from workers of other racks, and from any."""
    client = await connect(address)
    try:
        racks = workers_by_rack(await workers_of(client))
        rack_of = {worker: rack for rack, workers in racks.items() for worker in workers}
        told = await client.run(demo_jobs.fetched_by_source)
    finally:
        await client.close()
    return {
        worker: (
            float(sum(n for source, n in sources.items() if rack_of.get(source) != rack_of.get(worker))),
            float(sum(sources.values())),
        )
        for worker, sources in told.items()
    }


async def _stop(
    started: DemoProcesses, workers: list[asyncio.subprocess.Process], run: BatchRun, say: Say, rack: str
) -> None:
    """Kill the workers of a rack once the jobs run."""
    await run.started.wait()
    await asyncio.sleep(STOP_AFTER_S)
    say(f"  the workers of {rack} are killed")
    await started.end(workers, kill=True)
