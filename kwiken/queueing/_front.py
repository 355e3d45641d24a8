"""What the process in front (a gateway) works: for each call, for each request, and as time goes by.

Event loops serve what has come in one turn, so the fuller the time, the less a request costs. Measured of the
demo's gateway at half, one and one and a half times a load: 3.5, 3.0 and 2.8 ms a request. Stretches of one
load differ in how many come in them too, so one profile tells some of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kwiken._profile import Floats, Profile, StageProfile
from kwiken.queueing._model import LEAST_MS, LoadModel, StageModel

LIGHTEST: Final = 0.1  # quantile of the own time that is taken for work: that of a request that met nobody
STRETCH: Final = 10  # requests whose work is looked at together: fewer tell more of who was under way
FEWEST: Final = 50  # stretches that a share is learned from
PAUSE: Final = 3.0  # times the usual length of a stretch from which on it is a gap in the traces
SURE: Final = 2.0  # standard errors that a share must be above nothing
VAGUE: Final = 0.1  # standard error from which on it is not known: requests came at regular intervals, say
SINGULAR: Final = 1e8  # condition number from which on nothing can be told apart
MOST_USED: Final = 0.3  # of the front's time: from there on stretches are long since their requests are heavy
MOST: Final = 0.5  # of the work may come with the time
SHORTEST_S: Final = 1e-4  # a shorter life is taken to be as long


def fronts(model: LoadModel, calls: Mapping[str, float]) -> dict[str, float]:
    """Work of the process in front by call of each stage, so that a request has what was measured.

    The own time's stage has what a request that met nobody waited for; the rest is shared by all calls alike.

    Args:
        model: each stage by itself.
        calls: by stage: mean number of a request.
    """
    ended_s = _ended_s(model.profile)
    own = {stage.name: work_ms(stage, ended_s) for stage in model.profile.stages if stage.own_time}
    own = {
        name: work
        for name, work in own.items()
        if model.stages[name].station.replicas is None and not np.isnan(model.stages[name].calls_ms).all()
    }
    found = dict.fromkeys(model.stages, 0.0)
    count = max(1.0, sum(count for name, count in calls.items() if name not in own))
    turns = sum(turns_before(stage) for name, stage in model.stages.items() if name not in own)
    left = 0.0
    for name, work in own.items():
        lightest = float(np.nanquantile(model.stages[name].calls_ms, LIGHTEST))
        # it holds the sends that calls wait for too, and these are half of `each`
        alone = (lightest - turns / 2 * work / count) / (1.0 - turns / 2 / count)
        found[name] = min(work, max(0.0, alone))
        left += work - found[name]
    each = left / count
    return {name: found[name] if name in own else each for name in found}


def work_ms(own_time: StageProfile, ended_s: Floats) -> float:
    """Mean work in front of a request: of those that are in the profile, where each one's is known.

    Without the first after a pause, which bears what the idle front worked in it.

    Args:
        own_time: of n requests.
        ended_s: (n,) when they ended.
    """
    if own_time.worked_ms is None:
        return own_time.busy_ms or 0.0
    order = np.argsort(ended_s, kind="stable")
    gaps_s = np.diff(ended_s[order], prepend=np.nan)
    long = gaps_s > PAUSE * STRETCH * np.nanmedian(gaps_s) if len(gaps_s) > 1 else False
    worked_ms = np.where(long, np.nan, own_time.worked_ms[order, 0])
    return own_time.busy_ms or 0.0 if np.isnan(worked_ms).all() else float(np.nanmean(worked_ms))


def turns_before(stage: StageModel) -> float:
    """Calls of a visit that its slowest waits for until it is sent itself, if any may be the slowest."""
    visits = int((~np.isnan(stage.calls_ms)).any(axis=1).sum())
    visit_share = visits / max(1, len(stage.calls_ms))
    return (stage.calls_per_request - visit_share) / 2


def share_of_time(profile: Profile) -> float:
    """Share of the work in front that comes with the time and not with the requests; 0 where none is seen.

    By how much more a stretch of as many requests' ends costs the longer it takes, whatever started in it and
    whatever part of requests' lives lies in it: for these there was work too. A front that is busy makes
    stretches long by its work, so of that one nobody knows. Where requests are missing, in a sample say, less
    is found, in proportion.

    Args:
        profile: in whose own time each request has what the front worked since the last one was over.
    """
    worked_ms = next((stage.worked_ms for stage in profile.stages if stage.own_time), None)
    if worked_ms is None:
        return 0.0
    lasted_s, work, beside = _stretches(profile, worked_ms[:, 0])
    if len(work) < FEWEST or not LEAST_MS < work.mean() < MOST_USED * lasted_s.mean() * 1e3:
        return 0.0
    terms = np.column_stack((np.ones(len(work)), lasted_s / lasted_s.mean(), *(beside / STRETCH)))
    by = terms.T @ terms
    if np.linalg.cond(by) > SINGULAR:
        return 0.0
    scaled = work / work.mean()
    found = np.linalg.solve(by, terms.T @ scaled)
    left = scaled - terms @ found
    error = float(np.sqrt(np.linalg.inv(by)[1, 1] * (left @ left) / (len(work) - terms.shape[1])))
    share = float(found[1])
    return min(MOST, share) if share > SURE * error and error < VAGUE else 0.0


def _ended_s(profile: Profile) -> Floats:
    """(n,): when requests were over, seconds since 1970."""
    return np.asarray(profile.started_s + profile.latency_ms / 1e3)


def _stretches(profile: Profile, worked_ms: Floats) -> tuple[Floats, Floats, Floats]:
    """(k,), (k,) and (2, k): of stretches from one request's end to another's.

    How long each took, the work in it, how many requests started in it, and the sum of the parts of
    requests' lives that lie in it. Without those that hold a gap in the traces.
    """
    ended_s = _ended_s(profile)
    order = np.argsort(ended_s, kind="stable")
    bounds = ended_s[order][::STRETCH]
    count = len(bounds) - 1
    if count < 1:
        return np.empty(0), np.empty(0), np.empty((2, 0))
    lasted_s = np.diff(bounds)
    work = np.add.reduceat(worked_ms[order][1 : 1 + count * STRETCH], np.arange(count) * STRETCH)
    started = np.diff(np.searchsorted(np.sort(profile.started_s), bounds, side="right"))
    lived = np.diff(_lived(profile.started_s, ended_s, bounds))
    usable = ~np.isnan(work) & (lasted_s < PAUSE * np.median(lasted_s))
    return lasted_s[usable], work[usable], np.stack((started, lived))[:, usable]


def _lived(started_s: Floats, ended_s: Floats, moments: Floats) -> Floats:
    """(m,): how much of all requests' lives was over at some moments, a whole life being 1."""
    first = started_s.min()
    start, end = started_s - first, ended_s - first
    pace = 1.0 / np.maximum(end - start, SHORTEST_S)
    begun, over = np.argsort(start), np.argsort(end)
    at = moments - first
    sums = [
        np.concatenate(([0.0], np.cumsum(values[order])))[np.searchsorted(keys[order], at, side="right")]
        for order, keys in ((begun, start), (over, end))
        for values in (pace, pace * start)
    ]
    under_way = (sums[0] - sums[2]) * at - (sums[1] - sums[3])
    return np.asarray(np.searchsorted(end[over], at, side="right") + under_way)
