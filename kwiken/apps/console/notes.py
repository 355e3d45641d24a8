"""Words for the notes on plans, profiles and load models: as sentences, and as JSON.

One function for each package's notes: mypy refuses a kind of note that its function does not word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

import msgspec

from kwiken.apps.console.output import IF_USUAL
from kwiken.model.plan.plan import CopyDoubt, Plan
from kwiken.model.profile import notes as profile
from kwiken.model.profile.change_over_time import Drift
from kwiken.tail.apportion import notes as apportion
from kwiken.tail.partial import notes as partial
from kwiken.tail.planning import notes as planning
from kwiken.tail.queueing.load import notes as load

MAX_NAMES: Final = 6  # stages named in one sentence; JSON has all
MIN_P99_CUT: Final = 0.01  # below which a plan's expected cut counts as none
MAX_CHANGES: Final = 3  # stages whose change is described in one sentence


def note_words(note: planning.Note) -> str:  # noqa: PLR0911 - one line for each group of notes
    """Word a note as one sentence, without a capital and a full stop.

    Args:
        note: note on a plan, a profile or a load model.
    """
    if isinstance(note, planning.ReissueNote):
        return _reissue_words(note)
    if isinstance(note, planning.CatchUpNote):
        return _catch_up_words(note)
    if isinstance(note, planning.GuardNote):
        return _guard_words(note)
    if isinstance(note, profile.ProfileNote):
        return _profile_words(note)
    if isinstance(note, apportion.ApportionNote):
        return _apportion_words(note)
    if isinstance(note, partial.PartialNote):
        return _partial_words(note)
    return _load_words(note)


def doubt_words(doubt: CopyDoubt) -> str:
    """Word what speaks against copies of a stage as one sentence, without a capital and a full stop.

    Args:
        doubt: what the traces tell.
    """
    match doubt.kind:
        case "one_replica":
            return f"all calls of {doubt.stage} went to one replica, so it gets no copies"
        case "replica":
            return f"most slow calls of {doubt.stage} went to one replica, {doubt.name}"
        case "together":
            period = f", every {doubt.period_s:.3g} s" if doubt.period_s else ""
            return f"all replicas of {doubt.stage} are slow at the same times{period}"
        case "requests":
            which = f" ({_listed(doubt.values)})" if doubt.values else ""
            parted = f"the slow requests of {doubt.stage} from the fast ones"
            return f"the attribute {doubt.name}{which} parts {parted}"
    assert_never(doubt.kind)


def plan_doubts(plan: Plan) -> list[str]:
    """What speaks against a plan's copies, most certain first, in the words of every verb that shows a plan.

    Args:
        plan: plan with its expectation; one without has no doubts to tell.
    """
    expected = plan.expected
    if expected is None:
        return []
    told = [doubt_words(doubt) for doubt in expected.doubts[:MAX_NAMES]]
    if expected.unshown:
        told.append(f"what is expected holds only {IF_USUAL}")
    copied = any(stage.reissue is not None for stage in plan.stages.values())
    if copied and expected.after.p99_ms > (1 - MIN_P99_CUT) * expected.before.p99_ms:
        told.append("the copies are not expected to cut p99: change nothing for their sake")
    return told


def note_sentences(notes: Iterable[planning.Note]) -> list[str]:
    """Word notes as sentences for a page of text, with a capital and a full stop.

    Args:
        notes: notes on a plan, a profile or a load model.
    """
    return [f"{words[:1].upper()}{words[1:]}." for words in map(note_words, notes)]


def note_summaries(notes: Iterable[planning.Note]) -> list[dict[str, Any]]:
    """Notes as JSON: the kind, the facts by name, and the sentence as `text`.

    Args:
        notes: notes on a plan, a profile or a load model.
    """
    return [{"kind": _kind(note), **msgspec.to_builtins(note), "text": note_words(note)} for note in notes]


def drift_words(change: Drift) -> str:
    """Word the change of a stage while it was traced.

    Args:
        change: shares of late calls in both halves of the requests.
    """
    return (
        f"{change.stage}: {change.earlier:.1%} of the calls took longer than {change.after_ms:.3g} ms in the "
        f"earlier half, {change.later:.1%} in the later"
    )


def _kind(note: planning.Note) -> str:
    """Kind of a note in JSON: `FewRequests` becomes `few_requests`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(note).__name__).lower()


