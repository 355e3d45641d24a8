"""`kwiken fleet`: scenarios by name, managers by name, one table or JSON, and one line for bad input."""

from __future__ import annotations

import json

import pytest

from kwiken.lab.fleet import CONTESTANTS, SCENARIOS
from tests.support.project.commands import refused, run


def test_scenarios_and_managers_are_listed() -> None:
    told = json.loads(run("fleet", "--list", "--json").stdout)
    assert list(told["scenarios"]) == list(SCENARIOS)
    assert told["managers"] == list(CONTESTANTS)
    table = run("fleet", "--list").stdout
    assert "cloud-high" in table
    assert "knowledge published" in table


def test_a_scenario_is_played_under_the_managers_that_are_named() -> None:
    result = run("fleet", "local-low", "--manager", "least-loaded", "--manager", "paragon")
    assert result.exit_code == 0, result.stderr
    assert "178 applications" in result.stdout
    assert "least-loaded" in result.stdout
    assert "quasar" not in result.stdout


def test_json_has_the_figures_of_every_draw() -> None:
    result = run("fleet", "local-low", "--manager", "least-loaded", "--seeds", "2", "--json")
    told = json.loads(result.stdout)
    assert told["scenario"] == "local-low"
    runs = told["managers"]["least-loaded"]
    assert len(runs) == 2
    assert runs[0] != runs[1]
    assert 0 < runs[0]["QoS kept, %"] < 100


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "SCENARIO: name a scenario: local-low, local-medium"),
        (("mars",), "SCENARIO: no scenario 'mars': local-low"),
        (("local-low", "--manager", "nobody"), "--manager: no manager 'nobody'; known: paragon, all known"),
        (("local-low", "--seeds", "0"), "--seeds"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], told: str) -> None:
    refused(run("fleet", *arguments), told)
