"""Words of an advice: five answers for the owner of the service, each one sentence or a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, assert_never

from kwiken.cli.report.model import count, ms, percent

if TYPE_CHECKING:
    from kwiken.advice import Advice, NextStep

MAX_NAMED: Final = 3  # kinds, settings or stages named in one sentence; tables and JSON have all
MIN_BEHIND_P99: Final = 10  # requests slower than p99, below which its interval is called rough
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
        advice: advice to word.
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
    told = (
        f"{kind.name}: {count(kind.requests, 'request')}, p50 {ms(kind.p50_ms)}, p99 {ms(kind.p99_ms)}, "
        f"of service {advice.service}"
    )
    if not advice.others:
        return f"{told}."
    named = [f"{each.name} ({each.requests:,})" for each in advice.others]
    return f"{told}; other kinds in these traces: {_listed(named)}; --kind NAME takes another."


def _tail(advice: Advice) -> str:
    slow = advice.slow[-1]
    told = (
        f"The slowest {slow.share:.0%} ({count(slow.requests, 'request')}) take {ms(slow.latency_ms)} "
        f"where the medians of the services come to {ms(slow.typical_ms)}"
    )
    parts = {part.name: part for part in slow.services}
    if advice.leading:
        named = [f"{name} {ms(parts[name].excess_ms)} ({parts[name].share:.0%})" for name in advice.leading]
        told += f"; of the excess of {ms(slow.excess_ms)}, {_listed(named)}"
    if advice.tailed or advice.tail_ratio is None:
        return f"{told}."
    return (
        f"{told}; p99 is only {advice.tail_ratio:.2g} times the median, so there is hardly a tail to lower."
    )


def _gain(advice: Advice) -> str:
    """Sentence on what the budget buys; the cases are those of `Doubt`, and the case without doubt."""
    from kwiken.advice import Doubt

    share = percent(advice.budget)
    found = advice.judgement
    if found is None:
        return f"What {share} of extra work buys cannot be told: {_reason(advice)}."
    plan, even = found.arm("plan"), found.arm("even")
    cut, level = plan.cuts["p99_ms"], even.cuts["p99_ms"].share
    told = (
        f"A plan of the earlier half of the requests, judged on the later half, takes their p99 from "
        f"{ms(found.before.p99_ms)} to {ms(plan.after.p99_ms)}: a cut of {percent(cut.share)} (90% between "
        f"{percent(cut.low)} and {percent(cut.high)}) for {percent(plan.spent)} of extra work, of {share} "
        f"allowed; the same budget spread evenly cuts {percent(level)} for {percent(even.spent)}"
    )
    certainty = f"p99 of the later half rests on {count(advice.behind_p99, 'request')}"
    if advice.behind_p99 < MIN_BEHIND_P99:
        certainty += ", so the interval is rough"
    if plan.spent > MIN_PASSED * found.budget:
        certainty += f", and the ledger grants {found.ledger.floor_per_s:g} copies a second above the budget"
    if advice.doubt is Doubt.ZERO_IN_INTERVAL:
        return f"What {share} buys cannot be told: {_lower(told)}. The interval contains 0; {certainty}."
    if cut.high < 0:
        return f"{told}. This plan makes p99 worse: do not apply it; {certainty}."
    return f"{told}; {certainty}."


def _reason(advice: Advice) -> str:
    from kwiken.advice import Doubt

    doubt = advice.doubt
    if doubt is Doubt.FEW_REQUESTS:
        return (
            f"{count(advice.kind.requests, 'request')} are too few to plan on one half and judge on the other"
        )
    if doubt is Doubt.NO_ORDER:
        return "all requests carry the same start time, so none is later than another"
    if doubt is Doubt.NOTHING_TO_COPY:
        return "no call that these requests make may be copied"
    return "in the earlier half of the requests copies gain nothing"


def _changes(advice: Advice, plan_file: str | None) -> str:
    from kwiken.advice import Doubt

    if not advice.settings:
        return "Nothing: there is no setting to advise."
    found = advice.judgement
    if found is not None and found.arm("plan").cuts["p99_ms"].high < 0:
        return "Nothing: the plan made p99 of later requests worse."
    whole = sum(each.spent for each in advice.settings)
    main = [each for each in advice.settings if each.spent >= MIN_NAMED_SPEND * whole][:MAX_NAMED]
    named = [f"of {each.stage} after {each.after_ms:.4g} ms" for each in main or advice.settings[:1]]
    rest = len(advice.settings) - len(named)
    more = f", and of {count(rest, 'stage')} more as the table says" if rest else ""
    told = f"Send a copy of calls that are late: {', '.join(named)}{more}"
    if plan_file is None:
        write = "--plan plan.json keeps the plan, and kwiken export plan.json --to envoy writes its settings"
    else:
        write = f"kwiken export {plan_file} --to envoy (or istio, grpc) writes the settings"
    if advice.doubt is Doubt.ZERO_IN_INTERVAL:
        return f"{told}; since the gain is not certain, measure before and after. {write}."
    return f"{told}; {write}."


def _measure(advice: Advice) -> str:
    if not advice.steps:
        return "Nothing: these traces answer the question."
    told = "; ".join(_lower(step_words(step)) for step in advice.steps[:MAX_NAMED])
    more = len(advice.steps) - MAX_NAMED
    return f"{told[0].upper()}{told[1:]}" + (
        f"; {more} more stand in the last section of the page (-o)." if more > 0 else "."
    )


def step_words(step: NextStep) -> str:
    """Word one next step as a sentence without its full stop.

    Args:
        step: step of an advice.
    """
    from kwiken.advice import (
        ConfirmReads,
        ConfirmWrites,
        OutOfReach,
        RecordAgain,
        RecordBusyTime,
        RecordLonger,
        TraceRareKinds,
    )

    match step:
        case RecordLonger():
            told = (
                f"Record {step.needed:,} requests of this kind instead of {step.requests:,}, so that p99 of "
                "the judged half rests on ten"
            )
        case ConfirmReads():
            told = (
                f"Confirm that {_listed(step.stages)} may run twice, which only their names say; "
                "--once STAGE keeps one from copies"
            )
        case ConfirmWrites():
            named = [f"{name} ({why})" for name, why in step.stages.items()]
            told = (
                f"Check whether calls that were taken for writes may run twice: {_listed(named)}; "
                "--copyable STAGE allows copies"
            )
        case OutOfReach():
            told = (
                f"Look into {_listed(step.services)}, to which no stage's calls go, so that no setting "
                "copies that work alone: kwiken fit --spans shows the work inside of services"
            )
        case RecordBusyTime():
            told = "Record the CPU time of calls: without it, copies are charged by typical latency"
        case RecordAgain():
            told = f"Trace the service anew: {_listed(step.stages)} changed during the recording"
        case TraceRareKinds():
            told = f"Record more of {_listed(step.kinds)}: an advice needs {step.needed} requests of a kind"
        case _ as never:
            assert_never(never)
    return told


def _listed(names: Sequence[str]) -> str:
    """The first few names, and the number of the others."""
    shown, more = names[:MAX_NAMED], len(names) - MAX_NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
