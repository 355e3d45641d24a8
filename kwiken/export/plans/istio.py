"""Istio exporter: a DestinationRule, an EnvoyFilter and a VirtualService per host (networking.istio.io).

Istio's own retries cancel the slow call at `perTryTimeout` and start over, instead of sending a copy beside
it. So the timeout stands in the EnvoyFilter, next to Envoy's hedge policy: either both take effect or
neither, and a VirtualService alone never cancels a slow call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.export.plans.calls import ExportedCall, StageAddress
from kwiken.export.plans.envoy import (
    failure_notes,
    most_exact,
    prefix_notes,
    promptly,
    retry_on,
    retry_percent,
    rounded_notes,
)
from kwiken.export.plans.hedges import (
    NEEDS_HOST,
    Exported,
    Hedge,
    coin_notes,
    hedges,
    plain,
    seconds_of_ms,
    whole_ms,
)
from kwiken.export.yaml import dump
from kwiken.model.plan.plan import Plan

MAX_LABEL: Final = 63
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
# Outlier detection should eject a replica for its own errors only. Calls with a copy count as local failures
# (Envoy's soft timeout), so these are counted apart and allowed in larger numbers.
OUTLIERS: Final = {
    "splitExternalLocalOriginErrors": True,
    "consecutiveLocalOriginFailures": 20,
    "consecutiveGatewayErrors": 5,
    "consecutive5xxErrors": 0,
    "interval": "10s",
    "baseEjectionTime": "30s",
    "maxEjectionPercent": 10,
}
Document = tuple[Sequence[str], dict[str, Any]]


def istio_documents(plan: Plan, targets: Mapping[str, StageAddress], *, where: str = "plan") -> Exported:
    """Istio resources in YAML, three per host.

    Raises:
        InputError: for a reissued stage whose host or path is not known, or whose host is no host name of a
            mesh; names the stage.
    """
    found, notes = hedges(plan, targets, needs=NEEDS_HOST, where=where)
    names = _route_names(plan, found)
    documents: list[Document] = []
    for host, group in _by_host(found, where).items():
        documents += [_rule(host, group), _filter(host, group, names), _service(host, group, names)]
    if found:
        notes = [*notes, *rounded_notes(found), *prefix_notes(found), *coin_notes(found, "Istio"), *_limits()]
    header = [
        f"Istio settings for the plan of service {plain(plan.service)} ({plan.digest}).",
        "",
        *(f"{hedge.label}: {plain(str(hedge.call))}, {_described(hedge)}" for hedge in found),
        *(["What is lost, and what must hold:"] if notes else []),
        *(f"- {note}" for note in notes),
        "",
    ]
    return Exported(text=dump(documents, header), notes=tuple(notes))


def _described(hedge: Hedge) -> str:
    number = f"up to {hedge.copies} copies, one every" if hedge.copies > 1 else "a copy after"
    return f"{number} {whole_ms(hedge.after_ms)} ms"


def _by_host(found: Sequence[Hedge], where: str) -> dict[str, list[Hedge]]:
    groups: dict[str, list[Hedge]] = {}
    for hedge in sorted(found, key=most_exact):
        host = hedge.call.host
        if len(host) > 253 or not _HOST.match(host):  # noqa: PLR2004 - a DNS name's length
            raise InputError(
                f"stage {hedge.stages[0]!r}: {host!r} is no name of a host in a mesh; give its host in --map",
                where=where,
            )
        groups.setdefault(host, []).append(hedge)
    return groups


def _route_names(plan: Plan, found: Sequence[Hedge]) -> dict[ExportedCall, str]:
    """Unique name of each hedged route, by which the EnvoyFilter finds it."""
    names: dict[ExportedCall, str] = {}
    for hedge in found:
        base = name = _slug(f"kwiken-{plan.service}-{hedge.stages[0]}")
        turn = 1
        while name in names.values():
            turn += 1
            name = f"{base[: MAX_LABEL - 6]}-{turn}"
        names[hedge.call] = name
    return names


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:MAX_LABEL].strip("-")


def _meta(kind: str, version: str, host: str) -> dict[str, Any]:
    return {
        "apiVersion": f"networking.istio.io/{version}",
        "kind": kind,
        "metadata": {"name": f"kwiken-{host}"[:253].rstrip("-.")},
    }


def _rule(host: str, found: Sequence[Hedge]) -> Document:
    policy = {
        "loadBalancer": {"simple": "LEAST_REQUEST"},
        "retryBudget": {"percent": retry_percent(found), "minRetryConcurrency": 1},
        "outlierDetection": dict(OUTLIERS),
    }
    lines = (
        "retryBudget: how many copies may run at once. Without the field in your Istio, nothing bounds them.",
        "outlierDetection: not from the plan. consecutive5xxErrors is off: a stage's own errors are answers.",
    )
    return lines, {
        **_meta("DestinationRule", "v1", host),
        "spec": {"host": host, "trafficPolicy": policy},
    }


def _filter(host: str, found: Sequence[Hedge], names: Mapping[ExportedCall, str]) -> Document:
    lines = (
        "Apply it in the callers' namespace (in Istio's root namespace: for all callers). It needs sidecars.",
    )
    patches = [_patch(hedge, names[hedge.call]) for hedge in found]
    return lines, {**_meta("EnvoyFilter", "v1alpha3", host), "spec": {"configPatches": patches}}


def _patch(hedge: Hedge, name: str) -> dict[str, Any]:
    """Patch that turns a route's retries into copies; without effect where the route does not exist."""
    action = {
        "hedge_policy": {"hedge_on_per_try_timeout": True},
        "retry_policy": {"per_try_timeout": seconds_of_ms(whole_ms(hedge.after_ms)), **promptly()},
    }
    return {
        "applyTo": "HTTP_ROUTE",
        "match": {
            "context": "SIDECAR_OUTBOUND",
            "routeConfiguration": {"vhost": {"route": {"name": name}}},
        },
        "patch": {"operation": "MERGE", "value": {"route": action}},
    }


