"""Critical path of one request: the spans that kept the request waiting, each with its share of the latency.

Each span is walked backwards from its end. The span waited for the child that ended last. Before that child
started, the span waited for the child that had ended last by then, and so on (CRISP, Zhang et al., ATC 2022,
section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwiken.otel.trace.traces import Trace, TraceSpan

# Sequential calls may seem to overlap because of clocks and rounding: by at most this share of the shorter
# one, plus a nanosecond.
MAX_OVERLAP: Final = 0.01
NANOSECOND_MS: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Step:
    """Span on the critical path.

    Attributes:
        span: index of the span among the trace's spans.
        self_ms: time in which the span waited for no child, milliseconds; the sum over the path is the
            request's latency.
    """

    span: int
    self_ms: float


def critical_path(trace: Trace) -> tuple[Step, ...]:
    """Critical path in order of the spans' starts, the request itself first (CRISP, Zhang et al. 2022)."""
    children: dict[int, list[int]] = {}
    for place, span in enumerate(trace.spans):
        if span.parent is not None and span.waited:
            children.setdefault(span.parent, []).append(place)
    steps: list[Step] = []
    waiting = [0]
    while waiting:
        place = waiting.pop()
        span = trace.spans[place]
        chosen = _waited_for(span, [(i, trace.spans[i]) for i in children.get(place, ())])
        below = sum(trace.spans[i].end_ms - trace.spans[i].start_ms for i in chosen)
        steps.append(Step(place, max(0.0, span.end_ms - span.start_ms - below)))
        waiting.extend(chosen)
    return tuple(sorted(steps, key=lambda step: (trace.spans[step.span].start_ms, step.span)))


def _waited_for(span: TraceSpan, children: list[tuple[int, TraceSpan]]) -> list[int]:
    """Indices of the children that a span waited for one after another, the last first."""
    chosen: list[int] = []
    begins, length = span.end_ms, float("inf")
    for place, child in sorted(children, key=lambda pair: (-pair[1].end_ms, pair[1].start_ms, pair[0])):
        took = child.end_ms - child.start_ms
        if child.end_ms - begins <= MAX_OVERLAP * min(took, length) + NANOSECOND_MS:
            chosen.append(place)
            begins, length = child.start_ms, took
    return chosen
