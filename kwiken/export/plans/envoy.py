"""Envoy exporter: a bootstrap whose routes hedge on a per-try timeout (v3, `RouteAction.hedge_policy`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kwiken.export.plans.calls import ExportedCall, StageAddress
from kwiken.export.plans.hedges import NEEDS_HOST, Exported, Hedge, hedges, plain, seconds_of_ms, whole_ms
from kwiken.export.yaml import dump
from kwiken.model.plan.ledger_terms import STAGE_SLACK
from kwiken.model.plan.plan import Plan

LISTEN_PORT: Final = 10_000
DEFAULT_PORT: Final = 80
ROUTE_TIMEOUT_MS: Final = 15_000  # Envoy's default; a longer one is written where a copy would go too late
MILLION: Final = 1_000_000
# Envoy tells a failed attempt from an answer by these conditions; only an answer beats an attempt in
# progress.
RETRY_ON_HTTP: Final = "5xx"  # includes resets and refused connections
RETRY_ON_GRPC: Final = f"{RETRY_ON_HTTP},unavailable,resource-exhausted,internal"
TAKE: Final = (
    "Take what fits your own files: `hedge_policy` and `retry_policy` of each route, "
    "`circuit_breakers` of each cluster."
)
TYPE: Final = "type.googleapis.com/envoy.extensions"


def retry_on(call: ExportedCall) -> str:
    """Envoy's `retry_on` conditions: failures after which another replica may still answer."""
    return RETRY_ON_GRPC if call.grpc is not None else RETRY_ON_HTTP


def retry_percent(found: Iterable[Hedge]) -> float:
    """Percent of concurrent calls that may be copies: the stages' largest share, with slack."""
    return min(100.0, max(0.01, round(100 * STAGE_SLACK * max(hedge.share for hedge in found), 2)))


def route_match(call: ExportedCall) -> dict[str, Any]:
    """Envoy's `RouteMatch` of a call."""
    if call.path is not None:
        found: dict[str, Any] = {"path": call.path}
    elif call.regex is not None:
        found = {"safe_regex": {"regex": call.regex}}
    else:
        found = {"prefix": call.prefix}
    if call.method is not None:
        found["headers"] = [{"name": ":method", "string_match": {"exact": call.method}}]
    return found


def most_exact(hedge: Hedge) -> tuple[int, int, bool]:
    """Sort key that puts the most exact route first, as Envoy takes the first that matches."""
    call = hedge.call
    kind = 0 if call.path is not None else 1 if call.regex is not None else 2
    return kind, -len(call.prefix or ""), call.method is None


def envoy_bootstrap(plan: Plan, targets: Mapping[str, StageAddress], *, where: str = "plan") -> Exported:
    """Whole Envoy bootstrap in YAML: one listener, and a route for each call that the plan reissues.

    Raises:
        InputError: for a reissued stage whose host or path is not known; names the stage.
    """
    found, notes = hedges(plan, targets, needs=NEEDS_HOST, where=where)
    resources: dict[str, Any] = {}
    if found:
        hosts = [host for item in _by_host(found).items() for host in _virtual_hosts(*item)]
        resources = {
            "listeners": [_listener(hosts)],
            "clusters": [_cluster(*item) for item in _by_place(found)],
        }
        notes = [*notes, *rounded_notes(found), *_late(found), *prefix_notes(found), *_limits(found)]
    header = [
        f"Envoy settings for the plan of service {plain(plan.service)} ({plan.digest}).",
        TAKE,
        "",
        *(f"{hedge.label}: {_described(hedge)}" for hedge in found),
        *(["What is lost, and what must hold:"] if notes else []),
        *(f"- {note}" for note in notes),
        "",
    ]
    return Exported(text=dump([((), {"static_resources": resources})], header), notes=tuple(notes))


def _described(hedge: Hedge) -> str:
    coin = f" for {100 * hedge.probability:.6g}% of calls" if hedge.probability < 1 else ""
    number = f"up to {hedge.copies} copies, one every" if hedge.copies > 1 else "a copy after"
    return f"{plain(str(hedge.call))}, {number} {whole_ms(hedge.after_ms)} ms{coin}"


def _by_host(found: Iterable[Hedge]) -> dict[str, list[Hedge]]:
    groups: dict[str, list[Hedge]] = {}
    for hedge in sorted(found, key=most_exact):
        groups.setdefault(hedge.call.host, []).append(hedge)
    return groups


def _by_place(found: Iterable[Hedge]) -> list[tuple[str, int, list[Hedge]]]:
    groups: dict[tuple[str, int], list[Hedge]] = {}
    for hedge in found:
        groups.setdefault(_place(hedge), []).append(hedge)
    return [(host, port, group) for (host, port), group in groups.items()]


def _place(hedge: Hedge) -> tuple[str, int]:
    return hedge.call.host, hedge.call.port or DEFAULT_PORT


def _virtual_hosts(host: str, found: Sequence[Hedge]) -> Iterator[dict[str, Any]]:
    """Virtual hosts of one host, by port: hedged calls first, then all others."""
    ports = sorted({_place(hedge)[1] for hedge in found})
    bare = DEFAULT_PORT if DEFAULT_PORT in ports or len(ports) > 1 else ports[0]
    for port in ports:
        name = _cluster_name(host, port)
        hedged_routes = [_route(hedge) for hedge in found if _place(hedge)[1] == port]
        yield {
            "name": name,
            "domains": [host, name] if port == bare else [name],
            "routes": [*hedged_routes, {"match": {"prefix": "/"}, "route": {"cluster": name}}],
        }


