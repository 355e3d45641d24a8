"""Garbage collection of servers: full collections scan the objects of requests, not those of start-up."""

from __future__ import annotations

import aiohttp

from kwiken.runtime.cluster.child_process import Child
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.process.specs import GatewaySpec

STEADY = "tests.support.services.steady:service"
MODULES = 10_000  # objects that an interpreter with a server's modules has at least


async def told(url: str) -> tuple[int, int]:
    """Object counts that a process reports: excluded from collections, and scanned."""
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/request", json="hi") as answer:
        frozen, others = (await answer.json())["answer"]
        return frozen, others


async def test_a_replica_keeps_its_start_out_of_collections() -> None:
    async with Cluster(STEADY, ClusterSettings(grace_s=0.5)) as cluster:
        frozen, others = await told(cluster.gateway_url)
        assert frozen > MODULES
        assert others < frozen / 5


async def test_a_gateway_does_too() -> None:
    gateway = await Child.start(GatewaySpec(target=STEADY, local=True), name="gateway")
    try:
        frozen, others = await told(gateway.url)
        assert frozen > MODULES
        assert others < frozen / 5
    finally:
        await gateway.stop(1.0)
