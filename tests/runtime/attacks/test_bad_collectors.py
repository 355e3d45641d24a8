"""Collectors that take spans and metrics and never answer: a process ends without them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import family
from kwiken.runtime.metrics.push import pushed
from kwiken.runtime.process import span_export
from kwiken.runtime.process.specs import ReplicaSpec

ENDPOINT = "http://127.0.0.1:9"


class Hanging:
    """Stands for what talks with a collector; each talk lasts until the test ends."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.talks = 0

    def __call__(self, *_: Any, **__: Any) -> Hanging:
        return self

    def push(self, *_: Any) -> bool:
        self.close()
        return True

    def close(self) -> None:
        self.talks += 1
        self.over.wait()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.over.set()


async def test_metrics_do_not_delay_the_end(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwiken.otel.metrics.otlp.MetricPush", hanging, raising=False)
    monkeypatch.setattr("kwiken.runtime.metrics.push.LAST_S", 0.1)
    monkeypatch.setattr("kwiken.runtime.metrics.push.CLOSE_S", 0.1)
    async with pushed(ENDPOINT, dict, lambda: [family(catalog.REQUESTS_CONTROL, [((), 1)])]):
        pass
    assert hanging.talks == 2
    assert all(thread.daemon for thread in threading.enumerate() if "metrics" in thread.name)


def test_spans_do_not_delay_the_end(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(span_export, "LAST_S", 0.1)
    spec = ReplicaSpec(target="a:b", stage="first", otlp=ENDPOINT)
    with span_export.closing(hanging, "first-0", spec):
        pass
    assert hanging.talks == 1
    assert "first-0: traces are incomplete: the collector did not take the last spans" in caplog.text
