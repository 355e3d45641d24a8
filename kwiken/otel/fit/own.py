"""Profile fitting for our own runtime's traces, whose spans state stages, shards, edges and outcomes.

Times are taken as written, not cleaned: one process wrote them by one clock, and a losing attempt may
legitimately end after its stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.copy_estimates import gateway_lag, guess_copies
from kwiken.model.profile.profile import OWN_TIME, Profile
from kwiken.otel.fit.calls.call_matrices import NS_PER_MS, CallMatrix, Floats, build, in_order
from kwiken.otel.fit.calls.stage_order import acyclic
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import NO_TEXT, Bools, Ints, Rows, taken
from kwiken.otel.read.kw_attributes import KINDS, OUTCOMES
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.requests import Requests, roles
from kwiken.otel.write.records import AttemptKind, Outcome

_PRIMARY = KINDS[AttemptKind.PRIMARY]
_REISSUE = KINDS[AttemptKind.REISSUE]
_WON = OUTCOMES[Outcome.WON]
_LOST = OUTCOMES[Outcome.LOST]
_CANCELLED = OUTCOMES[Outcome.CANCELLED]
_FAILED = OUTCOMES[Outcome.FAILED]
_MIN_LINKED_SHARE = 0.5  # of the requests with both stages, for an edge
MAX_DRAW = float((1 << 64) - 1)  # lower half of a trace id, by which a sampler draws
MAX_PAIRS = 100_000  # of a stage: an estimate needs some hundreds


@dataclass(slots=True)
class _Visits:
    """Columns of visits of stages, and of the attempts of their calls.

    Attributes:
        row: (v,) row of the visit's span.
        request: (v,) index of the request.
        stage: (v,) number of the stage's name among the texts.
        notes: (v,) rows of `OWN`.
        attempt_row: (a,) row of the attempt's span.
        attempt_visit: (a,) index of the visit that the attempt belongs to.
        attempt_notes: (a,) rows of `OWN`.
        attempt_lag_ms: (a,) time that the attempt's answer lay at the gateway; NaN if it is not known.
    """

    row: Ints
    request: Ints
    stage: Ints
    notes: Rows
    attempt_row: Ints
    attempt_visit: Ints
    attempt_notes: Rows
    attempt_lag_ms: Floats


def fit_own(forest: Forest, requests: Requests) -> Profile:
    """Learn a profile.

    Raises:
        InputError: no request visited a stage.
    """
    visits = _visits(forest, requests)
    if not len(visits.row):
        raise InputError("the requests visited no stage")
    service, _ = forest.names.operations[requests.op]
    count = len(requests.rows)
    began, ended = forest.spans["start"], forest.spans["end"]
    since = began[visits.row] - began[requests.rows[visits.request]]
    codes, which = np.unique(visits.stage, return_inverse=True)
    # In the order of their start, so that the profile reads like a trace.
    starts = np.bincount(which, weights=since) / np.bincount(which)
    codes = codes[in_order(starts, [forest.names.texts[code] for code in codes.tolist()])]
    edges, forest.counts["edges_cut_from_cycles"] = _edges(forest, visits, codes, count)
    notes = forest.owns[forest.spans["own"][requests.rows]]
    shares = sample_shares(forest, requests.rows)
    stages = [_stage(forest, visits, service, code, shares) for code in codes.tolist()]
    control = notes["marks"] & c.CONTROL != 0
    forest.counts["requests_control"] = int(control.sum())
    rows = requests.rows
    service, operation = forest.names.operations[requests.op]
    return build(
        forest,
        began[rows],
        ended[rows],
        own=SpanMatch(service=service, operation=operation),
        own_name=f"{service}:{operation}{OWN_TIME}",
        stages=stages,
        edges=edges,
    )


def sample_shares(forest: Forest, requests: Ints) -> Floats:
    """(n,): probability with which the spans of each of these requests were kept; 1 where all are."""
    rows = forest.spans["own"][requests]
    shares = np.ones(len(rows))
    shares[rows >= 0] = forest.owns["sample_share"][rows[rows >= 0]]
    return shares


def _visits(forest: Forest, requests: Requests) -> _Visits:
    role = roles(forest)
    owner = np.full(len(forest), -1, np.int64)
    owner[requests.rows] = np.arange(len(requests.rows))
    row = np.flatnonzero((role == c.STAGE) & (forest.parent >= 0))
    row = row[owner[forest.parent[row]] >= 0]
    request = owner[forest.parent[row]]
    notes = taken(forest.owns, forest.spans["own"][row])
    place = np.full(len(forest), -1, np.int64)
    place[row] = np.arange(len(row))
    attempts = np.flatnonzero((role == c.ATTEMPT) & (forest.parent >= 0))
    attempts = attempts[place[forest.parent[attempts]] >= 0]
    attempt_notes = taken(forest.owns, forest.spans["own"][attempts])
    return _Visits(
        row,
        request,
        notes["stage"].astype(np.int64),
        notes,
        attempts,
        place[forest.parent[attempts]],
        attempt_notes,
        _lag_ms(forest, role, attempts, attempt_notes),
    )


def _lag_ms(forest: Forest, role: Ints, attempts: Ints, notes: Rows) -> Floats:
    """(a,): time that each attempt's answer lay at the gateway, ms; NaN without a span of the replica."""
    served = np.full(len(forest), -1, np.int64)
    spans = np.flatnonzero((role == c.SERVED) & (forest.parent >= 0))
    served[forest.parent[spans]] = forest.spans["end"][spans]
    ended = served[attempts]
    known = (ended >= 0) & np.isin(notes["outcome"], (_WON, _LOST))
    lag = np.full(len(attempts), np.nan)
    read, sent = forest.spans["end"][attempts[known]], forest.spans["start"][attempts[known]]
    waited = gateway_lag(read, ended[known], notes["replica"][known].astype(np.int64))
    lag[known] = np.minimum(waited, (read - sent) / NS_PER_MS)
    return lag


