"""Autopilot: decides when a plan is tried, widened, kept or taken back. A state machine without a clock.

A plan is tried on a tenth of the requests, then on half of them, while the others keep the plan in force; a
control share has none. Which request gets which plan is drawn at random, so both kinds meet the same faults.

There are three phases:

1. `watching`: the plan in force is compared with the control share, and taken back if it is worse. Once as
   many requests have come since the last change as it takes to tell a change of 10% in p99, another plan may
   be proposed.
2. `trying`: the tried plan is compared with the plan in force at stated numbers of requests. It is taken back
   as soon as it is worse; it is kept as soon as it is better; at the trial's limit it is taken back.
3. `held`: a person has put a plan in force. Nothing is changed until the person lets the loop go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from kwiken.model.plan.plan import Plan
from kwiken.tail.autopilot.arms import P99, ArmCounts
from kwiken.tail.autopilot.comparison import (
    BETTER,
    WORSE,
    ArmComparison,
    compare,
    look_points,
    requests_to_take_back,
    requests_to_tell,
)
from kwiken.tail.autopilot.proposal import PlanProposal
from kwiken.tail.autopilot.record import Action, AutopilotRecord, LoggedDecision
from kwiken.tail.autopilot.sentences import (
    better_so_far,
    beyond_budget,
    enough,
    enough_seen,
    expected,
    held,
    no_gain,
    proven,
    resumed,
    too_soon,
    unproven,
    withdrawn,
    worse,
)

FIRST_SHARE: Final = 0.1  # of the requests, that get a plan at first
TRIAL_SHARE: Final = 0.5  # of the requests, that get it then: the share that tells a difference soonest
CONTROL_SHARE: Final = 0.05  # of the requests, that have no plan as long as there is one
FIRST_REQUESTS: Final = 200  # with the tried plan, before it gets more
MIN_GAIN: Final = 0.10  # by which a new plan must cut p99 on requests that it has not seen
MIN_LIMIT, MAX_LIMIT = 10_000, 250_000  # requests of a trial
MIN_KNOWN: Final = 1_000  # requests from which the p99 of the plan in force is known
PROPOSAL_REQUESTS: Final = 15_000  # between two proposals, as long as none is tried
MAX_BACK_OFF: Final = 8  # times as long until the next trial, after several in vain
PERSON: Final = "person"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Counts of all gateways together under the present setting.

    Attributes:
        at_s: present time, seconds since 1970.
        author: who put the plan in force: `person`, `autopilot`, or None where nobody did.
        trial: digest of the plan that is tried; None for none.
        trial_share: share of the requests that get the tried plan.
        requests: number of requests since the gateways started.
        control: requests without any plan, since the setting came into force.
        planned: requests with the plan in force; those without a plan where none is in force.
        tried: requests with the tried plan.
    """

    at_s: float
    author: str | None
    plan: Plan | None
    trial: str | None
    trial_share: float
    requests: int
    control: ArmCounts
    planned: ArmCounts
    tried: ArmCounts

    @property
    def without_trial(self) -> ArmCounts:
        """Requests that a tried plan is compared with: all others, or those with the plan in force."""
        return self.planned if self.plan is not None else self.planned.plus(self.control)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Next action of the loop, with its reason.

    Attributes:
        action: `apply`, `keep`, `widen`, `roll_back` or `wait`.
        reason: why, in one sentence.
        wants_proposal: whether a plan may be proposed now.
        earliest: requests still to come before another plan may be tried; 0 if one may be.
    """

    action: Action
    reason: str
    wants_proposal: bool = False
    earliest: int = 0


class Autopilot:
    """Decides on the plan of one service.

    Args:
        record: state to go on from, of an earlier process or a new one.

    Attributes:
        record: state and history, to be saved after every decision but `wait`.
    """

    def __init__(self, record: AutopilotRecord) -> None:
        self.record = record
        self._requests: int | None = None  # at the last observation
        self._base = ArmCounts(), ArmCounts()  # planned and control at the start of the present watch
        self._looked = 0  # number of looks at the present trial or watch
        self._since_proposal: int | None = None  # requests since a plan was proposed; None before
        self._at_proposal = ArmCounts()  # planned at the last proposal

    @property
    def limit(self) -> int:
        """Requests in which a change of 10% in p99 is told, as far as it is known; 0 if not yet."""
        return self.record.limit

    def observe(self, seen: Seen | None) -> Decision:
        """Decide what the present counts ask for.

        Args:
            seen: what the gateways tell; None where none of them answers.
        """
        record = self.record
        if seen is None:
            self._requests = None
            return Decision(action="wait", reason="no gateway answers, so what is in force stays in force")
        self._count(seen.requests)
        if seen.author == PERSON:
            return self._hold(seen)
        if record.phase == "held":
            return self._resume(seen)
        if not self._followed(seen):
            return Decision(action="wait", reason="the gateways have yet to follow the last decision")
        return self._try_on(seen) if record.phase == "trying" else self._watch(seen)

    def consider(self, proposal: PlanProposal, seen: Seen) -> Decision:
        """Decide on a plan that was proposed because `observe` wanted one.

        Args:
            seen: what the gateways told last.
        """
        record = self.record
        self._since_proposal = 0
        if record.phase != "watching" or seen.author == PERSON:
            return Decision(action="wait", reason="a plan was proposed that is no longer wanted")
        if proposal.plan.budgets.reissue > record.budget or proposal.plan.budgets.catch_up > 0:
            return self._note("keep", beyond_budget(proposal, record.budget), seen.at_s, record.in_force)
        known_ms = self._known_ms(seen)
        if proposal.gain_over(known_ms) < MIN_GAIN or not (proposal.surely or record.in_force is not None):
            return self._note("keep", no_gain(proposal, MIN_GAIN, known_ms), seen.at_s, record.in_force)
        limit = self._requests_to_tell(seen)
        self._set(
            phase="trying",
            trial=proposal.plan,
            trial_share=FIRST_SHARE,
            limit=limit,
            since_change=0,
            changes=record.changes + 1,
        )
        self._looked = 0
        back = round(requests_to_take_back(share=TRIAL_SHARE))
        reason = expected(proposal, share=FIRST_SHARE, limit=limit, back=back)
        return self._note("apply", reason, seen.at_s, proposal.plan)

    def _known_ms(self, seen: Seen) -> float | None:
        """The p99 of all requests with the plan in force since the last proposal, milliseconds.

        None where there is no plan, or too few requests. A proposal is judged on the requests that were
        sampled. One of many proposals promises much by chance; all requests do not share that chance.
        """
        planned, self._at_proposal = seen.planned.since(self._at_proposal), seen.planned
        if self.record.in_force is None or planned.requests < MIN_KNOWN:
            return None
        return planned.quantile_ms(P99)

    # Phases.

    def _hold(self, seen: Seen) -> Decision:
        if self.record.phase == "held":
            return Decision(action="wait", reason=held(seen.plan))
        self._set(phase="held", trial=None, trial_share=0.0, in_force=seen.plan)
        return self._note("wait", held(seen.plan), seen.at_s, seen.plan)

    def _resume(self, seen: Seen) -> Decision:
        over = seen.plan is not None and seen.plan.budgets.reissue > self.record.budget
        self._set(phase="watching", in_force=None if over else seen.plan, since_change=0)
        self._watch_anew(seen)
        return self._note("wait", resumed(seen.plan, over=over), seen.at_s, self.record.in_force)

    def _watch(self, seen: Seen) -> Decision:
        record = self.record
        planned, control = seen.planned.since(self._base[0]), seen.control.since(self._base[1])
        count = planned.requests + control.requests
        limit = self._requests_to_tell(seen)
        if record.in_force is not None:
            points = look_points(limit)
            if self._looked < len(points) and count >= points[self._looked]:
                self._looked += 1
                found = compare(planned, control)
                if found.verdict == WORSE:
                    return self._withdraw(seen, found)
            if count >= limit:
                self._watch_anew(seen)
        wait = limit * min(2**record.useless_in_row, MAX_BACK_OFF)
        left = max(0, wait - record.since_change) if record.changes else 0
        if left:
            return Decision(action="wait", reason=too_soon(limit, left, record.useless_in_row), earliest=left)
        if self._since_proposal is not None and self._since_proposal < PROPOSAL_REQUESTS:
            last = record.entries[-1].reason if record.entries else enough(limit, record.changes)
            return Decision(action="wait", reason=last)
        return Decision(action="wait", reason=enough(limit, record.changes), wants_proposal=True)

    def _withdraw(self, seen: Seen, found: ArmComparison) -> Decision:
        """Take back the plan in force."""
        plan = self.record.in_force
        self._set(in_force=None, since_change=0)
        self._watch_anew(seen)
        return self._note("roll_back", withdrawn(found), seen.at_s, plan)

    def _try_on(self, seen: Seen) -> Decision:
        record = self.record
        tried, others = seen.tried, seen.without_trial
        count = tried.requests + others.requests
        points = look_points(record.limit)
        ended = record.since_change >= record.limit
        due = self._looked < len(points) and count >= points[self._looked]
        widens = record.trial_share < TRIAL_SHARE and tried.requests >= FIRST_REQUESTS and not ended
        found = compare(tried, others)
        if due or ended or widens:
            while self._looked < len(points) and count >= points[self._looked]:
                self._looked += 1
            decision = self._look(seen, found, widens=widens, ended=ended)
            if decision is not None:
                return decision
        return Decision(action="wait", reason=better_so_far(found, record.limit))

    def _look(self, seen: Seen, found: ArmComparison, *, widens: bool, ended: bool) -> Decision | None:
        """Decide on the tried plan, or on nothing yet."""
        record = self.record
        if found.verdict == WORSE:
            return self._end_trial(seen, "roll_back", worse(found))
        if widens:
            return self._widen(seen, found)
        if found.verdict == BETTER and record.trial_share == TRIAL_SHARE:
            return self._end_trial(seen, "keep", proven(found))
        if ended:
            return self._end_trial(seen, "roll_back", unproven(found, record.limit))
        return None

    def _widen(self, seen: Seen, found: ArmComparison) -> Decision:
        plan = self.record.trial
        self._set(trial_share=TRIAL_SHARE)
        self._looked = 0
        return self._note("widen", enough_seen(found), seen.at_s, plan)

    def _end_trial(self, seen: Seen, action: Action, reason: str) -> Decision:
        record = self.record
        plan = record.trial
        kept = action == "keep"
        self._set(
            phase="watching",
            in_force=plan if kept else record.in_force,
            trial=None,
            trial_share=0.0,
            useless=record.useless + (not kept),
            useless_in_row=0 if kept else record.useless_in_row + 1,
        )
        self._watch_anew(seen)
        return self._note(action, reason, seen.at_s, plan)

    # Helpers.

    def _count(self, requests: int) -> None:
        """Count the requests since the last change; a gateway that was restarted counts from 0."""
        before, self._requests = self._requests, requests
        if before is not None:
            more = requests - before if requests >= before else requests
            self._set(since_change=self.record.since_change + more)
            if self._since_proposal is not None:
                self._since_proposal += more

    def _followed(self, seen: Seen) -> bool:
        record = self.record
        wanted = (_digest(record.in_force), _digest(record.trial), record.trial_share)
        return (_digest(seen.plan), seen.trial, seen.trial_share) == wanted

    def _requests_to_tell(self, seen: Seen) -> int:
        """Requests in which a change of 10% in p99 of what is in force now is told in a trial."""
        told = requests_to_tell(seen.without_trial, share=TRIAL_SHARE)
        limit = MAX_LIMIT if told >= MAX_LIMIT else max(MIN_LIMIT, round(told))
        self._set(limit=limit)
        return limit

    def _watch_anew(self, seen: Seen) -> None:
        self._looked = 0
        self._base = seen.planned, seen.control

    def _set(self, **changes: object) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)

    def _note(self, action: Action, reason: str, at_s: float, plan: Plan | None) -> Decision:
        entry = LoggedDecision(at_s=at_s, action=action, reason=reason, plan=_digest(plan))
        self.record = self.record.with_entry(entry)
        return Decision(action=action, reason=reason)


def _digest(plan: Plan | None) -> str | None:
    return plan.digest if plan is not None else None
