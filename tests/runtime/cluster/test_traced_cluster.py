"""Sampled traces and structured logs of a real cluster."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp

from kwiken.otel.fit.fit import fit_profile
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.gateway.observation.replica_watch import POLL_S
from kwiken.runtime.process.log_limits import BURST
from tests.support.runtime.server_processes import address_of, ask as post, running

TARGET = "services.hello:hello"
FIRST = 200  # requests that a gateway keeps before it knows what is slow
REQUESTS = FIRST + 300


def spans_in(folder: Path) -> list[dict[str, Any]]:
    """Spans of all processes, each with its attributes as `kw`."""
    found = []
    for path in sorted(folder.iterdir()):
        for line in path.read_text(encoding="utf-8").splitlines():
            for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                values = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
                found.append({**span, "kw": values})
    return found


async def ask(session: aiohttp.ClientSession, url: str, traceparent: str | None = None) -> int:
    headers = {"traceparent": traceparent} if traceparent is not None else {}
    async with session.post(f"{url}/v1/request", json={"name": "ada"}, headers=headers) as answer:
        await answer.read()
        return answer.status


async def test_gateway_and_replicas_keep_the_same_requests(tmp_path: Path) -> None:
    asked = f"00-{'ab' * 16}-{'cd' * 8}-01"
    settings = ClusterSettings(traces=str(tmp_path / "t"), trace_share=0.2, grace_s=3.0)
    async with Cluster(TARGET, settings) as cluster, aiohttp.ClientSession() as session:
        for _ in range(REQUESTS):
            assert await ask(session, cluster.gateway_url) == 200
        assert await ask(session, cluster.gateway_url, asked) == 200
        counts = (await cluster.status())["runtime"]["traces"]
    spans = spans_in(tmp_path / "t")
    roots = {span["traceId"]: span for span in spans if span["name"] == "request"}
    reasons = [root["kw"]["kw.sample.reason"] for root in roots.values()]
    assert len(roots) == sum(counts["kept"].values()) == REQUESTS + 1 - counts["dropped"]
    assert reasons.count("first") == FIRST
    assert 20 < reasons.count("drawn") < 110
    assert {root["kw"]["kw.sample.share"] for root in roots.values()} == {1, 0.2}
    caller = roots["ab" * 16]
    assert (caller["kw"]["kw.sample.reason"], caller["parentSpanId"]) == ("asked", "cd" * 8)
    gateway_at = cluster.gateway_url.rpartition(":")[2]
    assert {
        key: caller["kw"][key]
        for key in ("http.request.method", "http.route", "http.response.status_code", "server.port")
    } == {
        "http.request.method": "POST",
        "http.route": "/v1/request",
        "http.response.status_code": "200",
        "server.port": gateway_at,
    }
    # A replica records no call of a request that is dropped, and every call of one that was kept from the start.
    served = [span for span in spans if span["kind"] == 2 and span["name"] != "request"]
    assert {span["traceId"] for span in served} <= set(roots)
    ids = {span["spanId"] for span in spans}
    assert all(span["parentSpanId"] in ids for span in served)
    for trace, root in roots.items():
        if root["kw"]["kw.sample.reason"] in {"drawn", "asked"}:
            attempts = [s for s in spans if s["traceId"] == trace and s["kind"] == 3]
            assert len(attempts) == sum(s["traceId"] == trace for s in served)
            for attempt in attempts:
                assert [event["name"] for event in attempt["events"]] == ["sent", "first byte"]
                assert attempt["kw"]["server.address"] == "127.0.0.1"
                assert attempt["kw"]["http.response.status_code"] == "200"
    assert {span["kw"]["http.route"] for span in served} == {"/call"}
    profile = fit_profile([tmp_path / "t"])
    assert abs(len(profile.latency_ms) - REQUESTS) < 0.4 * REQUESTS


def test_the_log_says_when_a_replica_dies_and_when_requests_are_turned_away(tmp_path: Path) -> None:
    trace = "12" * 16
    with contextlib.ExitStack() as stack:
        stages = {
            name: stack.enter_context(running("stage", TARGET, "--stage", name, "--port", "0"))
            for name in ("tidy", "greet", "join")
        }
        places = {name: address_of(process).removeprefix("http://") for name, process in stages.items()}
        wanted = [word for name, place in places.items() for word in ("--replica", f"{name}={place}")]
        gateway = stack.enter_context(
            running(
                *("serve", TARGET, "--port", "0", "--log-format", "json"),
                *("--traces", str(tmp_path / "t"), "--trace", "off", *wanted),
            )
        )
        url = address_of(gateway)
        assert post(url, "/v1/request", {"name": "ada"})[0] == 200
        stages["tidy"].kill()
        stages["tidy"].wait()
        for _ in range(20):  # both the calls that find the replica dead and those that know it
            status, _ = post(url, "/v1/request", {"name": "ada"}, traceparent=f"00-{trace}-{'34' * 8}-00")
            assert status == 503
        time.sleep(2 * POLL_S)
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(20) == 0
        assert gateway.stderr is not None
        log = gateway.stderr.read()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    by_event = {line["event"]: line for line in lines}
    assert {"request_turned_away", "replica_out", "stage_out"} <= set(by_event)
    refused, out = by_event["request_turned_away"], by_event["replica_out"]
    assert (refused["process"], refused["level"], refused["trace_id"]) == ("gateway", "warning", trace)
    assert re.match(r"stage 'tidy': replica \S+ is left out: ", out["message"])
    assert by_event["stage_out"]["level"] == "error"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert sum(line["event"] == "request_turned_away" for line in lines) <= BURST + 1
    assert not (tmp_path / "t").exists(), "--trace off writes no spans"
