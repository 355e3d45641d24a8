"""Requests as other tracers write them: clients, servers, producers and consumers, in several formats."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kwiken.model.profile.profile import Profile
from tests.support.otel.span_trees import (
    MS,
    T0,
    Span,
    jaeger_json,
    otlp_lines,
    stored_lines,
    write,
    zipkin_json,
)

WRITERS: dict[str, Callable[[Iterable[Span]], str]] = {
    "otlp": otlp_lines,
    "jaeger": jaeger_json,
    "zipkin": zipkin_json,
    "elasticsearch": stored_lines,
}
FORMS = tuple(WRITERS)


Parts = dict[str | tuple[str, str], float]  # milliseconds of each service, and of each link


@dataclass
class Trace:
    """Spans of one request; times in milliseconds since its start.

    Attributes:
        number: number of the request, from 1.
        rng: of its times.
        spans: its spans.
    """

    number: int
    rng: random.Random
    spans: list[Span] = field(default_factory=list)

    def span(
        self,
        parent: Span | None,
        service: str,
        name: str,
        start: float,
        end: float,
        kind: str = "",
        **others: Any,
    ) -> Span:
        """Add a span; dots in the names of attributes are written as `__`."""
        error = others.pop("error") if others.get("error") is True else False
        follows = others.pop("follows", False)
        at = T0 + self.number * 2_000 * MS
        made = Span(
            self.number,
            others.pop("id", None) or len(self.spans) + 1,
            parent.id if parent is not None else 0,
            service,
            name,
            at + round(start * MS),
            at + round(end * MS),
            error=error,
            follows=follows,
            kind=kind,
            attributes={key.replace("__", "."): value for key, value in others.items()},
        )
        self.spans.append(made)
        return made

    def call(
        self,
        parent: Span,
        name: str,
        service: str,
        route: str,
        start: float,
        end: float,
        **others: Any,
    ) -> tuple[Span, Span]:
        """Add a call: the client's span and the server's, 0.1 ms shorter at either end."""
        client = self.span(parent, parent.service, name, start, end, "client", **others)
        server = self.span(client, service, route, start + 0.1, end - 0.1, "server", error=client.error)
        return client, server


def requests(make: Callable[[Trace], object], number: int = 400, seed: int = 1) -> list[Span]:
    """Spans of some requests, each made from a new `Trace`."""
    rng = random.Random(seed)
    spans: list[Span] = []
    for each in range(1, number + 1):
        trace = Trace(each, rng)
        make(trace)
        spans += trace.spans
    return spans


def without_kinds(spans: list[Span]) -> list[Span]:
    """Spans as a tracer writes them that states neither kinds nor attributes."""
    return [replace(span, kind="", attributes={}) for span in spans]


def with_shared_ids(spans: list[Span]) -> list[Span]:
    """Spans as Zipkin's tracers write them: the client's and the server's span of a call share one id."""
    by_id = {(span.trace, span.id): span for span in spans}
    alias = {
        (span.trace, span.id): by_id[span.trace, span.parent]
        for span in spans
        if span.kind == "server" and span.parent
    }
    found = []
    for span in spans:
        client = alias.get((span.trace, span.id))
        if client is not None:
            found.append(replace(span, id=client.id, parent=client.parent))
        else:
            above = alias.get((span.trace, span.parent))
            found.append(replace(span, parent=above.id if above is not None else span.parent))
    return found


def filed(folder: Path, spans: list[Span], form: str) -> Path:
    """Write spans in a format; the file's path."""
    return write(folder / f"traces.{form}.json", WRITERS[form](spans))


def excess_ms(profile: Profile) -> dict[str, float]:
    """Mean time of each service in the slowest 5% of the requests, less its median over all."""
    assert profile.service_ms is not None
    slow = np.argsort(profile.latency_ms, kind="stable")[-len(profile.latency_ms) // 20 :]
    excess = profile.service_ms[slow].mean(axis=0) - np.median(profile.service_ms, axis=0)
    return dict(zip(profile.service_names, excess.tolist(), strict=True))


def blamed(profile: Profile) -> str:
    """Service with the largest excess."""
    excess = excess_ms(profile)
    return max(excess, key=lambda service: excess[service])


@dataclass
class Reports:
    """Cases after public reports of people who read traces.

    Attributes:
        cases: by report: what makes a request, and the true time of its parts.
    """

    cases: dict[str, tuple[Callable[[Trace], object], Parts]] = field(default_factory=dict)

    def case(
        self, report: str, parts: Parts
    ) -> Callable[[Callable[[Trace], object]], Callable[[Trace], object]]:
        """Register a case with the true time of each service and link."""

        def add(make: Callable[[Trace], object]) -> Callable[[Trace], object]:
            self.cases[report] = make, parts
            return make

        return add


def page(trace: Trace, end: float, name: str = "GET /page", **stated: Any) -> Span:
    """Root span of a request to the service `web`."""
    return trace.span(None, "web", name, 0, end, "server", **stated)


def median_parts(profile: Profile) -> Parts:
    """Median time of each service and link, to a tenth of a millisecond; parts without any are left out."""
    assert profile.service_ms is not None
    found: Parts = dict(
        zip(profile.service_names, np.median(profile.service_ms, axis=0).tolist(), strict=True)
    )
    if profile.link_ms is not None:
        found |= dict(zip(profile.link_names, np.median(profile.link_ms, axis=0).tolist(), strict=True))
    return {part: round(time, 1) for part, time in found.items() if time > 0.05}
