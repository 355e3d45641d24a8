"""Words of an advice: five answers for the owner of the service, a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from kwiken.apps.console.notes import doubt_words
from kwiken.apps.console.output import IF_USUAL
from kwiken.apps.report.model.number_format import count, ms, percent
from kwiken.apps.report.sections.excess import excess_sentence, replica_words
from kwiken.model.plan.plan import CopyDoubt
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
    SharedCall,
    TraceRareKinds,
)
from kwiken.tail.judging.judgement_document import Judgement

MAX_NAMED: Final = 2  # settings or stages named in one answer; tables and JSON have all
MAX_LISTED: Final = 8  # stages, services or kinds named in a list of steps; JSON has all
MIN_BEHIND_P99: Final = 10  # requests slower than p99, below which the sentence says that they are few
MIN_PASSED: Final = 1.05  # spend over budget from which the sentence says why the budget was passed
MIN_NAMED_SPEND: Final = 0.1  # of the plan's spend, for a setting to be named in the sentence
QUESTIONS: Final = (
    "Which requests",
    "What makes their tail",
    "What the budget buys",
    "What to change",
    "What to measure next",
)


def advice_sentences(advice: Advice, plan_file: str | None) -> tuple[str, str, str, str, str]:
    """Answers to the five questions, in the order of `QUESTIONS`.

    Args:
        plan_file: file that the plan was written to; None if it was not kept.
    """
    return (_requests(advice), _tail(advice), _gain(advice), _changes(advice, plan_file), _measure(advice))


def _requests(advice: Advice) -> str:
    kind = advice.kind
    told = f"{kind.name}: {count(kind.requests, 'request')}, p50 {ms(kind.p50_ms)}, p99 {ms(kind.p99_ms)}"
    if advice.chosen_slow:
        slow = percent(advice.chosen_slow, places=0)
        told += f" (too high: {slow} are slow, as where a sampler keeps slow requests)"
    if len(advice.classes) > 1:
        slowest = sorted(advice.classes, key=lambda each: -each.p99_ms)[:MAX_NAMED]
        parts = [f"{each.name} ({count(each.requests, 'request')}) {ms(each.p99_ms)}" for each in slowest]
        told += f", the slowest of {len(advice.classes)} classes: {_joined(parts)}"
    if not advice.others:
        return f"{told}."
    most = advice.others[0]
    if len(advice.others) == 1:
        return f"{told}; --kind NAME takes the other kind, {most.name} ({most.requests:,})."
    return (
        f"{told}; --kind NAME takes one of {len(advice.others)} others (kwiken fit --list), "
        f"such as {most.name} ({most.requests:,})."
    )


def headline(advice: Advice) -> str:
    """The most useful answer in a line.

    There are seven cases: 1. a replica is slower than the others; 2. another cause is known that copies do
    not mend; 3. there is hardly a tail; 4. copies cut p99, for certain or on a condition; 5. a stage needs a
    second replica; 6. nothing is in excess; 7. what makes the tail is known.
    """
    replicas = advice.slow_replicas
    cause = replica_words(replicas[0]) if replicas else _cause_words(advice)
    if cause:
        return f"{advice.service}: {cause}"
    if not advice.tailed and advice.tail_ratio is not None and advice.slow[-1].during_s is None:
        return f"{advice.service}: hardly a tail, p99 is {advice.tail_ratio:.2g} times the median"
    if advice.doubt is None and advice.judgement is not None and advice.settings:
        cut = advice.judgement.arm("plan").cuts["p99_ms"].share
        where = _joined(list(dict.fromkeys(each.service for each in advice.settings))[:MAX_NAMED])
        told = f"{percent(advice.budget)} of extra work at {where} cuts p99 by {percent(cut, places=0)}"
        return f"{advice.service}: {told}{f', {IF_USUAL}' if advice.unshown else ''}"
    act = _first_act(advice)[1]
    if act:
        return f"{advice.service}: {act[:1].lower()}{act[1:]}"
    if advice.first is None:
        return f"{advice.service}: no service makes slow requests slow"
    first = advice.first
    where = first.name if first.what == "link" else f"{'on' if first.what == 'links' else 'in'} {first.name}"
    return f"{advice.service}: slow requests take {ms(first.excess_ms)} longer {where}"


def _tail(advice: Advice) -> str:
    slowest = [replica_words(each) for each in advice.slow_replicas[:MAX_NAMED]]
    cause = "" if slowest else _cause_words(advice)
    before = f"{_capital(_joined(slowest))}: look there before any copies. " if slowest else ""
    before = f"{_capital(cause)}. " if cause else before
    told = f"{before}{excess_sentence(advice.slow[-1])}"
    if advice.tailed or advice.tail_ratio is None:
        return f"{told}."
    return f"{told}; p99 is {advice.tail_ratio:.2g} times the median, hardly a tail to lower."


def _gain(advice: Advice) -> str:
    """Sentence on what the budget buys.

    There are six cases: 1. no call has a second replica to go to; 2. nothing was judged; 3. p99 stays where
    it is; 4. the interval of the cut contains 0; 5. the plan made p99 worse; 6. it lowered p99.
    """
    condition = f"{_capital(IF_USUAL)}: " if advice.unshown and advice.doubt is None else ""
    bought = _bought(advice)
    return f"{condition}{bought[:1].lower()}{bought[1:]}" if condition else bought


def _bought(advice: Advice) -> str:  # noqa: PLR0911 - a return for each case
    share = percent(advice.budget)
    found = advice.judgement
    if advice.doubt is Doubt.ONE_REPLICA:
        return "Nothing: no call that may be copied has another replica to go to."
    if found is None:
        return f"What {share} of extra work buys cannot be told: {_reason(advice)}."
    plan, even = found.arm("plan"), found.arm("even")
    cut, level = plan.cuts["p99_ms"], even.cuts["p99_ms"].share
    now, then = ms(found.before.p99_ms), ms(plan.after.p99_ms)
    moved = f"from {now} to {then}"
    between = f"90% interval {percent(cut.low, places=0)} to {percent(cut.high, places=0)}"
    rests = f"{'only ' if advice.behind_p99 < MIN_BEHIND_P99 else ''}{count(advice.behind_p99, 'request')}"
    if advice.doubt is Doubt.NO_COPIES:
        seen = f"takes p99 of the later half {moved} ({between}, on {rests})"
        return f"Nothing that shows: with {share}, a plan of the earlier half {seen}."
    if advice.doubt is Doubt.ZERO_IN_INTERVAL:
        seen = f"takes p99 of the later half {moved}, but the cut's {between}, on {rests}, contains 0"
        return f"What {share} buys cannot be told: a plan of the earlier half {seen}."
    if advice.doubt is Doubt.WORSE:
        return (
            f"A plan of the earlier half raises p99 of the later half {moved} ({between}, on {rests}): "
            "do not apply it."
        )
    more, knee = f" ({beyond_budget(found)})", _knee(advice)
    passed = more if plan.spent > MIN_PASSED * found.budget else ""
    spent = f"{percent(plan.spent)} of extra work{passed}"
    if advice.unshown:
        cuts = f"cuts p99 of the later half by {percent(cut.share, places=0)}, {moved}"
        return f"A plan of the earlier half {cuts} (no interval), for {spent}."
    return (
        f"A plan of the earlier half cuts p99 of the later half by {percent(cut.share, places=0)}, {moved} "
        f"({between}, on {rests}), for {spent}; an even spread cuts {percent(level, places=0)}.{knee}"
    )


def beyond_budget(found: Judgement) -> str:
    """Say why a plan spends more than its budget where requests are few."""
    always = f"the ledger always grants {found.ledger.floor_per_s:g} copies a second"
    return f"{percent(found.budget)} is the budget; {always}"


def _knee(advice: Advice) -> str:
    """Sentence on the smallest budget that buys nearly as much as any other; empty where none is certain."""
    best = next((each for each in advice.worth if each.budget == advice.knee), None)
    if best is None:
        return ""
    if best.budget != advice.budget:
        return f" More than {percent(best.budget)}, which cuts {percent(best.cut, places=0)}, buys little."
    most = max(advice.worth, key=lambda each: each.budget)
    if most.budget == advice.budget:
        return ""
    return f" More buys little: {percent(most.budget)} would cut {percent(most.cut, places=0)}."


def _reason(advice: Advice) -> str:
    doubt = advice.doubt
    if doubt is Doubt.FEW_REQUESTS:
        verb = "is" if advice.kind.requests == 1 else "are"
        many = count(advice.kind.requests, "request")
        return f"{many} {verb} too few to plan on one half and judge on the other"
    if doubt is Doubt.NO_ORDER:
        return "all requests carry the same start time, so none is later than another"
    if doubt is Doubt.NOTHING_TO_COPY:
        return "no call that these requests make may be copied"
    return "in the earlier half of the requests copies gain nothing"


def _changes(advice: Advice, plan_file: str | None) -> str:  # noqa: PLR0911 - a return for each case
    first = _first_act(advice)[1]
    if first and (advice.doubt is not None or not advice.settings):
        return f"{first}; no copies."
    if advice.doubt is Doubt.WORSE:
        return "Nothing: the plan made p99 of later requests worse."
    if advice.doubt is Doubt.ONE_REPLICA:
        return "No copies: the calls that could get them do not make the tail, and went to one replica each."
    if advice.doubt is Doubt.NO_COPIES and advice.judgement is not None:
        return "No copies: they leave p99 of later requests where it is."
    if not advice.settings:
        return "Nothing: there is no setting to advise."
    whole = sum(each.spent for each in advice.settings)
    main = [each for each in advice.settings if each.spent >= MIN_NAMED_SPEND * whole][:MAX_NAMED]
    named = [f"{each.stage} after {ms(each.after_ms)}" for each in main or advice.settings[:1]]
    rest = len(advice.settings) - len(named)
    more = [f"{rest} more, in the table"] if rest else []
    told = f"Copy late calls of {_joined([*named, *more])}"
    if any(each.replicas is None for each in advice.settings):
        told += ", where a second replica can take the copy"
    if first:
        told = f"{first}. {told}"
    if advice.doubt is Doubt.ZERO_IN_INTERVAL:
        told += "; the gain is not certain, so measure before and after"
    if plan_file is None:
        return f"{told}; --plan FILE keeps the plan for kwiken export."
    return f"{told}; kwiken export {plan_file} --to envoy (or istio, grpc) writes the settings."


def _first_act(advice: Advice) -> tuple[NextStep | None, str]:
    """Step before any copies, with its sentence without a full stop; None where nothing comes first."""
    for step in advice.steps:
        match step:
            case LookIntoReplica(name=name):
                return step, f"First look into {name}"
            case FindCommonCause(stage=stage, period_s=period_s):
                period = f" every {period_s:.3g} s" if period_s else ""
                return step, f"First find what stops all replicas of {stage} at once{period}"
            case LookIntoRequests(stage=stage, attribute=attribute):
                return step, f"First look into the requests that {attribute} marks as slow at {stage}"
            case AddReplica(stages=stages):
                return step, f"First add a second replica of {_joined(list(stages[:MAX_NAMED]))}"
            case _:
                pass
    return None, ""


def _cause_words(advice: Advice) -> str:
    """The first cause of slow calls that copies do not mend as well; empty where traces tell of none."""
    for step in advice.steps:
        match step:
            case LookIntoReplica(service=service, name=name):
                return doubt_words(CopyDoubt(kind="replica", stage=service, name=name))
            case FindCommonCause(stage=stage, period_s=period_s):
                return doubt_words(CopyDoubt(kind="together", stage=stage, period_s=period_s))
            case LookIntoRequests(stage=stage, attribute=name, values=values):
                return doubt_words(CopyDoubt(kind="requests", stage=stage, name=name, values=values))
            case _:
                pass
    return ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _measure(advice: Advice) -> str:
    steps = further_steps(advice)
    if not steps:
        return "Nothing: these traces answer the question."
    told, more = step_words(steps[0], most=MAX_NAMED), len(steps) - 1
    if not more:
        return f"{told}."
    return f"{told}; {more} further {'step' if more == 1 else 'steps'} at the end."


def further_steps(advice: Advice) -> list[NextStep]:
    """Steps but for the one that is the answer to what to change."""
    done = _first_act(advice)[0]
    return [step for step in advice.steps if step is not done]


def step_words(step: NextStep, *, most: int = MAX_LISTED) -> str:  # noqa: C901, PLR0912 - a case for each step
    """Word one next step as a sentence without its full stop.

    Args:
        most: largest number of stages, services or kinds to name, 1 or more.
    """
    match step:
        case RecordLonger():
            told = (
                f"Record {step.needed:,} requests of this kind instead of {step.requests:,}, "
                "so that p99 of the later half rests on ten"
            )
        case ConfirmReads():
            told = (
                f"Confirm that {_named(step.stages, most)} may run twice, which only their names say; "
                "--once STAGE keeps a stage from copies"
            )
        case ConfirmWrites():
            named = [f"{name} ({why})" for name, why in step.stages.items()]
            told = (
                f"These calls may be writes, so they get no copies: {_named(named, most)}; "
                "--copyable STAGE allows copies where a second run does no harm"
            )
        case OutOfReach():
            told = (
                f"Look into {_named(step.services, most)}: hedging cannot fix work of a service itself; "
                "kwiken fit --spans shows the work inside of services"
            )
        case SharedCall():
            told = (
                f"Expect less from exported settings: to a proxy {_named(step.stages, most)} are one route, "
                f"which gets the latest delay, {ms(step.last_ms)} instead of {ms(step.first_ms)}"
            )
        case RecordBusyTime():
            told = "Record the CPU time of calls; without it copies are charged by typical latency"
        case RecordAgain():
            told = f"Trace the service anew, as {_named(step.stages, most)} changed during the recording"
        case FindCommonCause():
            period = f"every {step.period_s:.3g} s" if step.period_s else "at the same times"
            told = (
                f"Find what makes all replicas of {step.stage} slow {period}: a copy waits as its call does"
            )
        case LookIntoRequests():
            which = f" {_joined(step.values)}" if step.values else ""
            slow = f"{step.stage} is slow for them on any replica"
            told = f"Look into requests by the attribute {step.attribute}{which}: {slow}, and so is a copy"
        case HedgedAlready():
            told = _hedged_words(step)
        case LookIntoReplica():
            slower = f"a replica of {step.service} that is slower than the others"
            told = f"Look into {step.name}, {slower}, and trace the service anew"
        case AddReplica():
            many = _named(step.stages, most)
            told = (
                f"Add a second replica for {many}: all calls went to one, where a copy waits behind its call"
            )
        case ConfirmReplicas():
            told = (
                f"Confirm that {_named(step.stages, most)} can go to a second replica: spans name no "
                "instances (k8s.pod.name, service.instance.id or host.name)"
            )
        case TraceRareKinds():
            told = (
                f"Record more of {_named(step.kinds, most)}; an advice needs {step.needed} requests of a kind"
            )
        case _ as never:
            assert_never(never)
    return told


def _hedged_words(step: HedgedAlready) -> str:
    told = (
        f"Change a delay instead of sending more copies: the callers of {step.stage} hedge already, "
        f"after {ms(step.after_ms)} ({step.copies:.1%} of its calls)"
    )
    if step.instead_ms is None or step.instead_copies is None or step.instead_p99_ms is None:
        return told
    return (
        f"{told}; after {ms(step.instead_ms)} copies would be {step.instead_copies:.1%} of the calls, "
        f"and their p99 {ms(step.instead_p99_ms)} instead of {ms(step.p99_ms)}"
    )


def _named(names: Sequence[str], most: int) -> str:
    """The first few names, and the number of the others."""
    rest = len(names) - most
    return _joined([*names[:most], f"{rest} more"] if rest > 0 else names)


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
