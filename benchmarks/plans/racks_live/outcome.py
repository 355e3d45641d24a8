"""Outcome of the demonstration: figures, and the claims that the figures bear out."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_BYTES: Final = 0.5  # of the bytes across racks under Dask's own scheduling
MAX_P99: Final = 1.2  # times the service's p99 alone


class BatchArm(msgspec.Struct, frozen=True, kw_only=True):
    """Eight jobs run one way, beside the service.

    Attributes:
        name: way in which the jobs were scheduled, for tables.
        makespan_s: time from the first submission to the last end, seconds.
        ended: number of jobs that ended.
        crossing_mb: megabytes that workers fetched from other racks.
        fetched_mb: megabytes that workers fetched at all.
        p99_ms: p99 of the service's requests that were due in that time, milliseconds; None if more than one
            in a hundred failed.
        p50_ms: median of the same, milliseconds.
        requests: number of these requests.
        failed: number of them that failed.
    """

    name: str
    makespan_s: float
    ended: int
    crossing_mb: float
    fetched_mb: float
    p99_ms: float | None
    p50_ms: float
    requests: int
    failed: int


class BatchDemo(msgspec.Struct, frozen=True, kw_only=True):
    """The whole demonstration.

    Attributes:
        limited: whether racks had links of their own.
        alone: the service without jobs; its makespan is the time of the measurement.
        arms: the jobs under each way of scheduling.
        lost: the jobs when a rack is stopped.
        again: number of jobs that were submitted anew.
        jobs: number of jobs that are submitted in each arm.
    """

    limited: bool
    alone: BatchArm
    arms: list[BatchArm]
    lost: BatchArm
    lost_rack: str
    again: int
    jobs: int


def verdict(found: BatchDemo) -> tuple[bool | None, list[str]]:
    """Whether the plan kept what is asked of it, None where the machine was too busy, and sentences.

    Args:
        found: demonstration with Dask's own scheduling first and the plan last.
    """
    own, plan, alone = found.arms[0], found.arms[-1], found.alone
    share = plan.crossing_mb / own.crossing_mb if own.crossing_mb else 0.0
    kept = [share <= MAX_BYTES]
    lines = [
        (
            f"across racks: the plan moves {100 * share:.0f}% of the bytes that Dask's own scheduling moves "
            f"(at most {100 * MAX_BYTES:.0f}% is asked for)"
        ),
        f"makespan: {plan.makespan_s:.1f} s by the plan, {own.makespan_s:.1f} s by Dask's own scheduling",
    ]
    if alone.p99_ms is not None and plan.p99_ms is not None:
        ratio = plan.p99_ms / alone.p99_ms
        kept.append(ratio <= MAX_P99)
        beside = f"{own.p99_ms / alone.p99_ms:.2f}" if own.p99_ms is not None else "no answer in time"
        lines.append(
            f"the service's p99: {ratio:.2f} times that alone beside the plan, {beside} beside Dask's own "
            f"scheduling (at most {MAX_P99:g} is asked for)"
        )
    elif alone.p99_ms is None:
        lines.append(
            f"the service alone: {alone.failed} of {alone.requests} requests failed, so there is no p99 to "
            "compare with; this machine is too busy"
        )
    else:
        kept.append(False)
        lines.append(f"the service: {plan.failed} of {plan.requests} requests failed beside the plan")
    lines.append(
        f"the service's median: {alone.p50_ms:.0f} ms alone, {plan.p50_ms:.0f} ms beside the plan, "
        f"{own.p50_ms:.0f} ms beside Dask's own scheduling"
    )
    all_ended = found.lost.ended == found.jobs
    kept.append(all_ended)
    lines.append(
        f"{found.lost_rack} was stopped: {found.lost.ended} of {found.jobs} jobs ended, {found.again} of "
        "them submitted anew"
    )
    if all(kept) and alone.p99_ms is None:
        return None, lines
    return all(kept), lines
