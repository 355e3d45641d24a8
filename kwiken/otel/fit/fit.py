"""Entry points of profile fitting: traces in, profiles out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, TypedDict, Unpack

import numpy as np

from kwiken.base.errors import InputError
from kwiken.base.jobs import Spread
from kwiken.model.latency import percentiles_of
from kwiken.model.profile.copy_dependence import with_dependence
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.weighting import SLOW_CHOSEN, decayed, weighted
from kwiken.otel.fit.foreign.foreign import fit_foreign
from kwiken.otel.fit.foreign.like_profile import fit_like, origin_of
from kwiken.otel.fit.foreign.reads_below import Below, seen_below
from kwiken.otel.fit.foreign.stage_names import short_ends, short_names
from kwiken.otel.fit.own import fit_own
from kwiken.otel.fit.sampled_requests import repeated, sample_shares, slow_were_chosen, trace_shares
from kwiken.otel.trace.forest import Forest, without_operations
from kwiken.otel.trace.load import Progress, read_forest
from kwiken.otel.trace.request_classes import BY_ROOT, request_traits, with_kinds
from kwiken.otel.trace.requests import Candidates, candidates, label, nearest, repeated_part, requests_of

MIN_KINDS_SCATTERED: Final = 20  # kinds below which single requests are nothing unusual
_MAX_REASONS_SHOWN: Final = 8
_MAX_KINDS_LEARNED: Final = 30  # for a list; the number of stages of rarer kinds is not told


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of requests in traces.

    Attributes:
        name: short name, unique among the kinds of the traces.
        label: `service:operation` of the first route that tells the kind from others.
        requests: number of requests, with those that failed.
        p50_ms: their median latency, milliseconds.
        p99_ms: 99th percentile of their latency, milliseconds.
        stages: number of stages, with the request's own time; None where there are none, and for rare kinds,
            which are not learned for a list.
    """

    name: str
    label: str
    requests: int
    p50_ms: float
    p99_ms: float
    stages: int | None


