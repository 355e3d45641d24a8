"""Verdict of the demonstration, or that the machine was too busy for one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwiken.apps.demo_place.run import DemoPlaceResult, PlacedArm

MAX_BUSY: Final = 0.9  # share of the processors; above it latencies are the machine's, not the placement's
MAX_LATE_MS: Final = 25.0  # p99 of the delay of requests


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the run shows.

    Attributes:
        told: whether the machine was quiet enough for a verdict.
        kept: whether every target was kept, before the loss of a node and again after it.
    """

    told: bool
    kept: bool
    lines: list[str]


def verdict(outcome: DemoPlaceResult) -> Verdict:
    """Judge a run."""
    *others, ours = outcome.arms
    busy = max(outcome.loss.busy, *(arm.busy for arm in outcome.arms))
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
    loss = outcome.loss
    again = loss.kept_again_s
    lines.append(
        f"After {loss.node} was stopped, all targets were kept again within {again:.1f} s; {loss.failed} of "
        f"{loss.requests} requests failed."
        if again is not None
        else f"After {loss.node} was stopped, the targets were not all kept again; {loss.failed} of "
        f"{loss.requests} requests failed."
    )
    kept = all(service.met for service in ours.services) and again is not None
    return Verdict(told=True, kept=kept, lines=lines)


def _spent(arm: PlacedArm) -> str:
    """What a placement kept, with its cores and cost."""
    waiting = [service.service for service in arm.services if not service.replicas]
    missed = [service.service for service in arm.services if service.replicas and not service.met]
    found = [f"has no room for {', '.join(waiting)}"] if waiting else []
    found += [f"misses the target of {', '.join(missed)}"] if missed else []
    what = " and ".join(found) or "keeps all targets"
    return f"{arm.scheduler} {what}, with {arm.cores:.2f} cores at {arm.cost_per_hour:.2f} an hour"
