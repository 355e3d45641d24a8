"""Hedger: sends copies of slow calls by a plan, all stages paid from one ledger."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, TypeVar

from kwiken.base.errors import DefinitionError, InputError
from kwiken.base.machine.files import read_file
from kwiken.hedge.attempts import Accept, Discard, HedgedAttempts, Send
from kwiken.hedge.shared_ledger import HedgeCounts, SharedLedger
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue

T = TypeVar("T")
P = ParamSpec("P")
MAX_PLAN_BYTES: Final = 16 << 20
NUMBER: Final = "attempt"  # keyword by which a decorated function learns the number of the attempt


class Hedger:
    """Hedges calls of the stages of a plan; all copies are paid from the plan's one budget.

    A hedger may serve several event loops, in several threads. Each call belongs to the loop it is made on.

    Args:
        plan: plan in force, as `kwiken plan` writes it.
        clock: monotonic clock, seconds.
        rng: source of the random draws of plans with a probability below 1.

    Raises:
        InputError: the plan has partial answers or catch-up, which only a gateway can give.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        draw = (rng or random.Random()).random  # noqa: S311 - draws copies, keeps no secret
        self._ledger = SharedLedger(plan, clock, draw)

    @classmethod
    def load(cls, path: str | Path) -> Hedger:
        """Create a hedger from a plan's file.

        Args:
            path: regular file that holds a plan as JSON.

        Raises:
            OSError: the file cannot be read.
            InputError: the file holds no plan, or one that needs a gateway; names file and field.
        """
        return cls(Plan.from_json(read_file(Path(path), MAX_PLAN_BYTES), where=str(path)))

    @classmethod
    def fixed(cls, after_ms: Mapping[str, float | Reissue], *, budget: float = 0.05) -> Hedger:
        """Create a hedger with delays of one's own, where there is no plan.

        Args:
            after_ms: by stage: age of a call at which it gets a copy, milliseconds; or a whole policy, whose
                delay may follow the present latency.
            budget: copies as a share of all calls of all stages, above 0 and at most 1.

        Raises:
            InputError: a delay or the budget is out of range, or there is no stage.
        """
        if not after_ms:
            raise InputError("names no stage: give a delay for each, as {'search': 20.0}", where="after_ms")
        if not 0 < budget <= 1:  # NaN fails too
            raise InputError(f"must be a share above 0 and at most 1, not {budget}", where="budget")
        stages = {}
        for name, delay in after_ms.items():
            if not (isinstance(name, str) and name and isinstance(delay, int | float | Reissue)):
                raise InputError(
                    f"must be a name with a delay in milliseconds, not {delay!r}", where=f"stage {name!r}"
                )
            try:
                policy = delay if isinstance(delay, Reissue) else Reissue(after_ms=delay)
            except ValueError as error:
                raise InputError(str(error), where=f"stage {name!r}") from None
            stages[name] = StagePlan(reissue=policy)
        costs = Costs(model="calls", stages=dict.fromkeys(stages, 1 / len(stages)))
        return cls(
            Plan(
                version=1,
                service="fixed delays",
                created="",
                profile="",
                budgets=Budgets(reissue=budget),
                cost=costs,
                stages=stages,
            )
        )

    @property
    def plan(self) -> Plan:
        """Plan in force."""
        return self._ledger.plan

    def apply(self, plan: Plan) -> None:
        """Put another plan in force; calls in flight keep theirs, and what was spent stays spent.

        Raises:
            InputError: the plan has partial answers or catch-up; nothing has changed then.
        """
        self._ledger.apply(plan)

    @property
    def counts(self) -> dict[str, HedgeCounts]:
        """Calls so far by stage, as a copy."""
        return self._ledger.counts

    @property
    def delays_ms(self) -> dict[str, float]:
        """By stage with copies: present age of a call at which it gets its copy, milliseconds."""
        return self._ledger.delays_ms

    def max_body_bytes(self, stage: str) -> float:
        """Largest body of a call that is copied, bytes; infinite for any.

        Raises:
            InputError: the plan has no such stage; names those it has.
        """
        return self._ledger.rule(stage).reissue.max_body

    # Calls.

    def call(
        self,
        stage: str,
        send: Send[T],
        *,
        read: bool,
        accept: Accept[T] | None = None,
        discard: Discard[T] | None = None,
        body_bytes: int = 0,
    ) -> Coroutine[Any, Any, T]:
        """Make a call once the result is awaited, with copies where the plan wants them and the ledger pays.

        There are three cases:
        1. An attempt answers: its answer is returned, after the other attempts were cancelled and have ended.
        2. All attempts that were sent fail: the error of the first one is raised, with a note of the others.
        3. The caller is cancelled: all attempts are cancelled, and have ended when the cancellation goes on.

        Args:
            stage: name of a stage of the plan.
            send: function that makes one attempt. Its argument is the number of the attempt: 0 for the first
                one, which runs in the caller's task, and 1 and up for copies, which should go to other
                replicas.
            read: whether the call may run twice; a call that writes gets no copy.
            accept: whether an answer counts as one; None for all. One that does not counts as a failure: it
                never wins against a pending attempt and fills no account. If no attempt is accepted, the call
                ends as its first attempt did.
            discard: function that releases an answer that is not returned, such as a response's `close`.
            body_bytes: size of the call's body, bytes: a call gets no copy above the limit of its stage.

        Raises:
            InputError: the plan has no such stage; names those it has.
            Exception: the error of the first attempt.
        """
        rule = self._ledger.rule(stage)
        copies = rule.copies if read and body_bytes <= rule.reissue.max_body else 0
        return HedgedAttempts(self._ledger, rule, send, accept, discard, copies).run()

    def open(
        self,
        stage: str,
        send: Send[T],
        *,
        read: bool,
        accept: Accept[T] | None = None,
        body_bytes: int = 0,
    ) -> Opened[T]:
        """Make a call whose answer is closed at the end of an `async with` block, as a response is.

        An answer that is a context manager is entered and left. `await` in place of `async with` gives the
        answer itself, which the caller then closes.

        Args:
            stage: name of a stage of the plan.
            send: function that makes one attempt, as in `call`.
            accept: whether an answer counts as one, as in `call`.
            body_bytes: size of the call's body, bytes, as in `call`.
        """
        return Opened(self.call(stage, send, read=read, accept=accept, discard=close, body_bytes=body_bytes))

    def hedged(
        self, stage: str, *, read: bool
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
        """Decorate a coroutine function so that its calls are hedged.

        A copy is a call with the same arguments. A function with a keyword `attempt` gets the number of the
        attempt by it, from 0.

        Args:
            stage: name of a stage of the plan.

        Raises:
            DefinitionError: the function is no coroutine function.
            InputError: the plan has no such stage; names those it has.
        """

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
            if not inspect.iscoroutinefunction(function):
                raise DefinitionError("only an `async def` function can be hedged", stage=stage)
            self._ledger.rule(stage)
            numbered = NUMBER in inspect.signature(function).parameters

            @wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
                def send(number: int) -> Awaitable[T]:
                    if numbered:
                        kwargs[NUMBER] = number
                    return function(*args, **kwargs)

                return self.call(stage, send, read=read)

            return call

        return decorate


class Opened(Generic[T]):
    """A hedged call that is awaited, or used by `async with`."""

    def __init__(self, call: Awaitable[T]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, T]:
        """Answer of the call, which the caller closes."""
        return self._call.__await__()

    async def __aenter__(self) -> T:
        """Answer of the call; entered if it is a context manager."""
        self._answer = await self._call
        if hasattr(self._answer, "__aenter__"):
            return await self._answer.__aenter__()  # type: ignore[no-any-return]
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the answer if it is a context manager, else close it."""
        if hasattr(self._answer, "__aexit__"):
            await self._answer.__aexit__(kind, error, trace)
        else:
            await close(self._answer)


async def close(answer: Any) -> None:
    """Close an answer by its `aclose` or `close`, if it has either."""
    closing = getattr(answer, "aclose", None) or getattr(answer, "close", None)
    result = closing() if closing is not None else None
    if inspect.isawaitable(result):
        await result
