"""Items of the winner of a race, handed on as they come: time limits of the waits between them."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from kwiken.runtime.base.errors import DeadlineError
from kwiken.runtime.engine.hedged_call.context import Attempt, CallSite
from kwiken.runtime.engine.hedged_call.missing_parts import lose, miss
from kwiken.runtime.wire.transport.base import ItemStream


async def hand_on(site: CallSite, stream: ItemStream, won: Attempt) -> list[Any]:
    """Hand on all items of a stage that streams; returns them if nobody takes them as they come.

    Stages after it take the list of all items, and so does a caller that states no taker.

    There are two time limits: 1. that of the stage, for each wait for an item; 2. the request's deadline, for
    all items, and for the time in which their taker takes them.

    Args:
        won: attempt whose first item has decided the race.

    Raises:
        DeadlineError: a time limit has passed, and the stage's items so far are no answer.
        KwikenError: the stream broke off; see `ItemStream.pull`.
    """
    request, now = site.request, site.shared.now
    deliver, collected, count = None, list[Any](), 0
    if not site.stage.children:
        deliver, request.first_item = request.deliver, won.ended
    stream.kept = deliver is None
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
                if deliver is None:
                    collected += items
                    continue
                left_s, waits = request.deadline - now(), False
                limit.reschedule(request.loop.time() + left_s)
                await deliver(items)
    except TimeoutError as error:
        if not limit.expired():
            raise
        if waits and limit_s <= left_s:
            reason = f"no further item within {round(limit_s * 1000)} ms"
        else:
            reason = "the request's deadline passed before its last item"
        if site.stage.definition.items_so_far:  # those whose worth nobody knows: as without the stage
            lose(site.shared, request, site.stage, 0.0, forced=True)
            miss(request, site.stage, 0.0, chosen=False)
            return collected
        raise DeadlineError(f"{at}: {reason}, after {count} items") from error