def _listener(hosts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    manager = {
        "@type": f"{TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "kwiken",
        "route_config": {"name": "kwiken", "virtual_hosts": list(hosts)},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPE}.filters.http.router.v3.Router"},
            }
        ],
    }
    name = "envoy.filters.network.http_connection_manager"
    return {
        "name": "kwiken",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": LISTEN_PORT}},
        "filter_chains": [{"filters": [{"name": name, "typed_config": manager}]}],
    }


def _route(hedge: Hedge) -> dict[str, Any]:
    """Route of a hedged call. Calls beyond the share `probability` match the last route."""
    match = route_match(hedge.call)
    if hedge.probability < 1:
        match["runtime_fraction"] = {
            "default_value": {"numerator": max(1, int(hedge.probability * MILLION)), "denominator": "MILLION"}
        }
    return {"match": match, "route": {"cluster": _cluster_name(*_place(hedge)), **hedged(hedge)}}


def _cluster_name(host: str, port: int) -> str:
    return f"{host}:{port}"


def hedged(hedge: Hedge) -> dict[str, Any]:
    """Fields of Envoy's `RouteAction` that make it send copies."""
    last_ms = whole_ms(hedge.after_ms) * hedge.copies
    found: dict[str, Any] = {"timeout": seconds_of_ms(2 * last_ms)} if 2 * last_ms > ROUTE_TIMEOUT_MS else {}
    found["hedge_policy"] = {"hedge_on_per_try_timeout": True}
    found["retry_policy"] = {
        "retry_on": retry_on(hedge.call),
        "num_retries": hedge.copies,
        "per_try_timeout": seconds_of_ms(whole_ms(hedge.after_ms)),
        **promptly(),
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": f"{TYPE}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
            }
        ],
        "host_selection_retry_max_attempts": 5,
    }
    return found


def promptly() -> dict[str, Any]:
    """Shortest retry back-off, 1 ms: Envoy waits before a copy as before a retry, up to 25 ms by default."""
    return {"retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"}}


def _cluster(host: str, port: int, found: Sequence[Hedge]) -> dict[str, Any]:
    endpoint = {"address": {"socket_address": {"address": host, "port_value": port}}}
    cluster: dict[str, Any] = {
        "name": _cluster_name(host, port),
        "type": "STRICT_DNS",
        "connect_timeout": "1s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {
            "cluster_name": _cluster_name(host, port),
            "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}],
        },
        "circuit_breakers": {
            "thresholds": [
                {
                    "retry_budget": {
                        "budget_percent": {"value": retry_percent(found)},
                        "min_retry_concurrency": 1,
                    }
                }
            ]
        },
    }
    if any(hedge.call.grpc is not None for hedge in found):
        cluster["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPE}.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return cluster


def failure_notes(what: str) -> Iterator[str]:
    """Note on failed attempts: Envoy has to recognise a failure, lest it beat a running attempt."""
    yield (
        f"an attempt that fails ({RETRY_ON_HTTP}; gRPC: {RETRY_ON_GRPC}) never beats one that still runs, "
        f"and before any copy is sent it is retried at once: {what} pay for both"
    )


def rounded_notes(found: Sequence[Hedge]) -> Iterator[str]:
    """Notes on delays that differ from the plan's by rounding."""
    for hedge in found:
        if whole_ms(hedge.after_ms) != hedge.after_ms:
            yield (
                f"{hedge.label}: {hedge.after_ms:g} ms became {whole_ms(hedge.after_ms)} ms: "
                "Envoy counts whole milliseconds from 1"
            )


def _late(found: Sequence[Hedge]) -> Iterator[str]:
    for hedge in found:
        last_ms = whole_ms(hedge.after_ms) * hedge.copies
        if 2 * last_ms > ROUTE_TIMEOUT_MS:
            yield (
                f"{hedge.label}: the route's timeout is {2 * last_ms} ms instead of Envoy's 15 s, "
                "so that the last copy can still answer"
            )


def prefix_notes(found: Sequence[Hedge]) -> Iterator[str]:
    """Notes on policies that cover more than one kind of call."""
    for hedge in found:
        if hedge.call.prefix is not None:
            yield f"{hedge.label}: every call below {plain(hedge.call.prefix)} is hedged, whatever it does"


def _limits(found: Sequence[Hedge]) -> Iterator[str]:
    yield "only for calls that may run twice: a hedged route's requests must be idempotent"
    yield (
        "lost: the budget. retry_budget bounds how many copies run at once, as a percentage of the calls in "
        "flight to one cluster, not the share of calls that get one, and nothing is shared between stages"
    )
    yield from failure_notes("num_retries and retry_budget")
    yield "a copy is sent up to 1 ms later than stated: Envoy backs off before it"
    if any(hedge.probability < 1 for hedge in found):
        yield (
            "the plan's probability becomes the route's runtime_fraction: drawn as a call starts, not "
            "when it is late"
        )
    yield "a copy goes to another replica only if the host's name resolves to each one (a headless service)"
    yield "Envoy counts a call that got a copy as timed out in outlier detection, even if it answers later"
    yield "the delay is fixed, as percentiles are not learned: export again after every new plan"
