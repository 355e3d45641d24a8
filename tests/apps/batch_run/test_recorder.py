"""Recording of a real Dask: its tasks become a job with stages, bytes and workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plans.racks_live.namespaces import one_network
from benchmarks.plans.racks_live.processes import processes, start_dask
from kwiken.apps.batch_run.dask_jobs import RACK_RESOURCE
from kwiken.apps.batch_run.recorder import record
from kwiken.base.errors import InputError
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.replay.predictor import Predictor

pytest.importorskip("distributed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
async def test_tasks_of_a_scheduler_become_a_job(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    lines: list[str] = []
    stop = asyncio.Event()
    async with processes(log) as started:
        address, _ = await start_dask(started, one_network(["r1", "r2"]), RACK_RESOURCE)
        await _workers(address, 4)
        recording = asyncio.create_task(record(address, "sums", lines.append, stop))
        await _until(lambda: any('"worker"' in line for line in lines))
        await _sum_of_squares(address)
        await _until(lambda: sum('"group"' in line for line in lines) >= 9)
        stop.set()
        assert await recording == 9
    found = read_log((line.encode() for line in lines), name="other", where="recording")
    assert found is not None
    assert found.kind == "recording of Dask"
    (job,) = found.jobs
    assert (job.name, job.engine, job.ended) == ("sums", "dask", True)
    assert sorted(len(stage.tasks) for stage in job.stages) == [1, 8]
    assert job.stages[-1].parents == [0]
    assert {span.rack for span in job.executors} <= {"r1", "r2"}
    assert min(job.stages[0].tasks.took_ms) >= 40
    assert Predictor([job]).at(2).total_ms > 0


@pytest.mark.filterwarnings("ignore")
async def test_a_scheduler_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        await record("127.0.0.1:9", "none", lambda _: None, asyncio.Event())


async def _until(holds: Any) -> None:
    for _ in range(1200):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the recording did not come so far")


async def _workers(address: str, count: int) -> None:
    from distributed import Client

    client = await Client(address, asynchronous=True, timeout=60)
    try:
        await client.wait_for_workers(count, timeout=60)
    finally:
        await client.close()


async def _sum_of_squares(address: str) -> None:
    from time import sleep

    from dask import delayed
    from distributed import Client

    def square(number: int) -> int:
        sleep(0.05)
        return number * number

    client = await Client(address, asynchronous=True, timeout=60)
    try:
        total = delayed(sum)([delayed(square)(number) for number in range(8)])
        assert await client.compute(total) == 140
    finally:
        await client.close()
