"""Selection of requests to draw, and their conversion from traces to Gantt charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kwiken.apps.report.charts.gantt import GanttBar, GanttRequest, Track
from kwiken.apps.report.model.result import DemoResult
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord

NS_PER_MS = 1e6

Pauses = Mapping[str, Sequence[tuple[float, float]]]
"""By replica, start and end of its pauses, seconds since 1970."""


def request_of(record: RequestRecord, arm: str, pauses: Pauses | None = None) -> GanttRequest:
    """Convert the trace of a request for its chart.

    Args:
        pauses: pauses by replica, if known; in seconds since 1970.
    """
    path = critical_stages(record)
    zero = record.start_ns
    known = pauses or {}
    tracks = [_track(stage, zero, known, critical=stage.name in path) for stage in record.stages]
    return GanttRequest(
        trace_id=f"{record.trace_id:032x}",
        arm=arm,
        total_ms=(record.end_ns - zero) / NS_PER_MS,
        tracks=tuple(sorted(tracks, key=lambda track: track.start)),
    )


def critical_stages(record: RequestRecord) -> set[str]:
    """Critical path: from the stage that ended last through the parents that ended last to a source."""
    stages = {stage.name: stage for stage in record.stages}
    path: set[str] = set()
    here = max(record.stages, key=lambda stage: stage.end_ns, default=None)
    while here is not None and here.name not in path:
        path.add(here.name)
        parents = [stages[name] for name in here.after if name in stages]
        here = max(parents, key=lambda stage: stage.end_ns, default=None)
    return path


def _track(stage: StageRecord, zero: int, pauses: Pauses, *, critical: bool) -> Track:
    last = decisive(stage) if critical else None
    return Track(
        name=stage.name,
        start=(stage.start_ns - zero) / NS_PER_MS,
        end=(stage.end_ns - zero) / NS_PER_MS,
        critical=critical,
        bars=tuple(_bar(attempt, zero, pauses, critical=attempt is last) for attempt in stage.attempts),
    )


def _bar(attempt: AttemptRecord, zero: int, pauses: Pauses, *, critical: bool) -> GanttBar:
    return GanttBar(
        start=(attempt.start_ns - zero) / NS_PER_MS,
        end=(attempt.end_ns - zero) / NS_PER_MS,
        kind=str(attempt.kind),
        outcome=str(attempt.outcome),
        shard=attempt.shard,
        replica=attempt.replica,
        critical=critical,
        paused=tuple(
            (max(attempt.start_ns, start) / NS_PER_MS - zero / NS_PER_MS, (end - zero) / NS_PER_MS)
            for start, end in _during(attempt, pauses)
        ),
    )


def _during(attempt: AttemptRecord, pauses: Pauses) -> list[tuple[float, float]]:
    """Pauses of an attempt's replica that overlap the attempt, in nanoseconds."""
    own = ((start * 1e9, end * 1e9) for start, end in pauses.get(attempt.replica, ()))
    return [(start, end) for start, end in own if start < attempt.end_ns and end > attempt.start_ns]


def decisive(stage: StageRecord) -> AttemptRecord | None:
    """Attempt whose answer the stage waited for: the last winner."""
    won = [attempt for attempt in stage.attempts if attempt.outcome is Outcome.WON]
    return max(won, key=lambda attempt: attempt.end_ns, default=None)


def rescued_in(record: RequestRecord) -> str | None:
    """Stage on the critical path that waited for a copy's answer; None if there is none."""
    path = critical_stages(record)
    for stage in record.stages:
        last = decisive(stage)
        if stage.name in path and last is not None and last.kind is AttemptKind.REISSUE:
            return stage.name
    return None


def slowest_stage(record: RequestRecord) -> str:
    """Longest stage on the critical path."""
    path = critical_stages(record)
    stages = [stage for stage in record.stages if stage.name in path]
    return max(stages, key=lambda stage: stage.end_ns - stage.start_ns).name if stages else ""


def pick_slow(records: Iterable[RequestRecord]) -> RequestRecord | None:
    """Pick the request at p99.5 of latency: slow, but not the extreme outlier."""
    ranked = sorted(records, key=_length)
    return ranked[min(int(0.995 * len(ranked)), len(ranked) - 1)] if ranked else None


def pick_rescued(
    records: Iterable[RequestRecord], stage: str, pauses: Pauses | None = None
) -> RequestRecord | None:
    """Pick a request that a copy rescued, at the given stage if there is one.

    Of several, pick the one that was saved most time: its first replica stayed paused longest after the
    copy's answer. If no pause is known, pick the median by latency.
    """
    rescued = [(record, where) for record in records if (where := rescued_in(record)) is not None]
    same = [(record, where) for record, where in rescued if where == stage] or rescued
    spared = [(spared_ns(record, where, pauses or {}), record) for record, where in same]
    most = max(spared, key=lambda pair: pair[0], default=None)
    if most is not None and most[0] > 0:
        return most[1]
    ranked = sorted((record for record, _ in same), key=_length)
    return ranked[len(ranked) // 2] if ranked else None


def spared_ns(record: RequestRecord, where: str, pauses: Pauses) -> float:
    """Time in ns for which an abandoned replica stayed paused after the stage's end; 0 if none did."""
    stage = next(stage for stage in record.stages if stage.name == where)
    stopped = [attempt for attempt in stage.attempts if attempt.outcome is Outcome.CANCELLED]
    ends = [end for attempt in stopped for _, end in _during(attempt, pauses)]
    return max(0.0, max(ends, default=0.0) - stage.end_ns)


def _length(record: RequestRecord) -> tuple[int, int]:
    return record.end_ns - record.start_ns, record.trace_id


def pick_requests(
    records: Mapping[str, Sequence[RequestRecord]], pauses: Pauses | None = None
) -> tuple[GanttRequest, ...]:
    """Pick a slow request of `before`, and one of `after` that a copy rescued, if there are any.

    Args:
        pauses: pauses by replica, if known; in seconds since 1970.
    """
    slow = pick_slow(records.get("before", ()))
    rescued = pick_rescued(records.get("after", ()), slowest_stage(slow) if slow is not None else "", pauses)
    pairs = (("before", slow), ("after", rescued))
    return tuple(request_of(record, arm, pauses) for arm, record in pairs if record is not None)


def pauses_of(result: DemoResult) -> Pauses:
    """Pauses of a demo's disturbance, by replica."""
    pauses: dict[str, list[tuple[float, float]]] = {}
    for paused in result.disturbance.stages.values():
        for replica, start, end in paused.pauses:
            pauses.setdefault(replica, []).append((start, end))
    return pauses
