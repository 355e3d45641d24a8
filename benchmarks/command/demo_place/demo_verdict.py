"""Verdict of the demonstration, or that the machine was too busy for one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.command.demo_place.outcome import DemoPlaceResult, PlacedArm, Recovery
from kwiken.model.nodes.placement import PlacingStatus

MAX_BUSY: Final = 0.9  # share of the processors; above it latencies are the machine's, not the placement's
MAX_LATE_MS: Final = 25.0  # p99 of the delay of requests


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on a run of the demonstration.

    Attributes:
        told: whether the machine was quiet enough for a verdict.
        kept: whether every target was kept: at first, after the load grew, and after a node was lost.
    """

    told: bool
    kept: bool
    lines: list[str]


def verdict(outcome: DemoPlaceResult) -> Verdict:
    """Judge a run."""
    *others, ours = outcome.arms
    busy = max(outcome.growth.busy, outcome.loss.busy, *(arm.busy for arm in outcome.arms))
    late_ms = max(arm.late_p99_ms for arm in outcome.arms)
    if busy > MAX_BUSY or late_ms > MAX_LATE_MS:
        line = (
            f"No verdict: the machine was too busy. Its processors were in use for up to {busy:.0%} of the "
            f"time, and requests were sent up to {late_ms:.0f} ms late; at most {MAX_BUSY:.0%} and "
            f"{MAX_LATE_MS:.0f} ms allow one."
        )
        return Verdict(told=False, kept=False, lines=[line])
    lines = [
        f"{_spent(arm)} ({arm.cost_per_hour / ours.cost_per_hour:.2f} times the cost of {ours.scheduler})."
        for arm in others
    ]
    lines.append(f"{_spent(ours)}, beside {ours.best_effort_cores:.2f} cores of best-effort work.")
    lines.append(_recovery("After the load grew", outcome.growth))
    lines.append(_recovery(f"After {outcome.loss.node} was lost", outcome.loss))
    lines.append(f"Processors were in use for up to {busy:.0%} of the time.")
    recovered = all(change.recovery_s is not None for change in (outcome.growth, outcome.loss))
    kept = recovered and all(service.met for service in ours.services)
    return Verdict(told=True, kept=kept, lines=lines)


def _recovery(after: str, change: Recovery) -> str:
    """Whether the targets were kept again after a change, and what failed."""
    again = change.recovery_s
    kept = (
        "the targets were not all kept again"
        if again is None
        else (f"all targets were kept again within {again:.1f} s")
    )
    return f"{after}, {kept}; {change.failed} of {change.requests} requests failed."


def _spent(arm: PlacedArm) -> str:
    """What a placement kept, with its cores and cost."""
    waiting = [service.service for service in arm.services if not service.replicas]
    short = [one.service for one in arm.services if one.replicas and one.status is PlacingStatus.SHORT]
    missed = [service.service for service in arm.services if service.replicas and not service.met]
    found = [f"has no room for {', '.join(waiting)}"] if waiting else []
    found += [f"is short of room for {', '.join(short)}"] if short else []
    found += [f"misses the target of {', '.join(missed)}"] if missed else []
    what = " and ".join(found) or "keeps all targets"
    return f"{arm.scheduler} {what}, with {arm.cores:.2f} cores at {arm.cost_per_hour:.2f} an hour"
