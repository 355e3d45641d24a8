"""Idempotence of stages: marks stages whose calls must not be copied, and warns where it is unknown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from kwiken.errors import InputError
from kwiken.profile.notes import IdempotenceUnknown
from kwiken.profile.profile import Profile, StageProfile

MAX_NAMES_SHOWN = 8


def kept_single(profiles: Sequence[Profile], patterns: Collection[str]) -> tuple[Profile, ...]:
    """Profiles in which the stages that match a pattern may not be reissued.

    Args:
        profiles: profiles of services.
        patterns: names of stages, or shell patterns such as `*:write_*`.

    Raises:
        InputError: for a pattern that matches no stage of any profile.
    """
    names = [stage.name for profile in profiles for stage in profile.stages if not stage.own_time]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:MAX_NAMES_SHOWN]) + (", ..." if len(names) > MAX_NAMES_SHOWN else "")
            raise InputError(f"no stage is named {pattern!r}; there are: {known}", where="once")
    return tuple(_kept_single(profile, patterns) for profile in profiles)


def _kept_single(profile: Profile, patterns: Collection[str]) -> Profile:
    def once(stage: StageProfile) -> bool:
        return any(fnmatchcase(stage.name, pattern) for pattern in patterns)

    stages = (replace(stage, reissuable=False) if once(stage) else stage for stage in profile.stages)
    return replace(profile, stages=tuple(stages))


def idempotence_notes(profile: Profile, copied: Collection[str]) -> tuple[IdempotenceUnknown, ...]:
    """Note on copies at stages whose idempotence is unknown; empty where there are none.

    Args:
        profile: profile of the service.
        copied: names of the stages whose calls a plan copies.
    """
    unknown = tuple(s.name for s in profile.stages if s.name in copied and not _tells_idempotence(profile, s))
    return (IdempotenceUnknown(unknown),) if unknown else ()


def _tells_idempotence(profile: Profile, stage: StageProfile) -> bool:
    """Whether the profile records if calls of a stage may run twice, as spans of kwiken's runtime do."""
    return stage.match.service == f"{profile.service}-{stage.name}"
