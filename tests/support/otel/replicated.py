"""Spans of a shop with replicated services and injected faults, as OTLP and Jaeger JSON with instances."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Final

T0: Final = 1_700_000_000_000_000_000
MS: Final = 1_000_000
SERVICES: Final = ("pricing", "stock", "reviews")


@dataclass(frozen=True, kw_only=True)
class Shop:
    """Requests of a gateway to a shop, which calls pricing, stock and reviews one after the other.

    Attributes:
        requests: number of requests, one every 200 ms.
        replicas: number of pods of each of these services; 1 where it is missing.
        slow_pod: service and number of the pod that takes `times` as long.
        slow_link: caller and callee between which 5% of the calls wait for `wait_ms`.
        stalls: service that stalls for `wait_ms` in 5% of its calls.
        key: attribute that names the pods; None for none.
        restarts: whether each service has one pod at a time, which is replaced half-way.
    """

    requests: int = 600
    replicas: tuple[tuple[str, int], ...] = ()
    slow_pod: tuple[str, int] | None = None
    times: float = 3.0
    slow_link: tuple[str, str] | None = None
    stalls: str | None = None
    wait_ms: float = 300.0
    key: str | None = "k8s.pod.name"
    restarts: bool = False
    seed: int = 1

    def spans(self) -> list[dict[str, Any]]:
        """Spans with service, pod, trace, id, parent, kind (2 server, 3 client), name, start and end."""
        rng = random.Random(self.seed)
        many = dict(self.replicas)
        found: list[dict[str, Any]] = []

        def add(**span: Any) -> int:
            found.append({**span, "id": len(found) + 1})
            return len(found)

        def call(trace: int, caller: tuple[str, int, int], callee: str, name: str, now: int) -> int:
            service, pod, parent = caller
            count = many.get(callee, 1)
            chosen = rng.randrange(count)
            if self.restarts:
                chosen = int(trace > self.requests // 2)
            wait = int(rng.uniform(0.3, 0.6) * MS)
            if self.slow_link == (service, callee) and rng.random() < 0.05:
                wait += int(self.wait_ms * MS)
            client = add(
                service=service, pod=pod, trace=trace, parent=parent, kind=3, name=name, start=now, end=0
            )
            server = add(
                service=callee,
                pod=chosen,
                trace=trace,
                parent=client,
                kind=2,
                name=name,
                start=now + wait,
                end=0,
            )
            inside = now + wait
            if callee == "shop":
                for each in SERVICES:
                    inside = call(trace, ("shop", chosen, server), each, f"GET /{each}/{{id}}", inside + MS)
                inside += MS
            else:
                took = rng.lognormvariate(2.0, 0.25) * MS
                if self.slow_pod == (callee, chosen):
                    took *= self.times
                if self.stalls == callee and rng.random() < 0.05:
                    took += self.wait_ms * MS
                inside += int(took)
            found[server - 1]["end"] = inside
            found[client - 1]["end"] = inside + int(rng.uniform(0.1, 0.3) * MS)
            return int(found[client - 1]["end"])

        for trace in range(1, self.requests + 1):
            start = T0 + trace * 200 * MS
            top = add(
                service="gateway", pod=0, trace=trace, parent=0, kind=2, name="GET /*", start=start, end=0
            )
            end = call(trace, ("gateway", 0, top), "shop", "GET /page/{id}", start + MS)
            found[top - 1]["end"] = end + MS
        return found

    def pod(self, span: dict[str, Any]) -> dict[str, str]:
        """Attributes that name the pod of a span."""
        return {} if self.key is None else {self.key: f"{span['service']}-{span['pod']}"}

    def otlp(self) -> str:
        """OTLP JSON lines, a line for each span."""
        return "\n".join(
            json.dumps(
                {
                    "resourceSpans": [
                        {
                            "resource": {
                                "attributes": _attributes({"service.name": each["service"], **self.pod(each)})
                            },
                            "scopeSpans": [{"spans": [_otlp(each)]}],
                        }
                    ]
                }
            )
            for each in self.spans()
        )

    def jaeger(self) -> str:
        """Jaeger JSON, a process for each pod."""
        traces: dict[int, dict[str, Any]] = {}
        for each in self.spans():
            trace = traces.setdefault(
                each["trace"], {"traceID": f"{each['trace']:032x}", "spans": [], "processes": {}}
            )
            process = f"{each['service']}-{each['pod']}"
            trace["processes"][process] = {
                "serviceName": each["service"],
                "tags": [{"key": k, "type": "string", "value": v} for k, v in self.pod(each).items()],
            }
            parent = [
                {"refType": "CHILD_OF", "traceID": trace["traceID"], "spanID": f"{each['parent']:016x}"}
            ]
            trace["spans"].append(
                {
                    "traceID": trace["traceID"],
                    "spanID": f"{each['id']:016x}",
                    "operationName": each["name"],
                    "references": parent if each["parent"] else [],
                    "startTime": each["start"] // 1000,
                    "duration": (each["end"] - each["start"]) // 1000,
                    "processID": process,
                    "tags": [{"key": "span.kind", "type": "string", "value": _KINDS[each["kind"]]}],
                }
            )
        return json.dumps({"data": list(traces.values())})


_KINDS: Final = {2: "server", 3: "client"}


def _otlp(span: dict[str, Any]) -> dict[str, Any]:
    return {
        "traceId": f"{span['trace']:032x}",
        "spanId": f"{span['id']:016x}",
        "parentSpanId": f"{span['parent']:016x}" if span["parent"] else "",
        "kind": span["kind"],
        "name": span["name"],
        "startTimeUnixNano": str(span["start"]),
        "endTimeUnixNano": str(span["end"]),
    }


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
