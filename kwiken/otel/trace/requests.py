"""Choice of request spans: roots of traces, or topmost spans of a given operation or service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

import numpy as np

from kwiken.base.errors import InputError
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import LOST, ROOT, Forest, services_of
from kwiken.otel.trace.request_kinds import kinds_of
from kwiken.otel.trace.service_calls import ServiceCalls, find_service_calls

MAX_ERROR_SHARE: Final = (
    0.5  # if more of an operation's spans than this are errors, "error" does not mean failure
)
MIN_REPEATS: Final = 10  # of one operation in the median request that may be a connection or a loop
MAX_BUSY_SHARE: Final = 0.1  # of such a request, in which something below it runs
_MAX_ROOTS_SHOWN: Final = 8
_MAX_NEAREST_SHOWN: Final = 3
_MAX_NAMES_COMPARED: Final = 5000  # letter by letter, which takes a few microseconds each


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to learn from.

    Attributes:
        rows: (n,) rows of their spans, in order of their start.
        op: number of the operation that tells their kind: of their own spans, or of a service behind a
            gateway.
        own: True if our own runtime wrote them.
        kinds: (n,) number of the operation that tells each one's kind; all are `op`, unless requests of
            several kinds were taken together.
        calls: requests and calls between services; None where our own runtime wrote all requests.
    """

    rows: Ints
    op: int
    own: bool
    kinds: Ints
    calls: ServiceCalls | None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Spans that may be requests.

    Attributes:
        rows: (n,) rows of the spans.
        own: (m,) rows of spans that our own runtime wrote.
        kinds: (n,) number of the operation that tells each one's kind.
        frequency: number of requests by kind, most frequent first, equal ones by name; kinds of messages that
            are worked off come last, because nobody waits for them.
        calls: requests and calls between services; None where our own runtime wrote all requests.
    """

    rows: Ints
    own: Ints
    kinds: Ints
    frequency: Mapping[int, int]
    calls: ServiceCalls | None


def candidates(forest: Forest, *, root: str | None = None, service: str | None = None) -> Candidates:
    """Find all spans that may be requests.

    Args:
        forest: forest of all spans.
        root: `operation` or `service:operation` of the requests; None for any root of a trace.
        service: service of the requests; None for any.

    Raises:
        InputError: there is no such span.
    """
    own = _own_requests(forest)
    if root is None and service is None:
        rows = np.union1d(own, _roots(forest, own))
    else:
        rows = _topmost(forest, _matching(forest, root, service), own)
    if not len(rows):
        raise InputError(_none_found(forest, root, service))
    kinds = forest.spans["op"][rows].astype(np.int64)
    foreign = ~np.isin(rows, own)
    calls = find_service_calls(forest, rows[foreign]) if foreign.any() else None
    if calls is not None:
        kinds[foreign] = kinds_of(forest, calls, rows[foreign])
    count = Counter(kinds.tolist())
    taking = Counter(kinds[forest.spans["flags"][rows] & c.CONSUMER != 0].tolist())
    ops = sorted(count, key=lambda each: (2 * taking[each] > count[each], -count[each], label(forest, each)))
    return Candidates(rows, own, kinds, {op: count[op] for op in ops}, calls)


def choose(
    forest: Forest,
    *,
    root: str | None = None,
    service: str | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
) -> Requests:
    """Choose the requests of the most frequent kind; arguments as `candidates` and `requests_of`.

    Raises:
        InputError: there is no request.
    """
    found = candidates(forest, root=root, service=service)
    return requests_of(forest, found, next(iter(found.frequency)), since_s=since_s, until_s=until_s)


def requests_of(
    forest: Forest,
    found: Candidates,
    op: int,
    *,
    since_s: float | None = None,
    until_s: float | None = None,
    together: bool = False,
) -> Requests:
    """Select the requests of one kind; requests left out are added to the forest's counts.

    Args:
        forest: forest of all spans.
        op: number of the operation that tells their kind.
        since_s: time from which requests count, seconds since 1970; None for all.
        until_s: time before which requests count, seconds since 1970; None for all.
        together: True to add requests of all other kinds whose own spans are of the same service.

    Raises:
        InputError: no request is left.
    """
    mine = found.kinds == op
    own = bool(np.isin(found.rows[mine], found.own).any())
    if together and not own:
        services = services_of(forest.names)[forest.spans["op"][found.rows]]
        mine = np.isin(services, services[mine]) & ~np.isin(found.rows, found.own)
    forest.counts["requests_of_other_kinds"] = int(len(found.rows) - mine.sum())
    rows, kinds = found.rows[mine], found.kinds[mine]
    left = _usable(forest, _in_time(forest, rows, since_s, until_s))
    left = left[np.argsort(forest.start[left], kind="stable")]
    calls = found.calls
    if calls is not None:  # what is set aside among the calls is counted with the requests
        calls = replace(calls, forest=replace(calls.forest, counts=forest.counts))
    return Requests(left, op, own, kinds[np.searchsorted(rows, left)], calls)


def repeated_part(forest: Forest, rows: Ints) -> int:
    """Operation that requests repeat while they mostly wait, as a connection or a loop does; -1 for none.

    Args:
        forest: forest of all spans.
        rows: (n,) rows of the requests' spans; n is 1 or more.
    """
    whose = np.full(len(forest), -1, np.int64)
    whose[rows] = np.arange(len(rows))
    parts = np.flatnonzero(forest.parent >= 0)
    parts = parts[whose[forest.parent[parts]] >= 0]
    length = forest.end - forest.start
    if len(parts) < MIN_REPEATS * len(rows) or length[parts].sum() > MAX_BUSY_SHARE * length[rows].sum():
        return -1
    most = int(np.bincount(forest.spans["op"][parts]).argmax())
    often = np.bincount(whose[forest.parent[parts[forest.spans["op"][parts] == most]]], minlength=len(rows))
    return most if np.median(often) >= MIN_REPEATS else -1


def label(forest: Forest, op: int) -> str:
    """`service:operation`."""
    return ":".join(forest.names.operations[op])


def roles(forest: Forest) -> Ints:
    """(n,): role of each of our own spans; 0 for other spans."""
    own = forest.spans["own"]
    found = np.zeros(len(forest), np.int64)
    found[own >= 0] = forest.owns["role"][own[own >= 0]]
    return found


def _own_requests(forest: Forest) -> Ints:
    return np.flatnonzero(roles(forest) == c.REQUEST)


def _roots(forest: Forest, own: Ints) -> Ints:
    """One root of each trace that our runtime did not write.

    Of several roots the earliest counts. A trace whose root was lost counts if the rest of it is one tree, or
    if its earliest tree holds the others in its time.
    """
    taken = np.zeros(forest.counts["traces"] + 1, np.bool_)
    taken[forest.trace[own]] = True
    tops = np.flatnonzero(forest.depth == 0)
    tops = tops[~taken[forest.trace[tops]]]
    lost = forest.parent[tops] == LOST
    order = np.lexsort((forest.start[tops], lost, forest.trace[tops]))
    tops, lost = tops[order], lost[order]
    traces, first, number = np.unique(forest.trace[tops], return_index=True, return_counts=True)
    last = np.maximum.reduceat(forest.end[tops], first) if len(tops) else first
    whole = ~lost[first] | (number == 1) | (last <= forest.end[tops[first]])
    forest.counts["roots_besides_the_first"] = int((np.bincount(forest.trace[tops[~lost]]) > 1).sum())
    forest.counts["traces_without_root"] = int(lost[first].sum())
    forest.counts["traces_in_pieces"] = int(len(traces) - whole.sum())
    chosen: Ints = tops[first[whole]]
    return chosen


def _matching(forest: Forest, root: str | None, service: str | None) -> Bools:
    """(operations,): True for operations of the given name and service."""
    return np.array(
        [
            (service is None or owner == service) and (root is None or root in {name, f"{owner}:{name}"})
            for owner, name in forest.names.operations
        ],
        np.bool_,
    )


def _topmost(forest: Forest, matching: Bools, own: Ints) -> Ints:
    """Spans of matching operations that are below no other matching span; of our own spans, only requests."""
    if not len(forest):
        return np.empty(0, np.int64)
    match = matching[forest.spans["op"]]
    ours = forest.spans["own"] >= 0
    ours[own] = False
    match &= ~ours
    rows = np.arange(len(forest))
    nearest = forest.inherited(np.where(match, rows, -1))
    above = np.where(forest.parent >= 0, nearest[forest.parent], -1)
    return np.flatnonzero(match & (above < 0))


def _none_found(forest: Forest, root: str | None, service: str | None) -> str:
    if not len(forest):
        return f"there is no span to learn from{_reasons(forest)}"
    tops = np.flatnonzero(forest.parent == ROOT)
    if root is None and service is None:
        names = forest.spans["op"][forest.parent == LOST].tolist()
        common = Counter(label(forest, op) for op in names).most_common(_MAX_ROOTS_SHOWN)
        told = ", ".join(f"--root {name!r} ({number})" for name, number in common)
        return (
            f"no trace has a root to learn from{_reasons(forest)}; parents of these spans are missing, as "
            f"those of a gateway that exports none: try {told}"
        )
    wanted = " of ".join(
        [
            *([f"operation {root!r}"] if root is not None else []),
            *([f"service {service!r}"] if service is not None else []),
        ]
    )
    known = forest.names.operations
    names = {name for pair in known for name in (pair[1], ":".join(pair))} if root is not None else set()
    names |= {pair[0] for pair in known} if service is not None else set()
    near = nearest(root if root is not None else str(service), sorted(names))
    common = Counter(label(forest, op) for op in forest.spans["op"][tops].tolist()).most_common(
        _MAX_ROOTS_SHOWN
    )
    told = f"; the nearest names are: {', '.join(near)}" if near else ""
    return f"no span is of {wanted}{told}; roots are: {', '.join(f'{n} ({k})' for n, k in common) or 'none'}"


def nearest(wanted: str, names: Sequence[str]) -> list[str]:
    """The names most like the one wanted, best first; those that hold it come before others."""
    holding = [name for name in names if wanted and wanted.lower() in name.lower()]
    parts = {part: name for name in names[:_MAX_NAMES_COMPARED] for part in _parts(name)}
    alike = get_close_matches(wanted, parts, n=2 * _MAX_NEAREST_SHOWN)
    found = [*sorted(holding, key=lambda name: (len(name), name)), *(parts[part] for part in alike)]
    return list(dict.fromkeys(found))[:_MAX_NEAREST_SHOWN]


def _parts(name: str) -> tuple[str, str, str]:
    """A name `service:route` whole, without the service, and its last segment, which people leave out."""
    return name.rsplit("/", 1)[-1], name.partition(":")[2] or name, name


def _reasons(forest: Forest) -> str:
    """Counts of spans that were left out, for an error message."""
    found = [
        f"{number} {kind.removeprefix('spans_')}"
        for kind, number in sorted(forest.counts.items())
        if number and kind.startswith("spans_") and kind != "spans_read"
    ]
    return f" ({', '.join(found)})" if found else ""


def _in_time(forest: Forest, rows: Ints, since_s: float | None, until_s: float | None) -> Ints:
    start = forest.start[rows]
    keep = np.ones(len(rows), np.bool_)
    if since_s is not None:
        keep &= start >= since_s * 1e9
    if until_s is not None:
        keep &= start < until_s * 1e9
    forest.counts["requests_of_other_times"] = int(len(rows) - keep.sum())
    return rows[keep]


def _usable(forest: Forest, rows: Ints) -> Ints:
    """Requests that succeeded, with a duration of 0 or more."""
    flags = forest.spans["flags"][rows]
    negative, failed = flags & c.NEGATIVE != 0, flags & c.ERROR != 0
    forest.counts["requests_negative"] = int(negative.sum())
    aside = negative
    if failed.sum() <= MAX_ERROR_SHARE * len(rows):
        forest.counts["requests_failed"] = int(failed.sum())
        aside = negative | failed
    else:
        forest.counts["requests_marked_error_kept"] = int((failed & ~negative).sum())
    if len(rows) == aside.sum():
        raise InputError(
            f"there is no request to learn from: of {len(rows)}, {int(negative.sum())} end before they begin "
            f"or have no end and {int(failed.sum())} failed; "
            f"{forest.counts['requests_of_other_times']} are of other times"
        )
    kept: Ints = rows[~aside]
    return kept
