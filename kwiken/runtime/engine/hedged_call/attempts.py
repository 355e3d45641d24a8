"""Attempts of one call: their replicas, outcomes and errors."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

import msgspec

from kwiken.runtime.base.errors import (
    AttemptTimeoutError,
    HandlerError,
    LostError,
    RefusedError,
    UnfitError,
    failed_call,
)
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.decisions.choice.picker import Picker
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.race import COPY, FINAL, FINISH, LATE, LOST, REFUSED, RESEND, RETRY, Race
from kwiken.runtime.decisions.stage_state import ATTEMPT_OUTCOMES
from kwiken.runtime.decisions.trace_sampling import KeepReason
from kwiken.runtime.engine.hedged_call.context import Attempt, CallSite, Shared, describe
from kwiken.runtime.wire.transport.base import Reply

LOG = logging.getLogger("kwiken.gateway")
# Share of the time after which a call counts against its replica, from which on a call without an answer is
# reported as a loss of the request.
SUSPECT_SHARE = 0.5
# Position in `ATTEMPT_KINDS` of an attempt, by the step of the race that asked for it.
KIND_OF_STEP: Final = {COPY: 1, LATE: 2, RETRY: 3, RESEND: 3}
_OUTCOMES: Final = len(ATTEMPT_OUTCOMES)
_WON, _LOST, _CANCELLED, _FAILED = range(len(ATTEMPT_OUTCOMES))
# Why the spans of a request are kept, by the step of the race that asked for an attempt.
_KEEP_REASONS: Final = {
    COPY: KeepReason.COPIED,
    LATE: KeepReason.LATE,
    RETRY: KeepReason.RETRIED,
    RESEND: KeepReason.RETRIED,
}


def probe(shared: Shared, picker: Picker, target: ReplicaState) -> None:
    """Ask a replica whether it is alive, and report the answer to its picker."""
    now = shared.now
    shared.transport.ask(target.replica, lambda alive: picker.probed(target, now(), alive=alive))


class Attempts(msgspec.Struct, eq=False):
    """Attempts of one call.

    Attributes:
        more: further attempts; None for none.
        errors: errors of the failed attempts; None for none.
        withheld: whether an attempt was withheld from the last healthy replica.
        died: whether the last attempt was lost with its replica, which took calls until then.
    """

    site: CallSite
    first: Attempt
    more: list[Attempt] | None = None
    errors: list[Exception] | None = None
    withheld: bool = False
    died: bool = False

    def add(self, attempt: Attempt) -> None:
        """Add a further attempt."""
        if self.more is None:
            self.more = []
        self.more.append(attempt)

    def tried(self) -> list[ReplicaState]:
        """Replicas of all attempts, in the order in which they were sent."""
        return [self.first.target, *(attempt.target for attempt in self.more or ())]

    @property
    def sent_bytes(self) -> int:
        """Size of the call's body as it was sent first, bytes; 0 if it had none or was not sent."""
        return self.first.call.sent_bytes if self.first.call is not None else 0

    def answered(self, attempt: Attempt, reply: Reply, now: float, step: int) -> None:
        """Record an answer, after which the race has taken a step."""
        state = self.site.stage.state
        request, visit = self.site.request, 1 << self.site.stage.index
        if not request.answered & visit:
            request.answered |= visit
            took = now - attempt.started
            self.site.shared.common_delay.answered(now, took, state.usual.learn(took, now))
        state.picker.answered(attempt.target, attempt.ticket, now, reply)
        state.counts.busy_ms += reply.busy_ms or 0.0
        attempt.busy_ms = reply.busy_ms
        self._end(attempt, _WON if step == FINISH else _LOST, now)

    def failed(self, attempt: Attempt, error: Exception, now: float) -> int:
        """Record an error; returns how the attempt failed, for the race.

        There are four cases:
        1. The answer has the wrong type, or the handler raised: the replica is alive, its latency unknown.
        2. The replica refused the call: it failed, and the attempt did not run.
        3. The call was lost, or the replica had no memory: it failed, and the request may be the cause; an
           attempt that timed out is only slow, unless it waited so long that its replica may hang.
        4. Any other error, for example a deadline, says nothing about the replica.
        """
        stage = self.site.stage
        picker, target = stage.state.picker, attempt.target
        self._end(attempt, _FAILED, now)
        attempt.error = target.trouble = describe(error)
        self.died = (
            isinstance(error, LostError)
            and not isinstance(error, AttemptTimeoutError | UnfitError)
            and attempt.was_healthy
        )
        lost = isinstance(error, LostError) or (isinstance(error, HandlerError) and error.of_process)
        if isinstance(error, UnfitError) or (isinstance(error, HandlerError) and not lost):
            how = FINAL
            if isinstance(error, UnfitError):
                how = LOST
                extra = about(Event.ANSWER_UNFIT, trace_id=self.site.request.trace_id)
                LOG.warning("%s", error, extra=extra)
            picker.raised(target, attempt.ticket, now)
        elif isinstance(error, RefusedError):
            how = REFUSED
            picker.failed(target, attempt.ticket, now, pause_s=error.pause_s)
        elif lost:
            how = LOST
            pause_s = error.pause_s if isinstance(error, LostError) else 0.0
            silent = isinstance(error, LostError) and not pause_s
            picker.failed(target, attempt.ticket, now, pause_s=pause_s, silent=silent)
            if not isinstance(error, AttemptTimeoutError) or self._hung(attempt, now):
                self.site.request.record_loss(stage.name, attempt)
        else:
            how = FINAL
            picker.ended(target, attempt.ticket, now)
        if self.errors is None:
            self.errors = []
        self.errors.append(error)
        if self.site.visit is not None and isinstance(error, HandlerError) and error.__cause__ is not None:
            # The handler ran in this process.
            attempt.exception = self.site.shared.exceptions.record(error.__cause__)
        return how

    def drop(self, attempt: Attempt) -> None:
        """Record an attempt that was cancelled; probe its replica if it may be unresponsive."""
        shared, stage = self.site.shared, self.site.stage
        now = shared.now()
        self.suspect(attempt, now)
        self._end(attempt, _CANCELLED, now)
        late = now - attempt.started >= stage.timeouts.blame
        picker, target = stage.state.picker, attempt.target
        if picker.dropped(target, attempt.ticket, now, blame=late):
            probe(shared, picker, target)

    def _end(self, attempt: Attempt, outcome: int, now: float) -> None:
        attempt.outcome = outcome
        attempt.ended = now
        self.site.stage.state.counts.attempts[attempt.kind * _OUTCOMES + outcome] += 1

    def drop_unstarted(self) -> None:
        """Record the further attempts that were cancelled before the first step of their tasks."""
        for attempt in self.more or ():
            if attempt.open:
                self.drop(attempt)

    def suspect(self, attempt: Attempt, now: float) -> None:
        """Count an attempt that has waited so long that its replica may hang as a loss of the request."""
        if attempt.open and self._hung(attempt, now):
            self.site.request.record_loss(self.site.stage.name, attempt)

    def _hung(self, attempt: Attempt, now: float) -> bool:
        """Whether an attempt has waited so long that its replica may hang."""
        return now - attempt.started >= SUSPECT_SHARE * self.site.stage.timeouts.blame

    def suspect_all(self, now: float) -> None:
        """Suspect every attempt that has no outcome yet."""
        for attempt in (self.first, *(self.more or ())):
            self.suspect(attempt, now)

    def moves_free(self, target: ReplicaState) -> bool:
        """Whether the call moves to another replica at no charge, because its own is dead or frozen.

        That is one event, however many calls are in flight: each of them moves once. The throttle of retries
        is for losses that go on. There are two cases:
        1. The replica was lost with the call, and the other one takes calls.
        2. The replica has answered nothing since the call was sent, while the other one has.
        """
        if not any(attempt.open for attempt in (self.first, *(self.more or ()))):
            return self.died and not target.ejected  # 1.
        return target.updated_at > self.first.started and all(  # 2.
            attempt.was_healthy and attempt.target.updated_at < attempt.started
            for attempt in (self.first, *(self.more or ()))
            if attempt.open
        )

    def withholds(self, target: ReplicaState, now: float) -> bool:
        """Whether to withhold the call from the last healthy replica because others failed with it."""
        stage, lost = self.site.stage, self._lost()
        if len(lost) > 1:
            self.withheld = stage.state.picker.is_last(target, lost, now - stage.timeouts.blame)
        return self.withheld

    def _lost(self) -> Collection[ReplicaState]:
        """Replicas of the stage that failed while serving this request."""
        lost = self.site.request.lost
        return () if lost is None else lost.get(self.site.stage.name, ())

    def failure(self, race: Race) -> Exception:
        """Error of a race without a winner; the errors of the attempts are given up with it."""
        errors, self.errors = self.errors or [], None
        allowed = race.limit - self.first.started
        return failed_call(
            self.site.stage.name,
            errors,
            expired_s=allowed if race.expired else None,
            asked=[target.replica.id for target in self.tried()],
            lost_replicas=len(self._lost()),
            withheld=self.withheld,
        )

    def note_extra(self, attempt: Attempt, step: int | None, levels: int) -> None:
        """Note that an attempt is more than a usual primary, which makes its request worth keeping.

        Args:
            step: step of the race that asked for it; None for a primary with priority or threads.
            levels: priority levels that it gains because the request is late, 0 or more.
        """
        # A copy that the plan's reissues pay for is not catch-up, though it may get priority too.
        attempt.catch_up = step == LATE or (step != COPY and (levels > 0 or attempt.threads > 1))
        sampler, sampling = self.site.shared.sampler, self.site.request.sampling
        if sampler is not None and sampling is not None:
            sampler.note(sampling, _KEEP_REASONS[LATE if step is None else step])
