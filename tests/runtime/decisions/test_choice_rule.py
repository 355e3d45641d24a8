"""Rule of replica choice: a replica that was slow is tried again."""

from __future__ import annotations

import random

import pytest

from kwiken.runtime.decisions.choice.picker import Picker
from kwiken.runtime.wire.transport.base import Reply
from tests.support.runtime.replicas import replicas_of


@pytest.mark.parametrize("factor", [3.0, 16.0, 1000.0])
def test_a_replica_that_was_slow_gets_calls_again_within_five_seconds(factor: float) -> None:
    """However slow it was for five seconds, and although it is not tried: 100 calls a second, one at a time."""
    picker = Picker(replicas_of("s", 3), random.Random(1))
    slow = picker.targets[0]
    now = 0.0
    while now < 5.0:
        now += 0.01
        for target in picker.targets:
            took = 0.01 * factor if target is slow else 0.01
            picker.answered(target, target.take(now), now + took, Reply("ok"))
    heard = slow.updated_at
    while (chosen := picker.pick(now)) is not slow:
        assert chosen is not None
        picker.answered(chosen, chosen.take(now), now + 0.01, Reply("ok"))
        now += 0.01
    assert now - heard < 5.0
