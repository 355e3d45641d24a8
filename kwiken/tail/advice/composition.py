"""Composition of an advice: explanation, plan and judgement of one profile, and what to measure next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from kwiken.base.errors import InputError
from kwiken.model.latency import percentile
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.copy_dependence import copy_doubts
from kwiken.model.profile.idempotence import taken_for
from kwiken.model.profile.profile import OWN_TIME, Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.model.profile.weighting import SLOW_CHOSEN
from kwiken.tail.advice.contents import (
    AddReplica,
    Advice,
    ConfirmReads,
    ConfirmReplicas,
    ConfirmWrites,
    Doubt,
    FindCommonCause,
    HedgedAlready,
    LookIntoReplica,
    LookIntoRequests,
    NextStep,
    OutOfReach,
    RecordAgain,
    RecordBusyTime,
    RecordLonger,
    RequestKind,
    Setting,
    SharedCall,
    TraceRareKinds,
    kind_of,
)
from kwiken.tail.advice.worth import BUDGETS, Halves, knee
from kwiken.tail.diagnosis.excess import SlowRequests
from kwiken.tail.diagnosis.explanation import Explanation, explain
from kwiken.tail.judging.judge_plan import judge
from kwiken.tail.judging.judged_plans import PLAN
from kwiken.tail.judging.judgement_document import Judgement
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy

MIN_REQUESTS_FOR_ADVICE = 200  # p99 of the later half rests on one request then
MIN_BEHIND_P99 = 10  # judged requests slower than p99, below which a longer recording is advised
MIN_CUT = 0.01  # of p99, below which an uncertain cut counts as none
MIN_TAIL_RATIO = 1.5  # p99 over median, below which there is no tail worth lowering
SOONER: Final = 0.5  # of the present delay: the other delay, where no plan has one


def hedged_already(profile: Profile, planned: Mapping[str, float]) -> Iterator[HedgedAlready]:
    """Find stages whose callers send copies by themselves, in traces of other services than kwiken's.

    What another delay would do follows from the recorded calls: a copy that won would have answered sooner by
    the difference of the delays, and a call without a copy that lasts longer than the new delay would get one
    that takes as long as the median of the copies that won.

    Args:
        planned: delay of copies by stage in a plan, milliseconds.
    """
    if profile.origin is None:
        return
    for stage in profile.stages:
        if stage.pairs_ms is None or stage.pairs_cut is None or not len(stage.pairs_ms):
            continue
        calls = stage.calls_ms[~np.isnan(stage.calls_ms)]
        lost = stage.censored[~np.isnan(stage.calls_ms)]
        after = float(np.median(stage.pairs_ms[:, 0] - stage.pairs_ms[:, 1]))
        step = HedgedAlready(
            stage=stage.name,
            after_ms=after,
            copies=len(stage.pairs_ms) / len(calls),
            p99_ms=percentile(calls, 99),
        )
        won = stage.pairs_ms[stage.pairs_cut[:, 0], 1]
        instead = min(planned.get(stage.name, SOONER * after), after)
        if not stage.reissuable or not len(won):
            yield step
            continue
        sooner = np.where(lost, calls - (after - instead), np.minimum(calls, instead + np.median(won)))
        yield structs.replace(
            step,
            instead_ms=instead,
            instead_copies=float((calls > instead).mean()),
            instead_p99_ms=percentile(np.where(calls > instead, sooner, calls), 99),
        )


def advise(
    profile: Profile,
    *,
    budget: float | None = None,
    kind: RequestKind,
    others: Sequence[RequestKind] = (),
    during_s: tuple[float, float] | None = None,
    sampled: float = 1.0,
    created: str = "",
    seed: int = 0,
) -> tuple[Advice, Plan | None]:
    """Say what makes the requests of a profile slow, what a budget of copies buys, and what to change.

    A plan made from the earlier half of the requests is judged on the later half, with the ledger replayed in
    order of time. The settings are those of a plan made from all requests.

    Args:
        budget: most of the reissue budget, a share above 0 and at most 1: a smaller one is advised where more
            bought nothing. None for the knee of `BUDGETS`, or the largest where none is certain to buy.
        others: other kinds of requests in the same traces, most frequent first.
        during_s: start and end of a time whose requests are explained instead of the slowest, seconds since
            1970; None for none.
        sampled: share of the service's requests that the profile holds, above 0 and at most 1: the ledger's
            floor is granted to all of them.
        created: RFC 3339 time to note in the plan.
        seed: seed of all draws.

    Returns:
        The advice, and the plan that states its settings; None where no plan can be made, where the one of
        the earlier half made p99 of the later half worse, or where its gain is in doubt and another step
        comes first.

    Raises:
        InputError: for a budget or a share out of range, a time as `explain_time` refuses it, a profile
            without requests, or with latencies that mostly contradict its stages.
    """
    if budget is not None and not 0 < budget <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {budget}", where="budget")
    if not 0 < sampled <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {sampled}", where="sampled")
    doubt = _unplannable(profile)
    # No insurance: who reads an advice asks for what is seen to help.
    budgets = Budgets(reissue=budget or BUDGETS[-1])
    settings = PlanSettings(budgets=budgets, created=created, insurance=0.0, seed=seed)
    halves = None if doubt is not None else _halves(profile, settings, sampled)
    worth = () if halves is None else halves.worth(BUDGETS if budget is None else {*BUDGETS, budget})
    best = knee(worth)
    row = next((each for each in worth if each.budget == budget), best)
    budget = (0.0 if row is None else row.plan_budget) or budget or BUDGETS[-1]
    settings = replace(settings, budgets=Budgets(reissue=budget))
    story = explain(profile, budget=budget, during_s=during_s, seed=seed)
    study = None if halves is None else study_plan(profile, settings)
    changed = () if study is None else study.drift
    found = None if halves is None else _judged(replace(halves, settings=settings))
    if found is None:
        worth, best = (), None
    doubt = doubt or (_doubt(found) if found is not None else Doubt.NO_COPIES)
    if study is not None and not any(stage.reissue for stage in study.plan.stages.values()):
        doubt = Doubt.NO_COPIES
    acts = tuple(_first_acts(profile, story))
    if doubt in {Doubt.WORSE, Doubt.NO_COPIES} or (doubt is not None and acts):
        study = None
    slow = story.slow[-1]
    return Advice(
        service=profile.service,
        kind=kind,
        others=tuple(others),
        classes=tuple(
            kind_of(name, profile.latency_ms[profile.classes == number])
            for number, name in enumerate(profile.class_names)
        ),
        tail_ratio=story.tail_ratio if math.isfinite(story.tail_ratio) else None,
        tailed=story.tail_ratio >= MIN_TAIL_RATIO,
        slow=story.slow,
        first=slow.first,
        leading=slow.leading,
        budget=budget,
        judgement=found,
        doubt=doubt,
        behind_p99=found.requests // 100 if found is not None else 0,
        worth=worth,
        knee=None if best is None else best.budget,
        unshown=() if found is None else found.unshown,
        slow_replicas=story.slow_replicas,
        chosen_slow=profile.counts.get(SLOW_CHOSEN, 0) / max(1, profile.requests),
        settings=() if study is None else _settings(profile, study),
        steps=(
            *_steps(profile, study, found, slow, acts),
            *((RecordAgain(stages=tuple(each.stage for each in changed)),) if changed else ()),
            *_rare(others),
        ),
    ), None if study is None else study.plan


def _unplannable(profile: Profile) -> Doubt | None:
    """Reason why no plan can be made and judged; None where one can.

    There are four cases: 1. too few requests; 2. all start at one time, so none is later; 3. no stage's
    calls may be copied; 4. no copy has a second replica to go to.
    """
    if profile.requests < MIN_REQUESTS_FOR_ADVICE:
        return Doubt.FEW_REQUESTS
    if profile.started_s.min() == profile.started_s.max():
        return Doubt.NO_ORDER
    able = [stage for stage in profile.stages if stage.reissuable]
    if not able:
        return Doubt.NOTHING_TO_COPY
    return Doubt.ONE_REPLICA if all(stage.lone for stage in able) else None


def _halves(profile: Profile, settings: PlanSettings, sampled: float) -> Halves:
    order = np.argsort(profile.started_s, kind="stable")
    earlier, later = (part_of(profile, rows) for rows in np.array_split(order, 2))
    return Halves(earlier, later, settings, sampled)


def _judged(halves: Halves) -> Judgement | None:
    """Judge a plan of the earlier half on the later half; None where the earlier half shows no gain."""
    plan = study_plan(halves.earlier, halves.settings).plan
    if not any(stage.reissue is not None for stage in plan.stages.values()):
        return None
    seed = halves.settings.seed
    return judge(plan, halves.later, earlier=halves.earlier, sampled=halves.sampled, seed=seed)


def _doubt(found: Judgement) -> Doubt | None:
    cut = found.arm(PLAN).cuts["p99_ms"]
    if cut.high < 0:
        return Doubt.WORSE
    if cut.low <= 0 and cut.share < MIN_CUT:
        return Doubt.NO_COPIES
    return Doubt.ZERO_IN_INTERVAL if cut.low <= 0 else None


def _settings(profile: Profile, study: PlanStudy) -> tuple[Setting, ...]:
    calls = {stage.name: stage.match for stage in profile.stages}
    found = [
        Setting(
            stage=name,
            service=calls[name].service,
            route=calls[name].path or calls[name].operation,
            after_ms=stage.reissue.after_ms,
            probability=stage.reissue.probability,
            copies=stage.reissue.fraction,
            spent=study.simulation.stage_spent.get(name, 0.0),
            replicas=profile.stage(name).replicas,
        )
        for name, stage in study.plan.stages.items()
        if stage.reissue is not None
    ]
    return tuple(sorted(found, key=lambda each: (-each.spent, each.stage)))


def _steps(
    profile: Profile,
    study: PlanStudy | None,
    found: Judgement | None,
    slow: SlowRequests,
    acts: tuple[NextStep, ...],
) -> Iterator[NextStep]:
    """What to do or measure next, most useful first."""
    settings = () if study is None else _settings(profile, study)
    yield from hedged_already(profile, {each.stage: each.after_ms for each in settings})
    yield from acts
    needed = 2 * 100 * MIN_BEHIND_P99  # half of the requests are judged, and a hundredth of them is slower
    if profile.requests < needed:
        yield RecordLonger(requests=profile.requests, needed=needed)
    yield from _to_confirm(profile, settings, slow if found is not None else None)
    yield from _shared_calls(settings)
    beyond = _out_of_reach(profile, slow)
    if beyond:
        yield OutOfReach(services=beyond)
    uncharged = tuple(each.stage for each in settings if profile.stage(each.stage).busy_ms is None)
    if uncharged:
        yield RecordBusyTime(stages=uncharged)


def _first_acts(profile: Profile, story: Explanation) -> Iterator[NextStep]:
    """What to do before any copies: about a bad replica, all replicas at once, requests, a lone replica."""
    for replica in story.slow_replicas[:1]:
        yield LookIntoReplica(service=replica.service, name=replica.name)
    slow = story.slow[-1]
    for doubt in copy_doubts(profile):
        if not _serves(profile, doubt.stage, slow):
            continue
        if doubt.kind == "replica" and not story.slow_replicas:
            yield LookIntoReplica(service=profile.stage(doubt.stage).match.service, name=doubt.name)
        if doubt.kind == "together":
            yield FindCommonCause(stage=doubt.stage, period_s=doubt.period_s)
        if doubt.kind == "requests":
            yield LookIntoRequests(stage=doubt.stage, attribute=doubt.name, values=doubt.values)
    lone = [stage.name for stage in profile.stages if stage.reissuable and stage.lone]
    # Stages beside the tail are left out: a second replica of them would change nothing.
    tailed = tuple(name for name in lone if _serves(profile, name, slow))
    if tailed:
        yield AddReplica(stages=tailed)


def _rare(others: Sequence[RequestKind]) -> Iterator[TraceRareKinds]:
    """Kinds of requests that are too few for an advice."""
    rare = tuple(kind.name for kind in others if kind.requests < MIN_REQUESTS_FOR_ADVICE)
    if rare:
        yield TraceRareKinds(kinds=rare, needed=MIN_REQUESTS_FOR_ADVICE)


def _to_confirm(
    profile: Profile, settings: Sequence[Setting], slow: SlowRequests | None
) -> Iterator[NextStep]:
    """What the traces do not say of calls: whether they may run twice, and have a second replica to go to.

    Args:
        slow: slow requests, for writes of the services that make them slow only; None for all writes.
    """
    unknown = tuple(each.stage for each in settings if each.replicas is None)
    if unknown:
        yield ConfirmReplicas(stages=unknown)
    reads, writes = taken_for(profile)
    unsure = tuple(name for name in reads if any(name == each.stage for each in settings))
    if unsure:
        yield ConfirmReads(stages=unsure)
    # A write without a tail of its own is no reason to ask: who allows copies may run it twice.
    tailed = {name: why for name, why in writes.items() if _has_tail(profile.stage(name))}
    if tailed and (slow is None or any(_serves(profile, name, slow) for name in tailed)):
        yield ConfirmWrites(stages=tailed)


def _has_tail(stage: StageProfile) -> bool:
    """Whether the calls of a stage have a tail that copies could cut."""
    calls = stage.calls_ms[~np.isnan(stage.calls_ms)]
    p50, p99 = np.percentile(calls, (50, 99)).tolist() if len(calls) else (0.0, 0.0)
    return p99 > 0 and p99 >= MIN_TAIL_RATIO * p50


def _shared_calls(settings: Sequence[Setting]) -> Iterator[SharedCall]:
    """Routes for which the settings of several stages have different delays."""
    routes: dict[tuple[str, str], list[Setting]] = {}
    for each in settings:
        routes.setdefault((each.service, each.route), []).append(each)
    for same in routes.values():
        delays = [each.after_ms for each in same]
        if min(delays) < max(delays):
            yield SharedCall(
                stages=tuple(each.stage for each in same), first_ms=min(delays), last_ms=max(delays)
            )


def _serves(profile: Profile, stage: str, slow: SlowRequests) -> bool:
    """Whether a leading service or stage, or the callee of a leading link, answers the calls of a stage."""
    names = {stage, profile.stage(stage).match.service}
    return any((part.link[1] if part.link else part.name) in names for part in slow.leading_parts)


def _out_of_reach(profile: Profile, slow: SlowRequests) -> tuple[str, ...]:
    """Leading services that answer no stage's calls, and leading links above all stages."""
    if not profile.service_names:  # the parts of the excess are stages then
        return ()
    known = {stage.match.service for stage in profile.stages if not stage.name.endswith(OWN_TIME)}
    return tuple(part.name for part in slow.leading_parts if known.isdisjoint(part.link or (part.name,)))
