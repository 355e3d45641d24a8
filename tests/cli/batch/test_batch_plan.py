"""`kwiken batch plan`: from a table of sizes to a plan, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwiken.base.errors import InputError
from kwiken.batch.racks.document import RackPlan
from kwiken.cli.verbs import kwiken
from tests.support.data.batch.clusters import two_racks
from tests.support.project.commands import ROOT, refused

TABLE = "".join(
    f"job{n}\t{n * 20}\t20\t{(n % 7) * 3_000_000_000}\t{(n % 5) * 1_000_000_000}\t{n * 1000}\n"
    for n in range(30)
)
CLUSTER = two_racks()
ON_RACKS = ("--cluster", str(ROOT / "examples" / "racks" / "cluster.toml"))


def run(*words: str) -> Result:
    return CliRunner().invoke(kwiken, ["batch", "plan", *words])


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "jobs.tsv"
    path.write_text(TABLE)
    return str(path)


@pytest.mark.parametrize("minimise", ["makespan", "mean"])
def test_a_table_becomes_a_plan_beside_simple_rules(table: str, tmp_path: Path, minimise: str) -> None:
    out = tmp_path / "plan.json"
    found = run(table, *ON_RACKS, "--minimise", minimise, "-o", str(out))
    assert found.exit_code == 0, found.output
    for words in ("by arrival", "shortest first", "fair share", "on racks of their own"):
        assert words in found.output
    plan = RackPlan.from_json(out.read_bytes(), where="plan")
    assert len(plan.jobs) == 30
    assert plan.objective_s > 0
    if plan.scheduling != "planned":  # a simple rule, which has all racks
        assert all(job.racks == plan.racks for job in plan.jobs)


def test_racks_of_a_document_and_json(table: str, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    found = run(table, "--cluster", str(cluster), "--json")
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert told["racks"] == 2
    takes = {name: one["makespan_s"] for name, one in told["simulated"].items()}
    assert set(takes) == {"planned", "by arrival", "shortest first", "fair share"}
    assert takes[told["scheduling"]] == min(takes.values())
    assert len(told["planned"]) == told["jobs"] == 30
    assert run(table, *ON_RACKS, "--json", "--explain", "job6").exit_code == 2
    assert "--spread-data was removed" in str(run(table, *ON_RACKS, "--spread-data").output)


def test_one_job_is_explained(table: str) -> None:
    found = run(table, *ON_RACKS, "--explain", "job6")
    assert found.exit_code == 0, found.output
    assert "job6: alone on each number of racks" in found.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--explain", "nobody"], "--explain nobody: no job of this name; known: job"),
        (["--beside", "placement.json"], "placement.json"),
        (["--racks", "4"], "--racks was removed; use --cluster FILE"),
    ],
)
def test_bad_options_are_named(table: str, words: list[str], told: str) -> None:
    found = run(table, *ON_RACKS, *words)
    assert found.exit_code != 0
    assert told in f"{found.output} {found.exception}"


def test_a_cluster_without_racks_is_refused(table: str, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER.replace('rack = "east"', ""))
    found = run(table, "--cluster", str(cluster))
    assert found.exit_code == 2
    assert "neither rack nor zone" in found.output


def test_a_plan_is_read_strictly(table: str, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    assert run(table, *ON_RACKS, "-o", str(out)).exit_code == 0
    raw = json.loads(out.read_text())
    for change, told in (
        ({"version": 1}, "version"),
        ({"racks": ["other"]}, "lists no rack"),
        ({"jobs": [raw["jobs"][0]] * 2}, "given twice"),
        ({"strange": 1}, "strange"),
        ({"objective_s": -1}, "objective_s"),
        ({"jobs": []}, "jobs"),
    ):
        with pytest.raises(InputError, match=told):
            RackPlan.from_json(json.dumps({**raw, **change}), where="plan")


def test_a_plan_that_is_written_can_be_read(tmp_path: Path) -> None:
    table, out = tmp_path / "jobs.tsv", tmp_path / "plan.json"
    names = ["a", "a", "a (2)", "n" * 5000]
    table.write_text("".join(f"{name}\t{n}\t1\t9000000000\t5\t5\n" for n, name in enumerate(names)))
    assert run(str(table), *ON_RACKS, "-o", str(out)).exit_code == 0
    found = {job.name for job in RackPlan.from_json(out.read_bytes(), where="plan").jobs}
    assert {"a", "a (2)", "a (3)"} < found
    slow = run(str(table), *ON_RACKS, "--task-rate", "1e-9", "-o", str(out))
    assert slow.exit_code == 2
    assert "must be at most 1e+10 s" in slow.output


def test_a_picture_is_no_more(table: str) -> None:
    done = run(table, *ON_RACKS, "--picture", "-")
    assert done.exit_code == 2
    assert "--picture was removed; use --json" in done.output


def test_arrivals_that_set_the_makespan_are_noted(tmp_path: Path) -> None:
    table = tmp_path / "jobs.tsv"
    table.write_text("a\t0\t1\t9000000\t5\t5\nb\t99999\t1\t9000000\t5\t5\n")
    assert "--minimise mean judges what jobs wait" in run(str(table), *ON_RACKS).stderr


def test_racks_that_differ_in_their_links_alone_are_told(table: str, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER + '\n[[racks]]\nname = "east"\nuplink_gbps = 1\n')
    found = run(table, "--cluster", str(cluster))
    assert found.exit_code == 0, found.output
    assert "all are planned as the smallest" in found.stderr


def test_recurring_jobs_are_planned(tmp_path: Path) -> None:
    racks = ROOT / "examples" / "racks"
    words = (str(ROOT / "examples" / "batch"), "--cluster", str(racks / "cluster.toml"), "--minimise", "mean")
    path = racks / "recurring.toml"
    result = run(*words, "--schedule", str(path), "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["jobs"] == 4 + 8
    assert {"nightly-report", "nightly-report (2)"} <= {job["name"] for job in found["planned"]}
    assert "nightly-report: 4 runs" in result.stderr
    assert "input 0.25 times the last run's" in result.stderr
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('from = "2026-02-02T00:00"\n[[jobs]]\nname = "other"\nat = ["02:00"]\n')
    refused(run(*words, "--schedule", str(wrong)), "no earlier run of a job named 'other'")
    refused(run(*words, "--schedule", str(tmp_path / "none.toml")), "none.toml")
