"""Profiles from what meshes, span metrics and HTTP instrumentation measure, each under its own labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.otel.histograms.fit import HistogramFit, fit_histograms
from tests.support.otel.prometheus_server import Vector, prometheus
from tests.support.project.commands import run

Latencies = np.ndarray[Any, Any]
ROWS = 4000
BOUNDS_MS = 2.0 ** np.arange(-2, 14, 0.25)


def latencies() -> dict[str, Latencies]:
    rng = np.random.default_rng(3)
    pay = 10.0 * np.exp(0.3 * rng.standard_normal(ROWS))
    pay[: ROWS // 25] *= 10
    stock = 4.0 * np.exp(0.2 * rng.standard_normal(ROWS))
    return {"pay": pay, "stock": stock, "front": pay + stock + 2.0}


def classic(metric: str, values_ms: Latencies, unit_ms: float, labels: dict[str, str]) -> tuple[str, Vector]:
    bounds = [(f"{bound / unit_ms:.10g}", (values_ms <= bound).sum()) for bound in BOUNDS_MS]
    return f"{metric}_bucket", [
        {"metric": labels | {"le": le}, "value": [0.0, str(int(count))]}
        for le, count in [*bounds, ("+Inf", len(values_ms))]
    ]


def native(metric: str, values_ms: Latencies, unit_ms: float, labels: dict[str, str]) -> tuple[str, Vector]:
    index = np.floor(np.log2(values_ms / unit_ms) * 8).astype(int)
    buckets = [
        [0, str(2 ** (i / 8)), str(2 ** ((i + 1) / 8)), str(int((index == i).sum()))]
        for i in np.unique(index).tolist()
    ]
    found = {"count": str(len(values_ms)), "sum": "1", "buckets": buckets}
    return metric, [{"metric": labels, "histogram": [0.0, found]}]


def graph(client: str, server: str) -> dict[str, str]:
    return {"client": client, "server": server}


def istio(reporter: str, source: str, destination: str, code: str = "200") -> dict[str, str]:
    return {
        "reporter": reporter,
        "source_workload": source,
        "source_canonical_service": source,
        "destination_workload": destination,
        "destination_service_name": destination,
        "destination_canonical_service": destination,
        "response_code": code,
    }


def linkerd(direction: str, deployment: str, to: str = "") -> dict[str, str]:
    return {"direction": direction, "deployment": deployment, "classification": "success"} | (
        {"dst_deployment": to} if to else {}
    )


def span(key: str, service: str, kind: str, name: str) -> dict[str, str]:
    return {
        key: service,
        "span_kind": f"SPAN_KIND_{kind}",
        "span_name": name,
        "status_code": "STATUS_CODE_UNSET",
    }


def http(method: str, to: str = "") -> dict[str, str]:
    return {"job": "front", "http_request_method": method, "http_response_status_code": "200"} | (
        {"server_address": to} if to else {}
    )


# Metric and unit of requests and of calls, labels of requests to front, and of its calls by callee.
Case = tuple[str, str, float, dict[str, str], dict[str, dict[str, str]]]
CASES: dict[str, Case] = {
    "Istio": (
        "istio_request_duration_milliseconds",
        "istio_request_duration_milliseconds",
        1.0,
        istio("destination", "unknown", "front"),
        {name: istio("source", "front", name) for name in ("pay", "stock")},
    ),
    "Linkerd": (
        "response_latency_ms",
        "response_latency_ms",
        1.0,
        linkerd("inbound", "front"),
        {name: linkerd("outbound", "front", name) for name in ("pay", "stock")},
    ),
    "a service graph": (
        "traces_service_graph_request_server_seconds",
        "traces_service_graph_request_client_seconds",
        1000.0,
        graph("user", "front"),
        {name: graph("front", name) for name in ("pay", "stock")},
    ),
    "span metrics of Tempo": (
        "traces_spanmetrics_latency",
        "traces_spanmetrics_latency",
        1000.0,
        span("service", "front", "SERVER", "GET /home"),
        {
            "pay": span("service", "front", "CLIENT", "pay"),
            "stock": span("service", "front", "CLIENT", "stock"),
        },
    ),
    "span metrics of the collector": (
        "traces_span_metrics_duration_milliseconds",
        "traces_span_metrics_duration_milliseconds",
        1.0,
        span("service_name", "front", "SERVER", "GET /home"),
        {
            "pay": span("service_name", "front", "CLIENT", "pay"),
            "stock": span("service_name", "front", "CLIENT", "stock"),
        },
    ),
    "span metrics of an older collector": (
        "duration_milliseconds",
        "duration_milliseconds",
        1.0,
        span("service_name", "front", "SERVER", "GET /home"),
        {
            "pay": span("service_name", "front", "CLIENT", "pay"),
            "stock": span("service_name", "front", "CLIENT", "stock"),
        },
    ),
    "HTTP": (
        "http_server_request_duration_seconds",
        "http_client_request_duration_seconds",
        1000.0,
        http("GET"),
        {"pay": http("POST", "pay"), "stock": http("GET", "stock")},
    ),
}


def answers(case: str, make: Any = classic) -> dict[str, Vector]:
    requests, calls, unit_ms, own, callees = CASES[case]
    values, found = latencies(), dict[str, Vector]()
    for metric, name, labels in [
        (requests, "front", own),
        *((calls, n, labels) for n, labels in callees.items()),
    ]:
        for key, vector in (
            make(metric, values[name], unit_ms, labels),
            (f"{metric}_count", [{"metric": labels, "value": [0.0, str(ROWS)]}]),
        ):
            found.setdefault(key, []).extend(vector)
    return found


def learned(found: dict[str, Vector], **settings: Any) -> HistogramFit:
    with prometheus(found) as (address, _):
        return fit_histograms(f"{address}?lookback=10m", **settings)


@pytest.mark.parametrize("make", [classic, native])
@pytest.mark.parametrize("case", CASES)
def test_a_service_and_its_calls_are_learned(case: str, make: Any) -> None:
    found = learned(answers(case, make), service="front")
    values = latencies()
    assert found.requests == pytest.approx(ROWS, abs=1)
    assert found.measured_ms == pytest.approx(tuple(np.percentile(values["front"], (50, 99))), rel=0.1)
    assert found.profile.latency_ms.mean() == pytest.approx(values["front"].mean(), rel=0.05)
    stages = {stage.name: stage for stage in found.profile.stages[1:]}
    assert stages.keys() == {"pay", "stock"}
    for name, stage in stages.items():
        for percent in (50, 95, 99):
            assert np.percentile(stage.calls_ms, percent) == pytest.approx(
                np.percentile(values[name], percent), rel=0.1
            )
    assert stages["stock"].after == ("pay",), "the calls' times fit into the requests' one after another"


def test_reads_are_told_by_the_method() -> None:
    found = learned(answers("HTTP"))
    assert [stage.reissuable for stage in found.profile.stages] == [False, False, True]
    assert "POST" in found.profile.stage("pay").writes
    other = learned(answers("Istio"))
    assert not any(stage.reissuable for stage in other.profile.stages)
    assert "do not say whether" in other.profile.stage("pay").writes


def test_calls_that_do_not_fit_one_after_another_run_side_by_side() -> None:
    case = answers("Linkerd")
    values = latencies()
    inbound = classic("response_latency_ms", values["pay"] + 1, 1.0, linkerd("inbound", "front"))[1]
    buckets = case["response_latency_ms_bucket"]
    buckets[:] = inbound + [each for each in buckets if each["metric"]["direction"] == "outbound"]
    found = learned(case)
    assert {stage.after for stage in found.profile.stages[1:]} == {("front:request (own time)",)}
    assert "side by side" in found.order


def test_a_service_whose_calls_nobody_measures_is_the_one_stage() -> None:
    case = answers("HTTP")
    del (
        case["http_client_request_duration_seconds_bucket"],
        case["http_client_request_duration_seconds_count"],
    )
    found = learned(case)
    (stage,) = found.profile.stages[1:]
    assert (stage.name, stage.reissuable) == ("front", True)
    assert np.percentile(stage.calls_ms, 99) == pytest.approx(
        np.percentile(latencies()["front"], 99), rel=0.1
    )
    assert found.put_together_ms == pytest.approx(found.measured_ms, rel=0.05)


def test_failed_requests_are_left_out() -> None:
    case = answers("Istio")
    failed = classic(
        "istio_request_duration_milliseconds",
        np.full(2000, 5000.0),
        1.0,
        istio("destination", "unknown", "front", "503"),
    )[1]
    case["istio_request_duration_milliseconds_bucket"] += failed
    assert learned(case).requests == ROWS


def test_several_services_are_named() -> None:
    case = answers("a service graph")
    case["traces_service_graph_request_server_seconds_bucket"] += classic(
        "x", latencies()["pay"], 1000.0, graph("front", "pay")
    )[1]
    assert learned(case).profile.service == "front", "the only one that calls others"
    with pytest.raises(InputError, match="measured no requests of 'fornt'; known: front, pay"):
        learned(case, service="fornt")
    case["traces_service_graph_request_client_seconds_bucket"] += classic(
        "x", latencies()["pay"], 1000.0, graph("pay", "bank")
    )[1]
    with pytest.raises(InputError, match="several services, name one by --service: front, pay"):
        learned(case)


def test_nothing_measured_names_what_would_be_read() -> None:
    with pytest.raises(
        InputError, match=r"no kw_stage_info.*istio_request_duration_milliseconds.*http_server_req"
    ):
        learned({})


def test_a_base_path_and_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with prometheus(answers("Istio"), base="/prom/x", token="s3cret") as (address, _):
        assert fit_histograms(f"{address}?token-file={tmp_path / 'token'}").requests == ROWS
        with pytest.raises(InputError, match="Prometheus answered 401"):
            fit_histograms(address)


def test_the_command_says_what_measured_and_what_is_not_known(tmp_path: Path) -> None:
    with prometheus(answers("Istio")) as (address, _):
        told = run("fit", address, "-o", str(tmp_path / "p.json"))
    assert told.exit_code == 0, told.stderr
    assert "measured by Istio" in told.stderr
    assert "the order of the calls is not known" in told.stderr
    assert run("plan", str(tmp_path / "p.json"), "--reissue", "0.05", "--copyable", "*").exit_code == 0
