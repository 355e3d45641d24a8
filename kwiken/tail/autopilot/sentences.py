"""Reasons of an autopilot's decisions, one sentence each."""

from __future__ import annotations

from math import isfinite

from kwiken.model.plan.plan import Plan
from kwiken.tail.autopilot.comparison import ArmComparison
from kwiken.tail.autopilot.proposal import PlanProposal


def _judged(proposal: PlanProposal, which: str) -> str:
    new, now = _ms(proposal.plan_p99_ms), _ms(proposal.in_force_p99_ms)
    seen = f"on {proposal.judged} requests that it has not seen"
    return f"{seen} {which} has a p99 of {new} where the present setting has {now}"


def expected(proposal: PlanProposal, *, share: float, limit: int, back: int) -> str:
    """Reason of a trial, and its greatest length."""
    return (
        f"{_judged(proposal, 'the new plan')}, so a canary of {share:.0%} gets it: decided by {limit} "
        f"requests at the latest; a plan twice as bad is caught by about {back}"
    )


def no_gain(proposal: PlanProposal, least: float, known_ms: float | None = None) -> str:
    """Reason for not trying a new plan."""
    known = f" and all requests have {_ms(known_ms)}" if known_ms is not None else ""
    return f"{_judged(proposal, 'a new plan')}{known}, which is no sure cut of {least:.0%}"


def beyond_budget(proposal: PlanProposal, budget: float) -> str:
    """Reason for never applying a plan with other budgets than the loop's."""
    wanted = proposal.plan.budgets.reissue
    return f"a plan with a budget of {wanted:.2%} was proposed, and {budget:.2%} is allowed"


def enough_seen(found: ArmComparison) -> str:
    """Reason for giving a plan more of the requests."""
    count = found.tried_requests
    return f"{count} requests with the tried plan show no harm: {_beyond(found)}, so half of all get it"


def proven(found: ArmComparison) -> str:
    """Reason for keeping a tried plan."""
    return f"the tried plan is better by more than chance: {_beyond(found)}, and p99 is {_both(found)}"


def worse(found: ArmComparison) -> str:
    """Reason for taking a tried plan back at once."""
    return f"the tried plan is worse by more than chance: {_beyond(found)}, and p99 is {_both(found)}"


def unproven(found: ArmComparison, limit: int) -> str:
    """Reason for taking a tried plan back at its limit."""
    return f"{limit} requests did not show that the tried plan is better: p99 is {_both(found)}"


def better_so_far(found: ArmComparison, limit: int) -> str:
    """Result of a trial so far."""
    done = found.tried_requests + found.other_requests
    return f"a plan is tried, so far {done} of at most {limit} requests: p99 is {_both(found)}"


def withdrawn(found: ArmComparison) -> str:
    """Reason for taking the plan in force back."""
    why = f"{_beyond(found)}, and p99 is {_both(found)}"
    return f"the plan in force is worse than none by more than chance: {why}"


def held(plan: Plan | None) -> str:
    """Reason for changing nothing while a person acts."""
    what = f"plan {plan.digest}" if plan is not None else "no plan"
    return f"a person keeps {what} in force, so nothing is changed until `kwiken autopilot --resume`"


def resumed(plan: Plan | None, *, over: bool) -> str:
    """State from which the loop goes on after a person has let it."""
    if over:
        return "a person let the loop go on; the plan in force is beyond its budget, so it is taken back"
    what = f"plan {plan.digest}" if plan is not None else "no plan"
    return f"a person let the loop go on, from {what}"


def too_soon(limit: int, left: int, in_vain: int) -> str:
    """Reason for trying no other plan yet."""
    vain = f", and the last {in_vain} changes were in vain" if in_vain else ""
    told = f"a change of 10% in p99 takes {limit} requests to tell"
    return f"{told}{vain}, so the next change waits for {left} more"


def enough(limit: int, changes: int) -> str:
    """Reason for trying another plan."""
    if not changes:
        return "no plan has been tried yet, so one may be as soon as there is one"
    return (
        f"a change of 10% in p99 takes {limit} requests to tell, and as many have come since the last change"
    )


def _beyond(found: ArmComparison) -> str:
    tried, other = f"{found.tried_beyond:.2%}", f"{found.other_beyond:.2%}"
    return f"{tried} of its requests are beyond the p99 of all, and {other} of the others"


def _both(found: ArmComparison) -> str:
    return f"{_ms(found.tried_p99_ms)} with it and {_ms(found.other_p99_ms)} without"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.4g} ms" if isfinite(milliseconds) else "more than any answer"
