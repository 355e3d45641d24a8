"""Partial answers and catch-up from end to end: real processes, a replica killed meanwhile, and the traces."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy
from kwiken.otel.fit.fit import fit_profile
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from tests.support.runtime.replicas import plan_of
from tests.support.runtime.waiting import until
from tests.support.services.late import service

TARGET = "tests.support.services.late:service"
CUT = PartialPolicy(cutoff_ms=80.0, wait_ms=None, progress=1.0, loss=0.2)
PLAN = plan_of(
    service,
    partial={"look": CUT},
    utility_loss=0.5,
    late={
        "hold": CatchUpPolicy(after_ms=40, reissue=True),
        "digest": CatchUpPolicy(after_ms=40, threads=3, priority=True),
    },
    catch_up=0.5,
)


async def test_partial_and_late_requests_while_a_replica_is_killed(tmp_path: Path) -> None:
    async with (
        Cluster(TARGET, ClusterSettings(traces=str(tmp_path), trace="all", grace_s=3.0)) as cluster,
        aiohttp.ClientSession() as session,
    ):

        async def ask(**job: Any) -> tuple[int, dict[str, Any]]:
            async with session.post(cluster.gateway_url + "/v1/request", json=job) as response:
                told = msgspec.json.decode(await response.read())
                assert (response.headers.get("kw-partial") == "1") == told.get("partial", False)
                return response.status, told

        for _ in range(30):
            await ask()
        await cluster.put_plan(PLAN)
        victim = cluster.replicas["look"][0][0]
        rng = random.Random(1)
        answers: list[tuple[int, dict[str, Any]]] = []

        async def caller() -> None:
            for _ in range(40):
                slow, late = rng.random() < 0.2, rng.random() < 0.2
                answers.append(
                    await ask(
                        hold_ms=60 if late else 0,
                        slow_shard=rng.randrange(4) if slow else -1,
                        slow_ms=400 if slow else 0,
                    )
                )

        callers = [asyncio.create_task(caller()) for _ in range(4)]
        await until(lambda: len(answers) > 30)
        os.kill(victim, signal.SIGKILL)
        await asyncio.gather(*callers)
        status = (await cluster.status())["runtime"]
    assert {code for code, _ in answers} == {200}, "a killed replica costs no request"
    partial = [told for _, told in answers if "partial" in told]
    assert partial
    for _, told in answers:
        found = told["answer"]["found"]
        assert (len(found) < 4) == ("partial" in told)
        if "partial" in told:
            assert told["utility"] == (1.0 if 4 in found else 0.0), "1 where the best number is there"
    look, lost = status["stages"]["look"]["partial"], status["utility"]
    assert look["stops"] == status["partial"] == len(partial)
    assert lost["spent"] <= 0.5 * lost["work"] + max(1.0, 0.5 * 50)
    assert status["late_reissues"] + status["stages"]["digest"]["late"]["calls"] > 0
    assert status["catch_up"]["spent"] > 0
    assert_traces_tell(tmp_path)


def assert_traces_tell(traces: Path) -> None:
    """The inputs of a plan can be fitted from the spans."""
    profile = fit_profile([traces])
    assert profile.stage("digest").threads == 3
    look = profile.stage("look")
    assert look.worth is not None
    known = look.worth[~(look.worth != look.worth).any(axis=1)]
    assert len(known) > 30
    assert (known == [0, 0, 0, 1]).all(), "the fourth shard has the best number"
    assert profile.counts["calls_censored"] > 0