def _edges(forest: Forest, visits: _Visits, codes: Ints, requests: int) -> tuple[Bools, int]:
    """(stages, stages): True at (a, b) if b's visits are linked to a's in half the requests with both.

    Links state the DAG, so no transitive reduction is needed. If the DAG was changed meanwhile, edges that
    held in most requests stay.
    """
    number = np.full(max(1, len(forest.names.texts)), -1, np.int64)
    number[codes] = np.arange(len(codes))
    visit_of = np.full(len(forest.owns) + 1, -1, np.int64)
    visit_of[forest.spans["own"][visits.row]] = np.arange(len(visits.row))
    visit_at = np.full(len(forest) + 2, -1, np.int64)
    visit_at[visits.row] = np.arange(len(visits.row))
    child = visit_of[forest.links["own"]]
    ids = forest.links["span"][child >= 0]
    child = child[child >= 0]
    parent = visit_at[forest.find(forest.trace[visits.row[child]], ids)]
    child, parent = child[parent >= 0], parent[parent >= 0]
    linked = np.zeros((len(codes), len(codes)))
    np.add.at(linked, (number[visits.stage[parent]], number[visits.stage[child]]), 1.0)
    there = np.zeros((requests, len(codes)))
    there[visits.request, number[visits.stage]] = 1.0
    edges = (linked > 0) & (linked >= _MIN_LINKED_SHARE * (there.T @ there))
    np.fill_diagonal(edges, False)
    return acyclic(edges, linked)


@dataclass(slots=True)
class _CallColumns:
    """Columns of the k calls of one stage, derived from their attempts.

    Attributes:
        request: (k,) index of the request.
        shard: (k,) number of the shard, from 0.
        latency_ns: (k,) latency without copies, nanoseconds; NaN if not known.
        censored: (k,) True if the latency is a lower bound.
        seen_ns: (k,) latency with copies, nanoseconds; NaN if no attempt answered.
        pairs_ns: (m, 2) durations of primaries and of their first copies, nanoseconds.
        pairs_cut: (m, 2); True if the attempt was cancelled.
        guesses_ms: (m, 2) durations of late primaries and estimates for copies of them, milliseconds; None
            if CPU times are not known.
        worth: (k,) weight of the call's answer; NaN if not known.
        replica: (k,) number of the text that names the primary's replica.
        lag_ms: (k,) time that the primary's answer lay at the gateway, milliseconds; of a cancelled primary,
            the winner's answer. NaN if not known.
    """

    request: Ints
    shard: Ints
    latency_ns: Floats
    censored: Bools
    seen_ns: Floats
    pairs_ns: Floats
    pairs_cut: Bools
    guesses_ms: Floats | None = None
    worth: Floats | None = None
    replica: Ints | None = None
    lag_ms: Floats | None = None


