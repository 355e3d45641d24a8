"""Metrics of gateways and replicas over HTTP: formats, who may read them, and what is counted."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from unittest.mock import Mock

import aiohttp
import msgspec
import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.prometheus import prometheus_name
from kwiken.otel.write.records import RequestRecord
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.metrics.page import MetricsPage
from kwiken.runtime.replica.metrics import ReplicaMetrics
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.otel.exposition import parse_openmetrics, parse_text
from tests.support.services.http import service

TOKEN = "a-token-of-tests"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0; q=0.8, text/plain; q=0.3"}


class Kept:
    """Observer that keeps every record."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def request_finished(self, record: RequestRecord) -> None:
        self.records.append(record)


@contextlib.asynccontextmanager
async def gateway(
    observer: Kept | None = None, gateways: Sequence[str] = (), **settings: Any
) -> AsyncIterator[tuple[Gateway, aiohttp.ClientSession]]:
    """A gateway whose stages run in this process."""
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
        observer=observer,
    )
    given = GatewaySettings(remote=False, token=TOKEN, **settings)
    front = Gateway(service, executor, given, gateways=gateways)
    await front.start()
    async with aiohttp.ClientSession() as session:
        try:
            yield front, session
        finally:
            await front.stop(grace_s=0.0)


async def get(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    async with session.get(url, headers=headers) as response:
        return response.status, response.headers.get("Content-Type", ""), await response.text()


async def test_a_gateways_metrics_in_both_formats() -> None:
    kept = Kept()
    async with gateway(kept) as (front, session):
        for body in ({"text": "hi"}, {"text": "hi"}, {"wrong": 1}):
            async with session.post(front.url + "/v1/request", json=body):
                pass
        status, kind, plain = await get(session, front.url + "/metrics")
        assert (status, kind.partition(";")[0]) == (200, "text/plain")
        _, kind, rich = await get(session, front.url + "/metrics", OPENMETRICS)
        assert kind.startswith("application/openmetrics-text")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(plain)
        for sample in family.samples
    }
    posted = {"http_request_method": "POST", "http_route": "/v1/request", "url_scheme": "http"}

    def requests(code: str) -> float:
        labels = tuple(sorted({**posted, "http_response_status_code": code}.items()))
        return samples["http_server_request_duration_seconds_count", labels]

    assert (requests("200"), requests("400")) == (2, 1)
    assert samples["kw_request_duration_seconds_count", (("kw_outcome", "answered"),)] == 2
    families = {family.name: family for family in parse_openmetrics(rich)}
    exemplars = [
        sample.exemplar for sample in families["kw_request_duration_seconds"].samples if sample.exemplar
    ]
    assert {exemplar.labels["trace_id"] for exemplar in exemplars} <= {
        f"{record.trace_id:032x}" for record in kept.records
    }
    assert exemplars
    shown = {name for name, _ in samples}
    for metric in (*catalog.GATEWAY, *catalog.BOTH, catalog.TARGET_INFO):
        if metric.name.startswith(("kw.line", "kw.tls")):  # there are neither lines nor certificates here
            continue
        if metric not in {catalog.PLAN_AFTER, catalog.PLAN_EXPECTED, catalog.REQUESTS_SHED}:
            name = prometheus_name(metric)
            assert {name, f"{name}_bucket"} & shown, name


async def test_no_exemplar_without_a_trace_that_is_kept() -> None:
    async with gateway() as (front, session):
        async with session.post(front.url + "/v1/request", json={"text": "hi"}, headers={"kw-timing": "1"}):
            pass
        _, _, text = await get(session, front.url + "/metrics", OPENMETRICS)
    assert "trace_id" not in text


@pytest.mark.parametrize(
    ("access", "headers", "status"),
    [
        ("open", {}, 200),
        ("token", {}, 401),
        ("token", AUTH, 200),
        ("off", AUTH, 404),
    ],
)
async def test_who_may_read_them(access: Any, headers: dict[str, str], status: int) -> None:
    async with gateway(metrics=access) as (front, session):
        assert (await get(session, front.url + "/metrics", headers))[0] == status


