"""Section with a profile's slowest requests: each with its stages in time and its critical path."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import numpy as np

from kwiken.apps.report.charts.gantt import GanttBar, GanttRequest, Track, draw_gantt
from kwiken.apps.report.model.number_format import count, ms
from kwiken.apps.report.model.page import Figure, Row, Section
from kwiken.apps.report.sections.causes import ARROW
from kwiken.apps.report.sections.views import Material
from kwiken.model.latency import critical_path, finish_times
from kwiken.model.profile.profile import Profile, StageProfile

MAX_REQUESTS: Final = 12
MAX_PATH: Final = 4  # stages of a critical path that a headline names
LEGEND: Final = (("primary", "call"), ("stopped", "cancelled"), ("critical", "critical path"))


def slowest(material: Material) -> Section | None:
    """Build the section; None without a profile that has requests."""
    profile = material.profile
    if profile is None or not profile.requests:
        return None
    requests = slow_requests_of(profile)
    usual = {stage.name: float(np.median(stage.latency_ms)) for stage in profile.stages}
    figures = tuple(
        Figure(
            svg=draw_gantt(request, key=f"s{rank}", span_ms=max(request.total_ms, _end(request))),
            fold=_headline(request, float(profile.started_s[row]), usual),
            legend=LEGEND,
            stages=tuple(track.name for track in request.tracks if track.critical),
        )
        for rank, (row, request) in enumerate(requests)
    )
    words = (
        f"The {count(len(figures), 'slowest request')} of the profile. A stage starts when the last "
        "stage that it comes after has ended. The dashed line is the recorded end."
    )
    return Section(id="slowest", title="Slowest requests", words=(words,), rows=(Row(figures),))


def slow_requests_of(profile: Profile) -> list[tuple[int, GanttRequest]]:
    """Slowest requests of a profile, slowest first: the row of each, and its stages in time.

    Calls without a copy are in a profile, so copies are not drawn.
    """
    latency = {stage.name: stage.latency_ms for stage in profile.stages}
    ends, on_path = finish_times(profile.stages, latency), critical_path(profile.stages, latency)
    found = []
    for row in np.argsort(-profile.latency_ms, kind="stable")[:MAX_REQUESTS].tolist():
        tracks = [
            _track(stage, row, float(ends[stage.name][row]), critical=bool(on[row]))
            for stage, on in zip(profile.stages, on_path, strict=True)
            if stage.visited[row]
        ]
        tracks.sort(key=lambda track: track.start)
        total = float(profile.latency_ms[row])
        found.append((row, GanttRequest(trace_id="", arm="", total_ms=total, tracks=tuple(tracks))))
    return found


def _track(stage: StageProfile, row: int, end: float, *, critical: bool) -> Track:
    calls, start = stage.calls_ms[row], end - float(stage.latency_ms[row])
    last = int(np.nanargmax(calls))
    bars = tuple(
        GanttBar(
            start=start,
            end=start + float(calls[shard]),
            outcome="cancelled" if stage.censored[row, shard] else "won",
            shard=int(shard),
            replica=_replica(stage, row, int(shard)),
            critical=critical and shard == last,
        )
        for shard in np.flatnonzero(~np.isnan(calls))
    )
    return Track(name=stage.name, start=start, end=end, critical=critical, bars=bars)


def _replica(stage: StageProfile, row: int, shard: int) -> str:
    asked = -1 if stage.asked is None else int(stage.asked[row, shard])
    return stage.replica_names[asked] if asked >= 0 else ""


def _end(request: GanttRequest) -> float:
    return max((track.end for track in request.tracks), default=0.0)


def _headline(request: GanttRequest, started_s: float, usual_ms: dict[str, float]) -> str:
    """Latency, start and critical path, and the stage on the path that is farthest above its usual."""
    path = [track for track in request.tracks if track.critical]
    at = f"{ms(request.total_ms)} at {datetime.fromtimestamp(started_s, UTC):%H:%M:%S} UTC"
    if not path:
        return f"{at}: no stage was called"
    worst = max(path, key=lambda track: track.end - track.start - usual_ms[track.name])
    took = f"{worst.name} took {ms(worst.end - worst.start)}, usually {ms(usual_ms[worst.name])}"
    names = ARROW.join(track.name for track in path[:MAX_PATH])
    more = f"{ARROW}{len(path) - MAX_PATH} more" if len(path) > MAX_PATH else ""
    return f"{at}: {took}; critical path {names}{more}"
