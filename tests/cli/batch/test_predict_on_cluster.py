"""`kwiken batch predict` on a cluster, and commands of the group that are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwiken.cli.verbs import kwiken
from tests.support.project.commands import refused

EXAMPLE = Path(__file__).resolve().parents[3] / "examples"
CLUSTER = str(EXAMPLE / "racks/cluster.toml")
JOB = "nightly-report"


def run(verb: str, *words: str) -> Result:
    return CliRunner().invoke(kwiken, ["batch", verb, *words])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("admit") / "jobs.json"
    assert run("fit", str(EXAMPLE / "batch"), "-o", str(path)).exit_code == 0
    return str(path)


@pytest.mark.parametrize("verb", ["admit", "copies"])
def test_removed_commands_say_what_to_use(verb: str) -> None:
    result = run(verb, "jobs.json")
    assert result.exit_code == 2
    assert f"'{verb}' was removed; use " in result.stderr


def test_predictions_on_a_cluster_take_its_links_and_slots(jobs: str) -> None:
    found = json.loads(run("predict", jobs, "--cluster", CLUSTER, "--json").stdout)
    free = json.loads(run("predict", jobs, "--executors", "8", "--json").stdout)
    assert len(found["predictions"]) > 1
    bound = run("predict", jobs, "--cluster", CLUSTER, "--executors", "8", "--json")
    (one,), (other,) = json.loads(bound.stdout)["predictions"], free["predictions"]
    assert one["completion_s"] >= other["completion_s"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("predict", "--cluster", CLUSTER, "--executors", "90000"), "has slots for"),
    ],
)
def test_bad_input_is_refused(jobs: str, words: tuple[str, ...], told: str) -> None:
    refused(run(words[0], jobs, *words[1:]), told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("predict", "--beside", "placement.json"), "needs --cluster"),
    ],
)
def test_bad_options_are_usage_errors(jobs: str, words: tuple[str, ...], told: str) -> None:
    result = run(words[0], jobs, *words[1:])
    assert result.exit_code == 2
    assert told in result.stderr
