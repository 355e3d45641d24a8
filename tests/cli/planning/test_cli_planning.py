"""`kwiken plan` and `kwiken simulate` on good input: printed output, written files, and agreement of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from kwiken.cli.planning.plan import COST_MODELS, SPREADS
from kwiken.cli.shared.options import OBJECTIVES
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.cost_models import MODELS
from kwiken.tail.apportion.apportioner import SPREADS as KNOWN_SPREADS
from kwiken.tail.apportion.sum_of_variances import OBJECTIVES as KNOWN_OBJECTIVES
from tests.apps.demo.test_demo_meanwhile import write as written
from tests.otel.fit.test_fit_guesses import one
from tests.support.models.profiles import small_profile
from tests.support.project.commands import refused, run

# The plan apportions the whole budget of 5%, and a time-out may miss its share by 1%.
MAX_SPENT = 0.05 * 1.01


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("profile") / "profile.json"
    path.write_text(profile_to_json(small_profile()))
    return str(path)


def plan_of(profile: str, *options: str) -> Plan:
    result = run("plan", profile, "-o", "-", *options)
    assert result.exit_code == 0, result.stderr
    return Plan.from_json(result.stdout)


def data_of(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_choices_are_those_that_exist() -> None:
    assert COST_MODELS == MODELS
    assert set(SPREADS) == set(KNOWN_SPREADS)
    assert set(OBJECTIVES) == set(KNOWN_OBJECTIVES)


class TestPlan:
    def test_the_written_plan_is_the_printed_one(self, profile: str, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        result = run("plan", profile, "-o", str(out))
        assert result.exit_code == 0
        assert f"written to {out}" in result.stderr
        assert "│" not in result.stderr, "tables are results"
        document = run("plan", profile, "-o", "-")
        assert Plan.from_json(document.stdout).stages.keys() == Plan.from_json(out.read_text()).stages.keys()
        assert "Plan for search" in document.stderr
        plan = Plan.from_json(out.read_text())
        assert plan.budgets.reissue == 0.05
        reissued = {name: stage.reissue for name, stage in plan.stages.items() if stage.reissue is not None}
        assert set(reissued) <= {"spell", "lookup"}
        assert reissued
        for name, reissue in reissued.items():
            assert name in result.stdout
            assert f"{reissue.after_ms:.2f}" in result.stdout

    def test_what_cannot_be_run_twice_gets_nothing(self, profile: str) -> None:
        assert plan_of(profile, "--reissue", "1").stages["audit"].reissue is None

    def test_without_o_nothing_is_kept(
        self, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        result = run("plan", profile)
        assert result.exit_code == 0
        assert "not written: give -o FILE" in result.stderr
        assert not list(tmp_path.iterdir())

    def test_json_says_where_the_budget_goes(self, profile: str) -> None:
        data = data_of("plan", profile)
        assert data["budgets"]["reissue"] == 0.05
        assert sum(stage["cost"] for stage in data["stages"].values()) == pytest.approx(1)
        spent = sum(stage["spent"] for stage in data["stages"].values())
        assert spent == pytest.approx(data["expected"]["spent"]["reissue"])
        assert 0 < spent <= MAX_SPENT
        assert data["expected"]["after"]["p99_ms"] < data["expected"]["before"]["p99_ms"]

    def test_no_budget_no_reissue(self, profile: str) -> None:
        plan = plan_of(profile, "--reissue", "0")
        assert all(stage.reissue is None for stage in plan.stages.values())
        assert plan.expected is not None
        assert plan.expected.before == plan.expected.after
        assert plan.expected.spent.reissue == 0

    @pytest.mark.parametrize("spread", SPREADS)
    def test_every_spread_keeps_the_budget(self, profile: str, spread: str) -> None:
        plan = plan_of(profile, "--spread", spread)
        assert plan.expected is not None
        assert 0 < plan.expected.spent.reissue <= MAX_SPENT

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_every_objective_keeps_the_budget(self, profile: str, objective: str) -> None:
        plan = plan_of(profile, "--objective", objective)
        assert plan.expected is not None
        assert 0 < plan.expected.spent.reissue <= MAX_SPENT

    def test_costs_come_from_a_model_or_a_file(self, profile: str, tmp_path: Path) -> None:
        assert plan_of(profile).cost.model == "typical"
        assert plan_of(profile, "--cost", "calls").cost.stages["lookup"] == pytest.approx(4 / 6)
        costs = tmp_path / "costs.json"
        costs.write_text('{"spell": 1, "lookup": 2, "audit": 1}')
        plan = plan_of(profile, "--cost", str(costs))
        assert plan.cost.model == "file"
        assert plan.cost.stages == {"spell": 0.25, "lookup": 0.5, "audit": 0.25}

    def test_a_loss_of_utility_makes_the_fan_out_answer_in_part(self, profile: str, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        result = run("plan", profile, "-o", str(out), "--reissue", "0", "--utility-loss", "0.01")
        assert result.exit_code == 0, result.stderr
        plan = Plan.from_json(out.read_text())
        policy = plan.stages["lookup"].partial
        assert policy is not None
        assert plan.stages["spell"].partial is None
        assert 0 < policy.loss <= 0.01
        assert "Partial answers" in result.stdout
        assert "with 4 shards a loss of 1.00% lets 1 request in 25" in " ".join(result.stderr.split())
        assert plan.expected is not None
        assert 0 < plan.expected.spent.utility_loss <= 0.01
        assert plan.expected.after.p99_ms < plan.expected.before.p99_ms
        simulated = data_of("simulate", profile, "--plan", str(out))
        assert simulated["spent"]["utility_loss"] == pytest.approx(policy.loss, rel=0.2)
        assert simulated["stages"]["lookup"]["loss"] == simulated["spent"]["utility_loss"]
        told = run("simulate", profile, "--plan", str(out))
        assert "utility lost" in told.stdout

    @pytest.mark.parametrize("weights", [[], ["lookup=1", "audit=3"]])
    def test_the_lost_utility_is_one_figure_everywhere(
        self, profile: str, tmp_path: Path, weights: list[str]
    ) -> None:
        out = tmp_path / "plan.json"
        given = [word for weight in weights for word in ("--utility-weight", weight)]
        result = run("plan", profile, "--reissue", "0.01", "--utility-loss", "0.01", "-o", str(out), *given)
        assert result.exit_code == 0, result.stderr
        table = result.stdout.partition("Partial answers")[2]
        [row] = [line for line in table.splitlines() if line.startswith("lookup")]
        own, whole = (cell.strip() for cell in row.split("│")[-2:])
        share = 1 / 4 if weights else 1
        assert float(whole.rstrip("%")) == pytest.approx(share * float(own.rstrip("%")), abs=1e-3)
        assert f"utility lost, of the whole answer: {whole} expected" in result.stderr
        told = run("simulate", profile, "--plan", str(out), "--requests", "200000").stdout
        assert "utility lost, of the whole answer: " in told
        assert "utility lost, of its own" in " ".join(told.split())

    def test_json_holds_the_curve_of_variance_against_loss(self, profile: str) -> None:
        data = data_of("plan", profile, "--utility-loss", "0.02", "--partial", "lookup")
        curve = data["partial"]["stages"]["lookup"]
        assert curve["loss"][0] == 0
        assert curve["rules"][0] is None
        assert len(curve["loss"]) == len(curve["variance_ms2"]) == len(curve["rules"])
        assert curve["variance_ms2"][-1] < curve["variance_ms2"][0]
        assert data["stages"]["lookup"]["partial"]["progress"] > 0

    def test_late_requests_get_help_from_one_age_on(self, profile: str, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        result = run("plan", profile, "-o", str(out), "--reissue", "0.005", "--catch-up", "0.02")
        assert result.exit_code == 0, result.stderr
        plan = Plan.from_json(out.read_text())
        ages = {stage.catch_up.after_ms for stage in plan.stages.values() if stage.catch_up is not None}
        assert len(ages) == 1
        assert f"Help for requests older than {ages.pop():.1f} ms" in result.stdout
        assert "help for late requests:" in result.stderr
        simulated = data_of("simulate", profile, "--plan", str(out))
        assert 0 < simulated["spent"]["catch_up"] <= 0.022
        assert sum(stage["late_spent"] for stage in simulated["stages"].values()) == pytest.approx(
            simulated["spent"]["catch_up"]
        )
        assert "spent on late requests" in run("simulate", profile, "--plan", str(out)).stdout
        data = data_of("plan", profile, "--reissue", "0.005", "--catch-up", "0.02")
        assert data["catch_up"]["after_ms"] == data["stages"]["lookup"]["catch_up"]["after_ms"]
        assert data["catch_up"]["held_out_p99_cut"] > 0

    def test_two_levers_keep_their_budgets(self, profile: str) -> None:
        data = data_of("plan", profile, "--utility-loss", "0.02")
        assert data["expected"]["spent"]["reissue"] <= MAX_SPENT
        assert 0 < data["expected"]["spent"]["utility_loss"] <= 0.02

    def test_parts_that_count_on_their_own_may_lose_more(self, profile: str) -> None:
        needed = plan_of(profile, "--reissue", "0", "--utility-loss", "0.01")
        weighed = plan_of(
            profile, "--reissue", "0", "--utility-loss", "0.01", "--utility-weight", "lookup=1",
            "--utility-weight", "audit=3",
        )  # fmt: skip
        one, other = needed.stages["lookup"].partial, weighed.stages["lookup"].partial
        assert one is not None
        assert other is not None
        assert (one.weight, other.weight) == (1, 0.25)
        assert other.loss > 2 * one.loss
        assert weighed.expected is not None
        assert weighed.expected.spent.utility_loss <= 0.01

    def test_the_same_seed_gives_the_same_plan(self, profile: str) -> None:
        one, other = (plan_of(profile, "--seed", "7") for _ in range(2))
        assert one.stages == other.stages
        assert one.expected == other.expected

    def test_profiles_come_through_a_pipe(self, profile: str) -> None:
        result = run("plan", "-", "-o", "-", stdin=Path(profile).read_bytes())
        assert Plan.from_json(result.stdout).service == "search"


class TestSimulate:
    def test_without_a_plan_nothing_changes(self, profile: str) -> None:
        data = data_of("simulate", profile, "--requests", "2000")
        assert data["before"] == data["after"]
        assert data["spent"] == {"reissue": 0, "utility_loss": 0, "catch_up": 0}
        assert data["requests"] == 2000

    def test_a_plan_buys_what_it_expects(self, profile: str, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        assert run("plan", profile, "-o", str(out)).exit_code == 0
        data = data_of("simulate", profile, "--plan", str(out), "--requests", "20000")
        expected = Plan.from_json(out.read_text()).expected
        assert expected is not None
        assert data["after"]["p99_ms"] < 0.8 * data["before"]["p99_ms"]
        assert data["after"]["p95_ms"] == pytest.approx(expected.after.p95_ms, rel=0.15)
        assert data["spent"]["reissue"] == pytest.approx(expected.spent.reissue, rel=0.15)

    @pytest.mark.parametrize("flags", [[], ["--independent"]])
    def test_seeds(self, profile: str, flags: list[str]) -> None:
        one = data_of("simulate", profile, "--seed", "1", "--requests", "500", *flags)
        assert one == data_of("simulate", profile, "--seed", "1", "--requests", "500", *flags)
        other = data_of("simulate", profile, "--seed", "2", "--requests", "500", *flags)
        assert one["before"] != other["before"]

    def test_the_table_is_for_the_eye(self, profile: str, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        assert run("plan", profile, "-o", str(out)).exit_code == 0
        result = run("simulate", profile, "--plan", str(out))
        assert "p99.9" in result.stdout
        assert "lookup" in result.stdout
        assert result.stderr == ""
        assert "no plan given" in run("simulate", profile).stdout

    def test_a_plan_of_another_profile_is_noted(self, profile: str, tmp_path: Path) -> None:
        other, out = tmp_path / "other.json", tmp_path / "plan.json"
        other.write_text(profile_to_json(small_profile(seed=2)))
        assert run("plan", str(other), "-o", str(out)).exit_code == 0
        result = run("simulate", profile, "--plan", str(out), "--json")
        assert result.exit_code == 0
        assert "another profile" in result.stderr

    def test_a_plan_of_another_service_is_refused(self, profile: str, tmp_path: Path) -> None:
        other, out = tmp_path / "other.json", tmp_path / "plan.json"
        other.write_text(profile_to_json(small_profile(service="shop")))
        assert run("plan", str(other), "-o", str(out)).exit_code == 0
        refused(
            run("simulate", profile, "--plan", str(out)), "plan for service 'shop', and .* is of 'search'"
        )


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile, a plan for it, and traces of requests that took twice as long with that plan."""
    folder = tmp_path_factory.mktemp("tried")
    rng = np.random.default_rng(1)
    took = np.where(rng.random(600) < 0.03, 60.0, rng.uniform(2, 3, 600))
    alone = [one(i, {"a": (float(ms), 1.0)}) for i, ms in enumerate(took)]
    fitted = run("fit", str(written(folder / "alone", alone)), "-o", str(folder / "profile.json"))
    assert fitted.exit_code == 0, fitted.stderr
    plan = plan_of(str(folder / "profile.json"))
    (folder / "plan.json").write_text(plan.to_json())
    slower = [one(i, {"a": (float(ms), 1.0)}) for i, ms in enumerate(rng.uniform(4, 6, 600))]
    written(folder / "with", [structs.replace(each, plan=plan.digest) for each in slower])
    return folder


class TestATriedPlan:
    """`--tried`: the expectation is corrected by requests that ran with a plan."""

    def test_the_expectation_is_corrected_and_the_plan_stays(self, tried: Path) -> None:
        profile, plan_file = str(tried / "profile.json"), str(tried / "plan.json")
        plain = plan_of(profile)
        result = run("plan", profile, "-o", "-", "--tried", plan_file, str(tried / "with"))
        assert result.exit_code == 0, result.stderr
        assert "the expectation is corrected by 600 requests" in result.stderr
        plan = Plan.from_json(result.stdout)
        assert plan.stages == plain.stages
        assert plan.expected is not None
        assert plain.expected is not None
        assert plan.expected.after.p50_ms == pytest.approx(2 * plain.expected.after.p50_ms, rel=0.05)
        assert plan.expected.before == plain.expected.before

    def test_traces_without_the_plan_are_refused(self, tried: Path) -> None:
        profile, plan_file = str(tried / "profile.json"), str(tried / "plan.json")
        refused(
            run("plan", profile, "--tried", plan_file, str(tried / "alone")),
            "0 answered requests ran with plan",
        )
