"""Judge of a plan: replays later requests under the plan and under others, with the ledger in force.

Percentiles of latency, extra work and copies that the ledger denied are judged, in every stretch of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, Spread, one_by_one
from kwiken.model.latency import ladder
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Ladder, Plan
from kwiken.model.profile.copy_dependence import at_end, uncertain, unshown_stages
from kwiken.model.profile.profile import Profile
from kwiken.tail.judging.judged_plans import PLAN, rivals
from kwiken.tail.judging.judged_requests import Segment, by_segment, by_time, check_requests, edges_of
from kwiken.tail.judging.judgement_document import Arm, Cut, Judgement, Stretch, StretchOutcome
from kwiken.tail.simulation.expectation import BlockBootstrap, interval
from kwiken.tail.simulation.kept_budgets import kept_to
from kwiken.tail.simulation.trace_driven import replay

CORRELATIONS: tuple[float | None, ...] = (None, 0.5)  # of copies with their calls, at which plans are judged
MIN_REPLAYED = 10_000  # smallest number of requests to replay: each judged one is repeated often enough
FIELDS = tuple(field.name for field in msgspec.structs.fields(Ladder))


def judge(
    plan: Plan,
    later: Profile,
    *,
    earlier: Profile | None = None,
    sampled: float = 1.0,
    correlations: Sequence[float | None] = CORRELATIONS,
    alone: bool = False,
    seed: int = 0,
    spread: Spread = one_by_one,
) -> Judgement:
    """Judge a plan on requests that it has not seen, beside none, an even spread and hindsight.

    Args:
        plan: plan to judge, with its budget and its ledger's terms.
        earlier: requests that the plan was made from, to learn the even spread's time-outs on; None for the
            judged requests themselves, which favours the even spread.
        sampled: share of the service's requests that the profile holds, above 0 and at most 1: the ledger's
            floor is granted to all of them.
        correlations: correlations of copies with their calls to judge at, each from 0 to below 1; None for
            the one that recorded pairs show.
        alone: whether to leave out the even spread and hindsight.
        seed: seed of all draws.
        spread: function that runs jobs: each way at each correlation is one.

    Returns:
        The judgement by stretches of time. The ledger starts as after a restart: with its burst, and nothing
        earned. It grants a request all of its copies or none, where the runtime asks again for a call that
        was denied, so the judgement denies rather too much.

    Raises:
        InputError: for a share outside (0, 1], too few requests, or a plan that does not fit them.
    """
    check_requests(later, sampled, where="profile")
    segment = Segment(later, {PLAN: plan})
    if not alone:
        segment = compared(plan, later if earlier is None else earlier, later, sampled=sampled, seed=seed)
    return judge_segments(
        [segment],
        edges_s=edges_of(later.started_s),
        sampled=sampled,
        correlations=correlations,
        seed=seed,
        spread=spread,
    )


def judge_recordings(
    plan: Plan,
    recordings: Mapping[str, Profile],
    *,
    earlier: Profile | None = None,
    sampled: float = 1.0,
    correlations: Sequence[float | None] = CORRELATIONS,
    seed: int = 0,
    spread: Spread = one_by_one,
) -> Judgement:
    """Judge a plan on several recordings, such as those of the days after it was made.

    Args:
        plan: as `judge` takes it.
        recordings: by name: requests to judge by, each of the plan's service.
        earlier: as `judge` takes it; None for each recording itself.
        sampled: share of the service's requests that each recording holds, as `judge` takes it.
        correlations: as `judge` takes it.
        seed: as `judge` takes it.
        spread: function that runs jobs: each recording is one, then each way at each correlation.

    Returns:
        The judgement over all requests. Its stretches are the recordings, in order of their first requests.
        Hindsight plans on each recording itself, and the ledger starts anew in each.

    Raises:
        InputError: as `judge`; names the recording.
    """
    if not recordings:
        raise InputError("there is none; give one or more", where="recordings")
    jobs: list[Job] = []
    for name, later in recordings.items():
        check_requests(later, sampled, where=name)
        jobs.append((_compared_recording, (plan, earlier, later, name, sampled, seed)))
    segments: list[Segment] = list(spread(jobs))
    segments.sort(key=lambda segment: float(segment.requests.started_s.min()))
    return judge_segments(segments, sampled=sampled, correlations=correlations, seed=seed, spread=spread)


def _compared_recording(
    plan: Plan, earlier: Profile | None, later: Profile, name: str, sampled: float, seed: int
) -> Segment:
    """Requests of one recording with the plans that are compared there; an error names the recording."""
    known = later if earlier is None else earlier
    try:
        return compared(plan, known, later, name, sampled=sampled, seed=seed)
    except InputError as error:
        raise InputError(str(error), where=name) from error


def compared(
    plan: Plan, earlier: Profile, later: Profile, recording: str | None = None, *, sampled: float, seed: int
) -> Segment:
    """Requests to judge a plan on, with the plans that it is compared with.

    Args:
        plan: the one to judge, with its budget and its ledger's terms.
        earlier: requests that the even spread's time-outs are learned on.
        recording: name of the recording that these are, if it is one of several.
        sampled: share of the service's requests that the profile holds.
        seed: seed of all draws.
    """
    alone = Segment(later, {PLAN: plan}, recording)
    times = max(1, MIN_REPLAYED // later.requests)
    spent = float(_played(alone, PLAN, None, times, sampled, seed).spent.mean())
    return Segment(later, {PLAN: plan, **rivals(plan, earlier, later, spent=spent, seed=seed)}, recording)


def judge_segments(
    segments: Sequence[Segment],
    *,
    edges_s: Floats | None = None,
    sampled: float,
    correlations: Sequence[float | None],
    seed: int,
    spread: Spread = one_by_one,
) -> Judgement:
    """Replay segments in order of time, each under its own plans, and compare the ways over all of them.

    Args:
        segments: segments in order of time, all with plans for the same ways, budget and ledger.
        edges_s: (k + 1,) bounds of the stretches, seconds since 1970, ascending; the last one is exclusive.
            None for a stretch for each segment.
        sampled: as `judge` takes it.
        correlations: as `judge` takes it.
        seed: seed of all draws.
        spread: function that runs jobs: each way at each correlation, in each segment, is one.
    """
    first = segments[0]
    plan = first.plans[PLAN]
    count = sum(segment.requests.requests for segment in segments)
    times = max(1, -(-MIN_REPLAYED // count))
    ways = [(way, rho) for rho in correlations for way in first.plans]
    ends = [
        [replace(segment, requests=at_end(segment.requests, end)) for segment in segments]
        for end in (("low", "high") if any(map(_uncertain, segments)) and None in correlations else ())
    ]
    runs = [(segments, way, rho) for way, rho in ways] + [(each, PLAN, None) for each in ends]
    jobs: list[Job] = [
        (_played, (segment, way, rho, times, sampled, seed)) for some, way, rho in runs for segment in some
    ]
    results = list(spread(jobs))
    joined = [_Played.join(results[at * len(segments) : (at + 1) * len(segments)]) for at in range(len(runs))]
    played = dict(zip(ways, joined, strict=False))
    some = next(iter(played.values()))
    kept = by_segment(segments, times) if edges_s is None else by_time(some.started_s, edges_s)
    bootstrap = BlockBootstrap(len(some.before_ms), seed=seed)
    before = bootstrap.percentiles(some.before_ms)
    return Judgement(
        service=first.requests.service,
        requests=count,
        budget=plan.budgets.reissue,
        ledger=plan.ledger,
        before=ladder(some.before_ms),
        stretches=tuple(
            Stretch(
                start_s=each.start_s,
                end_s=each.end_s,
                requests=len(each.rows) // times,
                before=ladder(some.before_ms[each.rows]),
                recording=each.recording,
            )
            for each in kept
        ),
        arms=tuple(
            _arm(
                way,
                rho,
                found,
                [each.rows for each in kept],
                bootstrap,
                before,
                joined[len(ways) :] if (way, rho) == (PLAN, None) else (),
            )
            for (way, rho), found in played.items()
        ),
        unshown=tuple(sorted({name for each in segments for name in unshown_stages(each.requests, plan)})),
        in_sample=any(segment.plans[PLAN].profile == segment.requests.digest for segment in segments),
    )


@dataclass(frozen=True)
class _Played:
    """Requests in order of time, each repeated in a row, under one plan; (n,) arrays."""

    started_s: Floats
    before_ms: Floats
    after_ms: Floats
    spent: Floats
    wanted: Floats

    @classmethod
    def join(cls, parts: Iterable[_Played]) -> _Played:
        """Join the results of segments."""
        columns = zip(
            *((p.started_s, p.before_ms, p.after_ms, p.spent, p.wanted) for p in parts), strict=True
        )
        return cls(*(np.concatenate(column) for column in columns))

    def denied(self, rows: NDArray[np.int64] | slice = slice(None)) -> float:
        """Share of the wanted copies' cost that the ledger denied to some requests."""
        wanted = float(self.wanted[rows].sum())
        return max(0.0, 1.0 - float(self.spent[rows].sum()) / wanted) if wanted > 0 else 0.0