async def test_replicas_as_targets_of_prometheus() -> None:
    url = "http://127.0.0.1:9000"
    async with gateway(gateways=[url]) as (front, session):
        front.control.set_replicas({"first": [Replica("first-0", "here", "http://127.0.0.1:9001")]})
        assert (await get(session, front.url + "/v1/targets"))[0] == 401
        status, kind, text = await get(session, front.url + "/v1/targets", AUTH)
    assert (status, kind) == (200, "application/json")
    assert msgspec.json.decode(text) == [
        {"targets": [url.removeprefix("http://")], "labels": {"kw_gateway": "0"}},
        {
            "targets": ["127.0.0.1:9001"],
            "labels": {"kw_stage": "first", "kw_replica": "first-0", "kw_node": "here"},
        },
    ]


async def test_foreign_services_are_no_targets() -> None:
    """They show no metrics of ours, and would be down for ever."""

    async def own(value: str) -> str:
        return value

    stages = [
        Stage(name="own", handler=own),
        Stage(name="rank", after=("own",), remote="http://127.0.0.1:9/rank"),
    ]
    mixed = Service.of("mixed", stages)
    executor = Executor(
        mixed,
        LocalTransport(mixed),
        replicas={"own": [], "rank": []},
        clock=SystemClock(),
        rng=random.Random(1),
    )
    front = Gateway(mixed, executor, GatewaySettings(remote=False, token=TOKEN))
    control = front.control
    control.set_replicas(
        {
            "own": [Replica("own-0", "here", "http://127.0.0.1:9001")],
            "rank": [Replica("rank-0", "there", "http://127.0.0.1:9")],
        }
    )
    assert [one["labels"]["kw_stage"] for one in await control.targets(Mock())] == ["own"]


async def test_a_replicas_metrics() -> None:
    server = ReplicaServer(service, "first")
    metrics = ReplicaMetrics("echo", server.calls, name="first-7", node="east")
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            assert (await get(session, server.url + "/metrics"))[0] == 404
            server.show(MetricsPage(metrics.shown))
            wrong = {"Content-Type": "application/msgpack", "kw-stage": "other"}
            async with session.post(server.url + "/call", data=b"", headers=wrong) as response:
                assert response.status == 421
            async with session.post(server.url + "/call", data=b"", headers={"Content-Type": "text/html"}):
                pass
            status, _, text = await get(session, server.url + "/metrics", OPENMETRICS)
            assert status == 200
            async with session.post(server.url + "/metrics") as response:
                assert response.status == 405
    finally:
        await server.stop(grace_s=0.0)
    families = {family.name: family for family in parse_openmetrics(text)}
    calls = {
        sample.labels["kw_outcome"]: sample.value
        for sample in families["kw_replica_call_duration_seconds"].samples
        if sample.name.endswith("_count")
    }
    assert (calls["misdirected"], calls["invalid"], calls["answered"]) == (1, 1, 0)
    (about,) = families["kw_replica"].samples
    assert about.labels == {
        "kw_service": "echo",
        "kw_stage": "first",
        "kw_replica": "first-7",
        "kw_node": "east",
    }
    for metric in (*catalog.REPLICAS, *catalog.BOTH):
        assert any(prometheus_name(metric).startswith(name) for name in families), metric.name


async def test_requests_are_answered_while_metrics_are_written() -> None:
    async with gateway() as (front, session):
        pages = [get(session, front.url + "/metrics") for _ in range(8)]

        async def ask() -> int:
            async with session.post(front.url + "/v1/request", json={"text": "hi"}) as response:
                return response.status

        results = await asyncio.gather(*pages, *(ask() for _ in range(8)))
    assert [page[0] for page in results[:8] if isinstance(page, tuple)] == [200] * 8
    assert list(results[8:]) == [200] * 8
