"""`kwiken size`: what is shown and written, and one line for each bad input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kwiken.cli.allocate import size
from kwiken.model.nodes.placement import Placement
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.profile import Origin
from tests.allocator.capacity.test_supply import NODES
from tests.support.models.pauses import pausing_profile
from tests.support.models.stragglers import straggling_profile
from tests.support.project.commands import ROOT, refused, run

AT = ("--target-p99", "90ms", "--rate", "150")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("size")
    (folder / "profile.json").write_text(profile_to_json(straggling_profile(requests=1000)))
    (folder / "nodes.toml").write_text(NODES)
    return folder


def test_sizes_are_shown_and_both_documents_written(files: Path, tmp_path: Path) -> None:
    result = run(
        *("size", str(files / "profile.json"), *AT, "--nodes", str(files / "nodes.toml")),
        *("-o", str(tmp_path / "out"), "--explain"),
    )
    assert result.exit_code == 0, result.stderr
    plan = Plan.from_json((tmp_path / "out" / "plan.json").read_text())
    placement = Placement.from_json((tmp_path / "out" / "placement.json").read_text(), where="p")
    assert plan.service == "chain"
    assert [one.stage for one in placement.workloads] == ["fetch", "rank"]
    assert "an hour; p99" in result.stdout
    assert "one move more or less" in result.stdout
    out = tmp_path / "out"
    words = f"--placement {out}/placement.json --nodes {files}/nodes.toml --plan {out}/plan.json"
    assert f"to run it: kwiken up SERVICE {words}" in result.stderr


def test_the_nodes_of_the_example_are_taken(files: Path) -> None:
    nodes = ROOT / "examples" / "allocator" / "nodes.toml"
    result = run(
        "size", str(files / "profile.json"), "--target-p99", "120", "--rate", "50", "--nodes", str(nodes)
    )
    assert result.exit_code == 0, result.stderr
    assert "target 120 ms" in result.stdout


@pytest.mark.parametrize("sure", [0.0, 1.1])
def test_how_sure_the_target_is_comes_first_and_too_small_a_chance_is_not_called_met(
    sure: float, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "MIN_CONFIDENCE", sure)
    first, *_ = run("size", str(files / "profile.json"), *AT).stdout.splitlines()
    told = re.fullmatch(
        r"(not surely met|met): p99 is at most 15% above 90 ms in (\d+)% of the resampled recordings(.*)",
        first,
    )
    assert told is not None, first
    assert told[1] == ("met" if sure == 0 else "not surely met")
    assert ("110% count as met" in told[3]) == (sure > 0)


def test_without_nodes_counts_of_replicas_are_told_of_our_own_services_alone(
    files: Path, tmp_path: Path
) -> None:
    profile = straggling_profile(requests=1000)
    foreign = tmp_path / "foreign.json"
    origin = Origin(kind="shop:get", caller="shop:get")
    foreign.write_text(profile_to_json(replace(profile, origin=origin)))
    own, other = (run("size", str(path), *AT) for path in (files / "profile.json", foreign))
    assert own.stdout == other.stdout
    assert "nodes" not in own.stdout
    counts = re.findall(r"--replicas (\w+)=(\d+)", own.stderr)
    assert [name for name, _ in counts] == ["fetch", "rank"]
    assert f"cost {sum(int(count) for _, count in counts)} cores" in own.stdout
    assert "to run it" not in other.stderr


def test_json_is_whole(files: Path) -> None:
    result = run(
        *("size", str(files / "profile.json"), "--target-p99", "0.09s", "--rate", "150"),
        "--json",
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["p99_ms"] <= told["target_p99_ms"] == 90.0
    assert told["placement"] is None
    assert told["met"] is (told["probability"] >= size.MIN_CONFIDENCE)
    assert told["cost"] == sum(stage["replicas"] for stage in told["stages"])
    assert told["frontier"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--target-p99", "50us", "--rate", "1"), "'50us' is not a latency; write 60ms, 0.2s or 60"),
        (("--target-p99", "-5ms", "--rate", "1"), "'-5ms' is not a latency"),
        (("--target-p99", "50min", "--rate", "1"), "'50min' is not a latency"),
        (("--target-p99", "0ms", "--rate", "1"), "'0ms' is not a latency"),
        (("--target-p99", "50ms", "--rate", "nan"), "must be a finite number above 0"),
        (("--target-p99", "50ms", "--rate", "-3"), "must be a finite number above 0"),
        (("--target-p99", "50ms", "--rate", "1e308"), "--rate: must be at most 1e"),
        ((*AT, "--profiles", "nodes.toml"), "--profiles: says nothing without --workloads"),
        ((*AT, "--queues", "nobody.toml"), "nobody.toml: replicas: stage 'nobody' is not in the profile"),
    ],
)
def test_bad_values_are_one_line(files: Path, arguments: tuple[str, ...], problem: str) -> None:
    (files / "nobody.toml").write_text("replicas.nobody = 3\n")
    given = [str(files / each) if each.endswith(".toml") else each for each in arguments]
    refused(run("size", str(files / "profile.json"), *given), re.escape(problem))


@pytest.mark.slow  # the whole search is made before a target counts as out of reach
def test_a_target_out_of_reach_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile_to_json(straggling_profile(requests=100)))
    result = run("size", str(path), "--target-p99", "1ms", "--rate", "150")
    refused(result, "a p99 of 1 ms cannot be met at 150 requests a second")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("nodes = []\nclasses = []\n", "nodes.toml: "),
        (NODES.replace("speed = 0.5", "speed = nan"), "speed must be a finite number above 0"),
        (NODES.replace("speed = 0.5", "speed = -1"), "speed must be a finite number above 0"),
        (NODES.replace("speed = 0.5\n", ""), "class 'small': its speed is not known"),
    ],
)
def test_bad_nodes_are_one_line(files: Path, tmp_path: Path, text: str, problem: str) -> None:
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(text)
    result = run("size", str(files / "profile.json"), *AT, "--nodes", str(nodes))
    refused(result, re.escape(problem))


def test_workloads_of_another_service_are_refused(files: Path, tmp_path: Path) -> None:
    workloads = tmp_path / "workloads.toml"
    workloads.write_text(
        '[[workloads]]\nname = "a"\nmemory_gb = 1\nbest_effort = true\nservice = "other"\nstage = "a"\n'
    )
    result = run("size", str(files / "profile.json"), *AT, "--workloads", str(workloads))
    refused(result, "no workload is a stage of service 'chain'")


@pytest.mark.parametrize("paused", [0.0, 0.1])
def test_a_recording_without_pauses_says_how_rare_they_may_be(paused: float, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile_to_json(pausing_profile(60.0, 100.0, 1, paused=paused)))
    result = run("size", str(path), "--target-p99", "300", "--rate", "60")
    assert result.exit_code == 0, result.stderr
    noted = re.search(
        r"no pause of a replica was recognised in (\d+) s .* once in (\d+(?:\.\d)?) s", result.stderr
    )
    first = result.stdout.splitlines()[0]
    assert (noted is not None) == first.endswith("which show no pause of a replica") == (paused == 0)
    if noted is not None:
        assert float(noted[1]) == pytest.approx(300.0, rel=0.05)
        assert float(noted[2]) == pytest.approx(100.0, rel=0.05)