@dataclass(frozen=True, slots=True)
class Fits:
    """Profiles learned from traces.

    Attributes:
        profiles: one profile, or one for each kind of requests, most frequent first; none if only the kinds
            were asked for.
        kinds: kinds of requests, most frequent first.
        roots: number of requests by root operation (`service:operation`), most frequent first.
        left_out: kinds without a profile, each with the reason.
        repeated: by kind of requests that repeat an operation while they mostly wait, as a connection or a
            loop does: that operation, whose spans are the better requests.
    """

    profiles: tuple[Profile, ...]
    kinds: tuple[Kind, ...]
    roots: Mapping[str, int]
    left_out: Mapping[str, str]
    repeated: Mapping[str, str] = field(default_factory=dict)

    @property
    def scattered(self) -> bool:
        """Whether most of many kinds have a single request, as where names of spans hold identifiers."""
        return len(self.kinds) >= MIN_KINDS_SCATTERED and self.kinds[len(self.kinds) // 2].requests == 1


class FitOptions(TypedDict, total=False):
    """Options of a fit.

    Attributes:
        root: `operation` or `service:operation` of the requests to learn from, at any depth of a trace;
            None for the root of each trace.
        service: service of the requests; None for any.
        kind: name of the kind of requests, or an end of it such as `cart/add`; None for the most frequent.
        like: profile whose stages the requests are fitted into, with its kind and its view of the spans; None
            to find the stages. Without effect for traces of our own runtime.
        depth: number of levels of calls that become stages, 1 or more; 1 for the direct calls of a request.
            Traces of our own runtime state their stages, so it has no effect there.
        spans: True if any span is a call; False for calls from one service to another only.
        ignore: operations that are left out of the trees, as names or shell patterns of `operation` or
            `service:operation`; what they call counts as called by what called them.
        kind_by: attribute whose values are the classes of requests, read from a request's own span or else
            from the first span below it that has it; `root` for the kinds that routes tell, with all of one
            service in one profile. None for a single class.
        half_life_s: age before the last request at which a request counts half, seconds; None for equal
            weights.
        since_s: time from which requests count, seconds since 1970; None for all.
        until_s: time before which requests count, seconds since 1970; None for all.
    """

    root: str | None
    service: str | None
    kind: str | None
    like: Profile | None
    depth: int
    spans: bool
    ignore: Sequence[str]
    kind_by: str | None
    half_life_s: float | None
    since_s: float | None
    until_s: float | None


def fit_profile(
    paths: Iterable[str | Path],
    *,
    on_progress: Progress | None = None,
    max_spans: int | None = None,
    spread: Spread | None = None,
    **options: Unpack[FitOptions],
) -> Profile:
    """Learn a profile of the most frequent kind of requests, or of the kind asked for.

    Args:
        paths: files or folders of OTLP JSON lines or Jaeger JSON, also compressed by gzip, or
            `jaeger://HOST:PORT/SERVICE?lookback=1h`.
        on_progress: callback with the number of bytes read and their total.
        max_spans: maximal number of spans held; of more, a uniform sample of whole traces is used. None for
            as many as half of the memory that this process may use holds, at most 4 million.
        spread: function that runs jobs, for files that other processes read; None to read all in this one.
            The profile is the same.

    Returns:
        The profile, its requests in order of their start; its counts tell what was left out.
        docs/traces/stages.md states the rules.

    Raises:
        InputError: a path cannot be read, a file is broken, truncated, empty or of another format, or the
            traces hold no request to learn from. Names the file, and the line or field.
    """
    found = fit_profiles(paths, on_progress=on_progress, max_spans=max_spans, spread=spread, **options)
    return found.profiles[0]


def fit_forest(forest: Forest, *, since_s: float | None = None, until_s: float | None = None) -> Profile:
    """Learn a profile of the most frequent kind of requests from traces that were read before.

    Args:
        forest: traces; they stay as they are.
        since_s: time from which requests count, seconds since 1970; None for all.
        until_s: time before which requests count, seconds since 1970; None for all.

    Raises:
        InputError: the traces hold no request to learn from.
    """
    own = replace(forest, counts=Counter(forest.counts))
    read = _found_in(own, {"since_s": since_s, "until_s": until_s})
    return read.learn(read.chosen())


def fit_profiles(
    paths: Iterable[str | Path],
    *,
    every: bool = False,
    on_progress: Progress | None = None,
    max_spans: int | None = None,
    spread: Spread | None = None,
    **options: Unpack[FitOptions],
) -> Fits:
    """Learn a profile of each kind of requests, or of one, and list the kinds.

    Args:
        every: True for a profile of every kind, False for one only.

    Raises:
        InputError: as `fit_profile`; with `every`, only if no kind has a profile.
    """
    read = _read(paths, on_progress, max_spans, spread, options)
    if not every:
        op = read.chosen()
        return read.fits({op: read.learn(op)}, {})
    profiles: dict[int, Profile] = {}
    left_out: dict[int, str] = {}
    for op in read.found.frequency:
        try:
            profiles[op] = read.learn(op)
        except InputError as error:
            left_out[op] = str(error)
    if not profiles:
        raise InputError("; ".join(list(left_out.values())[:_MAX_REASONS_SHOWN]))
    return read.fits(profiles, left_out)


def list_kinds(
    paths: Iterable[str | Path],
    *,
    on_progress: Progress | None = None,
    max_spans: int | None = None,
    spread: Spread | None = None,
    **options: Unpack[FitOptions],
) -> Fits:
    """List the kinds of requests in traces, without a profile; arguments and errors as `fit_profiles`."""
    read = _read(paths, on_progress, max_spans, spread, options)
    return read.fits({}, {})


class _Read(NamedTuple):
    """Traces that were read, and how to learn from them."""

    forest: Forest
    found: Candidates
    below: Below | None
    options: FitOptions

    def chosen(self) -> int:
        """Number of the operation that tells the kind asked for, or the most frequent one."""
        ops = list(self.found.frequency)
        model, kind = self.options.get("like"), self.options.get("kind")
        wanted = origin_of(model).kind if model is not None and not len(self.found.own) else kind
        if wanted is None:
            return ops[0]
        short = short_names(self.forest.names.operations[op] for op in ops)
        names = [short[self.forest.names.operations[op]] for op in ops]
        labels = [label(self.forest, op) for op in ops]
        if model is not None and wanted not in labels:
            held = ", ".join(names[:_MAX_REASONS_SHOWN])
            raise InputError(
                f"is a profile of {wanted!r}, and the traces hold no such request; they hold {held}",
                where="like",
            )
        return ops[_named(labels, names, wanted)]

    def learn(self, op: int) -> Profile:
        """Learn the profile of one kind, with counts of its own."""
        options = self.options
        part = replace(self.forest, counts=Counter(self.forest.counts))
        kind_by, model = options.get("kind_by"), options.get("like")
        requests = requests_of(
            part,
            self.found,
            op,
            since_s=options.get("since_s"),
            until_s=options.get("until_s"),
            together=kind_by == BY_ROOT,
        )
        if requests.own:
            profile = fit_own(part, requests)
        elif model is not None:
            profile = fit_like(part, requests, model)
        else:
            profile = fit_foreign(
                part,
                requests,
                below=self.below,
                depth=options.get("depth", 1),
                spans=options.get("spans", False),
                ignored=options.get("ignore", ()),
            )
        if kind_by is not None:
            profile = with_kinds(profile, part, requests, kind_by)
        profile = with_dependence(profile, request_traits(part, requests.rows))
        shares, stated = sample_shares(part, requests.rows, trace_shares(part))
        chosen = 0 if stated else slow_were_chosen(profile.latency_ms)
        if chosen and profile.classes is not None:  # two kinds of requests make a step too
            by_class = (profile.latency_ms[profile.classes == each] for each in np.unique(profile.classes))
            chosen = sum(map(slow_were_chosen, by_class))
        if chosen:
            profile = replace(profile, counts={**profile.counts, SLOW_CHOSEN: chosen})
        profile = weighted(profile, shares)
        half_life_s = options.get("half_life_s")
        return profile if half_life_s is None else decayed(profile, half_life_s)

    def fits(self, profiles: Mapping[int, Profile], left_out: Mapping[int, str]) -> Fits:
        """Profiles by number of their kind's operation, together with all kinds of requests."""
        forest, ops = self.forest, list(self.found.frequency)
        short = short_names(forest.names.operations[op] for op in ops)
        order = np.argsort(self.found.kinds, kind="stable")
        first, last = (np.searchsorted(self.found.kinds[order], ops, side) for side in ("left", "right"))
        kinds, repeated_parts, by_trace = [], {}, trace_shares(forest)
        for place, op in enumerate(ops):
            rows = self.found.rows[order[first[place] : last[place]]]
            shares, _ = sample_shares(forest, rows, by_trace)
            latency_ms = repeated((forest.end[rows] - forest.start[rows]) / 1e6, shares)
            p50, p99 = percentiles_of(latency_ms, (50, 99))
            if place < _MAX_KINDS_LEARNED and not len(self.found.own):
                repeated_parts[label(forest, op)] = repeated_part(forest, rows)
            stages = len(profiles[op].stages) if op in profiles else None
            if stages is None and op not in left_out and place < _MAX_KINDS_LEARNED:
                stages = self._stages(op)
            name = short[forest.names.operations[op]]
            kinds.append(Kind(name, label(forest, op), len(rows), p50, p99, stages))
        roots = Counter(label(forest, op) for op in forest.spans["op"][self.found.rows].tolist())
        return Fits(
            tuple(profiles.values()),
            tuple(kinds),
            dict(sorted(roots.items(), key=lambda each: (-each[1], each[0]))),
            {label(forest, op): why for op, why in left_out.items()},
            {kind: label(forest, part) for kind, part in repeated_parts.items() if part >= 0},
        )

    def _stages(self, op: int) -> int | None:
        """Number of stages of a kind; None where its requests make no calls, or where a model states them."""
        if self.options.get("like") is not None:
            return None
        try:
            return len(self.learn(op).stages)
        except InputError:
            return None


def _read(
    paths: Iterable[str | Path],
    on_progress: Progress | None,
    max_spans: int | None,
    spread: Spread | None,
    options: FitOptions,
) -> _Read:
    kind_by = options.get("kind_by")
    forest = read_forest(
        paths,
        on_progress=on_progress,
        max_spans=max_spans,
        kind_by=kind_by if kind_by != BY_ROOT else None,
        spread=spread,
    )
    if not len(forest.owns):  # ids tell what comes after what in our own traces only
        forest = forest.without_ids()
    return _found_in(forest, options)


def _found_in(forest: Forest, options: FitOptions) -> _Read:
    """Requests in traces, with what is left out of the traces removed."""
    model = options.get("like")
    ignore = options.get("ignore", ()) if model is None else origin_of(model).ignored
    if ignore:
        forest = without_operations(forest, ignore)
    found = candidates(forest, root=options.get("root"), service=options.get("service"))
    return _Read(forest, found, None if found.calls is None else seen_below(forest), options)


def _named(labels: Sequence[str], names: Sequence[str], wanted: str) -> int:
    """Index of the kind of that name.

    There are three cases: 1. the label or the short name; 2. the operation, or the end of its path; 3. a part
    of exactly one label.

    Args:
        labels: labels of all kinds.

    Raises:
        InputError: no kind is meant, or several; names the nearest.
    """
    rules: tuple[Callable[[str, str], bool], ...] = (
        lambda label, name: wanted in {label, name},
        lambda label, _: label.partition(":")[2] == wanted,
        lambda label, _: wanted in short_ends(label),
        lambda label, _: wanted.lower() in label.lower(),
    )
    for rule in rules:
        meant = [place for place, pair in enumerate(zip(labels, names, strict=True)) if rule(*pair)]
        if len(meant) == 1:
            return meant[0]
        if meant:
            several = ", ".join(names[place] for place in meant[:_MAX_REASONS_SHOWN])
            raise InputError(f"{wanted!r} could be any of {several}", where="kind")
    near = nearest(wanted, names) or list(names[:_MAX_REASONS_SHOWN])
    raise InputError(f"no kind of requests is named {wanted!r}; nearest: {', '.join(near)}", where="kind")
