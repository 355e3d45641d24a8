"""`python -m papers.worlds`: scenarios by name, managers by name, one table or JSON, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from papers.worlds.__main__ import COLUMNS, command
from papers.worlds.fleet import comparison
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.managers import CONTESTANTS
from tests.support.project import commands
from tests.support.project.commands import refused


def run(*arguments: str) -> Result:
    return commands.run(*arguments, command=command)


def test_scenarios_and_managers_are_listed() -> None:
    told = json.loads(run("--list", "--json").stdout)
    assert list(told["scenarios"]) == [*SCENARIOS, "crowded-half", "crowded-full"]
    assert told["managers"] == list(CONTESTANTS)
    table = run("--list").stdout
    assert "cloud-high" in table
    assert "knowledge published" in table


def test_a_scenario_is_played_under_the_managers_that_are_named() -> None:
    result = run("local-low", "--manager", "least-loaded", "--manager", "paragon")
    assert result.exit_code == 0, result.stderr
    assert "178 applications" in result.stdout
    assert "least-loaded" in result.stdout
    assert "quasar" not in result.stdout


def test_a_manager_that_leads_by_letting_workloads_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def played(scenario: str, seed: int, name: str) -> dict[str, float]:
        patient = name == "thrifty"
        figures = dict.fromkeys((figure for _, figure, _ in COLUMNS), 50.0)
        return figures | {
            "mean wait, s": 1641.0 if patient else 2.0,
            "mean performance, %": 99.0 if patient else 95.0,
            "mean performance from arrival, at most 1, %": 12.5 if patient else 90.0,
        }

    monkeypatch.setattr(comparison, "run_of", played)
    both = ("--manager", "thrifty", "--manager", "least-loaded", "--jobs", "1")
    result = run("local-low", *both)
    header = next(line for line in result.stdout.splitlines() if line.startswith("manager"))
    assert header.split("┃")[1].strip() == "wait"
    told = " ".join(result.stderr.split())
    assert "thrifty leads by performance once started, which leaves out a mean wait of 1,641 s" in told
    assert "With the wait, least-loaded leads: 90.0% from arrival, after a mean wait of 2 s" in told
    alone = run("local-low", "--manager", "thrifty", "--jobs", "1")
    assert "leads" not in alone.stderr


def test_json_has_the_figures_of_every_draw() -> None:
    result = run("local-low", "--manager", "least-loaded", "--seeds", "2", "--json")
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
    refused(run(*arguments), told)


def test_a_crowded_scenario_prints_figures_and_orders(tmp_path: Path) -> None:
    times = tmp_path / "times.txt"
    times.write_text("\n".join(str(5 * n) for n in range(20)))
    arguments = ("crowded-half", "--seeds", "2", "--first-seed", "7", "--arrivals", str(times))
    managers = ("--manager", "least loaded", "--manager", "random")
    result = run(*arguments, *managers)
    assert result.exit_code == 0, result.stderr
    assert "seeds 7 to 8" in result.stdout
    assert "least loaded before random" in result.stdout
    told = json.loads(run(*arguments, *managers, "--json").stdout)
    assert [one["first"] for one in told["orders"]] == ["least loaded"] * 2
    assert len(told["managers"]["random"]) == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("1\ntwo\n", "line 2: must be a time in seconds, not 'two'"),
        ("5\n3\n", "must not fall"),
        ("inf\n", "must be finite"),
        ("\n", "is empty"),
    ],
)
def test_bad_arrivals_are_refused_in_one_line(tmp_path: Path, content: str, told: str) -> None:
    times = tmp_path / "times.txt"
    times.write_text(content)
    refused(run("crowded-half", "--arrivals", str(times)), told)


def test_options_of_the_crowded_world_are_refused_elsewhere() -> None:
    refused(run("local-low", "--ablations"), "--ablations: is for crowded scenarios only")
