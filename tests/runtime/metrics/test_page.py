"""The page of metrics: its compression, and what a client says that it accepts."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterator

import aiohttp
import pytest

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import Family, family
from kwiken.runtime.metrics.page import MetricsPage, accepts_gzip
from kwiken.runtime.metrics.reading import MAX_HOLD_S
from kwiken.runtime.replica.metrics import ReplicaMetrics
from kwiken.runtime.replica.server import ReplicaServer
from tests.support.services.http import service


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("br , gzip ; q=1", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("identity", False),
        ("xgzip", False),
        (",;,", False),
    ],
)
def test_gzip_is_used_only_where_it_is_accepted(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) == accepted


async def test_a_replicas_metrics_are_compressed_on_request() -> None:
    server = ReplicaServer(service, "first")
    server.show(MetricsPage(ReplicaMetrics("echo", server.calls, name="first-7", node="east").shown))
    await server.start()
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            url = server.url + "/metrics"
            async with session.get(url, headers={"Accept-Encoding": "identity"}) as response:
                plain = await response.read()
                assert "Content-Encoding" not in response.headers
            async with session.get(url, headers={"Accept-Encoding": "gzip"}) as response:
                packed = await response.read()
                assert response.headers["Content-Encoding"] == "gzip"
                assert response.headers["Vary"] == "Accept, Accept-Encoding"
    finally:
        await server.stop(grace_s=0.0)
    assert gzip.decompress(packed).splitlines()[:3] == plain.splitlines()[:3]
    assert len(packed) < len(plain) / 2


async def test_the_loop_goes_on_while_many_metrics_are_read() -> None:
    turns: list[int] = []
    read = 0

    def collect() -> Iterator[Family]:
        nonlocal read
        for _ in range(20):
            end = time.perf_counter() + 2 * MAX_HOLD_S
            while time.perf_counter() < end:
                pass
            read += 1
            yield family(catalog.REQUESTS_ACTIVE, [((), read)])

    async def other() -> None:
        while True:
            turns.append(read)
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    try:
        families = await MetricsPage(collect).families()
    finally:
        task.cancel()
    assert [point.value for each in families for point in each.points] == list(range(1, 21))
    assert set(turns) >= set(range(1, 20))
