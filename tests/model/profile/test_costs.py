"""Cost models of stages: shares of an average request's work, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.profile.cost_models import cost_of_one_call, costs, default_model
from kwiken.model.profile.profile import Profile, StageProfile

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def profile(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    rng = np.random.default_rng(0)
    seldom = np.where(np.arange(400) % 4 == 0, 8.0, np.nan)
    faulty = np.where(rng.random(400) < 0.05, 1000.0, 2.0)
    return profile_of(
        stage_of("x:y (own time)", np.full(400, 3.0), reissuable=False),
        stage_of("faulty", faulty, after=("x:y (own time)",)),
        stage_of("wide", np.full((400, 4), 2.0), after=("faulty",)),
        stage_of("seldom", seldom, after=("wide",)),
    )


def test_typical_charges_the_median_visit_times_its_share(profile: Profile) -> None:
    shares = costs(profile, "typical")
    # Medians 2, 4 x 2 and 8 on a quarter of the requests; the request's own time costs nothing.
    assert shares.stages == pytest.approx({"faulty": 2 / 12, "wide": 8 / 12, "seldom": 2 / 12})
    assert shares.model == "typical"


def test_mean_prices_a_faulty_stage_out(profile: Profile) -> None:
    assert costs(profile, "mean").stages["faulty"] > 0.75


def test_calls_charges_every_call_the_same(profile: Profile) -> None:
    assert costs(profile, "calls").stages == pytest.approx(
        {"faulty": 1 / 5.25, "wide": 4 / 5.25, "seldom": 0.25 / 5.25}
    )


def test_busy_uses_what_was_measured_and_is_the_default_then(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    measured = profile_of(
        stage_of("a", np.full(10, 9.0), busy_ms=1.0),
        stage_of("b", np.full((10, 3), 9.0), busy_ms=1.0, after=("a",)),
    )
    assert default_model(measured) == "busy"
    assert costs(measured).stages == pytest.approx({"a": 0.25, "b": 0.75})
    assert costs(measured).model == "busy"


def test_a_stage_that_no_request_visited_needs_no_busy_time(stage_of: StageOf, profile_of: ProfileOf) -> None:
    measured = profile_of(
        stage_of("a", np.full(10, 9.0), busy_ms=1.0),
        stage_of("never", np.full(10, np.nan), after=("a",)),
    )
    assert default_model(measured) == "busy"
    assert costs(measured).stages == pytest.approx({"a": 1.0, "never": 0.0})


def test_typical_is_the_default_where_busy_time_lacks(profile: Profile) -> None:
    assert default_model(profile) == "typical"
    with pytest.raises(InputError, match="faulty"):
        costs(profile, "busy")


def test_a_mapping_gives_the_cost_of_a_visit(profile: Profile) -> None:
    shares = costs(profile, {"faulty": 1, "wide": 2, "seldom": 4})
    assert shares.stages == pytest.approx({"faulty": 0.25, "wide": 0.5, "seldom": 0.25})
    assert shares.model == "file"


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"faulty": 1, "wide": 2}, "lacks stage 'seldom'"),
        ({"faulty": 1, "wide": 2, "seldom": 4, "nosuch": 1}, "nosuch"),
        ({"faulty": -1, "wide": 2, "seldom": 4}, "faulty"),
        ({"faulty": 0, "wide": 2, "seldom": 4}, "faulty"),
        ({"faulty": float("nan"), "wide": 2, "seldom": 4}, "faulty"),
        ({"faulty": "1", "wide": 2, "seldom": 4}, "faulty"),
        ({"faulty": True, "wide": 2, "seldom": 4}, "faulty"),
    ],
)
def test_refuses_a_bad_mapping_and_names_the_stage(
    profile: Profile, mapping: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        costs(profile, mapping)


def test_refuses_an_unknown_model(profile: Profile) -> None:
    with pytest.raises(InputError, match="typical, busy, calls, mean"):
        costs(profile, "cheap")


@pytest.mark.parametrize("model", ["typical", "calls", "mean"])
def test_shares_sum_to_one_and_a_copy_of_every_call_costs_them_all(profile: Profile, model: str) -> None:
    shares = costs(profile, model)
    assert sum(shares.stages.values()) == pytest.approx(1)
    doubled = sum(
        cost_of_one_call(profile, shares, name) * profile.stage(name).calls_per_request
        for name in shares.stages
    )
    assert doubled == pytest.approx(1)


def test_a_stage_too_fast_to_time_still_costs_something(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("slow", np.full(20, 5.0)), stage_of("quick", np.zeros(20), after=("slow",)))
    for model in ("typical", "mean"):
        assert costs(profile, model).stages["quick"] > 0


def test_refuses_a_profile_without_calls(stage_of: StageOf, profile_of: ProfileOf) -> None:
    with pytest.raises(InputError, match="no calls"):
        costs(profile_of(stage_of("a", np.full(5, np.nan))), "calls")
