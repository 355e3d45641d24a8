"""Attempts of one hedged call: carries out the steps of its race with tasks and a timer.

The first attempt runs in the caller's task, as a plain `await` would: a call that sends no copy creates no
task. Copies run in tasks of their own, which end before the call does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Generic, TypeVar

import msgspec

from kwiken.hedge.shared_ledger import SharedLedger, StageRule
from kwiken.runtime.base.event_loop import CallerTask, call_after, cancel_and_wait, settle, whole_ticks
from kwiken.runtime.decisions.race import COPY, FINISH, LOST, Race

T = TypeVar("T")
Send = Callable[[int], Awaitable[T]]
Discard = Callable[[T], Awaitable[Any]]
Accept = Callable[[T], bool]


class HedgedAttempts(msgspec.Struct, Generic[T], eq=False, dict=False):
    """Attempts of one call, from the first to the end of the last.

    Attributes:
        send: function that makes one attempt, by its number.
        accept: whether an answer is one, and no failure; None for all.
        discard: function that releases an answer that is not returned; None for none.
        race: decides on attempts; None before the call is run.
        drawn: random draw of whether the call may have copies; None before it is drawn.
        timer: calls `race.tick` when it is due; None for none.
        tasks: tasks of copies; None for none.
        errors: errors of failed attempts, by number; None for none.
        refused: answers that were not accepted, by number; None for none.
        unused: answers to be released; None for none.
    """

    ledger: SharedLedger
    rule: StageRule
    send: Send[T]
    accept: Accept[T] | None
    discard: Discard[T] | None
    copies: int
    race: Any = None
    caller: Any = None
    loop: Any = None
    answer: Any = None
    drawn: bool | None = None
    timer: asyncio.TimerHandle | None = None
    tasks: list[asyncio.Task[None]] | None = None
    errors: dict[int, BaseException] | None = None
    refused: dict[int, Any] | None = None
    unused: list[Any] | None = None

    async def run(self) -> Any:
        """Run the call to its end; answer and errors are those of `Hedger.call`."""
        returned = False
        try:
            await self._run_all()
            if self.race.winner < 0:
                self._fail()
            returned = True
            return self.answer
        finally:
            if self.race.winner >= 0 and not returned:
                self._drop(self.answer)
            if self.refused is not None:
                for answer in self.refused.values():
                    self._drop(answer)
            if self.unused is not None and self.discard is not None:
                for answer in self.unused:
                    await self.discard(answer)
            # Errors hold tracebacks, whose frames hold this call and its task.
            self.tasks = self.errors = self.refused = self.unused = None
            if self.caller is not None:
                del self.caller.task

    async def _run_all(self) -> None:
        """Run the attempts until the race is over and all of them have ended."""
        # Failed attempts are not sent again, and none is given up: time limits are the caller's.
        rule = self.rule.reissue
        after = (rule.after if rule.followed is None else rule.followed.seconds) if self.copies else inf
        self.race = race = Race(self.ledger.now(), after, self.copies, inf, inf, repeatable=False)
        self.loop = loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:  # as for `asyncio.timeout`: without a task nothing can be cancelled
            raise RuntimeError("a hedged call must be awaited inside a task")
        self.caller = caller = CallerTask(task, task.cancelling())
        if race.due < inf:
            timer_s = self.rule.first_timer_s if rule.followed is None else whole_ticks(after)
            self.timer = loop.call_later(timer_s, self._on_timer)
        try:
            caller.busy = True
            try:
                await self._attempt(0, caller.base)
            except asyncio.CancelledError:
                if not caller.interrupted:
                    raise
            finally:
                caller.busy = False
            caller.check_cancelled()
            if not race.finished:
                await caller.waiting(loop)
        except BaseException:
            race.stop()
            raise
        finally:
            if self.timer is not None:
                self.timer.cancel()
            if self.tasks is not None:
                await cancel_and_wait(self.tasks)

    # Attempts.

    async def _attempt(self, number: int, base: int) -> None:
        """Make one attempt and record its outcome.

        There are five cases:
        1. An answer.
        2. An answer that is not accepted: the attempt failed.
        3. This task was cancelled: the attempt has no outcome.
        4. A future that the attempt awaited was cancelled: the attempt failed.
        5. Any other error, be it of `accept`: the attempt failed.
        """
        try:
            answer = await self.send(number)
            accepted = self.accept is None or self.accept(answer)
        except asyncio.CancelledError as error:
            if self._cancelling() > base:
                raise
            self._failed(number, error)
        except Exception as error:  # noqa: BLE001 - any error ends this attempt only
            self._failed(number, error)
        else:
            race, ledger = self.race, self.ledger
            if not accepted:
                if self.refused is None:
                    self.refused = {}
                self.refused[number] = answer
                self._lose(number)
            elif race.won(number) == FINISH:
                self.answer = answer
                now = ledger.now()
                ledger.earn(self.rule, now - race.start, now, by_copy=number > 0)
            else:
                self._drop(answer)

    async def _copy(self, number: int) -> None:
        try:
            await self._attempt(number, 0)
        finally:
            if self.race.finished:
                self.caller.wake()

    def _cancelling(self) -> int:
        """Number of cancellations of the running task."""
        task = asyncio.current_task(self.loop)
        return task.cancelling() if task is not None else 0

    def _failed(self, number: int, error: BaseException) -> None:
        if self.errors is None:
            self.errors = {}
        self.errors[number] = error
        self._lose(number)

    def _lose(self, number: int) -> None:
        """Tell the race of a failed attempt; a copy that failed brings the next one forward."""
        self.race.failed(LOST)
        if number and self.timer is not None and self.race.copy_failed(self.ledger.now()):
            self.timer.cancel()
            self.timer = self.loop.call_later(0.0, self._on_timer)

    def _drop(self, answer: T) -> None:
        if self.unused is None:
            self.unused = []
        self.unused.append(answer)

    def _fail(self) -> None:
        """End a call that has no winner as its first attempt ended, so that callers' `except` clauses match.

        Raises:
            BaseException: the error of the first attempt, with a note of the copies' errors.
        """
        self.ledger.failed(self.rule)
        if self.refused is not None and 0 in self.refused:
            self.answer = self.refused.pop(0)
            return
        errors, self.errors = self.errors or {}, None
        first = errors.pop(0)
        for number, error in errors.items():
            first.add_note(f"copy {number} of this call failed too: {type(error).__name__}: {error}")
        try:
            raise first
        finally:
            del first, errors  # this frame is part of the error's traceback

    # Events.

    def _on_timer(self) -> None:
        # An answer that arrived while the loop was busy and is not read yet makes a copy unnecessary.
        settle(self.loop, self._on_due)

    def _on_due(self) -> None:
        race, ledger = self.race, self.ledger
        now = ledger.now()
        while race.tick(now) == COPY:
            if self.drawn is None:
                self.drawn = ledger.draw() < self.rule.reissue.probability
            if not self.drawn:
                race.denied(COPY, now)
            elif not ledger.pays(self.rule, race.denials):
                race.denied(COPY, now, for_good=False)
            else:
                if self.tasks is None:
                    self.tasks = []
                self.tasks.append(self.loop.create_task(self._copy(race.launched(COPY))))
        if not race.finished and race.due < inf:
            self.timer = call_after(self.loop, race.due - now, self._on_timer)
