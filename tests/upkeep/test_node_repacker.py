"""Repacking of a real cluster on emulated nodes: what moves, what the gateways are told, and kills."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from typing import Any

import aiohttp
import pytest

from tests.support.allocation.packing.repacked import Running, requests_to, shorten_windows
from tests.support.runtime.leftovers import naps_of_this_process
from tests.support.runtime.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's"),
    pytest.mark.slow,
]
ANSWERED = {200, 503}  # 503 where this machine is so busy that requests are turned away


@pytest.fixture(autouse=True)
def quick_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of half a second, so that a period of some seconds has enough of them."""
    shorten_windows(monkeypatch)


async def test_a_node_that_uses_little_is_freed_while_requests_are_answered() -> None:
    running = Running(4, naps=3)
    before = running.in_use()
    async with running.up() as cluster, requests_to(cluster) as statuses:
        await until(naps_of_this_process)
        await until(lambda: len(running.in_use()) < len(before), within_s=120.0)
        status = await cluster.status()
        moves = [line for line in status["actions"] if "repack at dial 0 frees" in line]
        assert moves
        assert "of 2 cores" in moves[0]
        await until(lambda: len(statuses) > 20)
    assert set(statuses) <= ANSWERED


async def test_under_kills_nothing_is_lost() -> None:
    running = Running(4, naps=3)
    rng = random.Random(7)
    async with running.up() as cluster, requests_to(cluster) as statuses:
        await until(naps_of_this_process)
        end_s = time.monotonic() + 20.0
        while time.monotonic() < end_s:
            await asyncio.sleep(rng.uniform(0.2, 1.5))
            if pids := [pid for pid, _ in cluster.replicas["first"]]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(pids), signal.SIGKILL)
            assert len(naps_of_this_process()) <= 3  # none runs twice
        wanted = len(running.adaptation.keys["front"])
        assert wanted >= 2
        await until(lambda: len(cluster.replicas["first"]) == len(running.adaptation.keys["front"]))
        places = sorted(place.node for stage, place in cluster.places.values() if stage == "first")
        assert places == sorted(node for _, node, _ in running.adaptation.keys["front"])
        await until(lambda: len(naps_of_this_process()) == 3)
        await until(lambda: statuses[-1:] == [200])


async def test_gateways_are_told_of_nodes_without_headroom_also_after_a_restart() -> None:
    running = Running(4)
    async with running.up() as cluster:

        async def told() -> list[str]:
            headers = {"Authorization": f"Bearer {cluster.token}"}
            url = cluster.gateway_url + "/v1/crowded-nodes"
            async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
                return list(await answer.json())

        assert await told() == []
        cluster.withhold_copies(["quick-1", "quick-0"])
        (gateway,) = cluster.gateway_pids
        await until_told(told, ["quick-0", "quick-1"])
        os.kill(gateway, signal.SIGKILL)
        await until(lambda: cluster.gateway_pids not in ([], [gateway]))
        await until_told(told, ["quick-0", "quick-1"])


async def until_told(told: Any, wanted: list[str]) -> None:
    """Ask until the answer is as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                if await told() == wanted:
                    return
            await asyncio.sleep(0.05)
