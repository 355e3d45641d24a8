"""Entry points of profile fitting: traces in, profiles out."""

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

_MAX_REASONS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Fits:
    """Profiles learned from traces.

    Attributes:
        profiles: one profile, or one for each root operation; most frequent first.
        roots: number of requests by root operation (`service:operation`), most frequent first.
        left_out: root operations without a profile, each with the reason.
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
        root: `operation` or `service:operation` of the requests to learn from, at any depth of a trace;
            None for the most frequent root of a trace.
        service: service of the requests; None for any.
        depth: number of levels of calls that become stages, 1 or more; 1 for the direct calls of a request.
            Traces of our own runtime state their stages, so it has no effect there.
        kind_by: attribute whose values are the classes of requests, read from a request's own span or else
            from the first span below it that has it; `root` for the root operation, with all of one
            service in one profile. None for a single class.
        half_life_s: age before the last request at which a request counts half, seconds; None for equal
            weights.
        since_s: time from which requests count, seconds since 1970; None for all.
        until_s: time before which requests count, seconds since 1970; None for all.
        on_progress: callback with the number of bytes read and their total.
        max_spans: maximal number of spans held; of more, a uniform sample of whole traces is used.

    Returns:
        The profile, its requests in order of their start; its counts tell what was left out. docs/traces.md
        states the rules.

    Raises:
        InputError: a path cannot be read, a file is broken, truncated, empty or of another format, or the
            traces hold no request to learn from. Names the file, and the line or field.
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
    """Learn a profile of each root operation, or of the most frequent one, and list the root operations.

    Args:
        paths: as `fit_profile`.
        every: True for a profile of every root operation, False for the most frequent one only.
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
        InputError: as `fit_profile`; with `every`, only if no root operation has a profile.
    """
    asked = kind_by if kind_by != BY_ROOT else None
    forest = read_forest(paths, on_progress=on_progress, max_spans=max_spans, kind_by=asked)
    found = candidates(forest, root=root, service=service)
    options = _Options(depth, kind_by, half_life_s, since_s, until_s)
    roots = {label(forest, op): count for op, count in found.frequency.items()}
    if not every:
        return Fits((_learn(forest, found, next(iter(found.frequency)), options),), roots, {})
    profiles: list[Profile] = []
    left_out: dict[str, str] = {}
    for op in found.frequency:
        try:
            profiles.append(_learn(forest, found, op, options))
        except InputError as error:
            left_out[label(forest, op)] = str(error)
    if not profiles:
        raise InputError("; ".join(list(left_out.values())[:_MAX_REASONS_SHOWN]))
    return Fits(tuple(profiles), roots, left_out)


class _Options(NamedTuple):
    """Options of a fit; see `fit_profile`."""

    depth: int
    kind_by: str | None
    half_life_s: float | None
    since_s: float | None
    until_s: float | None


def _learn(forest: Forest, found: Candidates, op: int, options: _Options) -> Profile:
    """Learn the profile of one root operation, with counts of its own."""
    part = replace(forest, counts=Counter(forest.counts))
    together = options.kind_by == BY_ROOT
    requests = requests_of(
        part, found, op, since_s=options.since_s, until_s=options.until_s, together=together
    )
    profile = fit_own(part, requests) if requests.own else fit_foreign(part, requests, depth=options.depth)
    if options.kind_by is not None:
        profile = with_kinds(profile, part, requests, options.kind_by)
    return profile if options.half_life_s is None else decayed(profile, options.half_life_s)
