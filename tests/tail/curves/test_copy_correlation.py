"""Correlated copies: estimates from pairs, curves under correlation, and the plans that result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.copies import correlated_copies, normal_scores
from kwiken.tail.curves.copy_correlation import copy_correlation
from kwiken.tail.curves.curve import reissue_curve, stage_curves
from kwiken.tail.planning.notes import CopiesAsSlow, CopiesCorrelated
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.trace_driven import simulate
from papers.worlds.populations.services import POPULATIONS, population
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-01-01T00:00:00Z"


def raced_pairs(rho: float, pairs: int, *, after_ms: float, seed: int = 0) -> tuple[Floats, Floats, Bools]:
    """Log-normal calls, with the pairs that are observed when a race cancels its loser."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((200 * pairs, 2))
    z[:, 1] = rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1]
    both = np.exp(z)
    late = both[both[:, 0] > after_ms][:pairs]
    over = np.minimum(late[:, 0], after_ms + late[:, 1])
    cut = np.column_stack((late[:, 0] > over, after_ms + late[:, 1] > over))
    seen = np.column_stack((np.minimum(late[:, 0], over), np.minimum(late[:, 1], over - after_ms)))
    return both[:20_000, 0], seen, cut


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 0.8, 0.95])
def test_the_correlation_is_estimated_from_censored_pairs(stage_of: StageOf, rho: float) -> None:
    calls, pairs, cut = raced_pairs(rho, 3000, after_ms=3.0)
    stage = replace(stage_of("a", calls), pairs_ms=pairs, pairs_cut=cut)
    found = copy_correlation(stage, EmpiricalDistribution.of(calls))
    assert found.rho == pytest.approx(rho, abs=0.05)
    assert found.low - 0.03 <= rho <= found.high + 0.03
    assert found.pairs == 3000


def test_the_interval_holds_the_estimate_however_many_pairs_there_are(stage_of: StageOf) -> None:
    for pairs in (30, 300, 3000, 20_000):
        calls, seen, cut = raced_pairs(0.5, pairs, after_ms=1.0)
        found = copy_correlation(
            replace(stage_of("a", calls), pairs_ms=seen, pairs_cut=cut), EmpiricalDistribution.of(calls)
        )
        assert found.low < found.rho < found.high
        assert found.low - 0.01 <= 0.5 <= found.high + 0.01


def test_few_pairs_are_shrunk_towards_independence(stage_of: StageOf) -> None:
    found = []
    for pairs in (3, 30, 3000):
        calls, seen, cut = raced_pairs(0.6, pairs, after_ms=3.0, seed=2)
        stage = replace(stage_of("a", calls), pairs_ms=seen, pairs_cut=cut)
        found.append(copy_correlation(stage, EmpiricalDistribution.of(calls)))
    assert found[0].rho < 0.4
    assert found[2].rho == pytest.approx(0.6, abs=0.05)
    assert found[0].high - found[0].low > found[2].high - found[2].low


def test_no_pairs_no_correlation(stage_of: StageOf) -> None:
    stage = stage_of("a", np.arange(1.0, 50.0))
    assert copy_correlation(stage, EmpiricalDistribution.of(stage.calls_ms)).rho == 0
    both_cut = replace(stage, pairs_ms=np.ones((4, 2)), pairs_cut=np.ones((4, 2), dtype=np.bool_))
    assert copy_correlation(both_cut, EmpiricalDistribution.of(stage.calls_ms)).pairs == 0


def test_correlated_copies_have_the_distribution_and_the_correlation() -> None:
    rng = np.random.default_rng(1)
    distribution = EmpiricalDistribution.of(rng.exponential(5, 20_000))
    calls = distribution.draw(rng, 40_000)
    copies = correlated_copies(distribution, calls, rng.standard_normal(40_000), 0.6)
    assert np.quantile(copies, [0.1, 0.5, 0.99]) == pytest.approx(
        np.quantile(distribution.values, [0.1, 0.5, 0.99]), rel=0.05
    )
    scores = np.corrcoef(normal_scores(distribution, calls), normal_scores(distribution, copies))[0, 1]
    assert scores == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("coin", [1.0, 0.5])
