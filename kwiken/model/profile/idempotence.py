"""Idempotence of stages: which calls only read and may run twice, by method, name and the spans below.

Traces do not state which calls may run twice. A call counts as a read only where something says that the call
reads; every other call counts as a write. The user can overrule both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import SAFE_METHODS
from kwiken.model.profile.notes import IdempotenceUnknown
from kwiken.model.profile.profile import OWN_TIME, Profile, StageProfile
from kwiken.model.reads.names import WRITING_METHODS, asks_graphql, path_changes, says_read, says_write

MAX_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for reads and writes in the spans below the calls of a stage.

    Attributes:
        wrote: name of the most frequent operation that writes; empty where none does.
        read: whether something reads below at least half of the calls, and below none a call stands of which
            nothing says that it reads.
    """

    wrote: str = ""
    read: bool = False


def why_write(operation: str, method: str | None, seen: Evidence) -> str:
    """Reason to take a call for a write; empty for a call that is taken for a read.

    A call that nothing is known of is a write. There are eight cases:

    1. A span below the call writes, whatever the method of the call: the name of that span.
    2. The method writes (PUT, DELETE, PATCH): the method.
    3. The name is a path in which a word says that it cancels, creates or changes something: the name,
       whatever the method (`GET /cancel/{id}`).
    4. The method reads (GET, HEAD, OPTIONS): the call is taken for a read.
    5. The name says that the call writes: the name.
    6. The name says that the call reads, and the call is no POST, or is a query of GraphQL: the call is taken
       for a read.
    7. Spans below read, and none writes: the call is taken for a read.
    8. Otherwise nothing says that the call reads: the method, or the name.

    Args:
        operation: route or name of the callee's span.
        method: HTTP method of the call; None if it is not known.
        seen: what the spans below the calls say.
    """
    if seen.wrote:
        return seen.wrote
    if method in WRITING_METHODS:
        return str(method)
    if method in SAFE_METHODS:
        return operation if path_changes(operation) else ""
    if says_write(operation, commits=True):
        return operation
    if seen.read or asks_graphql(operation) or (says_read(operation) and method != "POST"):
        return ""
    return method or operation


def kept_single(profiles: Sequence[Profile], patterns: Collection[str]) -> tuple[Profile, ...]:
    """Profiles in which the stages that match a pattern may not be reissued.

    Args:
        patterns: names of stages, or shell patterns such as `*:write_*`.

    Raises:
        InputError: for a pattern that matches no stage of any profile.
    """
    _check_known(profiles, patterns, "once")
    return tuple(_marked(profile, patterns, reissuable=False) for profile in profiles)


def kept_copyable(profiles: Sequence[Profile], patterns: Collection[str]) -> tuple[Profile, ...]:
    """Profiles in which the stages that match a pattern may be reissued, though they were taken for writes.

    Args:
        patterns: names of stages, or shell patterns such as `*:search`.

    Raises:
        InputError: for a pattern that matches no stage of any profile.
    """
    _check_known(profiles, patterns, "copyable")
    return tuple(_marked(profile, patterns, reissuable=True) for profile in profiles)


def _check_known(profiles: Sequence[Profile], patterns: Collection[str], where: str) -> None:
    names = [stage.name for profile in profiles for stage in profile.stages if not _is_own_time(stage)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:MAX_NAMES_SHOWN]) + (", ..." if len(names) > MAX_NAMES_SHOWN else "")
            raise InputError(f"no stage is named {pattern!r}; there are: {known}", where=where)


def _is_own_time(stage: StageProfile) -> bool:
    return stage.name.endswith(OWN_TIME)


def _marked(profile: Profile, patterns: Collection[str], *, reissuable: bool) -> Profile:
    def meant(stage: StageProfile) -> bool:
        return not _is_own_time(stage) and any(fnmatchcase(stage.name, pattern) for pattern in patterns)

    stages = (replace(stage, reissuable=reissuable) if meant(stage) else stage for stage in profile.stages)
    return replace(profile, stages=tuple(stages))


def taken_for(profile: Profile) -> tuple[list[str], dict[str, str]]:
    """Stages taken for reads, and stages taken for writes with the reason.

    Args:
        profile: profile of a service whose spans do not state which calls may run twice.
    """
    mine = [stage for stage in profile.stages if not _is_own_time(stage)]
    reads = [stage.name for stage in mine if stage.reissuable and not _tells_idempotence(profile, stage)]
    return reads, {stage.name: stage.writes for stage in mine if not stage.reissuable and stage.writes}


def idempotence_notes(profile: Profile, copied: Collection[str]) -> tuple[IdempotenceUnknown, ...]:
    """Note on copies at stages whose idempotence is unknown; empty where there are none.

    Args:
        copied: names of the stages whose calls a plan copies.
    """
    unknown = tuple(s.name for s in profile.stages if s.name in copied and not _tells_idempotence(profile, s))
    return (IdempotenceUnknown(unknown),) if unknown else ()


def _tells_idempotence(profile: Profile, stage: StageProfile) -> bool:
    """Whether the profile records if calls of a stage may run twice, as spans of kwiken's runtime do."""
    return stage.match.service == f"{profile.service}-{stage.name}"
