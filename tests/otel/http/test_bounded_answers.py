"""Answers of collectors, Jaeger and Prometheus that drip, never end, or unpack without bound."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.histograms.fit import fit_histograms
from kwiken.otel.http import bounded_answers
from kwiken.otel.http.bounded_answers import Bounds
from kwiken.otel.http.exporter_session import collector_session
from kwiken.otel.metrics.otlp import MetricPush
from kwiken.otel.write.collector import Collector
from kwiken.otel.write.span_model import SpanData
from tests.support.otel.span_trees import MS, T0
from tests.support.peers.endless_peers import CHUNKED, HEAD, OPEN_BODY, endless_peer
from tests.support.peers.http_servers import Told, http_server

SMALL = Bounds(timeout_s=0.3, whole_s=1.0, size=1 << 20)
BLANKS = b" " * 65536
# What is sent first, what again and again, with which pause, and what the error says.
ENDLESS: dict[str, tuple[bytes, bytes, float, str]] = {
    "a body": (OPEN_BODY, BLANKS, 0.0, "larger than 1 MiB"),
    "chunks": (CHUNKED, b"10000\r\n" + BLANKS + b"\r\n", 0.0, "larger than 1 MiB"),
    "a size of a chunk": (CHUNKED + b"1;", BLANKS, 0.0, "larger than 1 MiB|chunk"),
    "interim heads": (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        0.0,
        "larger than|longer than",
    ),
    "a dripping body": (OPEN_BODY, b" ", 0.02, "longer than"),
    "dripping chunks": (CHUNKED, b"1\r\n \r\n", 0.02, "longer than"),
    "a dripping head": (HEAD + b"X: ", b"y", 0.02, "longer than"),
    "dripping heads": (HEAD, b"X: y\r\n", 0.02, "longer than"),
    "nothing": (b"", b"", 0.02, "longer than"),
}


@contextmanager
def peer(case: str) -> Iterator[tuple[str, list[int], str]]:
    start, again, pause_s, message = ENDLESS[case]
    with endless_peer(start, again, pause_s=pause_s) as (address, sent):
        yield address, sent, message


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwiken.otel.http.jaeger_api.JAEGER", SMALL)
    monkeypatch.setattr("kwiken.otel.histograms.prometheus_api.PROMETHEUS", SMALL)


@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize(
    "ask",
    [
        lambda address: fit_profile([f"jaeger://{address}/front"]),
        lambda address: fit_histograms(f"prometheus://{address}"),
    ],
    ids=["jaeger", "prometheus"],
)
def test_a_download_ends_whatever_the_server_sends(ask: Callable[[str], object], case: str) -> None:
    with peer(case) as (address, sent, message):
        with pytest.raises(InputError, match=message):
            ask(address)
        assert max(sent) < 32 << 20


def sent_spans(address: str) -> tuple[int, int]:
    """Spans that a collector took, and spans that failed."""
    collector = Collector(f"http://{address}", {})
    collector.send(SpanData(1, 2, None, "x", 1, T0, T0 + MS, []))
    collector.close()
    return collector.exported, collector.failed + collector.dropped


def pushed_metrics(address: str) -> tuple[int, int]:
    """Pushes that a collector took, and pushes that failed."""
    push = MetricPush(f"http://{address}", {}, started_ns=T0)
    taken = push.push([], T0 + MS)
    push.close()
    return int(taken), int(not taken)


@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize("send", [sent_spans, pushed_metrics])
def test_an_export_ends_whatever_the_collector_answers(
    send: Callable[[str], tuple[int, int]], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("http.exporter_session", "write.collector", "metrics.otlp"):
        monkeypatch.setattr(f"kwiken.otel.{module}.COLLECTOR", SMALL)
    with peer(case) as (address, sent, _):
        assert send(address) == (0, 1)
        assert max(sent) < 32 << 20


def test_an_answer_is_not_unpacked_and_a_second_export_reuses_the_connection() -> None:
    bomb = gzip.compress(bytes(200 << 20))
    with (
        http_server(Told(bomb, headers={"Content-Encoding": "gzip"})) as server,
        collector_session() as session,
    ):
        for _ in range(2):
            answer = session.post(server.url, data=b"x", timeout=5.0)
            assert answer.content == bomb
    assert [asked.headers["Accept-Encoding"] for asked in server.asked] == ["identity"] * 2


def test_a_slow_answer_within_its_rate_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte prolongs the wait: a large answer may take longer than the wait for the first byte."""
    monkeypatch.setattr(bounded_answers, "MIN_RATE_BYTES_PER_S", 10.0)
    monkeypatch.setattr("kwiken.otel.http.jaeger_api.JAEGER", Bounds(0.2, 1.0, 1 << 20))
    with (
        endless_peer(HEAD + b"\r\n", b"    ", pause_s=0.1) as (address, sent),
        pytest.raises(InputError, match="longer than 1 s"),
    ):
        fit_profile([f"jaeger://{address}/front"])
    assert sent[0] > 20
