"""Supervision of a cluster: restarts, lost state files, and failures of the supervisor itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster import slot
from kwiken.runtime.cluster.child_process import Child, ChildError
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.processes import Processes
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.cluster.state.files import StateFiles
from kwiken.runtime.process.specs import ReplicaSpec
from kwiken.runtime.wire.transport.base import Replica
from tests.support.runtime.server_processes import gateway_pid
from tests.support.runtime.waiting import until

POISON = "tests.support.services.poison:service"


@pytest.fixture
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No growing pauses where the same process is ended again and again on purpose."""
    monkeypatch.setattr(slot, "LONGEST_WAIT_S", slot.FIRST_WAIT_S)


def of(
    count: int, *, unresponsive_s: float = 10.0, plan: Path | None = None, state: Path | None = None
) -> Cluster:
    """A cluster of so many replicas of one stage."""
    settings = ClusterSettings(
        grace_s=0.5, unresponsive_s=unresponsive_s, plan=str(plan) if plan is not None else None
    )
    return Cluster(POISON, settings, state=state, replicas={"only": count})


def pids(cluster: Cluster) -> set[int]:
    return {pid for pid, _ in cluster.replicas["only"]}


async def ask(cluster: Cluster, text: str) -> int:
    """Status of one request; 0 if no server listens."""
    with contextlib.suppress(aiohttp.ClientError):
        async with (
            aiohttp.ClientSession() as session,
            session.post(cluster.gateway_url + "/v1/request", json=text) as answer,
        ):
            return answer.status
    return 0


