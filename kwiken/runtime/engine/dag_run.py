"""Execution of one request through the stages of the DAG.

A stage that runs alone uses the request's own task. Parallel stages, and the shards of a fan-out, get a task
each, owned by the `DagRun`, which ends all of them before it returns.
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import Any

from kwiken.model.service.stage import Partial
from kwiken.runtime.base.event_loop import call_after, cancel_and_wait, settle
from kwiken.runtime.decisions.compiled_stage import CompiledStage
from kwiken.runtime.decisions.stop_rule import STOP, WAIT, FanOut
from kwiken.runtime.engine.hedged_call.call import call_stage
from kwiken.runtime.engine.hedged_call.context import Request, Shared, StageVisit, describe
from kwiken.runtime.engine.hedged_call.missing_parts import lose, miss
from kwiken.runtime.engine.utility import utility_of


async def run_dag(shared: Shared, request: Request, body: Any) -> Any:
    """Run every stage and return the last one's answer."""
    program = request.program
    if not program.serial:
        return await DagRun(shared, request, body).run()
    answers: list[Any] = []
    visits, now = request.visits, request.started
    for stage in program.stages:
        args = arguments_of(stage, answers, body)
        if stage.definition.optional:
            answers.append(await run_stage(shared, request, stage, args))
            now = shared.now()
        elif visits is None:
            answers.append(await call_stage(shared, request, stage, args, 0, None))
        else:  # as `run_stage` does, without a coroutine more for each stage
            visits.append(visit := StageVisit(stage, now))
            try:
                answers.append(await call_stage(shared, request, stage, args, 0, visit))
            except BaseException as error:
                end_visit(shared, visit, error)
                raise
            visit.ended = now = shared.now()
    return answers[-1]


async def run_stage(shared: Shared, request: Request, stage: CompiledStage, args: tuple[Any, ...]) -> Any:
    """Run a stage that is no fan-out; returns None if it is optional and fails."""
    visit = begin_visit(shared, request, stage)
    try:
        value = await call_stage(shared, request, stage, args, 0, visit)
    except BaseException as error:
        end_visit(shared, visit, error)
        if stage.definition.optional and isinstance(error, Exception):
            lose(shared, request, stage, 0.0, forced=True)
            miss(request, stage, 0.0, chosen=False)
            return None
        raise
    end_visit(shared, visit, None)
    return value


def begin_visit(shared: Shared, request: Request, stage: CompiledStage) -> StageVisit | None:
    """Begin to note a stage run; None if nothing is recorded."""
    if request.visits is None:
        return None
    visit = StageVisit(stage, shared.now())
    request.visits.append(visit)
    return visit


def end_visit(shared: Shared, visit: StageVisit | None, error: BaseException | None) -> None:
    """Note the end of a stage run, if it is noted."""
    if visit is not None:
        visit.ended = shared.now()
        visit.error = describe(error)


def arguments_of(stage: CompiledStage, answers: list[Any], body: Any) -> tuple[Any, ...]:
    """Arguments of a stage's handler: the answers of its parents; for a source, the request's body."""
    parents = stage.parents
    if len(parents) == 1:
        return (answers[parents[0]],)
    return tuple([answers[parent] for parent in parents]) if parents else (body,)


class StageRun:
    """One run of a stage: a single call or the calls of a fan-out.

    Attributes:
        utility: utility of the answer if the stop rule ended the run before all shards had answered; else
            None.
    """

    __slots__ = ("fan_out", "stage", "tasks", "timer", "utility", "visit")

    def __init__(self, stage: CompiledStage, fan_out: FanOut, visit: StageVisit | None) -> None:
        self.stage = stage
        self.fan_out = fan_out
        self.visit = visit
        self.tasks: list[asyncio.Task[None]] = []
        self.timer: asyncio.TimerHandle | None = None
        self.utility: float | None = None

    def end(self) -> None:
        """Ignore later answers, and release the objects that reference this run."""
        self.fan_out.stop()
        self.fan_out.take_error()
        self.tasks.clear()
        if self.timer is not None:
            self.timer.cancel()


