"""Hedged call of one stage: runs the attempts that the race asks for with asyncio.

The first attempt runs in the caller's own task, so that a race that sends no copy costs no task. When the
race ends while that attempt runs (a copy wins, time is up), the attempt is interrupted the way
`asyncio.timeout` does it: the task is cancelled, and the cancellation is taken back where it comes out.
`Task.cancelling` distinguishes it from a cancellation by the caller.

Every further attempt has a task, owned by its `HedgedCall`, which waits for each of them before it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from math import inf
from typing import Any

from kwiken.otel.write import AttemptRecord, Outcome, StageRecord
from kwiken.plan import CALL
from kwiken.runtime.decisions import (
    COPY,
    FINAL,
    FINISH,
    LATE,
    LOST,
    REFUSED,
    RESEND,
    RETRY,
    WAIT,
    CompiledStage,
    Race,
    ReplicaState,
)
from kwiken.runtime.engine.catch_up import LateCall
from kwiken.runtime.engine.context import Attempt, Request, Shared
from kwiken.runtime.engine.pending_io import settle
from kwiken.runtime.engine.recorder import describe
from kwiken.runtime.errors import (
    DeadlineError,
    HandlerError,
    LostError,
    RefusedError,
    UnavailableError,
    UnfitError,
    failed_call,
)
from kwiken.runtime.tasks import cancel_and_wait
from kwiken.runtime.transport import MAX_PRIORITY, Call, Reply

MIN_TRIAL_S = 0.02
TRIAL_FACTOR = 4.0  # multiple of the usual latency that an ejected replica on trial has to answer
MIN_TIMER_S = 0.0005
# Quantile of the latencies of answered calls that bounds a trial which a request waits for.
TRIAL_QUANTILE = 0.99
# Share of a stage's `blame_after` from which on a call without an answer counts against its replica.
SUSPECT_SHARE = 0.5


async def call_stage(
    shared: Shared,
    request: Request,
    stage: CompiledStage,
    args: tuple[Any, ...],
    shard: int,
    note: StageRecord | None,
) -> Any:
    """Call one shard of a stage and return its answer.

    Args:
        shared: objects that all calls of the executor share.
        request: state of the request.
        stage: stage to call.
        args: arguments of the stage's handler.
        shard: number of the shard, from 0.
        note: record of the stage run; None if nothing is recorded.

    Raises:
        DeadlineError: time is up, or was before anything was sent.
        UnavailableError: no replica could take the call, or the stage is optional and none of its replicas is
            known to answer.
        HandlerError, LostError: the error of the only attempt.
        AllFailedError: several attempts failed.
    """
    now = shared.now()
    limit = now + stage.timeout
    if request.deadline < limit:
        limit = request.deadline
        if now >= limit:
            raise DeadlineError(
                f"stage {stage.name!r}: the request's deadline had passed before it was called"
            )
    target = stage.state.picker.pick(now)
    if target is None:
        raise UnavailableError(f"stage {stage.name!r}: has no replica")
    if stage.optional and stage.state.picker.all_unresponsive(now, stage.blame_after):
        limit = min(limit, now + _trial_s(stage, target))
    run = HedgedCall(shared, request, stage, args, shard, note)
    race = run.begin(target, now, limit)
    try:
        try:
            await run.run_in_caller(run.first)
            if not race.finished:
                await run.wait()
        except BaseException:
            race.stop()
            raise
        finally:
            run.timer.cancel()
            if run.tasks:
                await run.close()
        if race.winner < 0:
            raise run.failure()
        return run.value
    finally:
        run.release()


def _trial_s(stage: CompiledStage, target: ReplicaState) -> float:
    """Longest wait, seconds, of a call for an optional stage none of whose replicas is known to answer.

    One call at a time tries each of them, for as long as nearly all answered calls took.

    Raises:
        UnavailableError: this call is no trial.
    """
    if not target.trial:
        raise UnavailableError(f"stage {stage.name!r}: none of its replicas answers")
    usual_s = stage.state.latencies.quantile(TRIAL_QUANTILE)
    return inf if usual_s is None else max(MIN_TRIAL_S, usual_s)


class HedgedCall:
    """Attempts of one call, the race among them, and the records of both."""

    __slots__ = (
        "_args",
        "_base",
        "_drawn",
        "_errors",
        "_in_caller",
        "_interrupted",
        "_late",
        "_levels",
        "_more",
        "_note",
        "_race",
        "_request",
        "_shard",
        "_shared",
        "_stage",
        "_task",
        "_waiter",
        "_withheld",
        "first",
        "tasks",
        "timer",
        "value",
    )

    first: Attempt
    timer: asyncio.TimerHandle
    _race: Race
    _task: asyncio.Task[Any]

    def __init__(
        self,
        shared: Shared,
        request: Request,
        stage: CompiledStage,
        args: tuple[Any, ...],
        shard: int,
        note: StageRecord | None,
    ) -> None:
        self._shared = shared
        self._request = request
        self._stage = stage
        self._args = args
        self._shard = shard
        self._note = note
        self._in_caller = False  # whether the caller's task is running an attempt
        self._interrupted = False  # whether this call has cancelled that attempt
        self._waiter: asyncio.Future[None] | None = None
        self._late: LateCall | None = None
        self._withheld = False  # whether a retry was withheld from the last healthy replica
        self._levels = 0  # priority levels that the attempts gain
        self._drawn: bool | None = None
        self._errors: list[Exception] | None = None
        self._more: list[Attempt] | None = None
        self.tasks: list[asyncio.Task[None]] | None = None
        self.value: Any = None

    def begin(self, target: ReplicaState, now: float, limit: float) -> Race:
        """Create the race and the first attempt, and start the timer."""
        stage, request = self._stage, self._request
        hang = stage.hang
        if target.trial:
            target.trial = False
            hang = (
                min(hang, max(MIN_TRIAL_S, TRIAL_FACTOR * stage.state.picker.typical))
                if stage.idempotent
                else inf
            )
        late_at, threads = inf, 1
        if stage.late < inf and not request.control:
            late_at, threads = self._catch_up(now)
        self._race = race = Race(
            now,
            inf if request.control else stage.after,
            stage.copies,
            hang_at=now + hang,
            limit=limit,
            idempotent=stage.idempotent,
            late_at=late_at,
        )
        self.first = Attempt(0, target, now, threads)
        if self._note is not None:
            self._record_attempt(self.first, None)
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._base = task.cancelling()
        self.timer = request.loop.call_later(race.due - now, self._on_timer)
        return race

    def _catch_up(self, now: float) -> tuple[float, int]:
        """Moment at which a late request's call gets its copy, and its threads if it starts late."""
        stage = self._stage
        late_at, threads = self._request.started + stage.late, 1
        if now >= late_at:
            self._late = late = LateCall(self._shared, self._request, stage, now)
            self._levels, threads = late.levels, late.threads
        return late_at if stage.late_copies else inf, threads

    # Attempts.

    async def run_in_caller(self, attempt: Attempt | None) -> None:
        """Run attempts in the caller's task, one after another, while the race asks for more."""
        while attempt is not None:
            self._in_caller = True
            try:
                step = await self._try(attempt, self._base)
            except asyncio.CancelledError:
                if not self._interrupted:
                    raise
                step = WAIT
            finally:
                self._in_caller = False
            self._check_cancelled()
            attempt = self._follow(step) if step in _AGAIN else None

    def _check_cancelled(self) -> None:
        """Take back this call's own cancellation; raise if the caller cancelled, even at the same time."""
        if (self._task.uncancel() if self._interrupted else self._task.cancelling()) > self._base:
            raise asyncio.CancelledError

    async def _run_in_task(self, attempt: Attempt | None) -> None:
        """Run attempts in a task of their own, one after another."""
        try:
            while attempt is not None:
                step = await self._try(attempt, 0)
                attempt = self._follow(step) if step in _AGAIN else None
        finally:
            if self._race.finished:
                self._wake()

    async def _try(self, attempt: Attempt, base: int) -> int:
        request = self._request
        note = attempt.note
        call = Call(
            self._stage.name,
            self._args,
            self._shard,
            attempt.number,
            self._race.limit,
            min(request.priority + self._levels, MAX_PRIORITY) if self._levels else request.priority,
            request.trace_id,
            request.span_id if note is None else note.span_id,
            attempt.threads,
        )
        try:
            reply = await self._shared.transport.call(attempt.target.replica, call)
        except asyncio.CancelledError:
            if _cancelling() > base:
                self._drop(attempt)
                raise
            # This task was not cancelled: a future that the transport awaited was.
            return self._failed(attempt, LostError(f"stage {self._stage.name!r}: cancelled from within"))
        except Exception as error:  # noqa: BLE001 - any error ends this attempt only
            return self._failed(attempt, error)
        return self._answered(attempt, reply)

    def _follow(self, step: int) -> Attempt | None:
        """Create the attempt that follows a failure, if a replica and the budget allow it."""
        now = self._shared.now()
        state = self._stage.state
        target = state.picker.pick_other(now, self._tried(), ejected=True)
        if target is None or (step == RETRY and (self._withholds(target, now) or not state.retries.charge())):
            self._race.denied(step, now)
            return None
        threads = 1
        if step == RESEND:
            state.resends += 1
            if self._late is not None:
                self._late.take(now)
                threads = self._late.threads
        return self._open(step, target, now, threads)

    def _open(self, step: int, target: ReplicaState, now: float, threads: int = 1) -> Attempt:
        attempt = Attempt(self._race.launched(step), target, now, threads)
        if self._more is None:
            self._more = []
        self._more.append(attempt)
        if self._note is not None:
            self._record_attempt(attempt, step)
        return attempt

    def _tried(self) -> list[ReplicaState]:
        return [self.first.target, *(attempt.target for attempt in self._more or ())]

    # Ends of attempts.

    def _answered(self, attempt: Attempt, reply: Reply) -> int:
        now = self._shared.now()
        stage = self._stage
        state = stage.state
        attempt.open = False
        state.picker.answered(attempt.target, attempt.ticket, now, reply)
        step = self._race.won(attempt.number)
        if step == FINISH:
            self.value = reply.value
            took = now - self.first.started
            state.latencies.add(took)
            state.retries.earn()
            state.account.earn(CALL, now, refill=took < stage.refill)
            ledger = self._shared.ledger
            ledger.service.earn(stage.cost, now)
            if stage.prompt < inf:
                prompt = now - self._request.started < stage.prompt
                (ledger.catch_up.earn_prompt if prompt else ledger.catch_up.earn_late)(stage.cost, now)
        if stage.late_threads > 1:
            self._meter(attempt, reply.busy_ms, now)
        if attempt.note is not None:
            outcome = Outcome.WON if step == FINISH else Outcome.LOST
            self._end_record(attempt.note, outcome, now, busy_ms=reply.busy_ms)
        return step

    def _meter(self, attempt: Attempt, busy_ms: float | None, now: float) -> None:
        """Charge the extra work of threads, or learn the usual work from a call without extra threads."""
        if attempt.threads > 1:
            assert self._late is not None
            self._late.answered(busy_ms, now)
        elif busy_ms is not None:
            self._stage.state.learn_busy(busy_ms)

    def _failed(self, attempt: Attempt, error: Exception) -> int:
        now = self._shared.now()
        picker = self._stage.state.picker
        attempt.open = False
        attempt.target.trouble = describe(error)
        if isinstance(error, UnfitError | HandlerError):  # the replica is alive, and its latency is unknown
            how = LOST if isinstance(error, UnfitError) else FINAL
            picker.raised(attempt.target, attempt.ticket, now)
        elif isinstance(error, RefusedError | LostError):
            how = REFUSED if isinstance(error, RefusedError) else LOST
            picker.failed(attempt.target, attempt.ticket, now)
            if how == LOST:
                self._request.record_loss(self._stage.name, attempt)
            if how == REFUSED and attempt.threads > 1 and self._late is not None:
                self._late.refused()
        else:
            how = FINAL
            picker.ended(attempt.target, attempt.ticket)
        if self._errors is None:
            self._errors = []
        self._errors.append(error)
        if attempt.note is not None:
            self._end_record(attempt.note, Outcome.FAILED, now, error=describe(error))
        return self._race.failed(how)

    def _drop(self, attempt: Attempt) -> None:
        """Record an attempt that was cancelled."""
        now = self._shared.now()
        self._suspect(attempt, now)
        attempt.open = False
        late = now - attempt.started >= self._stage.blame_after
        picker, target = self._stage.state.picker, attempt.target
        if picker.dropped(target, attempt.ticket, now, blame=late):
            clock = self._shared.now
            self._shared.transport.ask(
                target.replica, lambda alive: picker.probed(target, clock(), alive=alive)
            )
        if attempt.note is not None:
            self._end_record(attempt.note, Outcome.CANCELLED, now)

    # Events.

    def _on_timer(self) -> None:
        # An answer that arrived while the loop was busy and is not read yet makes a copy unnecessary.
        settle(self._request.loop, self._on_due)

    def _on_due(self) -> None:
        race = self._race
        if race.finished:
            return
        now = self._shared.now()
        while (step := race.tick(now)) != WAIT:
            if step == FINISH:
                self._wake()
                return
            self._extra(step, now)
        self.timer = self._request.loop.call_later(max(race.due - now, MIN_TIMER_S), self._on_timer)

    def _extra(self, step: int, now: float) -> None:
        """Send the copy or retry that the race asks for, if load, budget and replicas allow it."""
        state = self._stage.state
        if step == COPY and not self._draw_copy():
            self._race.denied(step, now)
            return
        if step == RETRY:
            for attempt in (self.first, *(self._more or ())):
                self._suspect(attempt, now)
        target = state.picker.pick_other(now, self._tried(), ejected=step == RETRY)
        if target is None or self._withholds(target, now) or not self._granted(step, now):
            self._race.denied(step, now, for_good=False)
            return
        if step == COPY:
            state.copies += 1
            self._drawn = None
        elif step == LATE:
            state.late_copies += 1
            self._levels = self._stage.late_levels
        attempt = self._open(step, target, now)
        if self.tasks is None:
            self.tasks = []
        self.tasks.append(self._request.loop.create_task(self._run_in_task(attempt)))

    def _withholds(self, target: ReplicaState, now: float) -> bool:
        """Whether to withhold this call from the last healthy replica because others failed with it."""
        lost = self._lost()
        if len(lost) > 1:
            self._withheld = self._stage.state.picker.is_last(target, lost, now - self._stage.blame_after)
        return self._withheld

    def _lost(self) -> Collection[ReplicaState]:
        """Replicas of the stage that failed while serving this request."""
        lost = self._request.lost
        return () if lost is None else lost.get(self._stage.name, ())

    def _suspect(self, attempt: Attempt, now: float) -> None:
        """Count an attempt that has waited so long that its replica may hang as a failure of the replica."""
        if attempt.open and now - attempt.started >= SUSPECT_SHARE * self._stage.blame_after:
            self._request.record_loss(self._stage.name, attempt)

    def _draw_copy(self) -> bool:
        """Random decision of whether a copy is sent; drawn once per copy, however often it is denied."""
        if self._drawn is None:
            self._drawn = self._shared.rng.random() < self._stage.probability
        return self._drawn

    def _granted(self, step: int, now: float) -> bool:
        """Charge a copy or retry to the account that pays for its kind."""
        shared, stage, request = self._shared, self._stage, self._request
        if step == RETRY:
            return stage.state.retries.charge()
        headroom = shared.admission.headroom(now)
        if step == LATE:
            return shared.ledger.charge_late(request.budget, stage.cost, now, headroom=headroom)
        return shared.ledger.charge(
            request.budget,
            stage.state.account,
            stage.cost,
            now,
            denied=self._race.denials,
            headroom=headroom,
        )

    def _wake(self) -> None:
        """Wake the caller's task because the race is over."""
        if self._in_caller:
            if not self._interrupted:
                self._interrupted = True
                self._task.cancel()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for attempts that run in other tasks."""
        self._waiter = self._request.loop.create_future()
        await self._waiter

    async def close(self) -> None:
        """Cancel the attempts that still run and wait for their end."""
        try:
            await cancel_and_wait(self.tasks or ())
        finally:
            for attempt in self._more or ():
                if attempt.open:  # cancelled before the first step of its task
                    self._drop(attempt)

    def release(self) -> None:
        """Release errors and tasks: their tracebacks hold frames that hold this call.

        Otherwise a failed call, with its bodies, would stay in memory until the garbage collector runs.
        """
        self._errors = self.tasks = None
        del self._task

    def failure(self) -> Exception:
        """Error of a race without a winner."""
        errors, self._errors = self._errors or [], None
        self._stage.state.failed += 1
        allowed = self._race.limit - self.first.started
        return failed_call(
            self._stage.name,
            errors,
            expired_s=allowed if self._race.expired else None,
            asked=[target.replica.id for target in self._tried()],
            lost_replicas=len(self._lost()),
            withheld=self._withheld,
        )

    # Recorder.

    def _record_attempt(self, attempt: Attempt, step: int | None) -> None:
        recorder, replica = self._request.recorder, attempt.target.replica
        assert recorder is not None
        assert self._note is not None
        attempt.note = recorder.attempt(
            self._note,
            shard=self._shard,
            number=attempt.number,
            step=step,
            where=(replica.id, replica.node),
            now=attempt.started,
            threads=attempt.threads,
            # A copy that the plan's reissues pay for is not catch-up, though it may get priority too.
            catch_up=step == LATE or (step != COPY and (self._levels > 0 or attempt.threads > 1)),
        )

    def _end_record(self, note: AttemptRecord, outcome: Outcome, now: float, **facts: Any) -> None:
        recorder = self._request.recorder
        assert recorder is not None
        recorder.end_attempt(note, outcome, now, **facts)


def _cancelling() -> int:
    """Number of cancellations of the running task.

    A function, because a frame that names the task and ends by its error would be in a cycle with that error.
    """
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


_AGAIN = (RESEND, RETRY)
