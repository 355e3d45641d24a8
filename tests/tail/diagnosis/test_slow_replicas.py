"""Naming of slow replicas: by how much, with how many calls, and where it matters."""

from __future__ import annotations

import msgspec
import pytest

from kwiken.model.profile.profile import Instance
from kwiken.tail.diagnosis.slow_replicas import slow_replicas

SLOW = Instance(
    service="pricing",
    name="pricing-1",
    calls=200,
    others=2,
    other_calls=400,
    times=3.0,
    slow_times=3.0,
    above_median=0.98,
    above_slow=0.9,
    typical_ms=24.0,
    extra=0.2,
)


def test_a_replica_that_is_slow_in_all_its_calls_is_named_with_its_median() -> None:
    (found,) = slow_replicas([SLOW])
    assert (found.name, found.times, found.tail, found.others) == ("pricing-1", 3.0, False, 2)


def test_a_replica_whose_slowest_calls_alone_are_slow_is_named_with_its_tail() -> None:
    stalls = msgspec.structs.replace(SLOW, times=1.1, above_median=0.55, above_slow=0.3, slow_times=8.0)
    (found,) = slow_replicas([stalls])
    assert (found.tail, found.times) == (True, 8.0)


@pytest.mark.parametrize(
    "change",
    [
        {"times": 1.2, "slow_times": 1.2},  # hardly slower
        {"above_median": 0.55, "above_slow": 0.06},  # as by chance
        {"calls": 20, "other_calls": 20, "above_median": 0.8, "above_slow": 0.2},  # too few calls
        {"extra": 0.001},  # slow, and nobody notices
    ],
)
def test_doubt_names_nobody(change: dict[str, float]) -> None:
    assert slow_replicas([msgspec.structs.replace(SLOW, **change)]) == ()


def test_the_costliest_comes_first() -> None:
    cheap = msgspec.structs.replace(SLOW, name="pricing-2", extra=0.05)
    assert [each.name for each in slow_replicas([cheap, SLOW])] == ["pricing-1", "pricing-2"]
