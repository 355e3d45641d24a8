"""A plan on a real Dask: jobs run on the workers of their racks, and elsewhere once a rack is lost."""

from __future__ import annotations

import asyncio
import sys
import types
from pathlib import Path

import pytest

from benchmarks.plans.racks_live.namespaces import one_network
from benchmarks.plans.racks_live.processes import free_port, processes, start_dask
from kwiken.apps.batch_run.dask_jobs import RACK_RESOURCE, DaskJobs, load_jobs
from kwiken.apps.batch_run.run import BatchRun, BatchRunOutcome
from kwiken.base.errors import InputError
from kwiken.batch.racks.document import PlannedJob, RackPlan

pytest.importorskip("distributed")
RACKS = ["r1", "r2"]


def plan() -> RackPlan:
    jobs = [
        PlannedJob(
            name=name, racks=[rack], further_rack="r2", priority=place, arrival_s=0.0, start_s=0.0, took_s=1.0
        )
        for place, (name, rack) in enumerate((("first", "r1"), ("second", "r2")))
    ]
    return RackPlan(minimise="makespan", racks=RACKS, objective_s=1.0, jobs=jobs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
async def test_jobs_run_and_end_when_a_rack_is_lost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    said: list[str] = []
    async with processes(log) as started:
        address, workers = await start_dask(started, one_network(RACKS), RACK_RESOURCE)
        await _until_workers(address, 4)
        outcome = await BatchRun(plan(), _sleepers(0.2), said.append).run(address)
        assert set(outcome.ended_s) == {"first", "second", "extra"}
        assert any("first goes to r1" in line for line in said)
        assert any("extra goes to all racks" in line for line in said)
        run = BatchRun(plan(), _sleepers(3.0), said.append)

        async def lose() -> None:
            await run.started.wait()
            await asyncio.sleep(1.0)
            await started.end(workers["r2"], kill=True)

        found, _ = await asyncio.gather(run.run(address), lose())
        assert isinstance(found, BatchRunOutcome)
        assert set(found.ended_s) == {"first", "second", "extra"}
        assert found.again == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
async def test_jobs_that_fail_are_told_and_a_scheduler_that_is_gone_ends_the_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    said: list[str] = []
    async with processes(log) as started:
        address, _ = await start_dask(started, one_network(RACKS), RACK_RESOURCE)
        scheduler = started.running[0]
        await _until_workers(address, 4)
        jobs = DaskJobs({"first": _broken, "second": lambda: 5}, {})
        outcome = await BatchRun(plan(), jobs, said.append).run(address)
        assert outcome.failed == {
            "first": "RuntimeError: no input today",
            "second": "its function has returned no collection of Dask",
        }
        assert not outcome.ended_s
        with pytest.raises(InputError, match=r"DATA\['first'\] fails: RuntimeError: no input today"):
            await BatchRun(plan(), DaskJobs(jobs.jobs, {"first": _broken}), said.append).run(address)
        run = BatchRun(plan(), _sleepers(30.0), said.append)

        async def lose() -> None:
            await run.started.wait()
            await asyncio.sleep(1.0)
            await started.end([scheduler], kill=True)

        found = await asyncio.gather(run.run(address), lose(), return_exceptions=True)
        assert "scheduler of Dask is gone; 3 jobs have not ended" in str(found[0])
        assert not run.outcome.ended_s


def _broken() -> object:
    raise RuntimeError("no input today")


async def _until_workers(address: str, count: int) -> None:
    from distributed import Client

    client = await Client(address, asynchronous=True, timeout=60)
    try:
        await client.wait_for_workers(count, timeout=60)
    finally:
        await client.close()


def _sleepers(seconds: float) -> DaskJobs:
    from time import sleep

    from dask import delayed

    def build() -> object:
        return delayed(len)([delayed(sleep, pure=False)(seconds) for _ in range(2)])

    return DaskJobs({"first": build, "second": build, "extra": build}, {})


@pytest.mark.filterwarnings("ignore")
async def test_a_scheduler_that_is_not_there_is_one_clear_line() -> None:
    run = BatchRun(plan(), _sleepers(0.1), print)
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        await run.run(f"127.0.0.1:{free_port('127.0.0.1')}")


def test_modules_without_jobs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be imported"):
        load_jobs("no_such_module_of_jobs")
    for content in ({}, {"JOBS": 3}, {"JOBS": {"a": 1}}, {"JOBS": {}, "DATA": {"a": 1}}):
        module = types.ModuleType("jobs_of_a_test")
        for name, value in content.items():
            setattr(module, name, value)
        monkeypatch.setitem(sys.modules, "jobs_of_a_test", module)
        with pytest.raises(InputError, match="mapping"):
            load_jobs("jobs_of_a_test")
    jobs = DaskJobs({"load": len, "load (daily)": len, "extra": len}, {})
    assert jobs.unplanned(["load (daily)", "load (daily) (2)"]) == ["load", "extra"]
    with pytest.raises(InputError, match="first"):
        BatchRun(plan(), DaskJobs({}, {}), print)