def _stage(forest: Forest, visits: _Visits, service: str, code: int, shares: Floats) -> CallMatrix:
    requests = len(shares)
    mine = visits.stage == code
    notes = taken(visits.notes, np.flatnonzero(mine))
    at = np.flatnonzero(mine[visits.attempt_visit])
    told = _tell(forest, visits, at, float(shares.min(initial=1.0)))
    name = forest.names.texts[code]
    busy = visits.attempt_notes["busy_ms"][at]
    # With more threads a call burns more than its work.
    single = ~np.isnan(busy) & (visits.attempt_notes["threads"][at] == 1)
    busy, weight = busy[single], 1.0 / shares[visits.request[visits.attempt_visit[at]]][single]
    mean = float(np.average(busy, weights=weight)) if len(busy) else None
    deviation = np.sqrt(np.average((busy - mean) ** 2, weights=weight)) if mean else 0.0
    replicas = sorted(set(visits.attempt_notes["replica"][at].tolist()) - {NO_TEXT})
    width = int(max(notes["fanout"].max(), told.shard.max(initial=-1) + 1))
    calls_ms = np.full((requests, width), np.nan)
    censored = np.zeros((requests, width), np.bool_)
    calls_ms[told.request, told.shard] = told.latency_ns / NS_PER_MS
    censored[told.request, told.shard] = told.censored
    lag_ms = _by_call(told, told.lag_ms, (requests, width))
    seen = np.zeros(requests)
    known = ~np.isnan(told.seen_ns)
    np.maximum.at(seen, told.request[known], told.seen_ns[known] / NS_PER_MS)
    forest.counts["calls"] += len(told.request)
    forest.counts["calls_censored"] += int(told.censored.sum())
    forest.counts["calls_failed"] += int(np.isnan(told.latency_ns).sum())
    return CallMatrix(
        name=name,
        match=SpanMatch(service=f"{service}-{name}", operation=name),
        calls_ms=calls_ms,
        censored=censored,
        seen_ms=seen,
        busy_ms=mean,
        busy_variation=float(deviation / mean) if mean else None,
        replicas=len(replicas) or None,
        asked=_asked(told, replicas, (requests, width)),
        replica_names=tuple(forest.names.texts[code] for code in replicas),
        reissuable=not (notes["marks"] & c.NOT_IDEMPOTENT).any(),
        pairs_ms=told.pairs_ns / NS_PER_MS if len(told.pairs_ns) else None,
        pairs_cut=told.pairs_cut if len(told.pairs_ns) else None,
        guesses_ms=told.guesses_ms,
        worth=_by_call(told, told.worth, (requests, width)),
        threads=int(notes["threads"].max(initial=1)),
        lag_ms=None if lag_ms is None else np.nan_to_num(lag_ms),
    )


def _asked(told: _CallColumns, replicas: Sequence[int], shape: tuple[int, int]) -> Ints | None:
    """(requests, width): index of the replica that each primary went to; None if none is known."""
    if told.replica is None or not len(replicas):
        return None
    known = np.isin(told.replica, replicas)
    asked = np.full(shape, -1, np.int16)
    asked[told.request[known], told.shard[known]] = np.searchsorted(replicas, told.replica[known])
    return asked


def _by_call(told: _CallColumns, values: Floats | None, shape: tuple[int, int]) -> Floats | None:
    """(requests, width): values of the calls, NaN elsewhere; None if all are NaN."""
    if values is None or np.isnan(values).all():
        return None
    by_call = np.full(shape, np.nan)
    by_call[told.request, told.shard] = values
    return by_call


