"""What the process in front (a gateway) works: for each call, for each request, and as time goes by.

Event loops serve what has come in one turn, so the fuller the time, the less a request costs. Measured of the
demo's gateway at half, one and one and a half times a load: 3.5, 3.0 and 2.8 ms a request. Between stretches
of a quarter of a second of one load it differs in the same way, so one profile tells it.
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
MOST: Final = 0.9  # of the work may come with the time


def fronts(model: LoadModel, calls: Mapping[str, float]) -> dict[str, float]:
    """Work of the process in front by call of each stage, so that a request has what was measured.

    The own time's stage has what a request that met nobody waited for; the rest is shared by all calls alike.

    Args:
        model: each stage by itself.
        calls: by stage: mean number of a request.
    """
    own = {stage.name: work_ms(stage) for stage in model.profile.stages if stage.own_time}
    own = {name: work for name, work in own.items() if model.stages[name].station.replicas is None}
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


def work_ms(own_time: StageProfile) -> float:
    """Mean work in front of a request: of those that are in the profile, where each one's is known."""
    worked = own_time.worked_ms
    if worked is None or np.isnan(worked).all():
        return own_time.busy_ms or 0.0
    return float(np.nanmean(worked))


def turns_before(stage: StageModel) -> float:
    """Calls of a visit that its slowest waits for until it is sent itself, if any may be the slowest."""
    visits = int((~np.isnan(stage.calls_ms)).any(axis=1).sum())
    visit_share = visits / max(1, len(stage.calls_ms))
    return (stage.calls_per_request - visit_share) / 2


def share_of_time(profile: Profile) -> float:
    """Share of the work in front that comes with the time and not with the requests; 0 where none is seen.

    By how much more a stretch of as many requests costs the longer it takes. Where only a sample of the
    requests was traced nobody knows who came between, and little or nothing is seen.

    Args:
        profile: in whose own time each request has what the front worked since the last one was over.
    """
    own = [stage.worked_ms for stage in profile.stages if stage.own_time and stage.worked_ms is not None]
    if not own:
        return 0.0
    lasted_s, work = _stretches(profile, own[0][:, 0])
    if len(lasted_s) < FEWEST or work.mean() < LEAST_MS:
        return 0.0
    longer, more = lasted_s / lasted_s.mean() - 1.0, work / work.mean() - 1.0
    spread = float((longer**2).sum())
    if not spread:
        return 0.0
    share = float((longer * more).sum()) / spread
    error = float(np.sqrt(((more - share * longer) ** 2).sum() / (len(work) - 2) / spread))
    return min(MOST, share) if share > SURE * error and error < VAGUE else 0.0


def _stretches(profile: Profile, worked_ms: Floats) -> tuple[Floats, Floats]:
    """(k,) and (k,): how long each took, from one request's end to another's, and the work between."""
    ended_s = profile.started_s + profile.latency_ms / 1e3
    order = np.argsort(ended_s, kind="stable")
    lasted_s = np.diff(ended_s[order][::STRETCH])
    starts = np.arange(len(lasted_s)) * STRETCH
    if not len(starts):
        return np.empty(0), np.empty(0)
    work = np.add.reduceat(worked_ms[order][1 : 1 + len(starts) * STRETCH], starts)
    usable = ~np.isnan(work) & (lasted_s < PAUSE * np.median(lasted_s))
    return lasted_s[usable], work[usable]
