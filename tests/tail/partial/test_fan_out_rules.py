"""Comparison of stop rules at a service's own fan-outs, in the library and by `kwiken explain --stop-rules`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.profile import Profile, part_of, profile_to_json
from kwiken.tail.partial import Responders, fan_out_rules
from kwiken.tail.partial.comparison import RULES, compare_stop_rules
from tests.support.models.profiles import small_profile
from tests.support.project.commands import refused, run


@pytest.fixture(scope="module")
def profile() -> Profile:
    return small_profile(1200, seed=3)


@pytest.fixture
def file(profile: Profile, tmp_path: Path) -> str:
    path = tmp_path / "profile.json"
    path.write_text(profile_to_json(profile))
    return str(path)


def test_every_rule_is_judged_at_every_fan_out_and_nowhere_else(profile: Profile) -> None:
    [found] = fan_out_rules(profile, 0.01)
    assert (found.stage, found.shards, found.visits) == ("lookup", 4, 1200)
    assert {rule.name for rule in found.rules} == set(RULES)
    assert found.rules == compare_stop_rules(Responders.of(profile.stage("lookup").calls_ms), 0.01)
    left = [rule.variance_left for rule in found.rules]
    assert left == sorted(left)
    assert left[0] < 0.5


def test_later_is_by_the_clock_not_by_the_row(profile: Profile) -> None:
    backwards = part_of(profile, np.arange(profile.requests)[::-1])
    assert fan_out_rules(backwards, 0.01) == fan_out_rules(profile, 0.01)


def test_calls_that_were_cut_short_are_estimated(profile: Profile) -> None:
    lookup = profile.stage("lookup")
    late = lookup.calls_ms > 60
    cut = replace(lookup, calls_ms=np.minimum(lookup.calls_ms, 60.0), censored=late)
    stages = tuple(cut if stage.name == "lookup" else stage for stage in profile.stages)
    [found] = fan_out_rules(replace(profile, stages=stages), 0.01, seed=1)
    [again] = fan_out_rules(replace(profile, stages=stages), 0.01, seed=1)
    assert found == again
    assert found.visits == 1200


@pytest.mark.parametrize("loss", [0.0, -0.1, 1.5, float("nan")])
def test_a_loss_must_be_a_share(profile: Profile, loss: float) -> None:
    with pytest.raises(InputError, match="loss: must be a share above 0"):
        fan_out_rules(profile, loss)


def test_the_command_says_what_the_library_says(profile: Profile, file: str) -> None:
    data = json.loads(run("explain", file, "--stop-rules", "0.01", "--json").stdout)
    [found] = fan_out_rules(profile, 0.01)
    assert [rule["name"] for rule in data["fan_outs"][0]["rules"]] == [rule.name for rule in found.rules]
    told = run("explain", file, "--stop-rules", "0.01")
    assert told.exit_code == 0
    assert "lookup: 4 shards, 1200 visits, may lose 1.000%" in told.stdout
    for name in RULES:
        assert f"{name} *" in told.stdout if name == "dynamic" else name in told.stdout


def test_options_that_do_not_go_with_stop_rules_are_refused(
    profile: Profile, file: str, tmp_path: Path
) -> None:
    refused(run("explain", file, "--stop-rules", "0"), "--stop-rules")
    refused(
        run("explain", file, "--stop-rules", "0.1", "--plan", "p.json"),
        "--stop-rules: does not go with --plan",
    )
    refused(
        run("explain", file, "--stop-rules", "0.1", "--budget", "0.1"),
        "--budget: does not go with --stop-rules",
    )
    narrow = tmp_path / "narrow.json"
    narrow.write_text(profile_to_json(part_of(profile, np.arange(50))))
    refused(
        run("explain", str(narrow), "--stop-rules", "0.1"), f"{narrow}: no stage is a fan-out with 100 visits"
    )
