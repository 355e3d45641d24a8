"""Histograms of requests and calls that others measure: service meshes, span metrics, HTTP instrumentation.

Each source states who called whom in labels of its own. Which calls came first, and which belong to the same
request, none of them tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import SAFE_METHODS, SpanMatch
from kwiken.model.profile.idempotence import Evidence, why_write
from kwiken.model.reads.names import http_method
from kwiken.otel.histograms.buckets import Buckets, from_classic, from_native
from kwiken.otel.histograms.prometheus_api import PrometheusQuery, Series, vector_of
from kwiken.otel.histograms.window import MeasuredWindow, StageFacts

MAX_STAGES: Final = 200  # those with the most time; the time of others is the service's own
_SHOWN: Final = 20
_NO_METHOD: Final = "the metrics do not say whether its calls read"
Labels = tuple[str, ...]  # names of a label; the first that a series has counts


@dataclass(frozen=True, slots=True)
class Source:
    """Metrics of one tool.

    Attributes:
        name: name of the tool, for messages.
        requests: histogram of a service's requests, as the service sees them.
        calls: histogram of calls, as their callers see them.
        unit_s: unit of the bounds of their buckets, seconds.
        service: labels that name the service of `requests`.
        caller: labels that name the service that made a call.
        of_requests: label and value that series of `requests` have; empty for any.
        of_calls: label and value that series of `calls` have; empty for any.
        method: labels that hold the HTTP method, or the name of an operation.
        status: labels that say whether a request failed.
    """

    name: str
    requests: str
    calls: str
    unit_s: float
    service: Labels
    caller: Labels
    callee: Labels
    of_requests: Mapping[str, str] = field(default_factory=dict)
    of_calls: Mapping[str, str] = field(default_factory=dict)
    method: Labels = ()
    status: Labels = ()


_GRAPH = (("client",), ("server",))
_SPANS = (("service_name", "service"), ("span_name",))
_HTTP = (("service_name", "exported_job", "job"), ("server_address", "net_peer_name"))
_WORKLOAD = ("canonical_service", "workload", "app")
_STATUS = ("http_response_status_code", "http_status_code")
SOURCES: Final = (
    Source(
        "Istio",
        "istio_request_duration_milliseconds",
        "istio_request_duration_milliseconds",
        unit_s=1e-3,
        service=tuple(f"destination_{each}" for each in _WORKLOAD),
        caller=tuple(f"source_{each}" for each in _WORKLOAD),
        callee=("destination_canonical_service", "destination_service_name", "destination_workload"),
        of_requests={"reporter": "destination"},
        of_calls={"reporter": "source"},
        status=("response_code",),
    ),
    Source(
        "Linkerd",
        "response_latency_ms",
        "response_latency_ms",
        unit_s=1e-3,
        service=("deployment", "statefulset", "daemonset"),
        caller=("deployment", "statefulset", "daemonset"),
        callee=("dst_deployment", "dst_statefulset", "dst_service", "authority"),
        of_requests={"direction": "inbound"},
        of_calls={"direction": "outbound"},
        status=("classification",),
    ),
    Source(
        "a service graph of Tempo or of the collector",
        "traces_service_graph_request_server_seconds",
        "traces_service_graph_request_client_seconds",
        unit_s=1.0,
        service=_GRAPH[1],
        caller=_GRAPH[0],
        callee=_GRAPH[1],
    ),
    *(
        Source(
            "span metrics",
            metric,
            metric,
            unit_s=unit_s,
            service=_SPANS[0],
            caller=_SPANS[0],
            callee=_SPANS[1],
            of_requests={"span_kind": "SPAN_KIND_SERVER"},
            of_calls={"span_kind": "SPAN_KIND_CLIENT"},
            method=("span_name",),
            status=("status_code",),
        )
        for metric, unit_s in (
            ("traces_spanmetrics_latency", 1.0),  # Tempo
            ("traces_span_metrics_duration_milliseconds", 1e-3),  # the collector's connector
            ("traces_span_metrics_duration_seconds", 1.0),
            ("traces_spanmetrics_duration_milliseconds", 1e-3),  # other names of its namespace
            ("traces_spanmetrics_duration_seconds", 1.0),
            ("duration_milliseconds", 1e-3),
            ("duration_seconds", 1.0),
        )
    ),
    *(
        Source(
            "HTTP instrumentation of OpenTelemetry",
            server,
            client,
            unit_s=unit_s,
            service=_HTTP[0],
            caller=_HTTP[0],
            callee=_HTTP[1],
            method=("http_request_method", "http_method"),
            status=_STATUS,
        )
        for server, client, unit_s in (
            ("http_server_request_duration_seconds", "http_client_request_duration_seconds", 1.0),
            ("http_server_duration_milliseconds", "http_client_duration_milliseconds", 1e-3),
        )
    ),
)


def measured_by_others(query: PrometheusQuery, wanted: str | None) -> MeasuredWindow | None:
    """Requests and calls of a service, from the first source that has any; None without any source.

    Raises:
        InputError: there is no such service, or several and none was named.
    """
    for source in SOURCES:
        requests: dict[str, Buckets] = {}
        for (service, _), buckets in _histograms(query, source, source.requests, calls=False).items():
            requests[service] = buckets
        if not requests:
            continue
        calls = _histograms(query, source, source.calls, calls=True)
        name = _chosen(query, source, requests, {caller for caller, _ in calls}, wanted)
        return _measured(
            name,
            source,
            requests[name],
            {callee: b for (caller, callee), b in calls.items() if caller == name},
            _methods(query, source, name),
        )
    return None


def _chosen(
    query: PrometheusQuery,
    source: Source,
    requests: Mapping[str, Buckets],
    callers: set[str],
    wanted: str | None,
) -> str:
    """Service to learn: the one wanted, or the only one, or the only one that is called and calls others."""
    names = sorted(requests)
    if wanted is not None:
        if wanted not in requests:
            raise InputError(
                f"{source.name} measured no requests of {wanted!r}; known: {', '.join(names[:_SHOWN])}",
                where="--service",
            )
        return wanted
    fit = names if len(names) == 1 else [name for name in names if name in callers]
    if len(fit) != 1:
        raise InputError(
            f"{source.name} measured several services, name one by --service: {', '.join(names[:_SHOWN])}",
            where=query.where,
        )
    return fit[0]


def _measured(
    name: str,
    source: Source,
    requests: Buckets,
    calls: Mapping[str, Buckets],
    methods: Mapping[str, set[str]],
) -> MeasuredWindow:
    """Stages of a service, with what is not known of their order.

    There are three cases:

    1. No calls are known: the service is the one stage, as its callers see it.
    2. The calls' mean times fit into the requests' mean: they are taken to follow one another.
    3. They do not fit: the calls are taken to run side by side.
    """
    busiest = sorted(calls, key=lambda callee: -calls[callee].mean_ms * calls[callee].total)[:MAX_STAGES]
    order = "no calls of the service are measured, so the service is the one stage"
    if not busiest:
        busiest, calls, methods = [name], {name: requests}, _merged(methods, name)
    spent_ms = sum(calls[callee].mean_ms * calls[callee].total for callee in busiest)
    in_turn = spent_ms <= requests.mean_ms * requests.total
    if calls.keys() != {name}:
        fit = (
            "fit into the requests', and are"
            if in_turn
            else "do not fit into the requests', so the calls are"
        )
        way = "one after another" if in_turn else "to run side by side"
        order = f"the order of the calls is not known; their times {fit} taken {way}"
    stages: list[StageFacts] = []
    before: tuple[str, ...] = ()
    for callee in busiest:
        writes = _writes(methods.get(callee, set()))
        stages.append(StageFacts(callee, before, 1, not writes, 1, SpanMatch(callee, callee), writes))
        before = (callee,) if in_turn else ()
    return MeasuredWindow(
        name, stages, requests, {callee: calls[callee] for callee in busiest}, source.name, order
    )


def _merged(methods: Mapping[str, set[str]], name: str) -> dict[str, set[str]]:
    return {name: set().union(*methods.values())}


def _writes(methods: set[str]) -> str:
    """Why calls of these methods or operations are taken for writes; empty for reads."""
    reasons = [
        why_write(each, http_method(each), Evidence()) if each not in SAFE_METHODS else ""
        for each in sorted(methods)
    ]
    return next(filter(None, reasons), "") if reasons else _NO_METHOD


def _histograms(
    query: PrometheusQuery, source: Source, metric: str, *, calls: bool
) -> dict[tuple[str, str], Buckets]:
    """Histograms by service and callee, empty for requests; native ones where there are no classic."""
    cumulative: dict[tuple[str, str], dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for key, series in _series(query, source, f"{metric}_bucket", calls=calls, more=("le",)):
        bound = series.metric.get("le", "")
        try:
            cumulative[key][float(bound) * source.unit_s] += series.number
        except ValueError as error:
            raise InputError(f"{metric} has a bucket le={bound[:40]!r}", where=query.where) from error
    if cumulative:
        classic = {key: from_classic(counts) for key, counts in cumulative.items()}
        return {key: buckets for key, buckets in classic.items() if buckets is not None}
    native: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for key, series in _series(query, source, metric, calls=calls):
        if series.histogram is not None:
            native[key] += [
                (float(low) * source.unit_s, float(high) * source.unit_s, float(count))
                for _, low, high, count in series.histogram[1].buckets
            ]
    found = {key: from_native(buckets) for key, buckets in native.items()}
    return {key: buckets for key, buckets in found.items() if buckets is not None}


def _methods(query: PrometheusQuery, source: Source, service: str) -> dict[str, set[str]]:
    """Methods or operations of a service's calls, by callee; of its requests where it makes no calls."""
    found: dict[str, set[str]] = defaultdict(set)
    for calls, suffix in ((True, "_count"), (True, ""), (False, "_count"), (False, "")):
        metric = f"{source.calls if calls else source.requests}{suffix}"
        for (name, callee), series in _series(query, source, metric, calls=calls, more=source.method):
            method = _first(series, source.method)
            if name == service and method:
                found[callee].add(method)
        if found:
            break
    return found


def _series(
    query: PrometheusQuery, source: Source, metric: str, *, calls: bool, more: Labels = ()
) -> list[tuple[tuple[str, str], Series]]:
    """Increases of a metric over the window, each with its service and callee, without failed requests."""
    kept = source.of_calls if calls else source.of_requests
    names = (source.caller, source.callee) if calls else (source.service, ())
    by = ", ".join(dict.fromkeys((*kept, *names[0], *names[1], *source.status, *more)))
    found = []
    for series in vector_of(query, f"sum by ({by}) (increase({metric}[{query.lookback}]))"):
        service, callee = _first(series, names[0]), _first(series, names[1])
        of_kind = all(series.metric.get(label) == value for label, value in kept.items())
        if service and (callee or not calls) and of_kind and not _failed(series, source):
            found.append(((service, callee), series))
    return found


def _first(series: Series, labels: Labels) -> str:
    values = (series.metric.get(label, "") for label in labels)
    return next((value for value in values if value not in {"", "unknown"}), "")


def _failed(series: Series, source: Source) -> bool:
    status = _first(series, source.status)
    return status in {"failure", "STATUS_CODE_ERROR", "0"} or (
        status.startswith("5") and len(status) == len("500")
    )
