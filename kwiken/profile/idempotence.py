"""Stages whose calls must not run twice: what traces of a foreign service cannot tell, and its owner can."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from kwiken.errors import InputError
from kwiken.profile.profile import Profile, StageProfile

SHOWN = 8


def kept_single(profiles: Sequence[Profile], patterns: Collection[str]) -> tuple[Profile, ...]:
    """The same profiles with some stages that may not be reissued.

    Args:
        profiles: what was learned.
        patterns: names of stages, or shell patterns such as `*:write_*`.

    Raises:
        InputError: for a pattern that is no stage's of any profile.
    """
    names = [stage.name for profile in profiles for stage in profile.stages if not stage.own_time]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
            raise InputError(f"no stage is named {pattern!r}; there are: {known}", where="once")
    return tuple(_kept_single(profile, patterns) for profile in profiles)


def _kept_single(profile: Profile, patterns: Collection[str]) -> Profile:
    def once(stage: StageProfile) -> bool:
        return any(fnmatchcase(stage.name, pattern) for pattern in patterns)

    stages = (replace(stage, reissuable=False) if once(stage) else stage for stage in profile.stages)
    return replace(profile, stages=tuple(stages))


def once_notes(profile: Profile, copied: Collection[str]) -> list[str]:
    """A warning, in words, of copies at stages of which nobody said that they may run twice.

    Args:
        profile: what was learned.
        copied: names of the stages that a plan sends copies of.
    """
    unknown = [s.name for s in profile.stages if s.name in copied and not _tells_idempotence(profile, s)]
    safe = "traces do not say what may safely run twice; `kwiken fit --once STAGE` keeps a write from it"
    return [f"{safe}. Copies go to: {', '.join(unknown)}"] if unknown else []


def _tells_idempotence(profile: Profile, stage: StageProfile) -> bool:
    """Whether the profile knows if calls of a stage may run twice: spans of our own runtime say so."""
    return stage.match.service == f"{profile.service}-{stage.name}"
