"""Executor: runs requests through a service's DAG, under a plan that can change while they run."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kwiken.base.errors import KwikenError
from kwiken.model.plan.accounts import REQUEST
from kwiken.model.plan.plan import Plan
from kwiken.model.service.request_kinds import OTHER
from kwiken.model.service.service import Service
from kwiken.otel.metrics.model import Family, Rising
from kwiken.otel.write.records import Entrance, Observer, RequestRecord, Sample
from kwiken.runtime.base.clock import Clock
from kwiken.runtime.base.errors import DeadlineError, OverloadError, UnavailableError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.decisions.admission import Admission, Limits
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram, TracedLatency
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger, RequestBudget, RetryAccount
from kwiken.runtime.decisions.lines.request_lines import Ticket
from kwiken.runtime.decisions.program import Program, arm_accounts, compile_program, retune
from kwiken.runtime.decisions.stage_state import StageState
from kwiken.runtime.decisions.trace_sampling import TraceSampler
from kwiken.runtime.engine.counts import Arms, Counts, outcome_of
from kwiken.runtime.engine.dag_run import run_dag
from kwiken.runtime.engine.hedged_call.context import Deliver, Request, Shared
from kwiken.runtime.engine.line_gate import LineGate
from kwiken.runtime.engine.metrics import families
from kwiken.runtime.engine.recorder import record_of
from kwiken.runtime.engine.status import status
from kwiken.runtime.engine.status_document import ExecutorStatus
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Held, Replica, Transport

logger = logging.getLogger(__name__)

NO_TRACE: Final = (0, 0)
OVERLOADED: Final = "overloaded; try again later"


class Answer(msgspec.Struct):
    """Answer to a request.

    Attributes:
        partial: whether a part that could have been in it is missing.
        utility: worth from 0 to 1: 1 minus the weighted share of the missing parts.
        record: record of the request, if one was asked for.
    """

    value: Any
    partial: bool = False
    utility: float = 1.0
    record: RequestRecord | None = None


class Executor:
    """Runs requests through a service's DAG.

    Use it from one event loop at a time, including `apply` and `set_replicas`.

    Args:
        service: service to run; checked at once.
        replicas: replicas of each stage, by the stage's name.
        rng: source of randomness for copies, replica choices and identifiers.
        observer: receives the record of every request, or of those that the sampler keeps; None to record
            none.
        sampler: decides which requests the observer receives; None for all.
        control_share: share of the requests, 0 to 1, that run without the plan, so that latencies without it
            stay known.
        limits: hard limits, whatever the plan says.
        lines: whether requests wait in lines by their kind, so that heavy kinds do not hold up light ones.

    Attributes:
        states: state of each stage, by its name.
        gate: lines of requests; None without lines.
        watcher: second observer, which may come and go while requests run; None for none.

    Raises:
        DefinitionError: the service cannot be run.
        KwikenError: replicas are given for a stage that does not exist, or none for a stage that does.
    """

    def __init__(
        self,
        service: Service,
        transport: Transport,
        *,
        replicas: Mapping[str, Sequence[Replica]],
        clock: Clock,
        rng: random.Random,
        observer: Observer | None = None,
        sampler: TraceSampler | None = None,
        control_share: float = 0.01,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        lines: bool = False,
    ) -> None:
        service.check()
        for name in replicas:
            service[name]  # raises for an unknown stage
        for name in service.stages:
            if name not in replicas:
                raise KwikenError(
                    f"stage {name!r}: no replicas were given; give an empty list if it has none yet"
                )
        self._service = service
        self._now = clock.monotonic
        self._clock = clock
        self._rng = rng
        self._observer = observer
        self.watcher: Observer | None = None
        self._control_share = control_share
        self._limits = limits
        self._counts = Counts()
        self._rising = Rising()
        self.gate = LineGate(self._now) if lines else None
        self.states = {
            name: StageState(replicas[name], RetryAccount(limits.retry_share, limits.retry_burst), rng)
            for name in service.stages
        }
        self._shared = Shared(
            transport=transport,
            now=self._now,
            rng=rng,
            ledger=Ledger(),
            admission=Admission(limits),
            sampler=sampler if observer is not None else None,
        )
        self._arms = self._compile(None, None, trial_share=0.0, control_share=control_share)

    def _compile(
        self, plan: Plan | None, trial: Plan | None, *, trial_share: float, control_share: float
    ) -> Arms:
        program = compile_program(self._service, plan, self.states)
        tried = compile_program(self._service, trial, self.states) if trial is not None else None
        programs = [program] if tried is None else [program, tried]
        now = self._now()
        retune(self._shared.ledger, self.states, *programs, service=self._service, now=now)
        if tried is None:
            return Arms(program, None, trial_share=trial_share, control_share=control_share)
        left = self._shared.ledger.service.left(now)
        others = max(0.0, 1.0 - control_share - trial_share)
        accounts = (
            arm_accounts(program, service=self._service, share=others, left=left, now=now),
            arm_accounts(tried, service=self._service, share=trial_share, left=left, now=now),
        )
        return Arms(program, tried, trial_share=trial_share, control_share=control_share, accounts=accounts)

    def check(self, plan: Plan | None) -> None:
        """Refuse a plan as `apply` does; puts none in force."""
        compile_program(self._service, plan, self.states)

    def apply(
        self,
        plan: Plan | None,
        *,
        trial: Plan | None = None,
        trial_share: float = 0.0,
        control_share: float | None = None,
    ) -> None:
        """Put a plan in force, or none, for new requests; requests in context keep theirs.

        Spends and earnings so far still count, so that changing plans buys no extra budget. While a second
        plan is tried, the accounts have the wider bounds of both, and each plan spends only what its own
        requests earn.

        Args:
            plan: plan to put in force; None for none.
            trial: plan that a share of the requests, drawn at random, run under instead; None for none.
            trial_share: that share, 0 to 1.
            control_share: share of the requests that run without any plan, 0 to 1; None for that of the
                constructor.

        Raises:
            InputError, DefinitionError: a plan does not fit the service; the old one stays in force.
        """
        share = self._control_share if control_share is None else control_share
        self._arms = self._compile(plan, trial, trial_share=trial_share, control_share=share)
        self._counts.plans += 1

    @property
    def ledger(self) -> Ledger:
        """Ledger of all requests."""
        return self._shared.ledger

    @property
    def plan(self) -> Plan | None:
        """Plan in force; None without a plan."""
        return self._program.plan

    @property
    def trial(self) -> Plan | None:
        """Plan that is tried on a share of the requests; None for none."""
        return self._arms.trial.plan if self._arms.trial is not None else None

    @property
    def trial_share(self) -> float:
        """Share of the requests that the trial gets, 0 to 1."""
        return self._arms.trial_share

    @property
    def _program(self) -> Program:
        return self._arms.program

    def set_replicas(self, stage: str, replicas: Sequence[Replica]) -> None:
        """Replace a stage's replicas; calls in context go on.

        Args:
            replicas: complete set of its replicas from now on.

        Raises:
            DefinitionError: there is no such stage.
        """
        name = self._service[stage].name
        self.states[name].picker.replace(replicas)

    def withhold_copies(self, nodes: Collection[str]) -> None:
        """Send no copies of calls to replicas on some nodes; first attempts and retries still go there.

        Args:
            nodes: names of all such nodes from now on.
        """
        for state in self.states.values():
            state.picker.crowded = frozenset(nodes)

    def replica_states(self) -> dict[str, Sequence[ReplicaState]]:
        """State of every replica by stage, not to be changed."""
        return {name: state.picker.targets for name, state in self.states.items()}

    def note_line(self, line_s: float) -> None:
        """Report the measured wait of requests for the event loop, in seconds, to the admission control."""
        self._shared.admission.note_line(line_s)

    def begin_interval(self) -> None:
        """Begin another interval of the recent latencies in `status`; a gateway does once a second."""
        now = self._now()
        self._counts.recent.step(now)
        for state in self.states.values():
            state.recent.step(now)

    def turn_away(self, *, deadline_ms: float | None = None, priority: int = 0) -> None:
        """Refuse a request that `run` would turn away, before its body is read.

        Args:
            deadline_ms: as in `run`, milliseconds.

        Raises:
            OverloadError: `run` would turn the request away now.
        """
        allowed = (self._limits.deadline_ms if deadline_ms is None else deadline_ms) / 1000
        if allowed > 0:  # else `run` raises the fitting error
            retry_after = self._shared.admission.refusal(self._now(), priority, allowed)
            if retry_after is not None:
                raise OverloadError(OVERLOADED, retry_after_s=retry_after)

    def count_shed(self, priority: int) -> None:
        """Count a request that was turned away before it came here, for want of room for its body."""
        self._shared.admission.count_shed(priority)

    def status(self) -> ExecutorStatus:
        """Counters, budgets and replica states for monitoring, as plain JSON types."""
        return status(
            self._program,
            self.states,
            self._shared,
            self._counts,
            self._arms,
            now=self._now(),
            gate=self.gate,
        )

    def metrics(self) -> Iterator[Family]:
        """Metrics of requests, stages, budgets, replicas and the plan, each read when it is asked for."""
        return families(
            self._service,
            self._program,
            self.states,
            self._shared,
            self._counts,
            now=self._now(),
            rising=self._rising,
            gate=self.gate,
        )

    async def run(
        self,
        request: Any,
        *,
        deadline_ms: float | None = None,
        priority: int = 0,
        parent: wire.Parent | None = None,
        note: bool = False,
        kind: str = OTHER,
        entry: Entrance | None = None,
        held: Held | None = None,
        deliver: Deliver | None = None,
    ) -> Answer:
        """Run one request.

        Args:
            deadline_ms: time allowed from now on, milliseconds; None for the default of the limits.
            priority: 0 is normal, higher is more important; requests below 0 are turned away first.
            parent: trace context of the caller; None for a new trace. A caller that does not record the
                trace has no span to be the parent of the request's, which is then the root of the trace.
            note: whether to record the request even without an observer.
            kind: kind of the request, by which it waits where there are lines.
            entry: door that it came in by, for its spans; None for a request from within the process.
            held: counter of the bytes that are held for it; None for none.
            deliver: takes the items of a last stage that streams as they come, and returns when there is room
                for more; None to get the list of them as the answer.

        Raises:
            OverloadError: turned away before any work was done.
            DeadlineError: time is up.
            KwikenError: a required stage failed; the message names it.
        """
        now = self._now()
        allowed = (self._limits.deadline_ms if deadline_ms is None else deadline_ms) / 1000
        if not 0 < allowed < math.inf:
            raise DeadlineError(f"the time allowed must be above 0 and finite, not {deadline_ms} ms")
        shared = self._shared
        counts = self._counts
        retry_after = shared.admission.enter(now, priority, allowed)
        if retry_after is not None:
            raise OverloadError(OVERLOADED, retry_after_s=retry_after)
        recording = note or self._observer is not None or self.watcher is not None
        context = self._begin(now + allowed, priority, parent, recording=recording, now=now)
        context.held, context.deliver = held, deliver
        ticket = await self._turn(kind, now, allowed, priority) if self.gate is not None else None
        counts.requests += 1
        error: BaseException | None = None
        record: RequestRecord | None = None
        try:
            value = await run_dag(shared, context, request)
        except asyncio.CancelledError as cancelled:
            counts.cancelled += 1
            error = cancelled
            raise
        except BaseException as failed:
            counts.failed += 1
            error = failed
            raise
        finally:
            end = self._now()
            if ticket is not None and self.gate is not None:
                self.gate.leave(ticket, served=error is None)
            took = ((error is None and context.first_item) or end) - now  # a plan cuts no more of a stream
            if isinstance(error, UnavailableError) and error.full:
                shared.admission.leave_full(priority)
            else:
                shared.admission.leave(end, took=took, allowed=allowed)
            latencies = counts.latencies[outcome_of(error)]
            latencies.add(took)
            self._arms.note(context.program, took, control=context.control, answered=error is None)
            if context.visits is not None:
                record = self._record(context, parent, end, error, latencies, entry, wanted=note)
            del error  # its traceback holds this frame: a cycle that only the garbage collector would free
        shared.ledger.observed.request_answered()
        if context.program.weight:
            shared.ledger.utility.earn(REQUEST, end)
        return Answer(value, record=record) if not context.partial else self._partial(context, value, record)

    def _partial(self, context: Request, value: Any, record: RequestRecord | None) -> Answer:
        """Answer that lacks a part."""
        utility = max(0.0, 1.0 - context.lost_weight / context.program.weight)
        counts = self._counts
        counts.partial += 1
        counts.lose(
            1.0 - utility, context.failed_weight / context.lost_weight if context.lost_weight else 0.0
        )
        return Answer(value, True, utility, record)

    async def _turn(self, kind: str, now: float, allowed: float, priority: int) -> Ticket:
        """Wait for the turn of a request that was admitted."""
        assert self.gate is not None, "there are lines"
        try:
            return await self.gate.enter(kind, arrived_s=now, allowed_s=allowed, priority=priority)
        except BaseException as error:
            self._shared.admission.leave_unserved()
            if isinstance(error, OverloadError):
                self._shared.admission.count_shed(priority)
            raise

    def _begin(
        self, deadline: float, priority: int, parent: wire.Parent | None, *, recording: bool, now: float
    ) -> Request:
        arms = self._arms
        program, trial, control, own = arms.program, arms.trial, False, None
        if program.levers or trial is not None:
            draw = self._rng.random()
            control = draw < arms.control_share
            if trial is not None and not control and draw < arms.control_share + arms.trial_share:
                program = trial
            if arms.accounts is not None and not control:
                own = arms.accounts[program is trial]
        self._counts.control += control
        asked = parent is not None and parent.sampled
        trace_id, span_id = (parent.trace_id, parent.span_id) if parent is not None else NO_TRACE
        sampler, sampling, start_ns, context = self._shared.sampler, None, 0, ""
        if recording:
            trace_id, span_id = trace_id or new_id(self._rng, 128), new_id(self._rng, 64)
            start_ns = self._clock.time_ns()
            if sampler is not None:
                sampling = sampler.begin(trace_id, asked=asked, control=control)
                if not sampling.kept:
                    context = wire.format_traceparent(trace_id, span_id, sampled=False)
        elif parent is not None:
            context = wire.format_traceparent(trace_id, span_id, sampled=asked)
        return Request(
            program,
            RequestBudget(program.request_budget),
            asyncio.get_running_loop(),
            now,
            deadline,
            priority,
            control,
            trace_id,
            span_id,
            context,
            asked or self._observer is not None,
            sampling,
            [] if recording else None,
            start_ns,
            arm=own,
        )

    def _record(
        self,
        request: Request,
        parent: wire.Parent | None,
        ended: float,
        error: BaseException | None,
        latencies: LatencyHistogram,
        entry: Entrance | None,
        *,
        wanted: bool,
    ) -> RequestRecord | None:
        """Decide whether the spans of a request are kept, and report its record to those who want it.

        Args:
            parent: trace context of the caller; None for none.
            ended: moment of its end, seconds.
            latencies: latencies of requests with its outcome, one of which refers to its trace.
            entry: door that it came in by; None for a request from within the process.
            wanted: whether the caller of `run` wants the record.
        """
        took = (request.first_item or ended) - request.started
        sampler, sample = self._shared.sampler, None
        kept = self._observer is not None
        if sampler is not None and request.sampling is not None:
            decision = sampler.end(request.sampling, took, failed=error is not None, partial=request.partial)
            kept = decision is not None
            if decision is not None:
                sample = Sample(*decision)
        if not (kept or wanted or self.watcher is not None):
            return None
        record = record_of(
            request,
            self._service.name,
            parent_span_id=parent.span_id if parent is not None and parent.sampled else None,
            ended=ended,
            error=error,
            sample=sample,
            rng=self._rng,
            entry=entry,
        )
        self._report(record, kept=kept)
        if kept:
            latencies.trace(TracedLatency(took, record.end_ns, record.trace_id, record.span_id))
        return record

    def _report(self, record: RequestRecord, *, kept: bool) -> None:
        for observer in (self._observer if kept else None, self.watcher):
            if observer is not None:
                try:
                    observer.request_finished(record)
                except Exception:
                    logger.exception(
                        "the observer of requests failed; the request did not",
                        extra=about(Event.OBSERVER_FAILED, trace_id=record.trace_id),
                    )


def new_id(rng: random.Random, bits: int) -> int:
    """Random identifier other than 0, as required of trace and span ids."""
    return rng.getrandbits(bits) or 1
