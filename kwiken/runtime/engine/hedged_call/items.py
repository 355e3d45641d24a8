"""Items of the winner of a race, handed on as they come: time limits of the waits between them."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from kwiken.runtime.base.errors import DeadlineError, HandlerError
from kwiken.runtime.engine.hedged_call.context import Attempt, CallSite
from kwiken.runtime.engine.hedged_call.missing_parts import lose, miss
from kwiken.runtime.wire.transport.base import ItemStream


class ItemsLateError(DeadlineError):
    """Items came too late.

    Attributes:
        items: items so far, unless they were handed on as they came.
        stalled: whether the next one did not come within the time limit of the stage.
    """

    def __init__(self, message: str, *, items: list[Any], stalled: bool) -> None:
        super().__init__(message)
        self.items = items
        self.stalled = stalled


async def hand_on(site: CallSite, stream: ItemStream, won: Attempt) -> list[Any]:
    """Hand on all items of a stage that streams; returns them if nobody takes them as they come.

    Stages after it take the list of all items, and so does a caller that states no taker.

    There are two time limits: 1. that of the stage, for each wait for an item; 2. the request's deadline, for
    all items, and for the time in which their taker takes them.

    Args:
        won: attempt whose first item has decided the race.

    Raises:
        ItemsLateError: a time limit has passed.
        KwikenError: the stream broke off; see `ItemStream.pull`.
    """
    request, now = site.request, site.shared.now
    deliver, collected = None, list[Any]() if site.items is None else site.items
    count = len(collected)
    if not site.stage.children:
        deliver, request.first_item = request.deliver, request.first_item or won.ended
    stream.kept = deliver is None or site.items is not None
    limit_s = site.stage.timeouts.answer
    at = f"stage {site.stage.name!r}: replica {won.target.replica.id}"
    left_s, waits = inf, True
    try:
        async with asyncio.timeout(None) as limit:
            while True:
                left_s, waits = request.deadline - now(), True
                limit.reschedule(request.loop.time() + min(limit_s, left_s))
                if left_s <= 0:
                    await asyncio.sleep(0)  # raises: a stream that is never waited for must end too
                items, stream.reached = list(stream.reached) or await stream.pull(), ()
                if not items:
                    return collected
                count += len(items)
                if stream.kept:
                    collected += items
                if deliver is None:
                    continue
                left_s, waits = request.deadline - now(), False
                limit.reschedule(request.loop.time() + left_s)
                await deliver(items)
    except TimeoutError as error:
        if not limit.expired():
            raise
        stalled = waits and limit_s <= left_s
        if stalled:
            reason = f"no further item within {round(limit_s * 1000)} ms"
        else:
            reason = "the request's deadline passed before its last item"
        message = f"{at}: {reason}, after {count} items"
        raise ItemsLateError(message, items=collected, stalled=stalled) from error


def partial_answer(site: CallSite, items: list[Any]) -> list[Any]:
    """Items so far as an answer whose worth nobody knows: as without the stage."""
    lose(site.shared, site.request, site.stage, 0.0, forced=True)
    miss(site.request, site.stage, 0.0, chosen=False)
    return items


def inputs_after(site: CallSite) -> tuple[Any, ...]:
    """Inputs of the call that goes on after the items so far, by the stage's `resume`.

    Raises:
        HandlerError: `resume` raised, or returned another number of inputs.
    """
    name, resume = site.stage.name, site.stage.definition.resume
    assert resume is not None
    assert site.items is not None
    count = len(site.args)
    try:
        inputs = resume(*site.args, list(site.items))
    except Exception as error:  # of the user's function
        raise HandlerError(name, type(error).__name__, f"resume: {error}") from error
    if count == 1:
        return (inputs,)
    if isinstance(inputs, tuple) and len(inputs) == count:
        return inputs
    raise HandlerError(name, "TypeError", f"resume: must return a tuple of {count} inputs")
