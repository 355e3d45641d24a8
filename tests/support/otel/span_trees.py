"""Synthetic spans of requests with a known DAG, written as Jaeger JSON and as OTLP JSON lines."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord

T0 = 1_700_000_000_000_000_000
MS = 1_000_000
KINDS = ("", "internal", "server", "client", "producer", "consumer")  # as OTLP numbers them


@dataclass
class Span:
    """One span of anyone's service."""

    trace: int
    id: int
    parent: int
    service: str
    name: str
    start: int
    end: int
    error: bool = False
    follows: bool = False
    kind: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Dag:
    """Stages by number, parents before children; `after[i]` are the parents of stage i."""

    after: list[list[int]]

    def __len__(self) -> int:
        return len(self.after)

    @property
    def closure(self) -> set[tuple[int, int]]:
        """All pairs of which the first comes before the second."""
        above: list[set[int]] = []
        for parents in self.after:
            above.append(set(parents).union(*(above[p] for p in parents)) if parents else set())
        return {(a, b) for b, ancestors in enumerate(above) for a in ancestors}


def random_dag(rng: random.Random, stages: int) -> Dag:
    """Any DAG."""
    return Dag([sorted(rng.sample(range(i), rng.randint(0, min(i, 3)))) for i in range(stages)])


def layered_dag(rng: random.Random, layers: int, widest: int = 3) -> Dag:
    """Each stage comes after all of the layer before: what runs side by side starts together, so it overlaps."""
    after: list[list[int]] = []
    before: list[int] = []
    for _ in range(layers):
        layer = list(range(len(after), len(after) + rng.randint(1, widest)))
        after += [list(before) for _ in layer]
        before = layer
    return Dag(after)


@dataclass
class Maker:
    """Makes requests of one DAG.

    Attributes:
        dag: of the stages.
        rng: of the times.
        own_ms: time that the request spends before its first stage, and again after its last.
        widths: number of calls of each stage; 1 where it is missing.
        chances: of each stage's being visited; 1 where it is missing.
        pairs: whether each call is a client's span with a server's below it.
        passing: spans between the root and the one that calls the stages.
    """

    dag: Dag
    rng: random.Random
    own_ms: float = 1.0
    widths: dict[int, int] = field(default_factory=dict)
    chances: dict[int, float] = field(default_factory=dict)
    pairs: bool = False
    passing: int = 0
    spans: list[Span] = field(default_factory=list)

    def new_id(self, bits: int = 64) -> int:
        return self.rng.getrandbits(bits) or 1

    def request(self, start: int) -> int:
        """Add one request's spans; its end."""
        trace = self.new_id(128)
        spans: list[Span] = []
        top = 0
        for level in range(self.passing + 1):
            span = Span(trace, self.new_id(), top, "front", f"op{level}", start + level * 1000, 0)
            spans.append(span)
            top = span.id
        ready = start + int(self.own_ms * MS)
        ends: dict[int, int] = {}
        for stage, parents in enumerate(self.dag.after):
            begin = max([ready, *(ends[p] for p in parents)])
            ends[stage] = begin
            if self.rng.random() >= self.chances.get(stage, 1.0):
                continue
            for _ in range(self.widths.get(stage, 1)):
                took = int(self.rng.lognormvariate(1, 0.7) * MS)
                ends[stage] = max(ends[stage], begin + took)
                spans += self._call(trace, top, stage, begin, begin + took)
        end = max([ready, *ends.values()]) + int(self.own_ms * MS)
        for level in range(self.passing + 1):
            spans[level].end = end - level * 1000
        self.spans += spans
        return end

    def _call(self, trace: int, parent: int, stage: int, start: int, end: int) -> list[Span]:
        client = Span(trace, self.new_id(), parent, "front", f"s{stage}", start, end)
        if not self.pairs:
            return [client]
        third = (end - start) // 3
        server = Span(
            trace, self.new_id(), client.id, f"back{stage}", f"s{stage}", start + third, end - third
        )
        return [client, server]

    def requests(self, number: int) -> list[Span]:
        """Add some requests one after another; all spans."""
        start = T0
        for _ in range(number):
            self.request(start)
            start += 50 * MS
        return self.spans


def jaeger_trace(spans: Sequence[Span], *, embedded: bool = False) -> dict[str, Any]:
    """One trace as Jaeger writes it; times cut to microseconds."""
    services = sorted({span.service for span in spans})
    keys = {service: f"p{i}" for i, service in enumerate(services)}
    trace = f"{spans[0].trace:032x}"
    out = []
    for span in spans:
        one: dict[str, Any] = {
            "traceID": trace,
            "spanID": f"{span.id:016x}",
            "operationName": span.name,
            "references": [],
            "startTime": span.start // 1000,
            "duration": (span.end - span.start) // 1000,
            "tags": _tags(span),
            "logs": [],
            "warnings": None,
        }
        if span.parent:
            kind = "FOLLOWS_FROM" if span.follows else "CHILD_OF"
            one["references"] = [{"refType": kind, "traceID": trace, "spanID": f"{span.parent:016x}"}]
        if embedded:
            one["process"] = {"serviceName": span.service, "tags": []}
        else:
            one["processID"] = keys[span.service]
        out.append(one)
    processes = {} if embedded else {keys[s]: {"serviceName": s, "tags": []} for s in services}
    return {"traceID": trace, "spans": out, "processes": processes}


def _tags(span: Span) -> list[dict[str, Any]]:
    stated = {**span.attributes, **({"span.kind": span.kind} if span.kind else {})}
    stated |= {"error": True} if span.error else {}
    types = {str: "string", bool: "bool", int: "int64", float: "float64"}
    return [{"key": key, "type": types[type(value)], "value": value} for key, value in stated.items()]