def _reissue_words(note: planning.ReissueNote) -> str:  # noqa: C901, PLR0911, PLR0912 - one case a kind
    match note:
        case planning.NoP99Cut(before_ms, after_ms):
            return (
                f"this budget buys no p99 here: {before_ms:.4g} ms without the plan, {after_ms:.4g} ms "
                "expected with it"
            )
        case planning.NoStageReissuable():
            return "no stage may be reissued, so no reissue budget cuts p99"
        case planning.LargerBudgetHelps(budget, cut):
            return f"a reissue budget of {budget:.3g} should cut p99 by {cut:.0%}"
        case planning.NoBudgetHelps(least_cut, largest):
            return f"no reissue budget up to {largest:.3g} would cut p99 by {least_cut:.0%}"
        case planning.ExpectationCorrected(plan, requests, factor, low, high, spent):
            return (
                f"the expectation is corrected by {requests:,} requests that ran with plan {plan}: "
                f"around p99 they took {factor:.2f} times what the simulation expects of that plan (90% "
                f"interval {low:.2f} to {high:.2f}), and their copies took {spent:.2f} times the work "
                "expected"
            )
        case planning.FewRequests(requests):
            return f"only {requests} requests: high percentiles rest on a few of them, so intervals are wide"
        case planning.SpendRefused(share):
            return (
                f"late calls come in bursts: the ledger should refuse {share:.0%} of the planned spend "
                "because the budget is spent, and the expectation accounts for that"
            )
        case planning.CallsCancelled(calls):
            return (
                f"{calls} calls were cancelled before they ended; their latency is estimated "
                "(Kaplan-Meier), and no estimate exceeds the longest call seen"
            )
        case planning.CopiesCorrelated(correlations):
            used = _listed(f"{name} {value:.2f}" for name, value in correlations.items())
            return f"copies are slow together with their calls; correlations used: {used}"
        case planning.AnswersUnread(shares):
            told = _listed(f"{name} {share:.0%}" for name, share in shares.items())
            return (
                "answers of slow calls lay unread at a busy gateway, which no copy shortens; of what the "
                f"slowest 5% took beyond the median, that was: {told}"
            )
        case planning.CopiesAsSlow(stages):
            return f"a copy would be as slow as its call, so none are sent: {_listed(stages)}"
        case planning.TooFewCalls(stages):
            return f"too few calls to plan for: {_listed(stages)}"
        case _:
            assert_never(note)


def _catch_up_words(note: planning.CatchUpNote) -> str:
    match note:
        case planning.CatchUpUnspent(cut):
            return (
                f"help for late requests would cut p99 of later requests by {cut:.1%} only, so the catch-up "
                "budget stays unspent"
            )
        case planning.PriorityOnly():
            return (
                "no stage can be reissued at a profit or use threads, so late requests get priority only; "
                "its gain shows under load, which this expectation does not model"
            )
        case planning.LateRequestsHelped(after_ms, late, reissue, threads, cut):
            helped = [f"copies at {_listed(reissue)}"] if reissue else []
            helped += [f"threads at {_listed(threads)}"] if threads else []
            return (
                f"a request is late from {after_ms:.1f} ms on ({late:.1%} of them) and then gets "
                f"{' and '.join(helped)}; on later requests that cut p99 by {cut:.1%}"
            )
        case planning.NoThreadsForLate():
            return "the catch-up budget buys more without threads for late requests"
        case planning.NoCopiesForLate():
            return "the catch-up budget buys more without copies for late requests"
        case _:
            assert_never(note)


def _guard_words(note: planning.GuardNote) -> str:
    match note:
        case planning.PlannedAtLoad(rate_per_s, factor, busiest, utilisation):
            return (
                f"planned for {rate_per_s:.4g} requests a second, {factor:g} times the profile's; the "
                f"busiest stage, {busiest}, is busy {utilisation:.0%} of the time"
            )
        case planning.PlanRaisesP99(before_ms, after_ms):
            return (
                f"do not use this plan at this load: p99 is expected to rise from {before_ms:.4g} to "
                f"{after_ms:.4g} ms"
            )
        case planning.CopiesRefused(stages):
            told = _listed(f"{each.stage} ({_load_of(each, 'copies hurt from')})" for each in stages)
            return f"no copies where replicas are so busy that copies make the tail worse: {told}"
        case planning.CopiesHurtAtHigherLoad(stages):
            told = _listed(f"{each.stage} ({_load_of(each, 'from')})" for each in stages)
            return f"copies help at this load and would hurt at a higher one: {told}"
        case planning.HigherLoadNotSearched(stages, searched):
            return (
                f"the load from which copies hurt was searched at the {searched} busiest stages only; at "
                f"these copies do not hurt at this load, higher loads are not known: {_listed(stages)}"
            )
        case planning.NotConverged(rounds):
            return f"plan and load did not converge in {rounds} rounds; the last plan is kept"
        case _:
            assert_never(note)


