"""Data of the charts, derived from profile, plan and result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kwiken.apps.report.charts.curves import CurveView
from kwiken.apps.report.charts.dag import StageBox
from kwiken.apps.report.charts.gantt import GanttRequest
from kwiken.apps.report.model.result import DemoResult
from kwiken.apps.report.model.statistics import Floats
from kwiken.model.latency import critical_path
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.curves.curve import Curve
from kwiken.tail.diagnosis.explanation import Explanation


@dataclass(frozen=True, kw_only=True)
class Material:
    """Data of a report; missing parts leave their sections out.

    Attributes:
        even: plan with the same budget spread evenly.
        arms: measured latencies by arm, in milliseconds.
        requests: requests to draw, with their arms.
        notes: remarks for the foot of the page.
        jaeger: address of the Jaeger that has the traces, without a slash at its end; None for none.
    """

    profile: Profile | None = None
    plan: Plan | None = None
    even: Plan | None = None
    result: DemoResult | None = None
    arms: Mapping[str, Floats] = field(default_factory=dict)
    requests: tuple[GanttRequest, ...] = ()
    curves: tuple[CurveView, ...] = ()
    story: Explanation | None = None
    notes: tuple[str, ...] = ()
    jaeger: str | None = None

    @property
    def service(self) -> str:
        """Name of the service."""
        for source in (self.result, self.plan, self.profile):
            if source is not None:
                return source.service
        return "a service"


def budget_shares(plan: Plan) -> dict[str, float]:
    """Share of each stage in the plan's spend on reissues; the shares sum to 1, or are all 0."""
    spent = {
        name: plan.cost.stages[name] * stage.reissue.fraction
        for name, stage in plan.stages.items()
        if stage.reissue is not None
    }
    total = sum(spent.values())
    return {name: cost / total for name, cost in spent.items()} if total > 0 else {}


def boxes(material: Material) -> list[StageBox]:
    """Boxes of the stages, parents before children; empty without a profile, because a plan has no edges."""
    if material.profile is None:
        return []
    shares = budget_shares(material.plan) if material.plan is not None else {}
    found = []
    for stage in material.profile.stages:
        planned = material.plan.stages.get(stage.name) if material.plan is not None else None
        policy = planned.reissue if planned is not None else None
        costs = material.plan.cost.stages if material.plan is not None else {}
        found.append(
            StageBox(
                name=stage.name,
                label="own time of the root" if stage.own_time and not stage.after else stage.name,
                after=stage.after,
                cost=costs.get(stage.name),
                budget=shares.get(stage.name, 0.0),
                fraction=policy.fraction if policy is not None else 0.0,
                after_ms=policy.after_ms if policy is not None else None,
                fanout=stage.calls_ms.shape[1],
                reissuable=stage.reissuable,
            )
        )
    return found


def critical_shares(profile: Profile) -> dict[str, float]:
    """Share of requests with each stage on their critical path."""
    if not profile.requests:
        return {stage.name: 0.0 for stage in profile.stages}
    on_path = critical_path(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    return {stage.name: float(row.mean()) for stage, row in zip(profile.stages, on_path, strict=True)}


def variance_shares(profile: Profile) -> dict[str, float]:
    """Share of each stage in the sum of the stages' variances."""
    variance = {
        stage.name: float(np.var(stage.latency_ms)) if profile.requests else 0.0 for stage in profile.stages
    }
    total = sum(variance.values())
    return {name: value / total if total > 0 else 0.0 for name, value in variance.items()}


def most_telling(curves: Sequence[CurveView], most: int = 12) -> list[CurveView]:
    """Select the curves to show: stages with a budget first, then those that could gain."""
    ranked = sorted(curves, key=lambda curve: (-curve.chosen, min(curve.hull, default=1.0)))
    kept = {curve.name for curve in ranked[:most]}
    return [curve for curve in curves if curve.name in kept]


def curve_views(curves: Mapping[str, Curve], plan: Plan | None, even: Plan | None) -> tuple[CurveView, ...]:
    """Curves to draw: variances relative to no reissues, and the shares that the plan chose."""
    return tuple(
        CurveView(
            name=name,
            share=curve.fraction.tolist(),
            risk=(curve.variance / curve.variance[0]).tolist(),
            hull=(curve.hull / curve.variance[0]).tolist(),
            chosen=_fraction(plan, name) or 0.0,
            even=_fraction(even, name),
        )
        for name, curve in curves.items()
        if curve.variance[0] > 0
    )


def _fraction(plan: Plan | None, stage: str) -> float | None:
    planned = plan.stages.get(stage) if plan is not None else None
    return planned.reissue.fraction if planned is not None and planned.reissue is not None else None
