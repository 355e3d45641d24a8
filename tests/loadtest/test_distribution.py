"""Division of an open-loop load over processes, and schedules whose rate changes while they run."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.arrivals import Arrivals
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.patching import without_patching

QUERIES = Queries((b"{}",))


def starts(
    arrivals: Arrivals,
    level: Callable[[float], float],
    *,
    index: int = 0,
    workers: int = 1,
) -> list[float]:
    """Intended starts of a schedule whose level is a function of the time."""
    from kwiken.loadtest.generator.shared_schedule import NO_REQUEST, steered

    now = 0.0
    found = []
    plan = steered(arrivals, QUERIES, seed=1, level=lambda: level(now), index=index, workers=workers)
    for moment, query in plan:
        assert moment >= now - 1e-9
        now = moment
        if query != NO_REQUEST:
            found.append(moment)
    return found


def even(rate: float, seconds: float) -> Arrivals:
    return Arrivals(rates=(rate,), poisson=False, duration_s=seconds)


@settings(max_examples=30, deadline=None)
@given(rate=st.integers(1, 300), workers=st.integers(1, 5), seconds=st.floats(0.3, 4))
def test_processes_together_send_the_even_gaps_of_one(rate: int, workers: int, seconds: float) -> None:
    schedule = even(rate, seconds)
    parts = [
        starts(schedule, lambda _: 1 / workers, index=index, workers=workers) for index in range(workers)
    ]
    together = np.sort(np.concatenate(parts))
    assert abs(len(together) - rate * seconds) <= 1.000001
    assert np.allclose(np.diff(together), 1 / rate)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_steps_of_the_level_are_followed_at_once() -> None:
    steps = (1.0, 3.0, 0.5)
    found = np.array(starts(even(100, 6), lambda now: steps[min(2, int(now / 2 + 1e-6))]))
    assert np.histogram(found, [0, 2, 4, 6])[0].tolist() == pytest.approx([200, 600, 100], abs=1)


def test_a_level_of_zero_sends_nothing_and_ends_all_the_same() -> None:
    assert starts(even(100, 1), lambda _: 0) == []


def test_poisson_arrivals_stay_poisson() -> None:
    schedule = Arrivals(rates=(400.0, 100.0), poisson=True, duration_s=200)
    found = np.array(starts(schedule, lambda _: 0.5))
    counts = np.histogram(found, np.arange(0, 201))[0]
    assert counts[::2].mean() == pytest.approx(200, rel=0.05)
    assert counts[1::2].mean() == pytest.approx(50, rel=0.1)
    assert counts[::2].var() == pytest.approx(200, rel=0.5)


def test_an_endless_schedule_goes_on() -> None:
    from kwiken.loadtest.generator.shared_schedule import steered

    endless = Arrivals(rates=(10.0,), poisson=False, duration_s=None)
    plan = steered(endless, QUERIES, seed=0, level=lambda: 1)
    assert next(itertools.islice(plan, 5_000, None))[0] > 200


def test_each_process_has_one_sender_however_many_users_there_are() -> None:
    from kwiken.loadtest.distribution.share import one_sender_each

    placed = {"a": {"Open": 1, "Http": 3}, "b": {"Open": 0, "Http": 2}}
    assert one_sender_each(placed, ["Open"]) == (
        {"a": {"Open": 1, "Http": 3}, "b": {"Open": 1, "Http": 2}},
        {"Open": 1},
    )
    many = {"a": {"Open": 40}, "b": {"Open": 39}}
    assert one_sender_each(many, ["Open"]) == ({"a": {"Open": 1}, "b": {"Open": 1}}, {"Open": 79})
    none = {"a": {"Open": 0}}
    assert one_sender_each(none, ["Open"]) == (none, {"Open": 0})


def test_options_replace_the_settings_of_the_class() -> None:
    with without_patching():  # Locust would patch the standard library of this process
        from kwiken.loadtest.distribution.options import with_options

    own = LoadSettings(url="http://h", rate=5, zipf=0.5)
    assert with_options(own, None) == own
    assert with_options(own, Namespace(rate=None, duration="")) == own
    # Locust's page gives text where an option had no default.
    assert with_options(own, Namespace(rate="7.5", duration=3.0)).rate == 7.5
    assert with_options(own, Namespace(request_timeout=2.0)).timeout_s == 2.0
    with pytest.raises(InputError, match="rate: must be a number; got 'much'"):
        with_options(own, Namespace(rate="much"))