def _profile_words(note: profile.ProfileNote) -> str:
    match note:
        case profile.LatenciesContradict(share, tolerance, request, latency_ms, path_ms):
            return (
                f"latency_ms of {share:.0%} of the requests is more than {tolerance:.0%} off from what their "
                f"stages come to: request {request} has {latency_ms:.6g} ms, and its stages {path_ms:.6g} "
                "ms; results follow the stages"
            )
        case profile.IdempotenceUnknown(stages):
            return (
                "traces do not record which calls may run twice; exclude stages that write by "
                f"--once STAGE. Copies go to: {_listed(stages)}"
            )
        case profile.StagesChanged(changes):
            told = "; ".join(drift_words(each) for each in changes[:MAX_CHANGES])
            more = len(changes) - MAX_CHANGES
            rest = f"; and {more} more stages" if more > 0 else ""
            return (
                f"the service changed while it was traced ({told}{rest}): trace it again, or fit with "
                "--half-life"
            )
        case _:
            assert_never(note)


def _apportion_words(note: apportion.ApportionNote) -> str:
    match note:
        case apportion.GainsMayBeChance(stages, counted):
            return (
                f"chance may explain the whole gain of copies at {_listed(stages)}: {counted:.0%} of it "
                "counts until more requests are seen"
            )
        case apportion.GainsUncertain(certainty):
            return (
                "few slow requests were seen, so gains count in part; certain share of the gain: "
                f"{_shares(certainty)}"
            )
        case _:
            assert_never(note)


def _partial_words(note: partial.PartialNote) -> str:  # noqa: PLR0911 - one case a kind
    match note:
        case partial.NoFanOut():
            return "no stage is a fan-out, so no answer can be partial: the utility budget stays unspent"
        case partial.LossTooSmall(stage, requests, loss, least_loss):
            return (
                f"{stage}: the profile's {requests} requests are too few for a loss of {loss:.3%}: one lost "
                f"answer would be {least_loss:.3%}"
            )
        case partial.NoStopRuleHelps(stage):
            return (
                f"{stage}: no stop rule within the utility budget lowers its variance, so it waits for all "
                "shards"
            )
        case partial.TooFewVisits(stages):
            return f"too few visits to learn when to stop: {_listed(stages)}"
        case partial.UtilityKeptBack(apportioned):
            return (
                f"stop rules are tuned for {apportioned:.0%} of the utility budget; the rest is kept for "
                "later requests, which lose a little more than those tuned on"
            )
        case partial.LossesAddedUp(stages):
            return (
                f"losses of several stages ({_listed(stages)}) are added up, as if every answer needed all "
                "of their parts; where parts count independently, give utility weights and each stage may "
                "lose more"
            )
        case partial.FewShards(stage, shards, loss):
            return (
                f"{stage}: with {shards} shards a loss of {loss:.2%} lets 1 request in "
                f"{1 / (loss * shards):.0f} go on without one of them; a rule that waits for a share of the "
                "shards cannot use that, so the cut-off and the wait decide"
            )
        case _:
            assert_never(note)


def _load_words(note: load.LoadNote) -> str:
    match note:
        case load.LoadHasNoEffect(stages):
            return f"load has no effect on stages whose busy time is not known: {_listed(stages)}"
        case load.WaitsTooLong(excess):
            return (
                "the model has more waiting than the measured latencies, so replicas, rate or utilisation "
                f"may be wrong (excess over a percentile): {_shares(excess)}"
            )
        case load.LatenciesNotExplained(errors):
            return (
                "work, wait and rest do not quite add up to the latencies; a longer profile may help (error "
                f"of a percentile): {_shares(errors)}"
            )
        case load.LeversNotSimulated(stages):
            return (
                f"only reissues are simulated; partial answers and catch-up are left out: {_listed(stages)}"
            )
        case _:
            assert_never(note)


def _load_of(stage: planning.StageLoad, from_: str) -> str:
    busy = f"{stage.utilisation:.0%} busy"
    return busy if stage.hurts_from is None else f"{busy}, {from_} {stage.hurts_from:.0%}"


def _shares(by_name: Mapping[str, float], digits: int = 0) -> str:
    return _listed([f"{name} {share:.{digits}%}" for name, share in by_name.items()])


def _listed(names: Iterable[str]) -> str:
    """The first few names, and the number of further ones."""
    known = list(names)
    more = f" and {len(known) - MAX_NAMES} more" if len(known) > MAX_NAMES else ""
    return ", ".join(known[:MAX_NAMES]) + more
