"""Push of metrics to a collector at intervals, and once more at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import family
from kwiken.runtime.metrics.push import INTERVAL, INTERVAL_MS, interval_of, pushed
from tests.support.otel.collectors import Collector, metrics_collector
from tests.support.runtime.waiting import until


@pytest.fixture
def collector() -> Iterator[Collector]:
    with metrics_collector() as made:
        yield made


async def test_metrics_arrive_at_intervals_and_at_the_end(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INTERVAL, "100")
    number = 0

    def collect() -> list[object]:
        nonlocal number
        number += 1
        return [family(catalog.REQUESTS_CONTROL, [((), number)])]

    async with pushed(collector.url, lambda: {"service.name": "shop"}, collect):  # type: ignore[arg-type]
        await until(lambda: len(collector.got) >= 2)
    path, last = collector.got[-1]
    assert path == "/v1/metrics"
    (metric,) = last.resource_metrics[0].scope_metrics[0].metrics
    assert metric.name == "kw.requests.control"
    assert metric.sum.data_points[0].as_int == number == len(collector.got)


@pytest.mark.slow
async def test_a_collector_that_is_gone_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INTERVAL, "100")
    async with pushed("http://127.0.0.1:9", dict, lambda: [family(catalog.REQUESTS_CONTROL, [((), 1)])]):
        await asyncio.sleep(0.3)


async def test_nothing_is_pushed_without_an_endpoint() -> None:
    async with pushed(None, dict, lambda: pytest.fail("nobody asked")):
        pass


@pytest.mark.parametrize(("text", "expected"), [("", INTERVAL_MS), (" 250 ", 250.0), ("1e3", 1000.0)])
def test_the_interval_comes_from_the_environment(text: str, expected: float) -> None:
    assert interval_of({INTERVAL: text}) == expected


@pytest.mark.parametrize("text", ["soon", "0", "-5", "nan", "inf", "1e12"])
def test_an_interval_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=INTERVAL):
        interval_of({INTERVAL: text})