def _played(
    segment: Segment, way: str, correlation: float | None, times: int, sampled: float, seed: int
) -> _Played:
    """Replay a segment under one plan, each request so many times."""
    profile, plan = segment.requests, segment.plans[way]
    order = np.argsort(profile.started_s, kind="stable")
    again = partial(
        replay, profile, rows=np.repeat(order, times), seed=seed + 1, copy_correlation=correlation
    )
    started_s = profile.started_s[order]
    terms = sampled_terms(plan.ledger, sampled)
    kept = kept_to(again(plan), started_s, plan, terms, again)
    found = kept.simulation
    return _Played(np.repeat(started_s, times), found.before_ms, found.after_ms, found.spent, kept.wanted)


def _uncertain(segment: Segment) -> bool:
    return any(uncertain(stage) for stage in segment.requests.stages)


def sampled_terms(terms: LedgerTerms, sampled: float) -> LedgerTerms:
    """Terms of a ledger for the share of a service's requests that traces hold.

    Args:
        sampled: share of the requests, above 0 and at most 1.
    """
    return msgspec.structs.replace(terms, floor_per_s=terms.floor_per_s * sampled)


def _arm(
    way: str,
    correlation: float | None,
    found: _Played,
    stretches: Sequence[NDArray[np.int64]],
    bootstrap: BlockBootstrap,
    before: Floats,
    ends: Sequence[_Played],
) -> Arm:
    """Outcome of one way; its interval covers what the ends of the copies' dependence would give too."""
    whole, after = ladder(found.before_ms), ladder(found.after_ms)
    least = np.maximum(before, np.finfo(float).tiny)
    resampled = [1.0 - bootstrap.percentiles(each.after_ms) / least for each in (found, *ends)]
    cuts = {}
    for i, name in enumerate(FIELDS):
        low, high = zip(*(interval(each[:, i]) for each in resampled), strict=True)
        cuts[name] = Cut(share=cut(getattr(whole, name), getattr(after, name)), low=min(low), high=max(high))
    return Arm(
        way=way,
        correlation=correlation,
        after=after,
        cuts=cuts,
        spent=float(found.spent.mean()),
        spent_between=interval(bootstrap.means(found.spent)),
        denied=found.denied(),
        stretches=tuple(
            StretchOutcome(
                after=ladder(found.after_ms[rows]),
                spent=float(found.spent[rows].mean()),
                denied=found.denied(rows),
            )
            for rows in stretches
        ),
    )


def cut(before_ms: float, after_ms: float) -> float:
    """Share by which a latency falls; 0 where there was none."""
    return 1.0 - after_ms / before_ms if before_ms > 0 else 0.0