def _tell(forest: Forest, visits: _Visits, at: Ints, least_share: float) -> _CallColumns:
    """Derive the calls of one stage from the attempts at these indices.

    `least_share` is the lowest probability with which a request was kept. The requests whose draw is below it
    are a uniform sample of all, which estimates of copies need: the next call is to be any call.

    There are six cases for the latency of a call:

    1. No copies: the time from the first attempt's start to the winner's end, retries included, because
       retries are a part of the service.
    2. Copies, and the primary answered (first or late): the duration of the primary.
    3. Copies, and the primary was cancelled: a lower bound, its duration until then.
    4. Copies, and the primary failed: unknown.
    5. No copies and no answer, because the call was given up (for a partial answer, say): a lower bound.
    6. No copies, and all attempts failed: unknown.

    A call that got several threads because its request was late is a lower bound in any case: with one thread
    it would have taken at least as long.
    """
    notes, lag = taken(visits.attempt_notes, at), visits.attempt_lag_ms[at]
    request = visits.request[visits.attempt_visit[at]]
    start, end = forest.spans["start"][visits.attempt_row[at]], forest.spans["end"][visits.attempt_row[at]]
    order = np.lexsort((start, notes["shard"], request))
    notes, request, start, end = taken(notes, order), request[order], start[order], end[order]
    lag = lag[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (request[1:] != request[:-1]) | (notes["shard"][1:] != notes["shard"][:-1])
    groups = np.flatnonzero(first)
    if not len(groups):
        none = np.empty(0, np.int64)
        empty = np.empty((0, 2))
        flags, times = none.astype(bool), none.astype(float)
        return _CallColumns(none, none, times, flags, times, empty, empty.astype(bool))
    begun = start[groups]
    outcome = notes["outcome"]
    answered = _latest(end, outcome == _WON, groups, begun)
    given_up = _latest(end, outcome == _CANCELLED, groups, begun)
    copied = np.add.reduceat(notes["kind"] == _REISSUE, groups) > 0
    primary = np.maximum.reduceat(np.where(notes["kind"] == _PRIMARY, np.arange(len(order)), -1), groups)
    alone = (end[primary] - start[primary]).astype(float)
    fate = np.where(primary >= 0, outcome[primary], _FAILED)
    latency = np.where(np.isnan(answered), given_up, answered)
    censored = np.isnan(answered) & ~np.isnan(given_up)
    latency[copied] = np.where(fate == _FAILED, np.nan, alone)[copied]
    censored[copied] = (fate == _CANCELLED)[copied]
    helped = np.maximum.reduceat(notes["threads"], groups) > 1
    censored |= helped & ~np.isnan(latency)
    forest.counts["calls_with_copies"] += int(copied.sum())
    forest.counts["calls_with_threads"] += int(helped.sum())
    seen = np.where(np.isnan(answered), given_up, answered)
    # A cancelled attempt had not answered when the winner's answer arrived, which was before that was read.
    won = np.fmax.reduceat(np.where(outcome == _WON, lag, np.nan), groups)[np.cumsum(first) - 1]
    lag = np.where(outcome == _CANCELLED, won, lag)
    arrived = np.maximum(start, end - np.nan_to_num(lag * NS_PER_MS).astype(np.int64))
    pairs, cut = _pairs(notes, (arrived - start).astype(float), groups, primary)
    drawn = forest.spans["lo"][visits.row[visits.attempt_visit[at]]][order] <= least_share * MAX_DRAW
    return _CallColumns(
        request[groups],
        notes["shard"][groups].astype(np.int64),
        latency,
        censored,
        seen,
        pairs,
        cut,
        _guesses(notes, start, arrived, np.where(drawn[primary], primary, -1)),
        np.fmax.reduceat(notes["worth"], groups),
        notes["replica"][np.where(primary >= 0, primary, groups)].astype(np.int64),
        np.where(primary >= 0, lag[primary], np.nan),
    )


def _guesses(notes: Rows, start: Ints, end: Ints, primary: Ints) -> Floats | None:
    """(m, 2): durations of late primaries that answered, and estimates for copies that were not sent."""
    asked = primary[primary >= 0]
    asked = asked[notes["threads"][asked] == 1]
    ended = asked[np.isin(notes["outcome"][asked], (_WON, _LOST))]
    took = (end[ended] - start[ended]) / NS_PER_MS
    replica = notes["replica"][ended].astype(np.int64)
    return guess_copies(took, notes["busy_ms"][ended], replica, start[ended])


def _pairs(notes: Rows, took: Floats, groups: Ints, primary: Ints) -> tuple[Floats, Bools]:
    """(m, 2): durations of primaries and first copies, and which were cancelled; without failed ones."""
    place = np.arange(len(notes))
    copy = np.minimum.reduceat(np.where(notes["kind"] == _REISSUE, place, len(notes)), groups)
    both = np.column_stack((primary, copy))[(primary >= 0) & (copy < len(notes))]
    both = both[notes["threads"][both[:, 0]] == 1]
    fate = notes["outcome"][both]
    both, fate = (values[np.isin(fate, (_WON, _LOST, _CANCELLED)).all(axis=1)] for values in (both, fate))
    both, fate = both[:MAX_PAIRS], fate[:MAX_PAIRS]
    return took[both], fate == _CANCELLED


def _latest(end: Ints, which: Bools, groups: Ints, begun: Ints) -> Floats:
    """Latest end of the chosen attempts of each group, counted from the group's start; NaN without any."""
    latest = np.maximum.reduceat(np.where(which, end, -1), groups)
    return np.where(latest < 0, np.nan, (latest - begun).astype(float))
