"""Held-out evaluation: plans judged on later requests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kwiken.cli.study.explain import command
from kwiken.errors import InputError
from kwiken.planning import held_out
from kwiken.profile import Profile, profile_to_json
from kwiken.reproduction.kwiken.population import POPULATIONS, population, population_profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    dag = population(POPULATIONS["A"], np.random.default_rng(4))[14]
    return population_profile(dag, 6000, np.random.default_rng(5))


def test_the_plan_beats_both_even_spreads_also_where_copies_are_slow_with_their_calls(
    profile: Profile,
) -> None:
    judged = held_out(profile, budget=0.05)
    assert (judged.learned, judged.judged) == (3000, 3000)
    for rho in (0.0, 0.5):
        ours = judged.arm("sumvar", rho)
        assert ours.p99_cut > judged.arm("equal", rho).p99_cut
        assert ours.p99_cut > judged.arm("uniform", rho).p99_cut
        assert ours.after.p99_ms == pytest.approx(judged.before.p99_ms * (1 - ours.p99_cut))
        assert ours.spent == pytest.approx(0.05 * ours.of_budget)
    assert judged.arm("sumvar", 0.0).p99_cut > judged.arm("sumvar", 0.5).p99_cut
    assert 0.7 < judged.arm("sumvar", 0.0).of_budget < 1.1
    with pytest.raises(KeyError):
        judged.arm("sumvar", 0.3)


def test_a_judgement_repeats_for_a_seed(profile: Profile) -> None:
    assert held_out(profile, objective="variance") == held_out(profile, objective="variance")


@pytest.mark.parametrize("learned", [0.0, 1.0, float("nan")])
def test_a_split_needs_two_parts(profile: Profile, learned: float) -> None:
    with pytest.raises(InputError, match="learned"):
        held_out(profile, learned=learned)


@pytest.mark.parametrize("budget", [0.0, 1.5, float("nan")])
def test_a_budget_must_be_a_share(profile: Profile, budget: float) -> None:
    with pytest.raises(InputError, match="budget"):
        held_out(profile, budget=budget)


def test_a_profile_too_small_to_split_is_refused() -> None:
    dag = population(POPULATIONS["C"], np.random.default_rng(4))[5]
    with pytest.raises(InputError, match="each part needs 10 requests"):
        held_out(population_profile(dag, 15, np.random.default_rng(5)))


def test_the_command_prints_every_arm_and_json(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile))
    shown = CliRunner().invoke(command, [str(file), "--held-out"])
    assert shown.exit_code == 0
    assert "the plan" in shown.output
    assert "correlated 0.5" in shown.output
    printed = CliRunner().invoke(command, [str(file), "--held-out", "--json"])
    assert '"of_budget"' in printed.stdout
