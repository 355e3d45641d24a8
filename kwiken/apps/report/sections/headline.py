"""Summary of a report: cut of p99, spend, and both beside the plan's expectation."""

from __future__ import annotations

import math

import numpy as np

from kwiken.apps.console.notes import plan_doubts
from kwiken.apps.report.model.number_format import between, change, count, ms, percent
from kwiken.apps.report.model.page import Card
from kwiken.apps.report.model.result import DemoResult, Spent
from kwiken.apps.report.sections.views import Material, budget_shares, variance_shares
from kwiken.model.latency import percentile
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile

MIN_REQUESTS_FOR_DIRECTION = 400  # of an arm: four lie beyond its p99
MIN_DRIFT = 0.15  # relative change of the median that is worth a sentence


def summary(material: Material) -> tuple[str, ...]:
    """Sentences of the summary; the first holds the main result."""
    if material.result is not None:
        return of_result(material.result)
    if material.plan is not None:
        return _of_plan(material.plan)
    if material.profile is not None:
        return _of_profile(material.profile)
    return tuple(
        f"{arm}: {count(values.size, 'request')}, median {ms(float(np.median(values)))}, "
        f"p99 {ms(percentile(values, 99))}."
        for arm, values in material.arms.items()
        if values.size
    ) or ("Nothing was measured.",)


def of_result(result: DemoResult) -> tuple[str, ...]:
    """Sentences on a demo's result: the cut of p99, the spend, and both beside the expectation."""
    cut = result.cut_p99["after"]
    before, after, promised = result.before.p99_ms, result.after.p99_ms, result.expectation
    sure = f"; 90% interval of the cut {between(cut.low, cut.high, '%')}" if math.isfinite(cut.low) else ""
    gist = (
        f"p99 {_moved(result)} from {ms(before)} to {ms(after)} ({change(before, after)}) for "
        f"{percent(result.spent.reissue)} extra work{_same_as_even(result)}{sure}."
    )
    low, high = promised.bounds.get("p99_ms", (math.nan, math.nan))
    interval = f" ({between(low, high)})" if math.isfinite(low) else ""
    hoped, came, place = promised.after.p99_ms, result.achieved.p99_ms, "At the gateway the"
    if not came:  # an earlier result, which was not measured there
        came, place = after, "The"
    sampled = result.achieved_p99_between
    spread = f", 90% interval {between(*sampled)}" if sampled is not None else ""
    expected = (
        f"{place} plan expected a p99 of {ms(hoped)}{interval}, and {ms(came)} was achieved "
        f"({change(hoped, came)}{spread}).{_meanwhile(result)} It expected to spend "
        f"{percent(promised.spent)}; it might spend {percent(result.budgets.get('reissue', 0.0))}."
    )
    return (
        gist,
        _against_even(result),
        _against_p95(result),
        f"{expected}{_drifted(result)}",
        _within(result),
    )


def _same_as_even(result: DemoResult) -> str:
    """Part of a sentence on the even spread that is expected to reach the plan's p99."""
    if result.even_for_same is None:
        return ", a p99 that no even spread is expected to reach"
    return f", the same p99 as {percent(result.even_for_same)} spread evenly by the plan's model"


def _meanwhile(result: DemoResult) -> str:
    """Sentence on what the plan expects for the requests without it in the same minutes; empty if unknown."""
    if result.meanwhile is None:
        return ""
    hoped = result.meanwhile.after.p99_ms
    bounds = result.meanwhile.bounds.get("p99_ms")
    interval = f" ({between(*bounds)})" if bounds is not None else ""
    return (
        f" For the requests without a plan in the same minutes it expects {ms(hoped)}{interval}; "
        f"against that the achieved p99 is {change(hoped, result.achieved.p99_ms)}."
    )


def _drifted(result: DemoResult) -> str:
    """Sentence on a service that was no longer as fast as when it was learned; empty if it was."""
    if abs(result.drift) < MIN_DRIFT:
        return ""
    way = "slower" if result.drift > 0 else "faster"
    return (
        f" Without a plan the service was {percent(abs(result.drift), places=0)} {way} in the median by then "
        "than when the plan was learned, so the expectation is for another state of this machine."
    )


def _moved(result: DemoResult) -> str:
    """Verb for a change of p99: a direction only if the interval of the cut does not contain zero.

    A bootstrap draws from what was seen, so of few requests its interval is too narrow.
    """
    cut = result.cut_p99["after"]
    if _few(result, "before", "after"):
        return "cannot be told from so few requests:"
    if cut.low > 0:
        return "fell"
    return "rose" if cut.high < 0 else "did not change clearly:"


def _few(result: DemoResult, *arms: str) -> bool:
    """Tell whether one of the arms has too few requests for a direction of p99."""
    return min(result.arms[arm].requests for arm in arms) < MIN_REQUESTS_FOR_DIRECTION


def _against_even(result: DemoResult) -> str:
    even, before = result.even.p99_ms, result.before.p99_ms
    words = f"The same budget spread evenly over the stages gave {ms(even)} ({change(before, even)}) for "
    words += f"{percent(result.spent_even.reissue)} extra work"
    won = "apportioning it beat spreading it"
    return _beside(result, "even", words, won, lost="here spreading it beat apportioning it")


