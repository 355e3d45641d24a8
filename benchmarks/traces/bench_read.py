"""Benchmark of traces: reading each format, fitting a profile, and writing a request's spans."""

from __future__ import annotations

import gzip
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from benchmarks.harness import Row, paired, side_by_side
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.trace.traces import read_traces
from kwiken.otel.write.convert import otlp_lines, readable_spans
from kwiken.otel.write.observer import make_observer
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from tests.support.otel.folders import folder_of

T0, MS = 1_700_000_000_000_000_000, 1_000_000
TARGET_US = 5.0  # a span: 200,000 spans a second
STAGES = (("parse", 1), ("spell", 1), ("lookup", 8), ("rank", 1), ("snippet", 4), ("page", 1))
CALLS = 20
TICKET_SHOP = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "train-ticket"
MAX_OF_LOADS = 1.5  # of the time of json.loads, that a fit may take
MAX_BYTES_A_SPAN = 300.0
LARGE_FILES, LARGE_LINES = 25, 27_240  # a folder of 1 GB: two million spans of a shop, in 18 stages
MAX_OF_LARGE_MB = 647.0  # half of what the fit of such a folder took once
MAX_OF_ONE_PROCESS = 0.75  # of its time, that two processes may take
TRACE_ID = re.compile(r'("traceID":\s*")([0-9a-f])')  # with the first digit, which tells copies apart
# Linux's own figure, as `getrusage` starts from the peak of the process that started this one.
PEAK_OF_FIT = """
import re, sys
from pathlib import Path
import numpy
from kwiken.otel.fit.fit import fit_profile
def peak_kib():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
at_start = peak_kib()
spans = fit_profile(sys.argv[1:]).counts["spans_read"]
print(spans, 1024 * (peak_kib() - at_start), 1024 * peak_kib())
"""
# Processor time of one pass over a file in a process of its own, without a garbage collector, which objects
# of other work would slow.
PASS = """
import gc, json, sys, time
from pathlib import Path
from kwiken.otel.fit.fit import fit_profile
way, path = sys.argv[1], Path(sys.argv[2])
files = sorted(path.iterdir()) if path.is_dir() else [path]

def once():
    if way == "fit":
        fit_profile([path])
        return
    for file in files:
        with file.open() as lines:
            for line in lines:
                json.loads(line)

once()  # loads what is imported on first use
gc.collect()
gc.disable()
began = time.process_time()
once()
print(time.process_time() - began)
"""
ATTRIBUTES: dict[str, str | int] = {
    "http.request.method": "GET",
    "url.full": "http://shop:8080/api/v1/items",
    "http.response.status_code": 200,
    "server.address": "shop",
    "network.protocol.version": "1.1",
}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    requests, rounds = (150, 2) if quick else (4000, 7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jaeger, otlp = foreign(folder, requests)
        own = ours(folder / "own", requests)
        rows = [
            read(f"read {label} into trees", path, rounds)
            for label, path in (("Jaeger JSON", jaeger), ("OTLP lines", otlp), ("our own OTLP lines", own))
        ]
        rows += [
            fitted(f"fit a profile from {label}", path, rounds)
            for label, path in (("Jaeger JSON", jaeger), ("our own lines", own))
        ]
        rows += [
            in_a_process(f"fit a profile from {label}, process and collector alone", path, rounds)
            for label, path in (("Jaeger JSON", jaeger), ("OTLP lines", otlp), ("our own lines", own))
        ]
        rows += (
            []
            if quick
            else [
                *real(rounds=3),
                *growth(folder),
                *large(folder / "large", LARGE_FILES, LARGE_LINES, rounds=3),
            ]
        )
        return [*rows, memory(otlp), written(requests, rounds)]


def request(rng: random.Random, number: int) -> RequestRecord:
    """A request of a service in the shape of a web search; one call in twenty has a copy."""
    start = now = T0 + number * 50 * MS
    out = RequestRecord(rng.getrandbits(128) or 1, rng.getrandbits(64) or 1, None, "search", start)
    before: tuple[str, ...] = ()
    for name, fanout in STAGES:
        stage = StageRecord(rng.getrandbits(64) or 1, name, before, fanout, now)
        end = now
        for shard in range(fanout):
            took = int(rng.lognormvariate(1, 0.7) * MS)
            stage.attempts.append(attempt(rng, shard, now, now + took, Outcome.WON))
            if rng.random() < 1 / CALLS:
                stage.attempts.append(
                    attempt(rng, shard, now + took // 2, now + took, Outcome.CANCELLED, copy=True)
                )
            end = max(end, now + took)
        stage.end_ns = now = end
        before = (name,)
        out.stages.append(stage)
    out.end_ns = now
    return out


def attempt(
    rng: random.Random, shard: int, start: int, end: int, outcome: Outcome, *, copy: bool = False
) -> AttemptRecord:
    """One call to one of three replicas."""
    kind = AttemptKind.REISSUE if copy else AttemptKind.PRIMARY
    replica = f"127.0.0.1:390{rng.randrange(3)}"
    busy = None if outcome is Outcome.CANCELLED else (end - start) / MS / 2
    number = int(copy)
    return AttemptRecord(
        rng.getrandbits(64) or 1, shard, number, kind, replica, "local", start, end, outcome, busy_ms=busy
    )


def ours(folder: Path, requests: int) -> Path:
    """A folder of our own spans."""
    rng = random.Random(1)
    observer = make_observer("search", traces=folder)
    for number in range(requests):
        observer.request_finished(request(rng, number))
    observer.close()
    return folder


def foreign(folder: Path, requests: int) -> tuple[Path, Path]:
    """The same spans of another's service as Jaeger JSON and as OTLP lines."""
    rng = random.Random(1)
    traces, lines = [], []
    for number in range(requests):
        spans = call_tree(rng, T0 + number * 50 * MS)
        traces.append(as_jaeger(spans))
        lines.append(as_otlp(spans))
    jaeger, otlp = folder / "jaeger.json", folder / "otlp.jsonl"
    jaeger.write_text(json.dumps({"data": traces}, separators=(",", ":")))
    otlp.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return jaeger, otlp


def call_tree(rng: random.Random, start: int) -> list[dict[str, Any]]:
    """A root and ten calls in turn, each a client's span above a server's."""
    trace = f"{rng.getrandbits(128):032x}"

    def span(parent: str, service: str, name: str, begin: int, end: int) -> dict[str, Any]:
        key = f"{rng.getrandbits(64):016x}"
        return {
            "trace": trace,
            "id": key,
            "parent": parent,
            "service": service,
            "name": name,
            "at": (begin, end),
        }

    spans = [span("", "front", "GET /items", start, start)]
    now = start + MS
    for number in range(CALLS // 2):
        took = int(rng.lognormvariate(1, 0.7) * MS)
        client = span(spans[0]["id"], "front", f"call {number}", now, now + took)
        spans += [
            client,
            span(client["id"], f"back{number}", f"serve {number}", now + took // 4, now + took // 2),
        ]
        now += took + MS // 10
    spans[0]["at"] = (start, now + MS)
    return spans


def as_jaeger(spans: list[dict[str, Any]]) -> dict[str, Any]:
    """One trace as Jaeger exports it."""
    tags = [{"key": k, "type": "string", "value": v} for k, v in ATTRIBUTES.items()]
    return {
        "traceID": spans[0]["trace"],
        "spans": [
            {
                "traceID": s["trace"],
                "spanID": s["id"],
                "flags": 1,
                "operationName": s["name"],
                "references": [{"refType": "CHILD_OF", "traceID": s["trace"], "spanID": s["parent"]}]
                if s["parent"]
                else [],
                "startTime": s["at"][0] // 1000,
                "duration": (s["at"][1] - s["at"][0]) // 1000,
                "tags": tags,
                "logs": [],
                "processID": s["service"],
                "warnings": None,
            }
            for s in spans
        ],
        "processes": {s["service"]: {"serviceName": s["service"], "tags": []} for s in spans},
    }


def as_otlp(spans: list[dict[str, Any]]) -> dict[str, Any]:
    """One trace as a collector's file exporter writes it."""

    def value(v: str | int) -> dict[str, str]:
        return {"stringValue": v} if isinstance(v, str) else {"intValue": str(v)}

    attributes = [{"key": k, "value": value(v)} for k, v in ATTRIBUTES.items()]
    grouped: dict[str, list[dict[str, Any]]] = {}
    for s in spans:
        one = {
            "traceId": s["trace"],
            "spanId": s["id"],
            "parentSpanId": s["parent"],
            "flags": 257,
            "name": s["name"],
            "kind": 3,
            "startTimeUnixNano": str(s["at"][0]),
            "endTimeUnixNano": str(s["at"][1]),
            "attributes": attributes,
            "status": {},
        }
        grouped.setdefault(s["service"], []).append(one)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
                "scopeSpans": [{"scope": {"name": "http", "version": "1"}, "spans": ones}],
            }
            for service, ones in grouped.items()
        ]
    }


def read(name: str, path: Path, rounds: int) -> Row:
    """Reading and cleaning, beside the standard library's parser alone, which builds plain dictionaries."""
    spans = read_traces([path]).counts["spans_read"]
    return per_span(
        name, lambda: read_traces([path]), spans, ("json.loads alone", lambda: parsed(path)), rounds
    )


def fitted(name: str, path: Path, rounds: int) -> Row:
    spans = fit_profile([path]).counts["spans_read"]
    return per_span(
        name, lambda: fit_profile([path]), spans, ("json.loads alone", lambda: parsed(path)), rounds
    )


def in_a_process(name: str, path: Path, rounds: int) -> Row:
    """Processor time of a fit, and of `json.loads` line by line, each in a process of its own, in turn."""
    spans = fit_profile([path]).counts["spans_read"]

    def cost(way: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", PASS, way, str(path)], check=True, capture_output=True, text=True
        )
        return float(done.stdout) / spans * 1e6

    return paired(
        name,
        "json.loads line by line",
        [(cost("fit"), cost("loads")) for _ in range(rounds)],
        unit="us/span",
        least=1 / MAX_OF_LOADS,
    )


def real(rounds: int) -> list[Row]:
    """Fit of two days of a ticket shop's traces, 158 MB unpacked, where they lie beside the repository."""
    days = sorted(TICKET_SHOP.glob("*-??.json.gz"))
    if not days:
        return []
    row = side_by_side(
        "fit two days of a ticket shop, gunzip included",
        lambda: fit_profile(days),
        (
            "json.loads of the same bytes",
            lambda: [json.loads(gzip.decompress(day.read_bytes())) for day in days],
        ),
        rounds=rounds,
        unit="s",
        scale=1.0,
    )
    assert row.theirs is not None
    return [replace(row, target=MAX_OF_LOADS * row.theirs, met=row.ours <= MAX_OF_LOADS * row.theirs)]


def growth(folder: Path) -> list[Row]:
    """Peak memory of a fit of the ticket shop's spans, of four times as many, and of each further span.

    Each fit runs in a process of its own, and its peak is what the process held beyond the loaded libraries.
    """
    days = sorted(TICKET_SHOP.glob("*-??.json.gz"))
    if not days:
        return []
    files = list(days)
    rows, found = [], []
    for times in (1, 4):
        files += [
            copied(day, folder, number) for number in range(len(files) // len(days), times) for day in days
        ]
        spans, peak, _ = peak_of_fit(files)
        found.append((spans, peak))
        rows.append(
            Row(name=f"peak memory of a fit of {spans:,} spans", ours=peak / 1e6, unit="MB", target=None)
        )
    (few, small), (many, large) = found
    each = (large - small) / (many - few)
    return [
        *rows,
        Row(
            name="memory of each further span, up to the bound of 4 million",
            ours=each,
            unit="bytes/span",
            target=MAX_BYTES_A_SPAN,
            met=each <= MAX_BYTES_A_SPAN,
        ),
    ]


def peak_of_fit(paths: Sequence[Path]) -> tuple[int, int, int]:
    """Spans of a fit in its own process, peak beyond the loaded libraries, and that of all of it, bytes."""
    told = subprocess.run(
        [sys.executable, "-c", PEAK_OF_FIT, *map(str, paths)], check=True, capture_output=True, text=True
    )
    spans, peak, whole = map(int, told.stdout.split())
    return spans, peak, whole


def large(folder: Path, files: int, lines: int, rounds: int) -> list[Row]:
    """Peak memory of a fit of many files, and its time with two processes beside one."""
    folder.mkdir()
    folder_of(folder, files=files, lines=lines)
    size = sum(file.stat().st_size for file in folder.iterdir())
    spans, _, peak = peak_of_fit([folder])
    name = f"{size / 1e9:.2f} GB, {spans:,} spans"
    runs = [(command(folder, 2), command(folder, 1)) for _ in range(rounds)]
    assert len({digest for pair in runs for _, _, digest in pair}) == 1
    walls = [(two[0], one[0]) for two, one in runs]
    costs = [(two[1], one[1]) for two, one in runs]
    return [
        Row(
            name=f"peak memory of a process that fits {name}",
            ours=peak / 1e6,
            unit="MB",
            target=MAX_OF_LARGE_MB,
        ),
        paired(
            f"kwiken fit --jobs 2 of {name}",
            "one process",
            walls,
            unit="s",
            least=1 / MAX_OF_ONE_PROCESS,
        ),
        paired(f"processor time of kwiken fit --jobs 2 of {name}", "one process", costs, unit="s"),
    ]


def command(folder: Path, jobs: int) -> tuple[float, float, str]:
    """Time and processor time of `kwiken fit`, its workers included, seconds; and the profile's digest."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    began, before = time.perf_counter(), spent()
    done = subprocess.run(
        [sys.executable, "-m", "kwiken", "fit", str(folder), "--json", "--jobs", str(jobs)],
        check=True,
        capture_output=True,
        text=True,
    )
    return time.perf_counter() - began, spent() - before, json.loads(done.stdout)["profile"]


def copied(day: Path, folder: Path, number: int) -> Path:
    """The same traces with other ids."""
    text = gzip.decompress(day.read_bytes()).decode()
    other = TRACE_ID.sub(lambda found: f"{found[1]}{(int(found[2], 16) + number) % 16:x}", text)
    path = folder / f"{number}-{day.name}"
    path.write_bytes(gzip.compress(other.encode(), 1))
    return path


def per_span(
    name: str, work: Callable[[], object], spans: int, other: tuple[str, Callable[[], object]], rounds: int
) -> Row:
    return side_by_side(name, work, other, rounds=rounds, unit="us/span", scale=1e6 / spans, target=TARGET_US)


def parsed(path: Path) -> None:
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with file.open() as lines:
            for line in lines:
                json.loads(line)


def memory(path: Path) -> Row:
    """Peak memory of reading, bytes per span."""
    spans = read_traces([path]).counts["spans_read"]
    tracemalloc.start()
    read_traces([path], max_spans=10**8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Row(name="memory while reading OTLP lines", ours=peak / spans, unit="bytes/span", target=300.0)


def written(requests: int, rounds: int) -> Row:
    """Encoding of a request's record as a line, beside the SDK's spans and their encoding for a collector."""
    rng = random.Random(1)
    records = [request(rng, number) for number in range(min(requests, 500))]
    spans = sum(1 for _ in readable_spans("search", records))

    def ours_() -> None:
        for _ in otlp_lines("search", records):
            pass

    def sdk() -> None:
        for record in records:
            encode_spans(list(readable_spans("search", [record]))).SerializeToString()

    return side_by_side(
        "write a request's spans",
        ours_,
        ("the SDK's spans, encoded for a collector", sdk),
        rounds=rounds,
        unit="us/span",
        scale=1e6 / spans,
        target=10.0,
    )
