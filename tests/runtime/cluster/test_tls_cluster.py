"""A cluster whose gateways speak TLS: its supervisor, its commands and its autopilot's client reach them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import aiohttp
import pytest

from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.clients import client_variables
from tests.support.faults.authority import Authority
from tests.support.runtime.waiting import PATIENCE_S, until


@pytest.mark.slow
async def test_a_cluster_serves_over_tls_and_replaces_certificate_and_gateway(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    files = authority.issue("gateway", names="DNS:gateways.test")
    caller = Certificates(authority.issue("caller"))
    settings = ClusterSettings(gateways=2, tls=files)

    async def served(url: str) -> int:
        context = Certificates(files).peer
        async with (
            aiohttp.ClientSession() as session,
            session.post(url + "/v1/request", json={"text": "hi"}, ssl=context) as response,
        ):
            return response.status

    async def answers(url: str) -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            return await served(url) == 200
        return False

    target = "tests.support.services.http:service"
    async with Cluster(target, settings, port=0, state=tmp_path / "state") as cluster:
        assert cluster.client_variables.items() >= client_variables(files).items()
        assert cluster.gateway_url.startswith("https://")
        assert await served(cluster.gateway_url) == 200
        assert (await cluster.status())["runtime"]["requests"] == 1
        with pytest.raises(aiohttp.ClientError):  # the certificate has another name
            async with aiohttp.ClientSession() as session:
                await session.get(cluster.gateway_url + "/livez", ssl=caller.client)

        authority.issue("gateway", names="DNS:gateways.test", into=files)
        before = cluster.gateway_pids
        os.kill(before[0], 9)
        await until(lambda: len(cluster.gateway_pids) == 2 and cluster.gateway_pids != before)
        async with asyncio.timeout(PATIENCE_S):  # until every process has looked at the files
            for url in cluster.gateway_urls:
                while not await answers(url):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.2)
        assert len((await cluster.status())["runtime"]["gateways"]) == 2