def _against_p95(result: DemoResult) -> str:
    p95, before = result.p95.p99_ms, result.before.p99_ms
    words = f"A copy at the p95 of every stage, as Envoy or gRPC clients are often set, gave {ms(p95)} "
    words += f"({change(before, p95)}) for {percent(result.spent_p95.reissue)} extra work"
    return _beside(result, "p95", words, "the plan beat it", lost="here it beat the plan")


def _beside(result: DemoResult, arm: str, words: str, won: str, *, lost: str) -> str:
    """Sentence on another arm, ended by what the interval of the difference lets say."""
    against = result.cut_p99.get(f"after_{arm}")
    if against is None or not math.isfinite(against.low):
        return f"{words}."
    enough = not _few(result, "after", arm)
    if enough and against.low > 0:
        return f"{words}: {won}."
    if enough and against.high < 0:
        return f"{words}: {lost}."
    return f"{words}: a difference that a run this short cannot tell from chance."


def _within(result: DemoResult) -> str:
    budget, spent = result.budgets.get("reissue", 0.0), result.spent
    words = f"The spend {_kept(spent.reissue, budget)} the budget of {percent(budget)} over the horizon"
    words += f"; over its worst 10 s it was {percent(spent.reissue_worst_10s)}"
    if result.peak is not None:
        words += f" and {_kept(spent.reissue_worst_10s, result.peak)} the peak of {percent(result.peak)}"
    lost = "No request failed" if result.failed == 0 else f"{count(result.failed, 'request')} failed"
    return f"{words}. {lost}."


def _kept(spent: float, limit: float) -> str:
    return "stayed within" if spent <= limit else "went past"


def _of_plan(plan: Plan) -> tuple[str, ...]:
    shares = sorted(budget_shares(plan).items(), key=lambda pair: -pair[1])
    if plan.expected is None:
        gist = f"The plan may spend {percent(plan.budgets.reissue)} extra work; it states no expectation."
    else:
        before, after = plan.expected.before.p99_ms, plan.expected.after.p99_ms
        gist = (
            f"With {_price(plan.expected.spent)} p99 should go from {ms(before)} "
            f"to {ms(after)} ({change(before, after)})."
        )
    most = "; ".join(f"{name} {percent(share, places=0)}" for name, share in shares[:3])
    rest = f" and {count(len(shares) - 3, 'other stage')} the rest" if len(shares) > 3 else ""  # noqa: PLR2004
    where = f"Of the budget: {most}{rest}." if most else "No stage gets copies."
    doubts = (f"{words[:1].upper()}{words[1:]}." for words in plan_doubts(plan))
    return (
        gist,
        *doubts,
        where,
        "These are expectations from recorded requests. Nothing was measured with the plan yet.",
    )


def _price(spent: Budgets) -> str:
    """Text of a plan's expected spend, by lever."""
    told = f"{percent(spent.reissue)} extra work"
    if spent.catch_up > 0:
        told += f", {percent(spent.catch_up)} more for late requests"
    if spent.utility_loss > 0:
        told += f", and {percent(spent.utility_loss)} of the answers' utility lost,"
    return told


def _of_profile(profile: Profile) -> tuple[str, ...]:
    latencies = profile.latency_ms
    if not latencies.size:
        return ("The profile holds no request.",)
    wildest, share = max(variance_shares(profile).items(), key=lambda pair: pair[1])
    median, slow = (ms(percentile(latencies, at)) for at in (50, 99))
    return (
        f"{count(profile.requests, 'request')} of {profile.service}: median {median}, p99 {slow}.",
        f"The stage that varies most is {wildest}: {percent(share, places=0)} of the stages' variance.",
    )


def cards(material: Material) -> tuple[Card, ...]:
    """Cards with the key figures."""
    result = material.result
    if result is None:
        return ()
    promised = result.expectation
    worst = f"worst 10 s {percent(result.spent.reissue_worst_10s)}"
    if result.peak is not None:
        worst += f" of {percent(result.peak)}"
    limit = f"of {percent(result.budgets.get('reissue', 0.0))} allowed; {worst}"
    even, p95 = result.even.p99_ms, result.p95.p99_ms
    return (
        Card("before", "p99 before", ms(result.before.p99_ms), f"median {ms(result.before.p50_ms)}"),
        Card(
            "after",
            "p99 with the plan",
            ms(result.after.p99_ms),
            _for(result, result.after.p99_ms, result.spent),
        ),
        Card("even", "p99 spread evenly", ms(even), _for(result, even, result.spent_even)),
        Card("p95", "p99, copies at p95", ms(p95), _for(result, p95, result.spent_p95)),
        Card(
            "expected", "p99 expected", ms(promised.after.p99_ms), f"for {percent(promised.spent)} extra work"
        ),
        Card("", "extra work", percent(result.spent.reissue), limit),
    )


def _for(result: DemoResult, p99_ms: float, spent: Spent) -> str:
    """Change of p99 and its price."""
    return f"{change(result.before.p99_ms, p99_ms)} for {percent(spent.reissue)} work"
