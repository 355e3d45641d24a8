"""Subset of a profile: some of its requests, in every stage."""

from __future__ import annotations

from dataclasses import replace

from kwiken.base.arrays import Ints
from kwiken.model.profile.profile import Profile, StageProfile


def part_of(profile: Profile, rows: Ints) -> Profile:
    """Profile of some of the requests, in the order given; pairs and busy times stay those of all requests.

    Args:
        profile: profile of all requests.
        rows: (m,) indices of requests.
    """
    return replace(
        profile,
        stages=tuple(rows_of(stage, rows) for stage in profile.stages),
        latency_ms=profile.latency_ms[rows],
        started_s=profile.started_s[rows],
        classes=profile.classes[rows] if profile.classes is not None else None,
        service_ms=profile.service_ms[rows] if profile.service_ms is not None else None,
        link_ms=profile.link_ms[rows] if profile.link_ms is not None else None,
    )


def rows_of(stage: StageProfile, rows: Ints) -> StageProfile:
    """Profile of a stage in some of the requests, in the order given; pairs and busy times stay those of all.

    Args:
        stage: profile of the stage in all requests.
        rows: (m,) indices of requests.
    """
    return replace(
        stage,
        calls_ms=stage.calls_ms[rows],
        censored=stage.censored[rows],
        worth=stage.worth[rows] if stage.worth is not None else None,
        asked=stage.asked[rows] if stage.asked is not None else None,
        lag_ms=stage.lag_ms[rows] if stage.lag_ms is not None else None,
    )
