"""Gantt chart of a request: its stages, their calls and copies, and the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from kwiken.apps.report.charts.scales import Scale, linear_scale, linear_ticks
from kwiken.apps.report.charts.svg import Drawing, short_name
from kwiken.apps.report.model.number_format import ms

WIDTH = 620
LEFT, RIGHT, TOP, BOTTOM = 150, 16, 8, 34
ROW, BAR, GAP = 17, 11, 7
MAX_ROWS_PER_STAGE = 4
INK = {"primary": "var(--call)", "reissue": "var(--copy)", "retry": "var(--retry)"}  # of the style sheet


@dataclass(frozen=True, kw_only=True)
class GanttBar:
    """Bar of one call to one replica; times in milliseconds from the request's start.

    Attributes:
        start: time of sending.
        end: time of its end.
        kind: `primary`, `reissue` or `retry`.
        outcome: `won`, `lost`, `cancelled` or `failed`.
        shard: number of its shard, from 0.
        replica: name of the replica that served the call.
        critical: whether the request waited for this call.
        paused: intervals in which its replica is known to have been paused, from the call's start on.
    """

    start: float
    end: float
    kind: str = "primary"
    outcome: str = "won"
    shard: int = 0
    replica: str = ""
    critical: bool = False
    paused: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Track:
    """Rows of one visit to a stage.

    Attributes:
        start: start of the visit, in milliseconds from the request's start.
        end: end of the visit, in milliseconds from the request's start.
        critical: whether the stage is on the request's critical path.
    """

    name: str
    start: float
    end: float
    critical: bool = False
    bars: tuple[GanttBar, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GanttRequest:
    """Request to draw.

    Attributes:
        arm: `before`, `after` or `even`; empty if unknown.
        tracks: visited stages in order of their start.
    """

    trace_id: str
    arm: str
    total_ms: float
    tracks: tuple[Track, ...] = field(default_factory=tuple)


def draw_gantt(request: GanttRequest, *, key: str, span_ms: float | None = None) -> Markup:
    """Draw the chart.

    Args:
        key: unique key of the chart on its page, for its hatchings.
        span_ms: length of the time axis; the request's latency by default.
    """
    rows = [(track, row) for track in request.tracks for row in _rows(track)]
    first = [index == 0 or rows[index - 1][0] is not track for index, (track, _) in enumerate(rows)]
    height = TOP + ROW * len(rows) + GAP * sum(first) + BOTTOM
    drawing = Drawing(WIDTH, height, label=f"Timeline of a request of {ms(request.total_ms)}")
    across = linear_scale(span_ms or request.total_ms, LEFT, WIDTH - RIGHT)
    _axis(drawing, across, height)
    y = float(TOP)
    for (track, row), opens in zip(rows, first, strict=True):
        y += GAP if opens else 0
        if opens:
            name = "name" if track.critical else "small"
            drawing.text((LEFT - 8, y + BAR), short_name(track.name, 15), name, anchor="end")
        for bar in row:
            _draw_bar(drawing, bar, across, y, key)
        y += ROW
    end = across(request.total_ms)
    drawing.line((end, TOP), (end, height - BOTTOM), "finish")
    return drawing.markup()


def _rows(track: Track) -> list[list[GanttBar]]:
    """Assign a stage's calls to rows: one per call or copy; the least interesting shards share one."""
    bars = track.bars or (GanttBar(start=track.start, end=track.end, critical=track.critical),)
    shards = sorted({bar.shard for bar in bars})
    calls = [[bar for bar in bars if bar.shard == shard] for shard in shards]
    calls.sort(key=lambda call: -_interest(call))
    kept, dull = calls[:MAX_ROWS_PER_STAGE], calls[MAX_ROWS_PER_STAGE:]
    if len(calls) > 1:
        kept, dull = (
            [call for call in kept if _interest(call) > 1],
            [*dull, *(c for c in kept if _interest(c) <= 1)],
        )
    rows = [[bar] for call in kept for bar in sorted(call, key=lambda bar: bar.start)]
    return [*rows, [bar for call in dull for bar in call]] if dull else rows


def _interest(call: Sequence[GanttBar]) -> float:
    """Sort key of a shard's calls by interest: critical, copied, slow."""
    slowest = max(bar.end for bar in call)
    return 4.0 * any(bar.critical for bar in call) + 2.0 * (len(call) > 1) + slowest / (1 + slowest)


def _axis(drawing: Drawing, across: Scale, height: float) -> None:
    for value in linear_ticks(across, 6):
        x = across(value)
        drawing.line((x, TOP), (x, height - BOTTOM), "rule")
        drawing.text((x, height - BOTTOM + 15), f"{value:g}", "tick", anchor="middle")
    drawing.text(
        ((LEFT + WIDTH - RIGHT) / 2, height - 4), "ms from the request's start", "tick", anchor="middle"
    )


def _draw_bar(drawing: Drawing, bar: GanttBar, across: Scale, y: float, key: str) -> None:
    ink = INK.get(bar.kind, INK["primary"])
    stopped = bar.outcome in ("cancelled", "lost")
    fill = drawing.hatch(f"{key}-{bar.kind}", ink) if stopped else ink
    for start, end in bar.paused:
        place = (across(start), y - 3)
        size = (across(end) - place[0], BAR + 7)
        drawing.rect(place, size, "paused", hint=f"{bar.replica} was paused for {ms(end - start)}")
    x = across(bar.start)
    width = max(1.5, across(bar.end) - x)
    look = "bar failed" if bar.outcome == "failed" else "bar"
    shard = f", shard {bar.shard}" if bar.shard else ""
    hint = f"{bar.kind}{shard} on {bar.replica or 'a replica'}: {bar.outcome}, {ms(bar.end - bar.start)}"
    drawing.rect((x, y), (width, BAR), f"{look} {bar.kind}", fill=fill, round_=1.5, hint=hint)
    if bar.critical:
        drawing.rect((x, y + BAR + 1), (width, 2.5), "critical")