class DagRun:
    """Run of one request through a DAG that is not a plain chain."""

    def __init__(self, shared: Shared, request: Request, body: Any) -> None:
        stages = request.program.stages
        self._shared = shared
        self._request = request
        self._body = body
        self._stages = stages
        self._answers: list[Any] = [None] * len(stages)
        self._waiting = [len(stage.parents) for stage in stages]
        self._ready = list(request.program.sources)
        self._open = 0
        self._runs: list[StageRun] = []
        self._closed: list[StageRun] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._waiter: asyncio.Future[None] | None = None

    async def run(self) -> Any:
        """Run every stage and return the last one's answer."""
        try:
            while self._ready or self._open:
                await self._advance()
        finally:
            for each in self._runs:
                each.end()  # answers after the end of a failed request must not charge the ledger
            try:
                if self._tasks:
                    await cancel_and_wait(self._tasks)
            finally:
                self._tasks.clear()  # a cancelled task holds its error, whose traceback holds this run
        return self._answers[self._request.program.sink]

    async def _advance(self) -> None:
        """Start the stages that are ready, and wait until a stage run has ended."""
        ready, self._ready = self._ready, []
        if len(ready) == 1 and not self._open and self._stages[ready[0]].definition.fanout == 1:
            stage = self._stages[ready[0]]
            args = arguments_of(stage, self._answers, self._body)
            self._done(stage, await run_stage(self._shared, self._request, stage, args))
            return
        for index in ready:
            self._start(self._stages[index])
        if not self._closed:
            self._waiter = self._request.loop.create_future()
            await self._waiter
            self._waiter = None
        closed, self._closed = self._closed, []
        for each in closed:
            self._end(each)

    def _done(self, stage: CompiledStage, answer: Any) -> None:
        self._answers[stage.index] = answer
        for child in stage.children:
            self._waiting[child] -= 1
            if self._waiting[child] == 0:
                self._ready.append(child)

    def _start(self, stage: CompiledStage) -> None:
        now = self._shared.now()
        fan_out = FanOut(stage.definition.fanout, stage.partial, now, wait_for_all=self._request.control)
        started = StageRun(stage, fan_out, begin_visit(self._shared, self._request, stage))
        loop = self._request.loop
        args = arguments_of(stage, self._answers, self._body)
        started.tasks = [
            loop.create_task(self._call(started, args, shard)) for shard in range(stage.definition.fanout)
        ]
        self._tasks += started.tasks
        self._open += 1
        self._runs.append(started)
        if fan_out.due < inf:
            started.timer = call_after(loop, fan_out.due - now, self._on_timer, started)

    async def _call(self, started: StageRun, args: tuple[Any, ...], shard: int) -> None:
        shared, fan_out = self._shared, started.fan_out
        try:
            value = await call_stage(shared, self._request, started.stage, args, shard, started.visit)
        except Exception as error:  # noqa: BLE001 - the stop rule decides whether the shard is required
            step = fan_out.failed(error)
        else:
            due = fan_out.due
            now = shared.now()
            step = fan_out.answered(shard, value, now)
            if step == STOP:  # more answers may be pending in the event loop
                self._on_timer(started)
                return
            if step == WAIT and fan_out.due < due:
                self._rearm(started, now)
        self._follow(started, step)

    def _follow(self, started: StageRun, step: int) -> None:
        """Carry out a step of the stop rule."""
        if step == STOP and not self._may_stop(started):
            started.fan_out.wait_on()
        elif step != WAIT:
            self._close(started)

    def _may_stop(self, started: StageRun) -> bool:
        """Whether the answer may be given without the missing shards; charges the lost utility if so."""
        stage, fan_out = started.stage, started.fan_out
        utility = utility_of(stage.definition, tuple(fan_out.values))
        if not lose(self._shared, self._request, stage, utility, forced=False):
            stage.state.counts.waits += 1
            return False
        started.utility = utility
        stage.state.counts.stops += 1
        fan_out.stop()
        return True

    def _rearm(self, started: StageRun, now: float) -> None:
        if started.timer is not None:
            started.timer.cancel()
        loop, delay = self._request.loop, started.fan_out.due - now
        started.timer = call_after(loop, delay, self._on_timer, started)

    def _on_timer(self, started: StageRun) -> None:
        # An answer that arrived while the loop was busy and is not read yet does not count as missing.
        settle(self._request.loop, partial(self._on_due, started))

    def _on_due(self, started: StageRun) -> None:
        if started.fan_out.finished:
            return
        now = self._shared.now()
        step = started.fan_out.tick(now)
        if step == WAIT and now < started.fan_out.due < inf:
            self._rearm(started, now)
        self._follow(started, step)

    def _close(self, ended: StageRun) -> None:
        """Record the end of a stage run, and wake the DAG run."""
        if ended.timer is not None:
            ended.timer.cancel()
        self._closed.append(ended)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _end(self, ended: StageRun) -> None:
        """Use the answer of a stage run, or raise its error."""
        self._open -= 1
        stage, fan_out = ended.stage, ended.fan_out
        for task in ended.tasks:
            if not task.done():
                task.cancel()
        ended.tasks.clear()
        error = fan_out.take_error()
        end_visit(self._shared, ended.visit, error)
        if error is not None:
            if not stage.definition.optional:
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame
            lose(self._shared, self._request, stage, 0.0, forced=True)
            miss(self._request, stage, 0.0, chosen=False)
            self._done(stage, None)
        elif stage.definition.fanout == 1:
            self._done(stage, fan_out.values[0])
        else:
            self._done(stage, self._merge(ended))

    def _merge(self, ended: StageRun) -> Partial[Any]:
        fan_out, stage = ended.fan_out, ended.stage
        values = tuple(fan_out.values)
        if fan_out.complete:
            if ended.visit is not None:
                ended.visit.values = values
            return Partial(values)
        utility, chosen = ended.utility, ended.utility is not None
        if utility is None:  # shards failed: no stop rule decided this
            utility = utility_of(stage.definition, values)
            lose(self._shared, self._request, stage, utility, forced=True)
        miss(self._request, stage, utility, chosen=chosen)
        if ended.visit is not None:
            ended.visit.utility = utility
        return Partial(values, utility)