def test_moments_of_correlated_copies_match_sampling(shards: int, coin: float) -> None:
    rng = np.random.default_rng(2)
    calls = rng.lognormal(0, 0.8, (4000, shards))
    curve = reissue_curve(calls, correlation=0.5)
    after = float(np.quantile(calls, 0.9))
    mean, variance = curve.moments(Reissue(after_ms=after, probability=coin))
    many = np.repeat(calls, 30, axis=0)
    copies = correlated_copies(curve.distribution, many, rng.standard_normal(many.shape), 0.5)
    sent = (many > after) & (rng.random(many.shape) < coin)
    raced = np.where(sent, np.minimum(many, after + copies), many).max(axis=1)
    assert mean == pytest.approx(raced.mean(), rel=0.005)
    assert variance == pytest.approx(raced.var(), rel=0.03)


@pytest.mark.parametrize("shards", [100, 400])
@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_wide_fan_outs_wait_for_their_slowest_copies(shards: int, share: float) -> None:
    """Some of hundreds of copies are slower than the middle of the last of a few equal parts."""
    rng = np.random.default_rng(7)
    calls = rng.lognormal(0, 1, (20_000 // shards, shards))
    curve = reissue_curve(calls, correlation=0.3)
    policy = curve.policy(share, coin=1.0)
    assert policy is not None
    again = np.repeat(calls, 10, axis=0)
    copies = correlated_copies(curve.distribution, again, rng.standard_normal(again.shape), 0.3)
    ends = np.where(again > policy.after_ms, np.minimum(again, policy.after_ms + copies), again).max(axis=1)
    mean, variance = curve.moments(policy)
    assert mean == pytest.approx(ends.mean(), rel=0.02)
    assert variance == pytest.approx(ends.var(), rel=0.1)


def test_hardly_any_correlation_is_hardly_any_change() -> None:
    x = np.random.default_rng(3).lognormal(0, 1, 5000)
    free, tied = reissue_curve(x), reissue_curve(x, correlation=1e-6)
    assert np.allclose(free.variance, tied.variance, rtol=0.01)


def test_gain_falls_with_correlation() -> None:
    x = np.random.default_rng(4).lognormal(0, 1, 5000)
    left = [reissue_curve(x, correlation=rho).hull_at(0.05) for rho in (0.0, 0.1, 0.3, 0.5, 0.7, 0.95)]
    assert left == sorted(left)
    assert left[-1] > 0.85 * x.var()


@pytest.mark.slow
def test_p99_gain_of_a_population_falls_as_published_and_the_budget_holds(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """At correlation 0.5 about two thirds of the gain of independent copies is left, at 0.7 less than half."""
    dags = population(POPULATIONS["C"], np.random.default_rng(1))[8:38:4]
    cut: dict[float, list[float]] = {0.0: [], 0.5: [], 0.7: []}
    for place, dag in enumerate(dags):
        rng = np.random.default_rng(place)
        profile = profile_of(
            *(
                stage_of(distribution.name, distribution.draw(rng, 4000), after=distribution.after)
                for distribution in dag
            )
        )
        later = profile_of(
            *(
                stage_of(distribution.name, distribution.draw(rng, 8000), after=distribution.after)
                for distribution in dag
            )
        )
        for rho, cuts in cut.items():
            plan = study_plan(
                profile,
                PlanSettings(
                    budgets=Budgets(reissue=0.05), cost="mean", created=CREATED, copy_correlation=rho
                ),
            ).plan
            found = simulate(later, plan, copy_correlation=rho)
            assert found.reissue <= 0.05 * 1.15
            cuts.append(1 - found.after.p99_ms / found.before.p99_ms)
    left = {rho: np.mean(cuts) / np.mean(cut[0.0]) for rho, cuts in cut.items()}
    assert 0.45 < left[0.5] < 0.8
    assert 0.25 < left[0.7] < left[0.5]


def test_a_stage_that_is_slow_with_its_requests_gets_nothing(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    calls, pairs, cut = raced_pairs(0.97, 3000, after_ms=3.0)
    free, other, free_cut = raced_pairs(0.0, 3000, after_ms=3.0, seed=5)
    profile = profile_of(
        replace(stage_of("size", calls), pairs_ms=pairs, pairs_cut=cut),
        replace(stage_of("replica", free, after=("size",)), pairs_ms=other, pairs_cut=free_cut),
    )
    assert set(stage_curves(profile)) == {"replica"}
    assert set(stage_curves(profile, copy_correlation=0.0)) == {"size", "replica"}
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED))
    assert study.plan.stages["size"].reissue is None
    assert study.plan.stages["replica"].reissue is not None
    assert CopiesAsSlow(("size",)) in study.notes


def test_the_expectation_uses_the_correlation_of_pairs(stage_of: StageOf, profile_of: ProfileOf) -> None:
    calls, pairs, cut = raced_pairs(0.6, 2000, after_ms=3.0)
    known = profile_of(replace(stage_of("a", calls), pairs_ms=pairs, pairs_cut=cut))
    cuts = []
    for given in (0.0, None):
        study = study_plan(
            known, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, copy_correlation=given)
        )
        assert study.plan.expected is not None
        cuts.append(1 - study.plan.expected.after.p99_ms / study.plan.expected.before.p99_ms)
    assert cuts[1] < 0.8 * cuts[0]
    [note] = of_kind(study.notes, CopiesCorrelated)
    assert note.correlations == {"a": study.curves["a"].correlation}


def test_pairs_survive_their_json_and_count_in_the_digest(stage_of: StageOf, profile_of: ProfileOf) -> None:
    calls, pairs, cut = raced_pairs(0.4, 200, after_ms=3.0)
    bare = profile_of(stage_of("a", calls[:500]))
    profile = profile_of(replace(stage_of("a", calls[:500]), pairs_ms=pairs, pairs_cut=cut))
    again = profile_from_json(profile_to_json(profile))
    stage = again.stage("a")
    assert stage.pairs_ms is not None
    assert stage.pairs_cut is not None
    assert np.allclose(stage.pairs_ms, pairs, atol=5e-4)
    assert np.array_equal(stage.pairs_cut, cut)
    assert again.digest == profile.digest != bare.digest
    assert profile_from_json(profile_to_json(bare)).stage("a").pairs_ms is None


@pytest.mark.parametrize("pair", ["[-1, 2, 0]", "[1, 2, 4]", "[1, 1e12, 0]", "[1, 2]"])
def test_pairs_that_make_no_sense_are_refused(stage_of: StageOf, profile_of: ProfileOf, pair: str) -> None:
    text = profile_to_json(profile_of(stage_of("a", np.arange(1.0, 30.0))))
    broken = text.replace('"calls_ms":', f'"pairs":[{pair}],"calls_ms":')
    assert broken != text
    with pytest.raises(InputError):
        profile_from_json(broken)


@pytest.mark.parametrize("given", [1.0, -0.1, float("nan")])
def test_a_correlation_outside_its_range_is_refused(
    stage_of: StageOf, profile_of: ProfileOf, given: float
) -> None:
    profile = profile_of(stage_of("a", np.random.default_rng(0).exponential(1, 500)))
    with pytest.raises(InputError):
        study_plan(
            profile, PlanSettings(budgets=Budgets(reissue=0.05), created=CREATED, copy_correlation=given)
        )


def test_scores_of_tied_values_take_their_middle() -> None:
    distribution = EmpiricalDistribution.of(np.array([1.0, 1.0, 1.0, 2.0]))
    assert normal_scores(distribution, np.array([1.0])) == pytest.approx(ndtri(0.375))