async def eventually(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait for an asynchronous condition."""
    for _ in range(600):
        if await condition():
            return
        await asyncio.sleep(0.05)
    pytest.fail("did not happen in time")


async def served(cluster: Cluster) -> None:
    """Wait until a request is answered."""

    async def answered() -> bool:
        return await ask(cluster, "hi") == 200

    await eventually(answered)


async def known(cluster: Cluster) -> None:
    """Wait until the gateway knows the replicas that run now."""

    async def same() -> bool:
        with contextlib.suppress(KwikenError):
            replicas = (await cluster.status())["runtime"]["stages"]["only"]["replicas"]
            running = {url for _, url in cluster.replicas["only"]}
            return bool(running) and {replica["address"] for replica in replicas} == running
        return False

    await eventually(same)


@pytest.mark.parametrize("way", ["spin", "stop"])
async def test_replicas_that_hang_are_killed_and_replaced(way: str) -> None:
    async with of(2, unresponsive_s=0.8) as cluster:
        before = pids(cluster)
        assert await ask(cluster, way) == 504  # the call and its retry took both
        await until(lambda: len(pids(cluster)) == 2 and not pids(cluster) & before)
        assert not any(Identity.of(pid) for pid in before)
        await served(cluster)


async def test_a_gateway_that_hangs_is_killed_and_replaced() -> None:
    async with of(1, unresponsive_s=0.8) as cluster:
        pid, url = gateway_pid(cluster), cluster.gateway_url
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: gateway_pid(cluster) not in {None, pid})
        await served(cluster)
        assert cluster.gateway_url == url


@pytest.mark.usefixtures("quick_restarts")
async def test_requests_during_a_gateway_replacement_wait_and_are_not_refused() -> None:
    async with of(1) as cluster:
        for _ in range(2):
            pid = gateway_pid(cluster)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: gateway_pid(cluster) != pid)  # type: ignore[misc]
            assert gateway_pid(cluster) is None
            assert [await ask(cluster, "hi") for _ in range(3)] == [200] * 3
            assert gateway_pid(cluster) is not None


def plan_of(after_ms: float) -> Plan:
    return Plan(
        version=1,
        service="poison",
        created="2024-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=0.1),
        cost=Costs(model="calls", stages={"only": 1.0}),
        stages={"only": StagePlan(reissue=Reissue(after_ms=after_ms, fraction=0.1))},
    )


async def in_force(cluster: Cluster) -> object:
    """Digest of the plan in force at the gateway."""
    return (await cluster.status())["runtime"]["plan"]


async def replaced(cluster: Cluster) -> None:
    """Kill the gateway, and wait for the next."""
    pid = gateway_pid(cluster)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: gateway_pid(cluster) not in {None, pid})


async def put(cluster: Cluster, plan: Plan | None, *, status: int = 200) -> None:
    """Put a plan as an operator does it by hand."""
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {cluster.token}"}) as session,
        session.put(cluster.gateway_url + "/v1/plan", data=msgspec.json.encode(plan)) as answer,
    ):
        assert answer.status == status


@pytest.mark.usefixtures("quick_restarts")
async def test_a_plan_put_by_hand_outlives_the_gateway(files: StateFiles) -> None:
    files.folder.mkdir()
    files.plan.write_text("what a killed supervisor left")
    async with of(1, state=files.folder) as cluster:
        assert await in_force(cluster) is None
        await replaced(cluster)
        assert await in_force(cluster) is None
        await cluster.put_plan(plan_of(50.0))
        await put(cluster, plan_of(60.0))  # the later one counts
        assert files.plan.stat().st_mode & 0o777 == 0o600
        for _ in range(2):
            await replaced(cluster)
            assert await in_force(cluster) == plan_of(60.0).digest
        await put(cluster, None)
        await replaced(cluster)
        assert await in_force(cluster) is None
    assert not files.plan.exists()


async def test_on_a_full_disk_a_plan_put_by_hand_is_refused_and_the_clusters_own_outlives_the_gateway(
    files: StateFiles,
) -> None:
    async with of(1, state=files.folder) as cluster:
        files.plan.with_name(files.plan.name + ".new").mkdir()  # nothing can be written there
        await put(cluster, plan_of(40.0), status=507)
        assert await in_force(cluster) is None
        await cluster.put_plan(plan_of(50.0))
        await replaced(cluster)

        async def told() -> bool:
            return await in_force(cluster) == plan_of(50.0).digest

        await eventually(told)


@pytest.mark.usefixtures("quick_restarts")
async def test_of_a_plans_file_and_one_put_by_hand_the_later_outlives_the_gateway(
    files: StateFiles, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan_of(10.0).to_json())
    async with of(1, state=files.folder, plan=file) as cluster:
        assert await in_force(cluster) == plan_of(10.0).digest
        await put(cluster, plan_of(20.0))
        await replaced(cluster)
        assert await in_force(cluster) == plan_of(20.0).digest
        file.write_text(plan_of(30.25).to_json())

        async def followed() -> bool:
            return await in_force(cluster) == plan_of(30.25).digest

        await eventually(followed)
        file.write_text("{")  # an invalid file does not keep a gateway from taking over
        await replaced(cluster)
        assert await in_force(cluster) == plan_of(30.25).digest
        await served(cluster)
        file.unlink()
        await replaced(cluster)
        assert await in_force(cluster) == plan_of(30.25).digest


async def test_no_process_is_killed_where_liveness_checks_are_off() -> None:
    async with of(1, unresponsive_s=0.0) as cluster:
        (pid,) = pids(cluster)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(0.5)  # a check of no patience at all would have ended the process at once
        assert pids(cluster) == {pid}
        assert Identity.of(pid)


async def test_a_replica_that_dies_again_and_again_is_not_replaced_in_a_rush() -> None:
    async with of(2) as cluster:
        others = set(sorted(pids(cluster))[1:])
        seen: set[int] = set()
        loop = asyncio.get_running_loop()
        end = loop.time() + 2.0
        while loop.time() < end:
            for pid in pids(cluster) - others:
                seen.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.02)
        assert 2 <= len(seen) <= 6


@pytest.fixture
def files(tmp_path: Path) -> Iterator[StateFiles]:
    found = StateFiles(tmp_path / "state", "poison")
    yield found
    found.unlock()


async def test_a_state_folder_that_is_removed_is_made_again(files: StateFiles) -> None:
    async with of(2, state=files.folder) as cluster:
        shutil.rmtree(files.folder)
        (dead, _), *_ = cluster.replicas["only"]
        os.kill(dead, signal.SIGKILL)
        await until(lambda: dead not in pids(cluster) and len(pids(cluster)) == 2)
        await known(cluster)
        gateway = gateway_pid(cluster)
        assert gateway is not None
        shutil.rmtree(files.folder, ignore_errors=True)
        os.kill(gateway, signal.SIGKILL)
        await until(lambda: gateway_pid(cluster) not in {None, gateway})
        await known(cluster)
        await served(cluster)
        await until(files.token.exists)
        state = files.read()
        assert state is not None
        assert {child.identity.pid for child in state.replicas} == pids(cluster)
        assert files.token.read_text().strip() == cluster.token
        with pytest.raises(InputError, match="up already"):
            files.lock()
    assert files.read() is None


async def test_a_state_folder_that_is_removed_comes_back_though_nothing_else_happens(
    files: StateFiles,
) -> None:
    async with of(1, state=files.folder) as cluster:
        shutil.rmtree(files.folder)
        await until(files.token.exists)
        state = files.read()
        assert state is not None
        assert state.ready
        assert state.gateways
        assert state.gateways[0].identity.pid == gateway_pid(cluster)


async def test_a_cluster_without_a_state_folder_goes_on_and_touches_no_other_ones(files: StateFiles) -> None:
    """Another process has locked the folder meanwhile."""
    async with of(2, state=files.folder) as cluster:
        shutil.rmtree(files.folder)
        files.lock()
        files.state.write_text("another's")
        (dead, _), *_ = cluster.replicas["only"]
        os.kill(dead, signal.SIGKILL)
        await until(lambda: dead not in pids(cluster) and len(pids(cluster)) == 2)
        await known(cluster)
        await served(cluster)
        assert files.state.read_text() == "another's"
    assert files.state.read_text() == "another's"


async def test_an_error_of_the_supervisor_ends_the_cluster_with_a_message(
    files: StateFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before: set[int] = set()

    def addresses(processes: Processes) -> dict[str, list[Replica]]:
        raise ZeroDivisionError("a defect")

    async def serve() -> None:
        async with of(2, state=files.folder) as cluster:
            before.update(pids(cluster))
            monkeypatch.setattr(Processes, "addresses", addresses)
            os.kill(min(before), signal.SIGKILL)
            await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError, match="a defect"):
        await serve()
    assert "ZeroDivisionError" in caplog.text
    assert not any(Identity.of(pid) for pid in before)
    assert files.read() is None


async def test_a_process_that_cannot_be_started_for_now_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with of(2) as cluster:
        start = asyncio.create_subprocess_exec
        failures = iter([BlockingIOError(11, "Resource temporarily unavailable"), OSError(24, "No handles")])

        async def scarce(*words: str, **settings: object) -> asyncio.subprocess.Process:
            for error in failures:
                raise error
            return await start(*words, **settings)  # type: ignore[arg-type]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", scarce)
        with pytest.raises(ChildError, match="x: cannot be started: Resource temporarily unavailable"):
            await Child.start(ReplicaSpec(target=POISON, stage="only"), name="x")
        before = pids(cluster)
        os.kill(min(before), signal.SIGKILL)
        await until(lambda: len(pids(cluster)) == 2 and min(before) not in pids(cluster))
        assert next(failures, None) is None
