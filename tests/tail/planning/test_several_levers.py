"""Joint planning of copies and partial answers: surfaces, two budgets, and the choice on later requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.lab.populations import fan_out_queries
from kwiken.model.plan import Budgets
from kwiken.model.profile import Profile, StageProfile, costs
from kwiken.tail.curves import stage_curves
from kwiken.tail.partial import FanOut
from kwiken.tail.planning import PlanSettings, study_plan
from kwiken.tail.planning.levers import LeverVerdict
from kwiken.tail.planning.notes import LeversCompared
from kwiken.tail.planning.surface import Surface, raced_calls, surface
from kwiken.tail.planning.two_budgets import two_budgets
from kwiken.tail.simulation import simulate
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]

CREATED = "2026-01-01T00:00:00Z"


def search(stage_of: StageOf, profile_of: ProfileOf, *, requests: int, seed: int, width: int = 8) -> Profile:
    rng = np.random.default_rng(seed)

    def paused(median: float, share: float, shape: tuple[int, ...]) -> Floats:
        calls = rng.lognormal(np.log(median), 0.5, shape)
        return np.asarray(calls + (rng.random(shape) < share) * rng.exponential(60, shape))

    return profile_of(
        stage_of("spell", paused(4, 0.02, (requests,))),
        stage_of("lookup", fan_out_queries(requests, rng, responders=width), after=("spell",)),
        stage_of("snippets", paused(3, 0.003, (requests, width)), after=("lookup",)),
        stage_of("rank", paused(4, 0.01, (requests,)), after=("snippets",)),
    )


def test_a_surface_falls_along_both_levers_and_starts_at_doing_nothing(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    profile = search(stage_of, profile_of, requests=2500, seed=0)
    stage, curve = profile.stage("lookup"), stage_curves(profile)["lookup"]
    found = surface(stage, curve, most_reissue=0.1, most_loss=0.02)
    assert found.variance[0, 0] == pytest.approx(stage.latency_ms.var())
    assert (np.diff(found.variance, axis=0) <= 1e-9).all()
    assert (np.diff(found.variance, axis=1) <= 1e-9).all()
    assert found.reissue[[0, -1]].tolist() == [0, 0.1]
    assert found.loss[[0, -1]].tolist() == [0, 0.02]
    assert found.variance[-1, -1] < min(found.variance[-1, 0], found.variance[0, -1])
    # Along the edge without loss it is the reissue curve, but for chance.
    assert found.variance[-1, 0] == pytest.approx(curve.hull_at(0.1), rel=0.25)
    assert found.fall(0.02, 0.0, 0.1) == pytest.approx(found.variance[0, -1] - found.variance[-1, -1])


def test_a_fan_out_that_may_have_no_copies_has_a_surface_of_one_share(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    stage = search(stage_of, profile_of, requests=800, seed=1).stage("lookup")
    found = surface(stage, None, most_reissue=0.5, most_loss=0.01)
    assert found.reissue.tolist() == [0.0]
    assert found.variance.shape[0] == 1


def test_the_same_loss_buys_an_earlier_stop_once_copies_are_in(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    profile = search(stage_of, profile_of, requests=4000, seed=2)
    policy = stage_curves(profile)["lookup"].policy(0.05)
    assert policy is not None
    calls = raced_calls(profile, {"lookup": policy}, ["lookup"])["lookup"]
    assert (calls <= profile.stage("lookup").calls_ms).all()
    alone, together = (FanOut.of(profile.stage("lookup"), c) for c in (None, calls))
    rules = [fan_out.tuned(0.005) for fan_out in (alone, together)]
    assert rules[0] is not None
    assert rules[1] is not None
    assert together.moments(rules[1])[1] < together.moments(rules[0])[1]
    assert together.moments(rules[0])[0] < 0.7 * alone.moments(rules[0])[0]  # loss that copies make good
    assert together.moments(rules[1])[0] <= 0.005 * (1 + 1e-9)


class _Line:
    """A hull of a few points."""

    def __init__(self, fraction: list[float], hull: list[float]) -> None:
        self.fraction, self.hull = np.array(fraction), np.array(hull)


convex = st.lists(st.floats(0.1, 10), min_size=3, max_size=3).map(lambda falls: sorted(falls, reverse=True))


@given(st.lists(convex, min_size=1, max_size=3), convex, convex, st.floats(0.01, 1), st.floats(0.001, 0.3))
def test_prices_keep_both_budgets_and_come_near_the_best_choice(
    lines: list[list[float]], copies: list[float], losses: list[float], reissue: float, loss: float
) -> None:
    grid = [0.0, 0.2, 0.5, 1.0]
    curves = {f"s{i}": _Line(grid, (30 - np.cumsum([0, *falls])).tolist()) for i, falls in enumerate(lines)}
    by_copies, by_losses = (np.cumsum([0, *falls]) for falls in (copies, losses))
    wide = Surface(
        np.array(grid), np.array([0.0, 0.05, 0.1, 0.2]), 60 - by_copies[:, None] - by_losses[None, :]
    )
    cost = dict.fromkeys([*curves, "wide"], 1 / (len(curves) + 1))
    found = two_budgets(
        {**curves, "wide": _Line(grid, wide.variance[:, 0].tolist())},
        {"wide": wide},
        costs=cost,
        weights={"wide": 1.0},
        reissue=reissue,
        loss=loss,
    )
    assert sum(cost[name] * share for name, share in found.reissue.items()) <= reissue * (1 + 1e-9)
    assert found.loss["wide"] <= loss
    best = min(
        sum(curve.hull[i] for curve, i in zip(curves.values(), chosen, strict=False))
        + wide.variance[chosen[-1], k]
        for chosen in itertools.product(range(4), repeat=len(curves) + 1)
        for k in range(4)
        if sum(grid[i] for i in chosen) / (len(curves) + 1) <= reissue and wide.loss[k] <= loss
    )
    ours = sum(float(np.interp(found.reissue[name], grid, curve.hull)) for name, curve in curves.items())
    place = int(np.searchsorted(wide.loss, found.loss["wide"]))
    ours += float(np.interp(found.reissue["wide"], grid, wide.variance[:, place]))
    largest = max(max(falls) for falls in (*lines, copies, losses))
    assert ours <= best + largest * 2 + 1e-9


def test_with_budget_for_all_everybody_gets_the_most() -> None:
    wide = Surface(np.array([0.0, 1.0]), np.array([0.0, 0.1]), np.array([[9.0, 8.0], [5.0, 1.0]]))
    found = two_budgets(
        {"a": _Line([0.0, 1.0], [4.0, 1.0]), "wide": _Line([0.0, 1.0], [9.0, 5.0])},
        {"wide": wide},
        costs={"a": 0.5, "wide": 0.5},
        weights={"wide": 1.0},
        reissue=1.0,
        loss=0.1,
    )
    assert found.reissue == {"a": 1.0, "wide": 1.0}
    assert found.loss == {"wide": 0.1}
    assert found.prices == (0.0, 0.0)


def test_nothing_to_apportion() -> None:
    assert two_budgets({}, {}, costs={}, weights={}, reissue=0.1, loss=0.1).reissue == {}


class TestPlans:
    @pytest.mark.slow
    def test_both_ways_keep_both_budgets_on_later_requests(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        budgets = Budgets(reissue=0.03, utility_loss=0.01)
        cuts: dict[str, list[float]] = {"separate": [], "joint": [], "auto": []}
        alone, lost = [], []
        for seed in range(3):
            profile = search(stage_of, profile_of, requests=3000, seed=seed)
            later = search(stage_of, profile_of, requests=8000, seed=100 + seed)
            for way, found in cuts.items():
                study = study_plan(profile, PlanSettings(budgets=budgets, created=CREATED, levers=way))
                outcome = simulate(later, study.plan, requests=20_000)
                assert outcome.reissue <= 0.033
                lost.append(outcome.utility_loss)
                found.append(1 - outcome.after.p99_ms / outcome.before.p99_ms)
            for one in (Budgets(reissue=0.03), Budgets(utility_loss=0.01)):
                study = study_plan(profile, PlanSettings(budgets=one, created=CREATED))
                outcome = simulate(later, study.plan, requests=20_000)
                alone.append(1 - outcome.after.p99_ms / outcome.before.p99_ms)
        # Nine of ten later periods shall keep the budget; what a few late shards lose differs much.
        assert 0.006 < np.mean(lost) <= 0.0105
        assert max(lost) <= 0.014
        means = {way: np.mean(found) for way, found in cuts.items()}
        assert min(means.values()) > max(np.mean(alone[::2]), np.mean(alone[1::2])) + 0.02
        assert means["auto"] >= max(means["separate"], means["joint"]) - 0.02

    @pytest.mark.slow
    def test_auto_reports_the_chosen_plan_and_its_lead(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        profile = search(stage_of, profile_of, requests=2000, seed=4)
        study = study_plan(
            profile, PlanSettings(budgets=Budgets(reissue=0.03, utility_loss=0.01), created=CREATED)
        )
        assert set(study.levers.cuts) == {"separate", "joint"}
        ahead = study.levers.cuts["joint"] - study.levers.cuts["separate"]
        if study.levers.taken == "joint":
            assert ahead > 0.002
        [note] = of_kind(study.notes, LeversCompared)
        assert (note.taken, note.cuts) == (study.levers.taken, study.levers.cuts)
        for name in ("separate", "joint"):
            told = study_plan(
                profile,
                PlanSettings(budgets=Budgets(reissue=0.03, utility_loss=0.01), created=CREATED, levers=name),
            )
            assert told.levers == LeverVerdict(name)
            assert not of_kind(told.notes, LeversCompared)

    @pytest.mark.parametrize("budgets", [Budgets(reissue=0.05), Budgets(utility_loss=0.01), Budgets()])
    def test_one_lever_alone_needs_no_comparison(
        self, stage_of: StageOf, profile_of: ProfileOf, budgets: Budgets
    ) -> None:
        profile = search(stage_of, profile_of, requests=1000, seed=5)
        plans = [
            study_plan(profile, PlanSettings(budgets=budgets, created=CREATED, levers=way))
            for way in ("separate", "auto")
        ]
        assert plans[0].plan == plans[1].plan
        assert plans[1].levers == LeverVerdict()

    @pytest.mark.slow
    def test_all_three_levers_work_together(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = search(stage_of, profile_of, requests=3000, seed=6)
        later = search(stage_of, profile_of, requests=8000, seed=106)
        budgets = Budgets(reissue=0.02, utility_loss=0.005, catch_up=0.01)
        study = study_plan(profile, PlanSettings(budgets=budgets, created=CREATED))
        found = simulate(later, study.plan, requests=20_000)
        assert found.reissue <= 0.022
        assert found.utility_loss <= 0.006
        assert found.catch_up <= 0.0125
        fewer = study_plan(
            profile, PlanSettings(budgets=Budgets(reissue=0.02, utility_loss=0.005), created=CREATED)
        )
        without = simulate(later, fewer.plan, requests=20_000)
        assert found.after.p99_ms < without.after.p99_ms
        expected = study.plan.expected
        assert expected is not None
        assert expected.spent.reissue <= 0.02
        assert expected.spent.utility_loss <= 0.005
        assert expected.spent.catch_up <= 0.01

    def test_direct_objectives_go_with_partial_answers(
        self, stage_of: StageOf, profile_of: ProfileOf
    ) -> None:
        profile = search(stage_of, profile_of, requests=1500, seed=7)
        for way in ("separate", "joint"):
            study = study_plan(
                profile,
                PlanSettings(
                    budgets=Budgets(reissue=0.03, utility_loss=0.01),
                    created=CREATED,
                    objective="p99",
                    levers=way,
                ),
            )
            assert study.verdict.objective == "p99"
            assert 0 < study.simulation.reissue <= 0.03
            assert 0 < study.simulation.utility_loss <= 0.01

    def test_an_unknown_way_is_refused(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = search(stage_of, profile_of, requests=100, seed=8)
        with pytest.raises(InputError, match="levers: must be one of separate, joint, auto"):
            study_plan(profile, PlanSettings(budgets=Budgets(), created=CREATED, levers="both"))

    def test_costs_of_all_stages_stand_in_the_plan(self, stage_of: StageOf, profile_of: ProfileOf) -> None:
        profile = search(stage_of, profile_of, requests=600, seed=9)
        plan = study_plan(
            profile,
            PlanSettings(budgets=Budgets(reissue=0.03, utility_loss=0.02), created=CREATED, levers="joint"),
        ).plan
        assert plan.cost.stages == pytest.approx(costs(profile).stages, rel=1e-8)
        assert plan.stages["lookup"].match == profile.stage("lookup").match
