"""Proposals: none where the load of copies cannot be accounted for, or too few requests are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwiken.base.errors import InputError
from kwiken.tail.autopilot.proposal import propose
from tests.support.models.profiles import small_profile

CREATED = "2026-01-01T00:00:00Z"


def test_a_plan_is_learned_from_earlier_requests_and_judged_on_later_ones() -> None:
    found = propose(small_profile(1500), None, budget=0.05, created=CREATED)
    assert (found.learned, found.judged) == (1000, 500)
    assert found.plan.budgets.reissue == 0.05
    assert found.in_force_p99_ms == found.none_p99_ms


@pytest.mark.parametrize("busy_ms", [45.0, 400.0])
def test_no_copies_for_replicas_that_seem_busier_than_any_queue_could_be(busy_ms: float) -> None:
    """A trial does not show what the load of copies does, as load slows the requests without copies alike."""
    profile = small_profile(1500)
    spell, *others = profile.stages
    busy = replace(profile, stages=(replace(spell, busy_ms=busy_ms, replicas=2), *others))
    with pytest.raises(InputError, match=r"^profile: stage 'spell' seems busy [0-9]+% of the time, so what"):
        propose(busy, None, budget=0.05, created=CREATED)


def test_too_few_requests_make_no_plan() -> None:
    with pytest.raises(InputError, match="600 requests are known, and 900 are needed"):
        propose(small_profile(600), None, budget=0.05, created=CREATED)
