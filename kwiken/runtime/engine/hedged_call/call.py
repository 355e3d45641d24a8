"""Hedged call of one stage: sends a copy that is due if body, budget and replica allow, and awaits attempts.

The first attempt runs in the caller's own task, so that a race that sends no copy costs no task. Every
further attempt has a task, owned by its `HedgedCall`, which waits for each of them before it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from typing import Any

import msgspec

from kwiken.runtime.base.errors import (
    AttemptTimeoutError,
    DeadlineError,
    HandlerError,
    LostError,
    UnavailableError,
    UnfitError,
)
from kwiken.runtime.base.event_loop import CallerTask, call_after, cancel_and_wait, settle
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.compiled_stage import CompiledStage
from kwiken.runtime.decisions.race import COPY, FINISH, LATE, REFUSED, RESEND, RETRY, Race
from kwiken.runtime.decisions.stop_rule import WAIT
from kwiken.runtime.engine.hedged_call.attempts import KIND_OF_STEP, Attempts, probe
from kwiken.runtime.engine.hedged_call.call_budget import CallBudget
from kwiken.runtime.engine.hedged_call.context import Attempt, CallSite, Request, Shared, StageVisit
from kwiken.runtime.engine.hedged_call.items import ItemsLateError, hand_on, inputs_after, partial_answer
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import MAX_PRIORITY, Call, ItemStream, Reply, Stream

MIN_TRIAL_S = 0.02
TRIAL_FACTOR = 4.0  # multiple of the usual latency that an ejected replica on trial has to answer
# Quantile of the latencies of answered calls that bounds a trial which a request waits for.
TRIAL_QUANTILE = 0.99
_AGAIN = (RESEND, RETRY)
_COPIES = (COPY, LATE)


def call_stage(
    shared: Shared,
    request: Request,
    stage: CompiledStage,
    args: tuple[Any, ...],
    shard: int,
    visit: StageVisit | None,
) -> Coroutine[Any, Any, Any]:
    """Call one shard of a stage; await the result for its answer.

    Args:
        shared: objects that all calls of the executor share.
        shard: number of the shard, from 0.
        visit: the visit of the stage; None if nothing is recorded.

    Raises:
        DeadlineError: time is up, or was before anything was sent.
        UnavailableError: no replica could take the call, or the stage is optional and none of its replicas is
            known to answer.
        HandlerError, LostError: the error of the only attempt.
        AllFailedError: several attempts failed.
    """
    # A call ends before anything is sent in three cases: 1. the request's deadline has passed; 2. no replica
    # takes calls; 3. an optional stage has only replicas that do not answer, and this call is not the one
    # that tries them. None of them costs budget.
    now = shared.now()
    timeouts, picker = stage.timeouts, stage.state.picker
    limit = now + timeouts.answer
    if request.deadline < limit:
        limit = request.deadline
        if now >= limit:
            raise DeadlineError(
                f"stage {stage.name!r}: the request's deadline had passed before it was called"
            )
    target = picker.pick(now)
    if (silent := picker.to_probe) is not None:
        picker.to_probe = None
        probe(shared, picker, silent)
    if target is None:
        raise UnavailableError(f"stage {stage.name!r}: has no replica that takes calls")
    # Waiting out the whole time-out for a stage that may be left out would delay every request of an outage.
    if stage.definition.optional and picker.all_unresponsive(now, timeouts.blame):
        limit = min(limit, now + _trial_s(stage, target))
    items: list[Any] | None = None if stage.definition.resume is None else []
    return begin_call(CallSite(shared, request, stage, args, shard, visit, items), target, now, limit).run()


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


def _trial_hang_s(stage: CompiledStage, target: ReplicaState) -> float:
    """Age, seconds, at which the trial call of an ejected replica is sent once more without an answer."""
    target.trial = False
    # The call may have been run although its answer is late, so only a repeatable call is sent once more.
    if not stage.definition.idempotent:
        return inf
    return min(stage.timeouts.hang, max(MIN_TRIAL_S, TRIAL_FACTOR * stage.state.picker.typical))


def begin_call(site: CallSite, target: ReplicaState, now: float, limit: float, kind: int = 0) -> HedgedCall:
    """Create a call, with its race and its first attempt.

    Args:
        now: present moment, seconds.
        limit: moment at which time is up, seconds.
        kind: position in `ATTEMPT_KINDS` of the first attempt.
    """
    stage, request = site.stage, site.request
    budget = CallBudget(site)
    # A control request gets neither copies nor catch-up: control requests show what plans are compared with.
    late_at, threads = inf, 1
    if stage.catch_up.after < inf and not request.control:
        late_at, threads = budget.catch_up(now)
    followed = stage.reissue.followed
    race = Race(
        now,
        inf if request.control else stage.reissue.after if followed is None else followed.seconds,
        stage.copies,
        now + (_trial_hang_s(stage, target) if target.trial else stage.timeouts.hang),
        limit,
        stage.definition.idempotent,
        late_at,
    )
    ticket, visit = target.take(now), site.visit
    attempts = Attempts(
        site, Attempt(0, target, now, threads, ticket, not target.ejected, kind, shard=site.shard)
    )
    if visit is not None:
        visit.attempts.append(attempts.first)
        if budget.levels or threads > 1:
            attempts.note_extra(attempts.first, None, budget.levels)
    task = asyncio.current_task(request.loop)
    assert task is not None
    return HedgedCall(site, race, attempts, budget, CallerTask(task, task.cancelling()))


class HedgedCall(msgspec.Struct, eq=False):
    """One call: carries out the steps of its race.

    Attributes:
        attempts: the attempts, with their outcomes.
        tasks: tasks of further attempts; None for none.
        timer: calls `race.tick` when it is due; None before the call is run.
        unaccepted: first answer that was not acceptable; None for none.
    """

    site: CallSite
    race: Race
    attempts: Attempts
    budget: CallBudget
    caller: CallerTask
    tasks: list[asyncio.Task[None]] | None = None
    timer: asyncio.TimerHandle | None = None
    value: Any = None
    unaccepted: Reply | None = None

    async def run(self) -> Any:
        """Run the call to its end and return the winner's answer.

        Raises:
            KwikenError: the race has no winner; the error says why.
        """
        race, caller = self.race, self.caller
        loop = self.site.request.loop
        self.timer = call_after(loop, race.due - self.attempts.first.started, self._on_timer)
        try:
            try:
                # The first attempt runs in the caller's task, then others while the race asks for more.
                attempt: Attempt | None = self.attempts.first
                while attempt is not None:
                    caller.busy = True
                    try:
                        step = await self._try(attempt, caller.base)
                    except asyncio.CancelledError:
                        # Two cases: 1. the caller was cancelled from outside, so the race ends; 2. the race
                        # was decided elsewhere, for example by a copy, which ends the attempt in this task
                        # alone.
                        if not caller.interrupted:
                            raise
                        step = WAIT
                    finally:
                        caller.busy = False
                    caller.check_cancelled()
                    attempt = self._follow(step) if step in _AGAIN else None
                # The attempt of this task has failed and is not followed by another, while copies still run.
                if not race.finished:
                    await caller.waiting(loop)
            except BaseException:
                race.stop()  # before tasks are cancelled: no outcome of theirs may start another attempt
                raise
            finally:
                self.timer.cancel()
                if self.tasks:
                    await self._close()
            if race.winner < 0:
                if self.unaccepted is not None:
                    return self.unaccepted.value
                raise self._failure()
            first, more = self.attempts.first, self.attempts.more or []
            won = first if race.winner == 0 else next(each for each in more if each.number == race.winner)
            self.budget.observe(won, [first, *more])
            # The other attempts have ended by now, so they do not compete with the rest of a winning stream.
            return await self._whole(self.value, won) if isinstance(self.value, Stream) else self.value
        finally:
            self._release()

    # Attempts.

    async def _run_in_task(self, attempt: Attempt | None) -> None:
        """Run attempts in a task of their own, one after another."""
        try:
            while attempt is not None:
                step = await self._try(attempt, 0)
                attempt = self._follow(step) if step in _AGAIN else None
        finally:
            if self.race.finished:
                self.caller.wake()

    async def _try(self, attempt: Attempt, base: int) -> int:
        """Send an attempt and wait for its outcome; returns the next step of the race.

        There are four cases:
        1. An answer.
        2. This task was cancelled: the attempt is dropped.
        3. A future that the transport awaited was cancelled: the attempt is lost.
        4. Any other error ends this attempt only.
        """
        site = self.site
        request, stage = site.request, site.stage
        levels, sampling = self.budget.levels, request.sampling
        context = request.context
        if site.visit is not None and (sampling is None or sampling.kept):
            # Other attempts have no spans at replicas, so they get ids only if a record is made.
            attempt.span_id = request.next_span_id()
            context = wire.format_traceparent(request.trace_id, attempt.span_id, sampled=request.sampled)
        call = Call(
            stage.name,
            site.args,
            site.shard,
            attempt.number,
            self.race.limit,
            min(request.priority + levels, MAX_PRIORITY) if levels else request.priority,
            request.trace_id,
            context,
            attempt.threads,
            held=request.held,
        )
        attempt.call = call
        limit_s, accept = stage.timeouts.attempt, stage.definition.accept
        try:
            if limit_s is None:
                reply = await self._reply(attempt, call)
            else:
                async with asyncio.timeout(limit_s):
                    reply = await self._reply(attempt, call)
        except asyncio.CancelledError:
            # `CancelledError` alone does not say who was cancelled; the count of this task's cancellations
            # does.
            if _cancelling() > base:
                self.attempts.drop(attempt)
                raise
            return self._failed(attempt, LostError(f"stage {stage.name!r}: cancelled from within"))
        except TimeoutError as error:
            # Transports tell of their own time limits by other errors.
            if limit_s is None:
                return self._failed(attempt, error)
            at = f"stage {stage.name!r}: replica {attempt.target.replica.id}"
            limit_ms = f"attempt_timeout_ms of {limit_s * 1000:g}"
            return self._failed(attempt, AttemptTimeoutError(f"{at}: no answer within the {limit_ms}"))
        except Exception as error:  # noqa: BLE001 - any error ends this attempt only
            return self._failed(attempt, error)
        finally:
            call.end()
        if accept is not None and not isinstance(reply.value, Stream):
            problem = self._problem(accept, attempt, reply)
            if problem is not None:
                return self._failed(attempt, problem)
        return self._answered(attempt, reply)

    def _reply(self, attempt: Attempt, call: Call) -> Awaitable[Reply]:
        """Answer of an attempt; of a stream as soon as it has come to what decides the race."""
        reply = self.site.shared.transport.call(attempt.target.replica, call)
        accept = self.site.stage.definition.accept
        return reply if accept is None else self._reach(accept, reply)

    async def _reach(self, accept: Callable[[Any], bool], sent: Awaitable[Reply]) -> Reply:
        """Wait for the first acceptable item of a stream, or for its end; for an answer of another stage."""

        def counts(item: Any) -> bool:
            try:
                return accept(item)
            except Exception as error:  # of the user's function
                raise self._unjudged(error) from error

        reply = await sent
        if isinstance(reply.value, ItemStream):
            await reply.value.reach(counts)
            reply.busy_ms = reply.value.busy_ms or reply.busy_ms  # else that of the first item is known
        return reply

    def _unjudged(self, error: Exception) -> HandlerError:
        """Error of an answer that `accept` could not judge."""
        return HandlerError(self.site.stage.name, type(error).__name__, f"accept: {error}")

    def _problem(self, accept: Callable[[Any], bool], attempt: Attempt, reply: Reply) -> Exception | None:
        """Error of an answer that is not acceptable; None for one that is."""
        name = self.site.stage.name
        try:
            if accept(reply.value):
                return None
        except Exception as error:  # noqa: BLE001 - of the user's function
            return self._unjudged(error)
        if self.unaccepted is None:
            self.unaccepted = reply
        return UnfitError(
            f"stage {name!r}: replica {attempt.target.replica.id}: its answer is not acceptable"
        )

    def _answered(self, attempt: Attempt, reply: Reply) -> int:
        site = self.site
        now = site.shared.now()
        step = self.race.won(attempt.number)
        self.attempts.answered(attempt, reply, now, step)
        if step != FINISH and isinstance(reply.value, Stream):
            reply.value.cancel()  # a second answer, after the race was decided
        # The latency is the caller's, from the first attempt on: what a plan's time-outs are fitted to. Only
        # answered calls earn budget, so failures do not pay for more copies.
        if step == FINISH:
            self.value = reply.value
            took = now - self.attempts.first.started
            site.stage.state.latencies.add(took)
            self.budget.earn(took, now)
        if site.stage.catch_up.threads > 1:
            self.budget.meter(attempt, reply.busy_ms, now)
        return step

    def _failed(self, attempt: Attempt, error: Exception) -> int:
        now = self.site.shared.now()
        how = self.attempts.failed(attempt, error, now)
        # A refused attempt did no work, so what its threads were charged is refunded. Sending it elsewhere is
        # a resend, which costs nothing.
        if how == REFUSED:
            self.budget.refused(attempt)
        step = self.race.failed(how)
        # The next copy is due now rather than when the failed one would have had its time. The timer sends
        # the copy, because this task is the failed copy's own and ends here.
        if attempt.number and step == WAIT and self.race.copy_failed(now):
            assert self.timer is not None
            self.timer.cancel()
            self.timer = call_after(self.site.request.loop, 0.0, self._on_timer)
        return step

    def _follow(self, step: int) -> Attempt | None:
        """Create the attempt that follows a failure, if a replica and the budget allow it."""
        now = self.site.shared.now()
        state = self.site.stage.state
        # Ejected replicas are eligible, unlike for copies: without another replica the call may fail. A
        # resend needs no budget, because the refused attempt did not run; a retry of lost work does, unless
        # it was lost by the death of a replica.
        target = state.picker.pick_other(now, self.attempts.tried(), ejected=True)
        if target is None or (
            step == RETRY and (self.attempts.withholds(target, now) or not self._pays_again(target, now))
        ):
            self.race.denied(step, now)
            return None
        threads = 1
        if step == RESEND:
            state.counts.resends += 1
            threads = self.budget.threads_to_resend(now)
        return self._open(step, target, now, threads)

    def _pays_again(self, target: ReplicaState, now: float) -> bool:
        """Whether a call that may have run is sent to another replica: free of charge, or by the throttle."""
        if self.attempts.moves_free(target):
            self.site.stage.state.counts.resends += 1
            return True
        return self.budget.grants(RETRY, now, 0)

    def _open(self, step: int, target: ReplicaState, now: float, threads: int) -> Attempt:
        number = self.race.launched(step)
        ticket, site = target.take(now), self.site
        attempt = Attempt(
            number,
            target,
            now,
            threads,
            ticket,
            not target.ejected,
            KIND_OF_STEP[step],
            shard=site.shard,
        )
        self.attempts.add(attempt)
        if site.visit is not None:
            site.visit.attempts.append(attempt)
            self.attempts.note_extra(attempt, step, self.budget.levels)
        return attempt

    # Events.

    def _on_timer(self) -> None:
        # An answer that arrived while the loop was busy and is not read yet makes a copy unnecessary.
        settle(self.site.request.loop, self._on_due)

    def _on_due(self) -> None:
        race = self.race
        if race.finished:
            return
        now = self.site.shared.now()
        while (step := race.tick(now)) != WAIT:
            if step == FINISH:
                self.caller.wake()
                return
            self._extra(step, now)
        loop = self.site.request.loop
        self.timer = call_after(loop, race.due - now, self._on_timer)

    def _extra(self, step: int, now: float) -> None:
        """Send the copy or retry that the race asks for, if load, budget and replicas allow it."""
        # A copy has to pass five checks: 1. the size of the call's body, and 2. the plan's probability, whose
        # denials are for good; 3. the delay while calls of all stages are slow, after which the copy is due
        # again; 4. another replica; 5. the budget, last because asking charges. After a denial by 4 or 5 the
        # call asks again at twice its age.
        attempts, budget = self.attempts, self.budget
        if step in _COPIES and attempts.sent_bytes > self.site.stage.reissue.max_body:
            self.race.denied(step, now)
            return
        if step == COPY and not budget.draws_copy():
            self.race.denied(step, now)
            return
        if step == COPY and self._put_off(now):
            return
        # A hang: no attempt answered for so long that their replicas are suspects, and any other one will do.
        if step == RETRY:
            attempts.suspect_all(now)
        state, tried, extra = self.site.stage.state, attempts.tried(), step != RETRY
        target = state.picker.pick_other(now, tried, ejected=not extra, roomy=extra)
        if target is None or attempts.withholds(target, now):
            if target is None and extra and state.picker.is_crowded(tried):
                self.site.shared.ledger.crowded(state.account)
            else:
                state.counts.no_replica += extra
            self.race.denied(step, now, for_good=False)
            return
        paid = budget.grants(step, now, self.race.denials) if extra else self._pays_again(target, now)
        if not paid:
            self.race.denied(step, now, for_good=False)
            return
        attempt = self._open(step, target, now, 1)
        if self.tasks is None:
            self.tasks = []
        self.tasks.append(self.site.request.loop.create_task(self._run_in_task(attempt)))

    def _put_off(self, now: float) -> bool:
        """Put a copy off while calls of all stages take long; False if it is still due."""
        race, site = self.race, self.site
        first = race.copy_at == race.copy_due
        if not race.put_off(site.shared.common_delay.until(race.start, race.copy_due, now), now):
            return False
        site.stage.state.counts.put_off += first
        return True

    # The end.

    async def _close(self) -> None:
        """Cancel the attempts that still run and wait for their end."""
        try:
            await cancel_and_wait(self.tasks or ())
        finally:
            self.attempts.drop_unstarted()

    async def _whole(self, stream: Stream, won: Attempt) -> Any:
        """Wait for the rest of the winner's answer; the other attempts have ended.

        A stream that breaks off goes on at another replica where its stage has `resume`.
        """
        try:
            return await self._rest(stream, won)
        except Exception as error:
            try:
                resumed = self._resumed(error, won)
            except HandlerError:
                self.site.stage.state.counts.failed += 1
                raise
            if resumed is None:
                if isinstance(error, ItemsLateError) and self.site.stage.definition.items_so_far:
                    return partial_answer(self.site, error.items)
                self.site.stage.state.counts.failed += 1
                raise
        return await resumed.run()

    async def _rest(self, stream: Stream, won: Attempt) -> Any:
        if not isinstance(stream, ItemStream):
            return await stream.rest()
        try:
            return await hand_on(self.site, stream, won)
        finally:
            await stream.close()
            won.first_item, won.ended = won.ended, self.site.shared.now()
            self.budget.observe_rest(won, stream.busy_ms)

    def _resumed(self, error: Exception, won: Attempt) -> HedgedCall | None:
        """Call that goes on after the last item of a stream that was lost or stalled; None for none.

        It goes to another replica, and the retry account pays for it.

        Args:
            won: attempt that broke off.

        Raises:
            HandlerError: see `inputs_after`.
        """
        site, now = self.site, self.site.shared.now()
        lost = isinstance(error, LostError) or (isinstance(error, ItemsLateError) and error.stalled)
        if site.items is None or not lost:
            return None
        limit = min(site.request.deadline, now + site.stage.timeouts.answer)
        target = site.stage.state.picker.pick_other(now, [won.target], ejected=True)
        if target is None or now >= limit or not self.budget.grants(RETRY, now, 0):
            return None
        following = msgspec.structs.replace(site, args=inputs_after(site))
        return begin_call(following, target, now, limit, KIND_OF_STEP[RETRY])

    def _failure(self) -> Exception:
        """Error of a race without a winner."""
        self.site.stage.state.counts.failed += 1
        return self.attempts.failure(self.race)

    def _release(self) -> None:
        """Release errors and tasks: their tracebacks hold frames that hold this call.

        Otherwise a failed call, with its bodies, would stay in memory until the garbage collector runs.
        """
        if isinstance(self.value, Stream):
            self.value.cancel()
        self.attempts.errors = self.tasks = None
        del self.caller.task


def _cancelling() -> int:
    """Number of cancellations of the running task.

    A function, because a frame that names the task and ends by its error would be in a cycle with that error.
    """
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()
