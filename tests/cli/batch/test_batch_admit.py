"""`kwiken batch admit`, and `predict` on a cluster: tuples, what is left, refusals, and bad input."""

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


def admitted(jobs: str, *words: str) -> list[dict[str, object]]:
    result = run("admit", jobs, "--cluster", CLUSTER, "--json", *words)
    found: list[dict[str, object]] = json.loads(result.stdout)["admitted"]
    assert result.exit_code == (1 if any(one["executors"] is None for one in found) else 0)
    return found


def test_the_tuple_with_the_least_imbalance_is_reserved(jobs: str) -> None:
    (found,) = admitted(jobs, "--deadline", f"{JOB}=2m")
    tuples = found["tuples"]
    assert isinstance(tuples, list)
    least = min(tuples, key=lambda one: one["imbalance"])
    assert found["executors"] == least["executors"]
    assert all(one["ends_in_s"] <= 120 for one in tuples)
    assert found["free_after"] == found["free_before"] - found["executors"]  # type: ignore[operator]
    assert sum(found["nodes"].values()) == found["executors"]  # type: ignore[attr-defined]


def test_an_expected_time_admits_what_nineteen_in_twenty_would_not(jobs: str) -> None:
    (sure,) = admitted(jobs, "--deadline", f"{JOB}=2m", "--policy", "fastest")
    (expected,) = admitted(jobs, "--deadline", f"{JOB}=2m", "--policy", "fastest", "--expected")
    assert expected["ends_in_s"] < sure["ends_in_s"]  # type: ignore[operator]


def test_a_deadline_that_nothing_meets_is_refused_with_the_nearest(jobs: str) -> None:
    result = run("admit", jobs, "--cluster", CLUSTER, "--deadline", f"{JOB}=1s")
    assert result.exit_code == 1
    assert "refused; nothing ends in time; the nearest is" in result.stdout


def test_the_tuple_and_what_is_left_are_printed(jobs: str) -> None:
    result = run("admit", jobs, "--cluster", CLUSTER, "--deadline", f"{JOB}=2m")
    assert result.exit_code == 0
    for told in ("executors with", "leaves", "imbalance", "*"):
        assert told in result.stdout


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
        (("admit", "--cluster", CLUSTER, "--deadline", "nothing=2m"), "no job of this name"),
        (("admit", "--cluster", "absent.toml", "--deadline", f"{JOB}=2m"), "absent.toml"),
        (("predict", "--cluster", CLUSTER, "--executors", "90000"), "has slots for"),
    ],
)
def test_bad_input_is_refused(jobs: str, words: tuple[str, ...], told: str) -> None:
    refused(run(words[0], jobs, *words[1:]), told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("admit", "--cluster", CLUSTER, "--deadline", JOB), "write JOB=20m"),
        (("admit", "--cluster", CLUSTER, "--deadline", f"{JOB}=soon"), "is not a time"),
        (
            ("admit", "--cluster", CLUSTER, "--deadline", f"{JOB}=1m", "--deadline", f"{JOB}=2m"),
            "two deadlines",
        ),
        (("predict", "--cluster", CLUSTER, "--machines", "4"), "choose one"),
        (("predict", "--beside", "placement.json"), "needs --cluster"),
    ],
)
def test_bad_options_are_usage_errors(jobs: str, words: tuple[str, ...], told: str) -> None:
    result = run(words[0], jobs, *words[1:])
    assert result.exit_code == 2
    assert told in result.stderr