def by_trace(spans: Iterable[Span]) -> list[list[Span]]:
    """The spans of each trace, in order of first sight."""
    traces: dict[int, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace, []).append(span)
    return list(traces.values())


def jaeger_json(spans: Iterable[Span], *, embedded: bool = False, indent: int | None = None) -> str:
    """A Jaeger export."""
    traces = [jaeger_trace(trace, embedded=embedded) for trace in by_trace(spans)]
    return json.dumps({"data": traces, "total": 0, "limit": 0, "offset": 0, "errors": None}, indent=indent)


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}


def otlp_spans(service: str, spans: Iterable[Span]) -> dict[str, Any]:
    """OTLP's spans of one resource."""
    out = []
    for span in spans:
        one: dict[str, Any] = {
            "traceId": f"{span.trace:032x}",
            "spanId": f"{span.id:016x}",
            "name": span.name,
            "kind": KINDS.index(span.kind),
            "startTimeUnixNano": str(span.start),
            "endTimeUnixNano": str(span.end),
            "attributes": [{"key": key, "value": _value(value)} for key, value in span.attributes.items()],
            "status": {"code": 2, "message": "no"} if span.error else {},
        }
        if span.parent:
            one["parentSpanId"] = f"{span.parent:016x}"
        out.append(one)
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": out}]}


def otlp_line(spans: Sequence[Span]) -> str:
    """One `TracesData`."""
    services = sorted({span.service for span in spans})
    return json.dumps(
        {"resourceSpans": [otlp_spans(s, [span for span in spans if span.service == s]) for s in services]}
    )


def otlp_lines(spans: Iterable[Span]) -> str:
    """A line a trace."""
    return "".join(f"{otlp_line(trace)}\n" for trace in by_trace(spans))


def zipkin_span(span: Span) -> dict[str, Any]:
    """One span of Zipkin JSON, version 2; times cut to microseconds."""
    one: dict[str, Any] = {
        "traceId": f"{span.trace:032x}",
        "id": f"{span.id:016x}",
        "name": span.name,
        "timestamp": span.start // 1000,
        "duration": (span.end - span.start) // 1000,
        "localEndpoint": {"serviceName": span.service, "ipv4": "10.0.0.1"},
        "tags": {key: _text(value) for key, value in span.attributes.items()},
    }
    one["tags"] |= {"error": ""} if span.error else {}
    one |= {"kind": span.kind.upper()} if span.kind not in {"", "internal"} else {}
    return one | ({"parentId": f"{span.parent:016x}"} if span.parent else {})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def zipkin_json(spans: Iterable[Span]) -> str:
    """An answer of Zipkin, version 2."""
    return json.dumps([[zipkin_span(span) for span in trace] for trace in by_trace(spans)])


def stored_lines(spans: Iterable[Span]) -> str:
    """A dump of Jaeger's index in Elasticsearch."""
    return "".join(f"{json.dumps(stored_span(span))}\n" for span in spans)


def stored_span(span: Span) -> dict[str, Any]:
    """One document of Jaeger's index in Elasticsearch."""
    (one,) = jaeger_trace([span], embedded=True)["spans"]
    return {"_index": "jaeger-span-2026-01-01", "_id": f"{span.id:x}", "_source": one}


def write(path: Path, text: str) -> Path:
    """Write a file; its path."""
    path.write_text(text, encoding="utf-8")
    return path


def record(
    rng: random.Random,
    dag: Dag,
    *,
    start: int = T0,
    widths: dict[int, int] | None = None,
    copies: float = 0.0,
    service: str = "shop",
) -> RequestRecord:
    """A request of our own runtime, some of its calls copied: a copy wins, or loses and is cancelled."""

    def new_id() -> int:
        return rng.getrandbits(64) or 1

    request = RequestRecord(rng.getrandbits(128) or 1, new_id(), None, service, start)
    ends: list[int] = []
    for number, parents in enumerate(dag.after):
        begin = max([start + MS // 2, *(ends[p] for p in parents)])
        width = (widths or {}).get(number, 1)
        stage = StageRecord(new_id(), f"s{number}", tuple(f"s{p}" for p in parents), width, begin)
        end = begin
        for shard in range(width):
            attempts = _attempts(rng, new_id, shard, begin, copied=rng.random() < copies)
            stage.attempts += attempts
            end = max(end, *(a.end_ns for a in attempts if a.outcome is Outcome.WON))
        stage.end_ns = end
        ends.append(end)
        request.stages.append(stage)
    request.end_ns = max(ends) + MS
    return request


def _attempts(
    rng: random.Random, new_id: Any, shard: int, begin: int, *, copied: bool
) -> list[AttemptRecord]:
    took = int(rng.lognormvariate(1, 0.7) * MS)
    primary = AttemptRecord(
        new_id(),
        shard,
        0,
        AttemptKind.PRIMARY,
        "r1",
        "n1",
        begin,
        begin + took,
        Outcome.WON,
        busy_ms=took / MS / 2,
    )
    if not copied:
        return [primary]
    sent, copy_took = begin + took // 2, int(rng.lognormvariate(1, 0.7) * MS)
    copy = AttemptRecord(
        new_id(),
        shard,
        1,
        AttemptKind.REISSUE,
        "r2",
        "n2",
        sent,
        sent + copy_took,
        Outcome.WON,
        busy_ms=copy_took / MS / 2,
    )
    if copy.end_ns < primary.end_ns:
        primary.end_ns, primary.outcome, primary.busy_ms = copy.end_ns + 20_000, Outcome.CANCELLED, None
    else:
        copy.end_ns, copy.outcome, copy.busy_ms = primary.end_ns + 20_000, Outcome.CANCELLED, None
    return [primary, copy]
