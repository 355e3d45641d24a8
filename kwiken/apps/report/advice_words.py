"""Words of an advice: five answers for the owner of the service, a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, assert_never

from kwiken.apps.report.model import count, ms, percent
from kwiken.apps.report.sections import excess_sentence

if TYPE_CHECKING:
    from kwiken.tail.advice import Advice, HedgedAlready as Hedged, NextStep

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
    return (
        _requests(advice),
        _tail(advice),
        _gain(advice),
        _changes(advice, plan_file),
        _measure(advice),
    )


def _requests(advice: Advice) -> str:
    kind = advice.kind
    told = f"{kind.name}: {count(kind.requests, 'request')}, p50 {ms(kind.p50_ms)}, p99 {ms(kind.p99_ms)}"
    if not advice.others:
        return f"{told}."
    most = advice.others[0]
    if len(advice.others) == 1:
        return f"{told}; --kind NAME takes the other kind, {most.name} ({most.requests:,})."
    return (
        f"{told}; --kind NAME takes one of {len(advice.others)} others (kwiken fit --list), "
        f"such as {most.name} ({most.requests:,})."
    )


def _tail(advice: Advice) -> str:
    told = excess_sentence(advice.slow[-1])
    if advice.tailed or advice.tail_ratio is None:
        return f"{told}."
    return f"{told}; p99 is {advice.tail_ratio:.2g} times the median, hardly a tail to lower."


def _gain(advice: Advice) -> str:
    """Sentence on what the budget buys.

    There are four cases: 1. nothing was judged; 2. the interval of the cut contains 0; 3. the plan made p99
    worse; 4. it lowered p99.
    """
    from kwiken.tail.advice import Doubt

    share = percent(advice.budget)
    found = advice.judgement
    if found is None:
        return f"What {share} of extra work buys cannot be told: {_reason(advice)}."
    plan, even = found.arm("plan"), found.arm("even")
    cut, level = plan.cuts["p99_ms"], even.cuts["p99_ms"].share
    now, then = ms(found.before.p99_ms), ms(plan.after.p99_ms)
    moved = f"from {now} to {then}"
    between = f"90% interval {percent(cut.low, places=0)} to {percent(cut.high, places=0)}"
    rests = f"{'only ' if advice.behind_p99 < MIN_BEHIND_P99 else ''}{count(advice.behind_p99, 'request')}"
    if advice.doubt is Doubt.ZERO_IN_INTERVAL:
        seen = (
            f"leaves p99 of the later half at {now}, which rests on {rests}"
            if now == then
            else f"takes p99 of the later half {moved}, but the cut's {between}, on {rests}, contains 0"
        )
        return f"What {share} buys cannot be told: a plan of the earlier half {seen}."
    if advice.doubt is Doubt.WORSE:
        return (
            f"A plan of the earlier half raises p99 of the later half {moved} ({between}, on {rests}): "
            "do not apply it."
        )
    floor = f" ({share} and the ledger's floor)" if plan.spent > MIN_PASSED * found.budget else ""
    spent = f"{percent(plan.spent)} of extra work{floor}"
    return (
        f"A plan of the earlier half cuts p99 of the later half by {percent(cut.share, places=0)}, {moved} "
        f"({between}, on {rests}), for {spent}; an even spread cuts {percent(level, places=0)}."
    )


def _reason(advice: Advice) -> str:
    from kwiken.tail.advice import Doubt

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


def _changes(advice: Advice, plan_file: str | None) -> str:
    from kwiken.tail.advice import Doubt

    if advice.doubt is Doubt.WORSE:
        return "Nothing: the plan made p99 of later requests worse."
    if not advice.settings:
        return "Nothing: there is no setting to advise."
    whole = sum(each.spent for each in advice.settings)
    main = [each for each in advice.settings if each.spent >= MIN_NAMED_SPEND * whole][:MAX_NAMED]
    named = [f"{each.stage} after {ms(each.after_ms)}" for each in main or advice.settings[:1]]
    rest = len(advice.settings) - len(named)
    more = [f"{rest} more, in the table"] if rest else []
    told = f"Copy late calls of {_joined([*named, *more])}"
    if advice.doubt in {Doubt.ZERO_IN_INTERVAL, Doubt.NO_COPIES}:
        told += "; the gain is not certain, so measure before and after"
    if plan_file is None:
        return f"{told}; --plan FILE keeps the plan for kwiken export."
    return f"{told}; kwiken export {plan_file} --to envoy (or istio, grpc) writes the settings."


def _measure(advice: Advice) -> str:
    if not advice.steps:
        return "Nothing: these traces answer the question."
    told, more = step_words(advice.steps[0], most=MAX_NAMED), len(advice.steps) - 1
    if not more:
        return f"{told}."
    return f"{told}; {more} further {'step' if more == 1 else 'steps'} at the end."


def step_words(step: NextStep, *, most: int = MAX_LISTED) -> str:
    """Word one next step as a sentence without its full stop.

    Args:
        most: largest number of stages, services or kinds to name, 1 or more.
    """
    from kwiken.tail.advice import (
        ConfirmReads,
        ConfirmWrites,
        HedgedAlready,
        OutOfReach,
        RecordAgain,
        RecordBusyTime,
        RecordLonger,
        SharedCall,
        TraceRareKinds,
    )

    match step:
        case RecordLonger():
            told = (
                f"Record {step.needed:,} requests of this kind instead of {step.requests:,}, "
                "so that p99 of the later half rests on ten"
            )
        case HedgedAlready():
            told = _hedged_words(step)
        case ConfirmReads():
            told = (
                f"Confirm that {_named(step.stages, most)} may run twice, which only their names say; "
                "--once STAGE keeps a stage from copies"
            )
        case ConfirmWrites():
            named = [f"{name} ({why})" for name, why in step.stages.items()]
            told = (
                f"Check whether writes may run twice: {_named(named, most)}; --copyable STAGE allows copies"
            )
        case OutOfReach():
            told = (
                f"Look into {_named(step.services, most)}: no setting copies work outside of the stages "
                "alone; kwiken fit --spans shows the work inside of services"
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
        case TraceRareKinds():
            told = (
                f"Record more of {_named(step.kinds, most)}; an advice needs {step.needed} requests of a kind"
            )
        case _ as never:
            assert_never(never)
    return told


def _hedged_words(step: Hedged) -> str:
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
