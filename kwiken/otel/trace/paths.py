"""The critical path of one request: the spans that it waited for, and how long for each alone.

From its end backwards, a span waited for the child that ended last, before that for the child that ended last
before this one began, and so on (CRISP, Zhang et al., ATC 2022, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwiken.otel.trace.traces import Trace, TraceSpan

# Clocks and rounding make calls in turn seem to overlap; by this share of the shorter one, and a nanosecond,
# they still count as in turn.
OVERLAP: Final = 0.01
NANOSECOND_MS: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Step:
    """A span on the path.

    Attributes:
        span: its place among the trace's spans.
        self_ms: the part of its time in which no child was waited for; these add up to the request's latency.
    """

    span: int
    self_ms: float


def critical_path(trace: Trace) -> tuple[Step, ...]:
    """The critical path, in order of the spans' start, the request itself first (CRISP, Zhang et al. 2022).

    Args:
        trace: of one request.
    """
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
    """Places of the children that a span waited for in turn, the last first."""
    chosen: list[int] = []
    begins, length = span.end_ms, float("inf")
    for place, child in sorted(children, key=lambda pair: (-pair[1].end_ms, pair[1].start_ms, pair[0])):
        took = child.end_ms - child.start_ms
        if child.end_ms - begins <= OVERLAP * min(took, length) + NANOSECOND_MS:
            chosen.append(place)
            begins, length = child.start_ms, took
    return chosen
