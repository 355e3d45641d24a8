"""A real Jaeger: takes a cluster's spans, shows rescued requests without a warning, and finds them by tags."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwiken.model.profile.codec import profile_from_json
from kwiken.otel.trace.paths import critical_path
from kwiken.otel.trace.traces import read_traces
from tests.support.runtime.server_processes import free_port
from tests.support.runtime.stacks import ask, kwiken, running_cluster

REQUESTS = 60
LOADED = 40
PAUSES = 3
PAUSE_S = 0.4
WAIT_S = 60.0
RESCUED = {"kw.attempt.kind": "reissue", "kw.outcome": "won"}

# Jaeger 2: spans in memory, over OTLP; every port is the test's own.
SETTINGS = """
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry: {{metrics: {{level: none}}}}
extensions:
  jaeger_storage: {{backends: {{memory: {{memory: {{max_traces: 10000}}}}}}}}
  jaeger_query:
    storage: {{traces: memory}}
    http: {{endpoint: "127.0.0.1:{query}"}}
    grpc: {{endpoint: "127.0.0.1:{query_grpc}"}}
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{otlp}"}}}}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: memory}}
"""

pytestmark = pytest.mark.stack


class Jaeger(NamedTuple):
    """A running Jaeger.

    Attributes:
        query: host and port of its query API.
        otlp: URL that takes spans.
    """

    query: str
    otlp: str

    def get(self, path: str, **asked: str) -> Any:
        """Answer of the query API."""
        url = f"http://{self.query}/api/{path}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]

    def traces(self, **tags: str) -> list[dict[str, Any]]:
        """Traces of the test service with a span that has all these tags."""
        asked = {"service": "echo", "limit": "5000", "lookback": "1h"}
        found: list[dict[str, Any]] = self.get("traces", **asked, tags=json.dumps(tags))
        return found


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    program = os.environ.get("JAEGER") or shutil.which("jaeger")
    if program is None:
        pytest.skip("jaeger (version 2) is not installed: put it on the path, or its path into $JAEGER")
    folder = tmp_path_factory.mktemp("jaeger")
    ports = {name: free_port() for name in ("query", "query_grpc", "otlp")}
    settings = folder / "jaeger.yaml"
    settings.write_text(SETTINGS.format(**ports), encoding="utf-8")
    silent = {**os.environ, "OTEL_TRACES_SAMPLER": "always_off"}  # no spans of Jaeger's own
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, f"--config={settings}"], stdout=log, stderr=log, env=silent)
    made = Jaeger(f"127.0.0.1:{ports['query']}", f"http://127.0.0.1:{ports['otlp']}")
    try:
        _until(lambda: made.get("services") or True, lambda: (folder / "log").read_text()[-2000:])
        yield made
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def traced(jaeger: Jaeger, tmp_path_factory: pytest.TempPathFactory) -> Jaeger:
    """Jaeger with the spans of requests of which some met a stopped replica."""
    folder = tmp_path_factory.mktemp("cluster")
    state = folder / "state"
    with running_cluster(state, "--otlp", jaeger.otlp, "--trace", "all") as url:
        (cluster,) = json.loads(kwiken("status", "--json", "--state", str(state)))["clusters"]
        stopped = next(each["pid"] for each in cluster["replicas"] if each["stage"] == "middle")
        with ThreadPoolExecutor(REQUESTS // PAUSES) as callers:
            for _ in range(PAUSES):
                os.kill(stopped, signal.SIGSTOP)
                try:
                    waiting = [callers.submit(ask, url, sleep_ms=5) for _ in range(REQUESTS // PAUSES)]
                    time.sleep(PAUSE_S)
                finally:
                    os.kill(stopped, signal.SIGCONT)
                for one in waiting:
                    one.result(30)
        body = json.dumps({"text": "hi", "sleep_ms": 1})
        kwiken("load", url, "--rate", "20", "--duration", str(LOADED / 20), "--body", body)
    _until(
        lambda: len(jaeger.traces()) >= REQUESTS + LOADED // 2,
        lambda: f"{len(jaeger.traces())} traces arrived",
    )
    return jaeger


def _until(holds: Callable[[], object], told: Callable[[], str]) -> None:
    """Wait until something holds; a server that does not answer yet is waited for."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(told())


def _tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def test_no_span_has_a_warning(traced: Jaeger) -> None:
    warned = [
        (span["operationName"], span["warnings"])
        for trace in traced.traces()
        for span in trace["spans"]
        if span["warnings"]
    ]
    assert warned == []


def test_operations_tell_copies_from_calls(traced: Jaeger) -> None:
    names = {each["name"] for each in traced.get("operations", service="echo")}
    assert {"request", "first", "middle", "middle copy", "last"} <= names
    assert len(names) <= 12


def test_rescued_requests_are_found_by_their_tags(traced: Jaeger) -> None:
    rescued = traced.traces(**RESCUED)
    assert rescued
    for trace in rescued:
        attempts = [span for span in trace["spans"] if "kw.attempt.kind" in _tags(span)]
        won = [span for span in attempts if RESCUED.items() <= _tags(span).items()]
        # 1. The winning copy says at a glance what it is, and where it ran.
        assert {span["operationName"] for span in won} == {"middle copy"}
        assert {"kw.shard", "kw.replica"} <= _tags(won[0]).keys()
        # 2. The call that it overtook was cancelled, is no error, and ends before it.
        for copy in won:
            lost = [
                span
                for span in attempts
                if _tags(span)["kw.outcome"] == "cancelled"
                and _tags(span).get("kw.shard") == _tags(copy)["kw.shard"]
            ]
            assert lost
            assert all("error" not in _tags(span) for span in lost)
            end = copy["startTime"] + copy["duration"]
            assert all(span["startTime"] + span["duration"] <= end for span in lost)
            # 3. Events say where the time of both went.
            for span in (copy, *lost):
                events = {field["value"] for log in span["logs"] for field in log["fields"]}
                assert ("first byte" in events) == (span is copy), events
                assert "sent" in events


def test_critical_paths_follow_the_winner(traced: Jaeger, tmp_path: Path) -> None:
    exported = tmp_path / "rescued.json"
    exported.write_text(json.dumps({"data": traced.traces(**RESCUED)}), encoding="utf-8")
    for trace in read_traces([exported]):
        names = [trace.spans[step.span].operation for step in critical_path(trace)]
        assert "middle copy" in names, names


def test_a_running_jaeger_gives_a_profile(traced: Jaeger, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    kwiken("fit", f"jaeger://{traced.query}/echo?lookback=1h&limit=5000", "-o", str(out))
    profile = profile_from_json(out.read_bytes(), where=str(out))
    assert [stage.name for stage in profile.stages[1:]] == ["first", "middle", "last"]
    assert profile.requests >= REQUESTS + LOADED // 2
