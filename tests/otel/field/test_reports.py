"""Small inputs after public reports of people who read traces; each case names its report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from kwiken.otel.fit.fit import fit_profile, list_kinds
from tests.support.otel.field import Reports, Trace, filed, median_parts, page, requests

REPORTS: Final = Reports()
case, root = REPORTS.case, page


@case(
    "opentelemetry-java-instrumentation#11401: sibling spans of one call",
    {"web": 4, "inv": 9.4, ("web", "inv"): 0.6},
)
def wrapped_client(trace: Trace) -> None:
    top = root(trace, 14)
    trace.span(top, "web", "GET", 2, 12, "client", server__address="inv")
    inner = trace.span(top, "web", "GET", 2.1, 11.9, "client", server__address="inv")
    trace.span(inner, "inv", "GET /inv", 2.3, 11.7, "server")


@case("aws-otel-js-instrumentation#426: a nested POST that names nothing", {"web": 4, "firehose": 10})
def nested_post(trace: Trace) -> None:
    top = root(trace, 14)
    sdk = trace.span(top, "web", "Firehose.DescribeStream", 2, 12, "client", server__address="firehose")
    trace.span(sdk, "web", "POST", 2.1, 11.9, "client")


@case(
    "opentracing-contrib/go-stdlib#16: a redirect below one client's span",
    {"web": 4, "inv": 8, ("web", "inv"): 2},
)
def redirect(trace: Trace) -> None:
    top = root(trace, 14)
    client = trace.span(top, "web", "HTTP Client", 2, 12, "client")
    for at in (2.5, 7.0):
        attempt = trace.span(client, "web", "HTTP GET", at, at + 4.4, "client")
        trace.span(attempt, "inv", "GET /inv", at + 0.2, at + 4.2, "server")


@case("opentelemetry-specification#2743: asked again after 401", {"web": 5, "inv": 8, ("web", "inv"): 0.8})
def unauthorised(trace: Trace) -> None:
    top = root(trace, 13.8)
    for at, status in ((2.0, 401), (7.4, 200)):
        client = trace.span(top, "web", "GET", at, at + 4.4, "client", http__response__status_code=status)
        trace.span(client, "inv", "GET /inv", at + 0.2, at + 4.2, "server")


@case("dd-trace-rb#1259: waiting for a connection of the pool", {"web": 34, "postgresql": 5})
def pool(trace: Trace) -> None:
    top = root(trace, 39)
    trace.span(top, "web", "pool.acquire", 2, 32)
    trace.span(
        top, "web", "SELECT t", 32, 37, "client", db__system="postgresql", db__statement="SELECT a FROM t"
    )


@case(
    "opentelemetry-ebpf-instrumentation#2992: streams end at the headers",
    {"web": 5, "feed": 80, ("web", "feed"): 0.3},
)
def stream(trace: Trace) -> None:
    top = root(trace, 85.3)
    client = trace.span(top, "web", "feed.Feed/Watch", 2, 4, "client", rpc__system="grpc")
    trace.span(client, "feed", "feed.Feed/Watch", 2.3, 82.3, "server", rpc__system="grpc")


@case(
    "dotnet/aspnetcore#48915: the server's span is the short one", {"web": 4, "feed": 2, ("web", "feed"): 58}
)
def short_server(trace: Trace) -> None:
    top = root(trace, 64)
    client = trace.span(top, "web", "GET", 2, 62, "client")
    trace.span(client, "feed", "GET /feed", 2.3, 4.3, "server")


@case(
    "opentelemetry-java-instrumentation#4088: the next call below the first",
    {"web": 4, "a": 7.6, "b": 9.6, ("web", "a"): 0.4, ("web", "b"): 0.4},
)
def next_below(trace: Trace) -> None:
    top = root(trace, 22)
    first = trace.span(top, "web", "a.A/Get", 2, 20, "client")
    trace.span(first, "a", "a.A/Get", 2.2, 9.8, "server")
    second = trace.span(first, "web", "b.B/Get", 10, 20, "client")
    trace.span(second, "b", "b.B/Get", 10.2, 19.8, "server")


@case(
    "opentelemetry-python-contrib#4251: tasks after the answer", {"web": 4, "inv": 9.6, ("web", "inv"): 0.4}
)
def background(trace: Trace) -> None:
    top = root(trace, 14)
    trace.call(top, "GET", "inv", "GET /inv", 2, 12)[1].start += 100_000
    trace.spans[-1].end -= 100_000
    late = trace.span(top, "web", "POST", 20, 90, "client")
    trace.span(late, "mail", "POST /mail", 21, 89, "server")


@case(
    "grafana/tempo#1418: a gateway whose span is a client's",
    {"web": 4, "istio-ingressgateway": 1, "inv": 8, ("web", "istio-ingressgateway"): 1},
)
def client_gateway(trace: Trace) -> None:
    top = root(trace, 14)
    client = trace.span(top, "web", "GET", 2, 12, "client")
    gateway = trace.span(client, "istio-ingressgateway", "inv:8080/*", 2.5, 11.5, "client")
    trace.span(gateway, "inv", "GET /inv", 3, 11, "server")


@case("nginx-otel#17: a proxy with one span", {"web": 4, "nginx": 1, "inv": 8, ("web", "nginx"): 1})
def one_span_proxy(trace: Trace) -> None:
    top = root(trace, 14)
    client = trace.span(top, "web", "GET", 2, 12, "client")
    proxy = trace.span(client, "nginx", "location /", 2.5, 11.5, "server")
    trace.span(proxy, "inv", "GET /inv", 3, 11, "server")


@case("elastic/kibana#24827: a service half an hour ahead", {"web": 4, "inv": 9.6, ("web", "inv"): 0.4})
def half_an_hour(trace: Trace) -> None:
    top = root(trace, 14)
    client = trace.span(top, "web", "GET", 2, 12, "client")
    trace.span(client, "inv", "GET /inv", 1_800_002.2, 1_800_011.8, "server")


@case(
    "openzipkin/zipkin#2439: a browser's client span begins the trace",
    {"spa": 0, "web": 13.6, ("spa", "web"): 0.4},
)
def browser(trace: Trace) -> None:
    client = trace.span(None, "spa", "get", 0, 14, "client", http__path="/page")
    trace.span(client, "web", "GET /page", 0.2, 13.8, "server")


@case("jaegertracing/jaeger-ui#637: time between the services", {"web": 4, "inv": 2, ("web", "inv"): 38})
def between(trace: Trace) -> None:
    top = root(trace, 44)
    client = trace.span(top, "web", "GET", 2, 42, "client")
    trace.span(client, "inv", "GET /inv", 30, 32, "server")


@case(
    "conjure-java-runtime#1073: a short span that starts the call",
    {"web": 4.1, "inv": 9.5, ("web", "inv"): 0.4},
)
def enqueue(trace: Trace) -> None:
    top = root(trace, 14)
    begun = trace.span(top, "web", "OkHttp: enqueue", 2, 2.2)
    client = trace.span(begun, "web", "GET", 2.1, 12, "client")
    trace.span(client, "inv", "GET /inv", 2.3, 11.8, "server")


@case(
    "opentelemetry-java-instrumentation#440: transport longer than its RPC",
    {"web": 4, "inv": 9.4, ("web", "inv"): 0.6},
)
def short_rpc(trace: Trace) -> None:
    top = root(trace, 14)
    rpc = trace.span(top, "web", "inv.Inv/Get", 2, 2.2, "client", rpc__system="grpc")
    transport = trace.span(rpc, "web", "POST", 2.1, 12, "client")
    trace.span(transport, "inv", "inv.Inv/Get", 2.4, 11.8, "server")


@case(
    "open-telemetry/opentelemetry-collector-contrib#29148: a Redis known by its peer",
    {"web": 4, "cache-1": 10},
)
def redis_peer(trace: Trace) -> None:
    top = root(trace, 14)
    trace.span(top, "web", "HGETALL", 2, 12, "client", db__system="redis", net__sock__peer__name="cache-1")


@case(
    "envoyproxy/envoy#21583: the child ends later than its parent",
    {"web": 4, "inv": 9.7, ("web", "inv"): 0.3},
)
def later_child(trace: Trace) -> None:
    top = root(trace, 14)
    client = trace.span(top, "web", "inv.shop:8080/*", 2, 12, "client")
    trace.span(client, "inv", "GET /inv", 2.3, 12.4, "server")


@case(
    "googleapis/google-cloud-rust#5372: only the opening of a stream has a span",
    {"web": 5, "db": 60, ("web", "db"): 0.3},
)
def opening(trace: Trace) -> None:
    top = root(trace, 65.3)
    wrapper = trace.span(top, "web", "open stream", 1.9, 3.1)
    client = trace.span(wrapper, "web", "db.Db/Stream", 2, 3, "client", rpc__system="grpc")
    trace.span(client, "db", "db.Db/Stream", 2.3, 62.3, "server", rpc__system="grpc")
    trace.span(top, "web", "receive messages", 3.2, 62)


@pytest.mark.parametrize("form", ["otlp", "jaeger"])
@pytest.mark.parametrize("report", REPORTS.cases)
def test_each_part_of_a_report_has_its_time(report: str, form: str, tmp_path: Path) -> None:
    make, wanted = REPORTS.cases[report]
    profile = fit_profile([filed(tmp_path, requests(make, 40), form)])
    assert median_parts(profile) == {part: time for part, time in wanted.items() if time > 0}


def test_wavehouse_421_streams_behind_one_wildcard_are_kinds_of_their_own(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        stream = trace.number % 4 == 0
        path = "/v1/stream" if stream else "/v1/query"
        top = root(trace, 900 if stream else 10, "/v1/*", http__route="/v1/*", url__path=path)
        trace.call(top, "GET", "inv", "GET /inv", 1, 8)

    kinds = list_kinds([filed(tmp_path, requests(make, 80), "otlp")]).kinds
    assert {kind.label.rsplit(" ", 1)[-1].removeprefix("web:"): kind.requests for kind in kinds} == {
        "/v1/query": 60,
        "/v1/stream": 20,
    }