def _service(host: str, found: Sequence[Hedge], names: Mapping[ExportedCall, str]) -> Document:
    lines = (
        "If the host has a VirtualService, put these routes above its own: a sidecar takes one for a host.",
        "There is no perTryTimeout here on purpose: without the EnvoyFilter it would cut slow calls off.",
    )
    routes = [_route(hedge, names[hedge.call]) for hedge in found]
    routes.append({"name": _slug(f"kwiken-rest-{host}"), "route": [{"destination": {"host": host}}]})
    return lines, {**_meta("VirtualService", "v1", host), "spec": {"hosts": [host], "http": routes}}


def _route(hedge: Hedge, name: str) -> dict[str, Any]:
    destination: dict[str, Any] = {"host": hedge.call.host}
    if hedge.call.port is not None:
        destination["port"] = {"number": hedge.call.port}
    return {
        "name": name,
        "match": [_match(hedge.call)],
        "route": [{"destination": destination}],
        "retries": {"attempts": hedge.copies, "retryOn": retry_on(hedge.call)},
    }


def _match(call: ExportedCall) -> dict[str, Any]:
    if call.path is not None:
        uri = {"exact": call.path}
    elif call.regex is not None:
        uri = {"regex": call.regex}
    else:
        uri = {"prefix": str(call.prefix)}
    found: dict[str, Any] = {"uri": uri}
    if call.method is not None:
        found["method"] = {"exact": call.method}
    if call.port is not None:
        found["port"] = call.port
    return found


def _limits() -> Iterator[str]:
    yield "only for calls that may run twice: a hedged route's requests must be idempotent"
    yield (
        "Istio has no hedging of its own: it comes from the EnvoyFilter, which depends on Envoy's internal "
        "settings; check it after every upgrade of Istio"
    )
    yield (
        "lost: the budget. retryBudget bounds how many copies run at once, as a percentage of the calls in "
        "flight from one sidecar to one host, not the share of calls that get one, and nothing is shared "
        "between stages or callers"
    )
    yield from failure_notes("attempts and retryBudget")
    yield "Envoy counts a call that got a copy as a local failure in outlier detection, even if it answers"
    yield "the delay is fixed, as percentiles are not learned: export again after every new plan"
