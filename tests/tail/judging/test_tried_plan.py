"""Correction of an expectation by the latencies under a plan that was tried."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Correction, Expected, Intervals, Ladder, Plan
from kwiken.model.profile.cost_models import cost_of_one_call
from kwiken.model.profile.profile import Profile
from kwiken.tail.judging.tried_plan import MIN_TRIED, corrected, corrected_expectation, correction_of
from kwiken.tail.planning.notes import ExpectationCorrected
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.expectation import expect
from tests.support.models.profiles import small_profile

RUNGS = Ladder.__struct_fields__


@pytest.fixture(scope="module")
def profile() -> Profile:
    return small_profile()


@pytest.fixture(scope="module")
def tried(profile: Profile) -> Plan:
    return study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created="")).plan


@pytest.fixture(scope="module")
def simulated_ms(profile: Profile, tried: Plan) -> Floats:
    return expect(profile, tried, ledger=tried.ledger)[0].after_ms


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.7])
def test_latencies_that_are_longer_by_a_factor_give_this_factor(
    profile: Profile, tried: Plan, simulated_ms: Floats, factor: float
) -> None:
    found = correction_of(profile, tried, factor * simulated_ms)
    assert found.plan == tried.digest
    assert found.requests == len(simulated_ms)
    assert found.factors == pytest.approx(dict.fromkeys(RUNGS, factor), rel=0.02)
    for name, (low, high) in found.bounds.items():
        assert low <= found.factors[name] <= high


def test_one_second_of_a_busy_machine_is_not_believed(
    profile: Profile, tried: Plan, simulated_ms: Floats
) -> None:
    """A tenth of a percent of many requests does nothing; five percent of few in a row count in part."""
    few_ms = simulated_ms[:: len(simulated_ms) // 900].copy()
    whole = correction_of(profile, tried, few_ms).factors["p99_ms"]
    few_ms[400:445] += 500.0
    found = correction_of(profile, tried, few_ms)
    low, high = found.bounds["p99_ms"]
    measured = 500.0 / np.quantile(simulated_ms, 0.99)
    assert whole < found.factors["p99_ms"] < measured**0.75
    assert low < found.factors["p99_ms"] < high
    assert high > 1.5 * found.factors["p99_ms"]


def test_a_longer_tail_alone_leaves_the_median(profile: Profile, tried: Plan, simulated_ms: Floats) -> None:
    slow = np.where(simulated_ms > np.quantile(simulated_ms, 0.95), 3.0, 1.0)
    found = correction_of(profile, tried, slow * simulated_ms)
    assert found.factors["p50_ms"] == pytest.approx(1.0)
    assert found.factors["p99_ms"] == pytest.approx(3.0, rel=0.03)


def test_a_sampled_request_counts_as_many_as_it_stands_for(
    profile: Profile, tried: Plan, simulated_ms: Floats
) -> None:
    # One of four of the quick requests is kept, and all of the slow ones.
    slow = simulated_ms > np.quantile(simulated_ms, 0.9)
    kept = slow | (np.arange(len(simulated_ms)) % 4 == 0)
    weight = np.where(slow, 1.0, 4.0)[kept]
    found = correction_of(profile, tried, 1.3 * simulated_ms[kept], weight)
    assert found.factors == pytest.approx(dict.fromkeys(RUNGS, 1.3), rel=0.02)
    unweighted = correction_of(profile, tried, 1.3 * simulated_ms[kept])
    assert unweighted.factors["p99_ms"] > 1.4


def test_the_correction_multiplies_the_latencies_and_widens_their_bounds() -> None:
    expected = Expected(
        before=Ladder(p50_ms=10, p90_ms=20, p95_ms=30, p99_ms=100, p999_ms=200),
        after=Ladder(p50_ms=10, p90_ms=20, p95_ms=25, p99_ms=40, p999_ms=80),
        spent=Budgets(reissue=0.04),
        bounds=Intervals(
            before={"p99_ms": (90.0, 110.0)}, after={"p99_ms": (35.0, 50.0)}, spent={"reissue": (0.03, 0.06)}
        ),
    )
    factors = dict(zip(RUNGS, (1.0, 1.1, 1.2, 1.5, 1.5), strict=True))
    correction = Correction(
        plan="p",
        requests=500,
        factors=factors,
        bounds={name: (f / 1.2, f * 1.3) for name, f in factors.items()},
        spent=0.5,
        spent_bounds=(0.4, 0.7),
    )
    found = corrected_expectation(expected, correction)
    assert found.before == expected.before
    assert found.spent == Budgets(reissue=0.02)
    assert found.bounds.spent == {"reissue": pytest.approx((0.012, 0.042))}
    assert found.correction == correction
    assert [getattr(found.after, name) for name in RUNGS] == pytest.approx([10, 22, 30, 60, 120])
    low, high = found.bounds.after["p99_ms"]
    # In logarithms the distances 35/40 and 1/1.2, and 50/40 and 1.3, are the sides of right angles.
    assert low == pytest.approx(60 * np.exp(-np.hypot(np.log(40 / 35), np.log(1.2))))
    assert high == pytest.approx(60 * np.exp(np.hypot(np.log(50 / 40), np.log(1.3))))
    assert found.bounds.before == expected.bounds.before


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_copies_that_were_not_sent_are_not_expected_again(
    profile: Profile, tried: Plan, simulated_ms: Floats, share: float
) -> None:
    assert tried.expected is not None
    name = next(name for name, stage in tried.stages.items() if stage.reissue is not None)
    expected = expect(profile, tried, ledger=tried.ledger)[1].spent.reissue
    copies = {name: share * expected / cost_of_one_call(profile, tried.cost, name)}
    found = correction_of(profile, tried, simulated_ms, copies=copies)
    low, high = found.spent_bounds
    assert low < found.spent < high
    assert found.spent == pytest.approx(share, abs=0.05)
    few = correction_of(profile, tried, simulated_ms[:MIN_TRIED], copies=copies)
    assert abs(few.spent - 1) <= abs(found.spent - 1) + 1e-9, "few requests tell little"
    assert few.spent_bounds[1] / few.spent_bounds[0] >= 0.999 * high / low
    unknown = correction_of(profile, tried, simulated_ms)
    assert (unknown.spent, unknown.spent_bounds) == (1.0, (1.0, 1.0))


def test_a_correction_of_an_older_version_keeps_its_digest() -> None:
    """A field that has been added since must not change what traces call the plan."""
    correction = Correction(plan="p", requests=100, factors={"p99_ms": 1.2}, bounds={"p99_ms": (1.0, 1.4)})
    assert set(msgspec.to_builtins(correction)) == {"plan", "requests", "factors", "bounds"}


def test_a_corrected_study_says_so(profile: Profile, tried: Plan, simulated_ms: Floats) -> None:
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.02), created=""))
    correction = correction_of(profile, tried, 1.5 * simulated_ms)
    found = corrected(study, correction, recorded=profile.requests)
    before, after = study.plan.expected, found.plan.expected
    assert before is not None
    assert after is not None
    assert after.after.p99_ms == pytest.approx(correction.factors["p99_ms"] * before.after.p99_ms, rel=1e-4)
    assert found.plan.stages == study.plan.stages
    (note,) = set(found.notes) - set(study.notes)
    assert isinstance(note, ExpectationCorrected)
    assert note.plan == tried.digest
    assert note.factor == correction.factors["p99_ms"] == pytest.approx(1.5, rel=0.02)
    assert Plan.from_json(found.plan.to_json()) == found.plan


@given(st.lists(st.floats(0.1, 10.0), min_size=len(RUNGS), max_size=len(RUNGS)))
def test_percentiles_stay_in_order(factors: list[float]) -> None:
    after = Ladder(p50_ms=1, p90_ms=2, p95_ms=3, p99_ms=4, p999_ms=5)
    expected = Expected(before=after, after=after, spent=Budgets())
    given_ = dict(zip(RUNGS, factors, strict=True))
    correction = Correction(plan="p", requests=100, factors=given_, bounds={})
    found = [getattr(corrected_expectation(expected, correction).after, name) for name in RUNGS]
    assert found == sorted(found)


def test_too_few_requests_and_another_service_are_refused(profile: Profile, tried: Plan) -> None:
    with pytest.raises(InputError, match=f"{MIN_TRIED - 1} answered requests ran with plan {tried.digest}"):
        correction_of(profile, tried, np.ones(MIN_TRIED - 1))
    stranger = msgspec.structs.replace(tried, service="elsewhere")
    with pytest.raises(InputError, match="plan for service 'elsewhere'"):
        correction_of(profile, stranger, np.ones(MIN_TRIED))


@pytest.mark.parametrize("factors", [{"p77_ms": 1.0}, {"p99_ms": 0.0}, {"p99_ms": float("nan")}])
def test_a_correction_that_makes_no_sense_is_refused(factors: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="factors"):
        Correction(plan="p", requests=100, factors=factors, bounds={})
