"""Replicas that ask for a pause get no calls until it is over."""

from __future__ import annotations

import random

import pytest

from kwiken.runtime.decisions.choice.picker import MAX_PAUSE_S, Picker
from kwiken.runtime.wire.transport.base import Reply
from tests.support.runtime.replicas import replicas_of


def picker_of(count: int) -> Picker:
    return Picker(replicas_of("s", count, None), random.Random(1))


def test_a_replica_that_asks_for_a_pause_gets_no_calls_until_it_is_over() -> None:
    picker = picker_of(2)
    full, other = picker.targets
    picker.failed(full, full.take(1.0), 1.0, pause_s=8.0)
    for now in (1.0, 5.0, 8.9):
        assert picker.pick(now) is other
        assert picker.pick_other(now, [other]) is None
        assert picker.pick_other(now, [other], ejected=True) is None
    assert picker.pick(9.0) is full
    assert full.trial


def test_no_replica_is_left_while_all_ask_for_a_pause() -> None:
    picker = picker_of(2)
    for target in list(picker.targets):
        picker.failed(target, target.take(1.0), 1.0, pause_s=2.0)
    assert picker.pick(2.9) is None
    assert picker.pick(3.0) is not None


@pytest.mark.parametrize("end", ["answered", "raised", "ended"])
def test_an_earlier_call_that_ends_does_not_end_a_pause(end: str) -> None:
    picker = picker_of(2)
    full, other = picker.targets
    earlier = full.take(0.5)
    picker.failed(full, full.take(1.0), 1.0, pause_s=2.0)
    if end == "answered":
        picker.answered(full, earlier, 1.5, Reply("ok"))
    elif end == "raised":
        picker.raised(full, earlier, 1.5)
    else:
        picker.ended(full, earlier, 1.5)
    assert picker.pick(2.9) is other
    assert picker.pick(3.0) is full


def test_a_pause_is_bounded() -> None:
    picker = picker_of(1)
    (only,) = picker.targets
    picker.failed(only, only.take(0.0), 0.0, pause_s=1e9)
    assert picker.pick(MAX_PAUSE_S - 0.1) is None
    assert picker.pick(MAX_PAUSE_S) is only
