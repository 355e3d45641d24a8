"""Replicas that ask for a pause, or were silent: no calls until the pause is over, or a probe was answered."""

from __future__ import annotations

import random

import pytest

from kwiken.runtime.decisions.choice.picker import FIRST_BACKOFF_S, LAST_BACKOFF_S, MAX_PAUSE_S, Picker
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
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


def silent_one() -> tuple[Picker, ReplicaState, ReplicaState]:
    """Picker of two replicas, the one whose call was lost without an answer, and the other."""
    picker = picker_of(2)
    silent, good = picker.targets
    picker.failed(silent, silent.take(1.0), 1.0, silent=True)
    return picker, silent, good


def test_a_silent_replica_gets_probes_and_no_calls_until_it_answers_one() -> None:
    picker, silent, good = silent_one()
    now, waits = 1.0, []
    for _ in range(8):
        now = silent.ejected_until
        assert picker.pick(now) is good
        assert picker.to_probe is silent
        picker.to_probe = None
        assert all(picker.pick(now + step) is good for step in range(20))
        assert picker.to_probe is None, "one probe at a time"
        assert picker.pick_other(now, [good]) is None, "nor does a copy go there"
        picker.probed(silent, now, alive=False)
        waits.append(silent.ejected_until - now)
    assert waits == pytest.approx([min(LAST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (n + 1)) for n in range(8)])
    now = silent.ejected_until
    picker.pick(now)
    picker.probed(silent, now, alive=True)
    assert picker.pick(now) is silent, "its trial, with one call"
    assert silent.trial
    ticket = silent.take(now)
    assert picker.pick(now + 0.1) is good
    picker.answered(silent, ticket, now + 0.2, Reply("ok"))
    assert not silent.ejected


def test_without_another_replica_a_silent_one_gets_its_call_at_once() -> None:
    picker, silent, good = silent_one()
    picker.failed(good, good.take(1.0), 1.0)
    assert picker.pick(1.0 + FIRST_BACKOFF_S) is silent
    assert picker.to_probe is None


def test_a_trial_that_is_lost_after_a_probe_needs_a_probe_again() -> None:
    picker, silent, good = silent_one()
    picker.pick(2.0)
    picker.probed(silent, 2.0, alive=True)
    picker.to_probe = None
    assert picker.pick(2.0) is silent
    picker.failed(silent, silent.take(2.0), 2.5, silent=True)
    assert picker.pick(silent.ejected_until) is good
    assert picker.to_probe is silent
