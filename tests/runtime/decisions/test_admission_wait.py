"""Admission control by the wait for the event loop, which no counter of requests includes."""

from __future__ import annotations

import asyncio
import time

from kwiken.runtime.decisions.admission import Admission, Limits
from kwiken.runtime.gateway.observation.loop_lag import LagWatch


def test_a_long_line_turns_away_the_least_important_first() -> None:
    limits = Limits()
    admission = Admission(limits)
    full_s = limits.wait_share * limits.deadline_ms / 1000
    admission.note_line(0.75 * full_s)
    answers = {priority: admission.enter(0.0, priority, 10.0) for priority in (-1, 0, 1)}
    assert answers[-1] is not None
    assert answers[0] is answers[1] is None
    assert admission.spare_capacity(0.0) == 0
    admission.note_line(0.9 * full_s)
    assert admission.enter(0.0, 0, 10.0) is not None
    assert admission.enter(0.0, 1, 10.0) is None
    admission.note_line(0.0)
    assert admission.enter(0.0, -1, 10.0) is None


def test_no_request_is_admitted_always() -> None:
    admission = Admission(Limits(always=0))
    assert admission.enter(0.0, 0, 10.0) is None
    assert admission.spare_capacity(0.0) > 0


def test_requests_that_may_wait_less_are_shed_earlier() -> None:
    admission = Admission(Limits())
    admission.note_line(0.2)
    assert admission.enter(0.0, 0, 10.0) is None
    assert admission.enter(0.0, 0, 0.5) is not None


async def test_a_busy_loop_is_seen() -> None:
    told: list[float] = []
    watch = LagWatch(told.append)
    watch.start()
    try:
        for _ in range(200):
            time.sleep(0.03)  # noqa: ASYNC251 - the loop is to be late
            await asyncio.sleep(0)
            if told and told[-1] > 0:
                break
    finally:
        watch.stop()
    assert told[-1] > 0
    count = len(told)
    await asyncio.sleep(0.1)
    assert len(told) == count
