"""Twenty further public reports of people who read traces, searched out afresh; right values stood first."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.fit.fit import fit_profile, list_kinds
from kwiken.tail.diagnosis.explanation import explain
from tests.support.otel.field import Parts, Reports, Trace, filed, median_parts, page, requests
from tests.support.otel.span_trees import Span

REPORTS: Final = Reports()
MISSING: Final = 0xFFFF  # id of a span that nobody exports
CALLED: Final[Parts] = {"web": 4.0, "inv": 9.4, ("web", "inv"): 0.6}  # of a call from 2 to 12 ms of 14


def called(trace: Trace, top: Span, start: float = 2, end: float = 12) -> None:
    """Add a call of the service `inv`, with 0.3 ms on the way there and back."""
    client = trace.span(top, "web", "GET", start, end, "client")
    trace.span(client, "inv", "GET /inv", start + 0.3, end - 0.3, "server")


def queried(trace: Trace, top: Span, start: float, end: float, name: str, **stated: str) -> Span:
    return trace.span(top, "web", name, start, end, "client", **stated)


@REPORTS.case("opentelemetry-dotnet#5009: the span above the query is not exported", {"web": 4, "mssql": 10})
def lost_parent(trace: Trace) -> None:
    top = page(trace, 14)
    queried(trace, top, 2, 12, "shop", db__system="mssql", db__statement="SELECT a FROM t").parent = MISSING


@REPORTS.case("opentelemetry-dotnet-contrib#1764: a mapper's and a driver's span", {"web": 4, "sql-1": 10})
def mapper_and_driver(trace: Trace) -> None:
    stated = {"db__system": "mssql", "server__address": "sql-1", "db__statement": "SELECT a FROM t"}
    outer = queried(trace, page(trace, 14), 2, 12, "shop", **stated)
    queried(trace, outer, 2.1, 11.9, "SELECT shop", **stated)


@REPORTS.case("opentelemetry-python-contrib#505: spans of receiving and sending", CALLED)
def received_and_sent(trace: Trace) -> None:
    top = page(trace, 14)
    trace.span(top, "web", "GET /page http receive", 0.1, 0.2)
    called(trace, top)
    trace.span(top, "web", "GET /page http send", 12.5, 12.6)
    trace.span(top, "web", "GET /page http send", 13, 13.9)


@REPORTS.case(
    "vercel/next.js#91281: a server's span for the middleware and one for the page",
    {"web": 6, "inv": 9.4, ("web", "inv"): 0.6},
)
def middleware(trace: Trace) -> None:
    top = page(trace, 16)
    trace.span(top, "web", "middleware GET", 0.5, 3, "server")
    inner = trace.span(top, "web", "GET /page", 3.2, 15.5, "server")
    called(trace, inner, 4, 14)


@REPORTS.case(
    "dapr/dapr#10462: two clients' spans, then the sidecars'", {"web": 4, "inv": 12, ("web", "inv"): 4}
)
def sidecars(trace: Trace) -> None:
    top = page(trace, 20)
    rpc = trace.span(top, "web", "inv.Inv/Get", 2, 18, "client", rpc__system="grpc")
    http = trace.span(rpc, "web", "POST", 2.1, 17.9, "client")
    out = trace.span(http, "web", "CallLocal/inv/get", 3, 17, "client")
    into = trace.span(out, "inv", "CallLocal/inv/get", 4, 16, "server")
    trace.span(into, "inv", "GET /inv", 5, 15, "server")


@REPORTS.case("dapr/dapr#2588: the callee's span stands beside the call", CALLED)
def beside(trace: Trace) -> None:
    top = page(trace, 14)
    trace.span(top, "web", "CallLocal/inv/get", 2, 12, "client")
    trace.span(top, "inv", "GET /inv", 2.3, 11.7, "server")


@REPORTS.case("DataDog/dd-trace-js#892: a cursor asks again for each batch", {"web": 10, "mongodb": 33})
def cursor(trace: Trace) -> None:
    top, at = page(trace, 43), 5.0
    queried(trace, top, 2, at, "find", db__system="mongodb", db__operation="find")
    for _ in range(30):
        queried(trace, top, at + 0.2, at + 1.2, "getMore", db__system="mongodb", db__operation="getMore")
        at += 1.2


@REPORTS.case(
    "p6spy#510: the span of a connection holds another service's call",
    {"web": 8, "orders-db": 2, "inv": 29.4, ("web", "inv"): 0.6},
)
def held_connection(trace: Trace) -> None:
    top = page(trace, 40)
    held = queried(trace, top, 2, 38, "jdbc:/orders-db/connection", peer__service="orders-db")
    queried(trace, held, 3, 5, "jdbc:/orders-db/query", peer__service="orders-db")
    called(trace, held, 6, 36)


@REPORTS.case(
    "opentelemetry-java-instrumentation#8482: rows are read after the query's span", {"web": 13, "oracle": 1}
)
def rows_afterwards(trace: Trace) -> None:
    queried(trace, page(trace, 14), 2, 3, "call p", db__system="oracle", db__statement="SELECT a FROM t")


@REPORTS.case("istio/istio#23599: the sidecar of the callee says that it is a client", CALLED)
def client_inbound(trace: Trace) -> None:
    client = trace.span(page(trace, 14), "web", "GET", 2, 12, "client")
    inbound = trace.span(client, "inv", "inv.default.svc.cluster.local:8080/*", 2.3, 11.7, "client")
    trace.span(inbound, "inv", "GET /inv", 2.5, 11.5, "server")


@REPORTS.case(
    "opentelemetry-js#604: a browser asks whether it may ask", {"spa": 0, "web": 11, ("spa", "web"): 9}
)
def preflight(trace: Trace) -> None:
    client = trace.span(None, "spa", "HTTP GET", 0, 20, "client", http__path="/page")
    trace.span(client, "spa", "CORS Preflight", 0.5, 6)
    trace.span(client, "web", "GET /page", 8, 19, "server")


@REPORTS.case("DataDog/dd-trace-js#218: commands of one transaction run at once", {"web": 4, "redis": 5})
def transaction(trace: Trace) -> None:
    top = page(trace, 9)
    for name in ("MULTI", "GETSET", "EXPIRE", "EXEC"):
        queried(trace, top, 2, 7, name, db__system="redis", db__operation=name)


@REPORTS.case(
    "jaegertracing/jaeger#9148: a call begins when the one before ends",
    {"web": 4, "a": 4.4, "b": 4.4, ("web", "a"): 0.6, ("web", "b"): 0.6},
)
def back_to_back(trace: Trace) -> None:
    top = page(trace, 14)
    for service, at in (("a", 2.0), ("b", 7.0)):
        client = trace.span(top, "web", "GET", at, at + 5, "client")
        trace.span(client, service, "GET /x", at + 0.3, at + 4.7, "server")


@REPORTS.case("elastic/kibana#154999: four queries at once count once", {"web": 4, "elasticsearch": 10})
def queries_at_once(trace: Trace) -> None:
    top = page(trace, 14)
    for start, end in ((2, 12), (2.1, 9), (2.2, 11), (2, 8)):
        queried(trace, top, start, end, "search", db__system="elasticsearch", db__operation="search")


@REPORTS.case("opentelemetry-cpp-contrib#459: the proxy's span is shorter than the server's", {"app": 10})
def short_proxy(trace: Trace) -> None:
    top = trace.span(None, "nginx", "GET /page", 0, 10, "server")
    trace.span(top, "app", "GET /page", -0.5, 10.5, "server")


@REPORTS.case("opencensus-java#1896: retries leave no span at the client's side", {"web": 4, "inv": 10})
def no_client(trace: Trace) -> None:
    trace.span(page(trace, 14), "inv", "inv.Inv/Get", 2, 12, "server")


@REPORTS.case("getsentry/sentry-javascript#19187: a second root that is empty", CALLED)
def empty_root(trace: Trace) -> None:
    called(trace, page(trace, 14))
    trace.span(None, "web", "GET /page", 0.05, 13.9, "server")


@REPORTS.case(
    "Nestjs-OpenTelemetry#68: spans of asynchronous functions end at once",
    {"web": 2, "inv": 11.4, ("web", "inv"): 0.6},
)
def ended_at_once(trace: Trace) -> None:
    controller = trace.span(page(trace, 14), "web", "controller", 0.5, 0.7)
    provider = trace.span(controller, "web", "provider", 0.6, 0.8)
    called(trace, provider, 1, 13)


@REPORTS.case("opentelemetry-js#3327: a span ends before it starts", CALLED)
def negative(trace: Trace) -> None:
    top = page(trace, 14)
    called(trace, top)
    if trace.number % 10 == 0:
        trace.span(top, "web", "parse", 13, 12.5)


@REPORTS.case(
    "grafana/tempo#3010: two hosts with databases of one name",
    {"web": 6, "orders-db": 5, "users-db": 3},
)
def two_hosts(trace: Trace) -> None:
    top = page(trace, 14)
    for host, start, end in (("orders-db", 2, 7), ("users-db", 8, 11)):
        stated = {"db__system": "postgresql", "db__name": "app", "server__address": host}
        queried(trace, top, start, end, "SELECT t", db__statement="SELECT a FROM t", **stated)


@pytest.mark.parametrize("form", ["otlp", "jaeger"])
@pytest.mark.parametrize("report", REPORTS.cases)
def test_each_part_of_a_further_report_has_its_time(report: str, form: str, tmp_path: Path) -> None:
    make, wanted = REPORTS.cases[report]
    profile = fit_profile([filed(tmp_path, requests(make, 40), form)])
    assert profile.requests == 40
    assert median_parts(profile) == {part: time for part, time in wanted.items() if time > 0}


def test_java_instrumentation_3529_batches_of_a_listener_are_a_kind_of_their_own(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        if trace.number % 10 == 0:
            batch = trace.span(None, "accounting", "orders process", 0, 50, "consumer")
            trace.call(batch, "GET", "rows", "GET /rows", 10, 40)
            return
        top = page(trace, 14)
        called(trace, top, 2, 9)
        trace.span(top, "web", "orders publish", 10, 12, "producer")

    kinds = list_kinds([filed(tmp_path, requests(make, 100), "otlp")]).kinds
    assert {kind.label: kind.requests for kind in kinds} == {
        "web:GET /page": 90,
        "accounting:orders process": 10,
    }


def test_jaeger_ui_2371_a_branch_is_not_blocked_by_its_neighbour(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        third = trace.rng.uniform(250, 350) + (400 if trace.rng.random() < 0.04 else 0)
        top = page(trace, 200 + third + 2)
        for service, start, end in (
            ("foo1", 1, 101),
            ("foo2", 1, trace.rng.uniform(100, 300)),
            ("foo3", 201, 201 + third),
        ):
            trace.call(top, "GET", service, "GET /x", start, end)

    profile = fit_profile([filed(tmp_path, requests(make, 400), "otlp")])
    after = {stage.match.service: stage.after for stage in profile.stages[1:]}
    assert after["foo3"] == after["foo1"] + ("foo1:x",) or after["foo3"] == ("foo1:x",)
    first = explain(profile).slow[-1].first
    assert first is not None
    assert (first.name, round(first.share, 1)) == ("foo3", 1.0)


def test_temporal_sdk_java_2801_a_workflow_that_never_ends_names_the_roots_to_give(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        for name, start, end in (("RunActivity:Charge", 2, 10), ("RunActivity:Ship", 12, 30)):
            trace.span(None, "worker", name, start, end).parent = MISSING

    with pytest.raises(InputError, match=r"--root 'worker:RunActivity:Charge' \(20\)"):
        fit_profile([filed(tmp_path, requests(make, 20), "otlp")])
