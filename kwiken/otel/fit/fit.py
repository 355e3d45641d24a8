"""Fit: from traces to a profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from kwiken.errors import InputError
from kwiken.otel.fit.foreign import fit_foreign
from kwiken.otel.fit.own import fit_own
from kwiken.otel.read import MAX_SPANS
from kwiken.otel.trace import (
    BY_ROOT,
    Candidates,
    Forest,
    Progress,
    candidates,
    label,
    read_forest,
    requests_of,
    with_kinds,
)
from kwiken.profile import Profile, decayed

_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Fits:
    """What was learned from traces.

    Attributes:
        profiles: one, or of every root operation one; most frequent first.
        roots: requests by root operation, as `service:operation`, most frequent first.
        left_out: root operations that nothing could be learned of, and why.
    """

    profiles: tuple[Profile, ...]
    roots: Mapping[str, int]
    left_out: Mapping[str, str]


def fit_profile(
    paths: Iterable[str | Path],
    *,
    root: str | None = None,
    service: str | None = None,
    depth: int = 1,
    kind_by: str | None = None,
    half_life_s: float | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    on_progress: Progress | None = None,
    max_spans: int = MAX_SPANS,
) -> Profile:
    """Learn a profile from traces.

    Args:
        paths: files or folders of OTLP JSON lines or Jaeger JSON, also compressed by gzip, or
            `jaeger://HOST:PORT/SERVICE?lookback=1h`.
        root: `operation` or `service:operation` of the requests to learn from, wherever in a trace they are;
            None for the most frequent root of a trace.
        service: whose requests; None for any.
        depth: how many levels of calls become stages; 1 for the direct calls of a request. Our own runtime's
            traces state their stages, so it changes nothing there.
        kind_by: attribute whose values tell kinds of requests apart, on a request's own span or else on the
            first one below it that has it; `root` for the root operation, all of one service together. None
            for requests of one kind.
        half_life_s: a request so many seconds before the last one counts half; None for all alike.
        since_s: seconds since 1970 from which requests count; None for all.
        until_s: seconds since 1970 before which they count; None for all.
        on_progress: called with how many bytes of how many are read.
        max_spans: the most spans held; of more, a uniform sample of whole traces is learned from.

    Returns:
        The profile, its requests in order of their start; what was set aside is in its counts. docs/traces.md
        states the rules.

    Raises:
        InputError: a path that cannot be read, a file that is broken, truncated, empty or of another format,
            or traces without a request to learn from. Names the file, and the line or field.
    """
    return fit_profiles(
        paths,
        root=root,
        service=service,
        depth=depth,
        kind_by=kind_by,
        half_life_s=half_life_s,
        since_s=since_s,
        until_s=until_s,
        on_progress=on_progress,
        max_spans=max_spans,
    ).profiles[0]


def fit_profiles(
    paths: Iterable[str | Path],
    *,
    every: bool = False,
    root: str | None = None,
    service: str | None = None,
    depth: int = 1,
    kind_by: str | None = None,
    half_life_s: float | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    on_progress: Progress | None = None,
    max_spans: int = MAX_SPANS,
) -> Fits:
    """Learn a profile of each root operation, or of the most frequent one, and say which there are.

    Args:
        paths: as `fit_profile`, like all that is not named here.
        every: learn of every root operation, not only of the most frequent one.
        root: as `fit_profile`.
        service: as `fit_profile`.
        depth: as `fit_profile`.
        kind_by: as `fit_profile`.
        half_life_s: as `fit_profile`.
        since_s: as `fit_profile`.
        until_s: as `fit_profile`.
        on_progress: as `fit_profile`.
        max_spans: as `fit_profile`.

    Raises:
        InputError: as `fit_profile`; with `every`, only where nothing could be learned of any of them.
    """
    asked = kind_by if kind_by != BY_ROOT else None
    forest = read_forest(paths, on_progress=on_progress, max_spans=max_spans, kind_by=asked)
    found = candidates(forest, root=root, service=service)
    wishes = _Wishes(depth, kind_by, half_life_s, since_s, until_s)
    roots = {label(forest, op): count for op, count in found.frequency.items()}
    if not every:
        return Fits((_learn(forest, found, next(iter(found.frequency)), wishes),), roots, {})
    profiles: list[Profile] = []
    left_out: dict[str, str] = {}
    for op in found.frequency:
        try:
            profiles.append(_learn(forest, found, op, wishes))
        except InputError as error:
            left_out[label(forest, op)] = str(error)
    if not profiles:
        raise InputError("; ".join(list(left_out.values())[:_SHOWN]))
    return Fits(tuple(profiles), roots, left_out)


class _Wishes(NamedTuple):
    """What is asked of a fit; see `fit_profile`."""

    depth: int
    kind_by: str | None
    half_life_s: float | None
    since_s: float | None
    until_s: float | None


def _learn(forest: Forest, found: Candidates, op: int, wishes: _Wishes) -> Profile:
    """The profile of one root operation, with counts of its own."""
    part = replace(forest, counts=Counter(forest.counts))
    together = wishes.kind_by == BY_ROOT
    requests = requests_of(part, found, op, since_s=wishes.since_s, until_s=wishes.until_s, together=together)
    profile = fit_own(part, requests) if requests.own else fit_foreign(part, requests, depth=wishes.depth)
    if wishes.kind_by is not None:
        profile = with_kinds(profile, part, requests, wishes.kind_by)
    return profile if wishes.half_life_s is None else decayed(profile, wishes.half_life_s)
