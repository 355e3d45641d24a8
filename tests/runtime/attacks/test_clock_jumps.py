"""Processes whose wall clock jumps by hours, to and fro: requests do not notice, and no span has an odd length.

gRPC turns deadlines into times of the wall clock and back. A call that a jump falls into at that moment ends
early, so a few calls over gRPC may.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import family
from kwiken.otel.metrics.otlp import MetricPush
from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.runtime.door_processes import DoorProcess, gateway_process, replica_process
from tests.support.runtime.server_processes import ROOT, ask
from tests.support.runtime.waiting import soon
from tests.support.services.http import service

CLOCK = ROOT / "tests" / "support" / "faults" / "jumping_clock.c"
REQUESTS = 100
EARLY = 5  # of them, calls over gRPC that may end early
SLEEP_MS = 15  # of the middle stage, so that most calls see a jump


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DoorProcess]:
    """A gateway and its replicas, all with a clock that jumps."""
    library = tmp_path / "jumping_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, CLOCK], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    traces = ("--traces", str(tmp_path / "traces"))
    with contextlib.ExitStack() as stack:
        options: list[str] = []
        for stage in service.stages:
            replica = stack.enter_context(replica_process(stage, *traces))
            options += ["--replica", f"{stage}=127.0.0.1:{replica.port}"]
        found = stack.enter_context(gateway_process(*options, *traces, "--trace", "all", local=False))
        monkeypatch.delenv("LD_PRELOAD")
        yield found


def spans_in(folder: Path) -> list[dict[str, Any]]:
    """Spans in the files that are written so far, without lines that are written just now."""
    lines = [line for path in folder.iterdir() for line in path.read_text().splitlines(keepends=True)]
    return [
        span
        for line in lines
        if line.endswith("\n")
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler and the loader of Linux"
)
def test_requests_and_spans_of_processes_whose_clock_jumps(gateway: DoorProcess, tmp_path: Path) -> None:
    soon(gateway.serves_http)
    url, body = f"http://127.0.0.1:{gateway.port}", {"text": "a", "sleep_ms": SLEEP_MS}
    ended: Counter[object] = Counter()
    began = time.monotonic()
    with grpc.insecure_channel(f"127.0.0.1:{gateway.grpc_port}") as channel:
        for _ in range(REQUESTS // 2):
            ended[ask(url, "/v1/request", body)[0]] += 1
            try:
                ask_of(channel)(Request(json=json.dumps(body)), timeout=10.0)
            except grpc.RpcError as error:
                ended[error.code()] += 1
            else:
                ended[200] += 1
    most_ns = (time.monotonic() - began) * 1e9
    assert ended[200] >= REQUESTS - EARLY, ended

    def requests() -> int:
        return sum(span["name"] == "request" for span in spans_in(tmp_path / "traces"))

    soon(lambda: requests() >= ended[200])
    spans = spans_in(tmp_path / "traces")
    lengths = [int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) for span in spans]
    assert len(spans) > 3 * ended[200]
    assert min(lengths) >= 0
    assert max(lengths) <= most_ns
    assert ask(url, "/metrics")[0] == 200


def test_counters_do_not_end_before_they_began(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    push = MetricPush("http://127.0.0.1:9", {}, started_ns=1000)
    monkeypatch.setattr(OTLPMetricExporter, "export", lambda exporter, data, **_: sent.append(data))
    push.push([family(catalog.REQUESTS_CONTROL, [((), 1)])], 10)
    (point,) = sent[0].resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1000, 1000)
    push.close()
