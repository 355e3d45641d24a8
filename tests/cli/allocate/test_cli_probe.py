"""`kwiken probe`: a stage measured in a sandbox is classified, and every wrong input is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwiken.allocator.contention.calibration import CALIBRATION_LEVELS, calibrate
from kwiken.allocator.contention.machine_probe import MachineProbe, probe_from_json, probe_to_json
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.probes.recorded import RECORDED_HISTORY
from tests.support.project.commands import refused, run
from tests.support.project.compilers import needs_compiler

HELLO = "services.hello:hello"
QUICK = ("--window", "0.02")


@pytest.fixture
def requests(tmp_path: Path) -> str:
    file = tmp_path / "requests.jsonl"
    file.write_text('{"name": "ada"}\n\n{"name": "grace hopper"}\n')
    return str(file)


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Calibrations, so that a probe of a stage need not make any; that of the disk is far from a line."""
    lines = {
        name: calibrate(
            name,
            CALIBRATION_LEVELS,
            [10.0 * level ** (9 if name == "disk" else 1) for level in CALIBRATION_LEVELS],
        )
        for name in SOURCES
    }
    file = tmp_path / "machine.json"
    file.write_text(probe_to_json(MachineProbe(2, {}, (), lines, None)))
    return str(file)


@pytest.fixture
def work(tmp_path: Path) -> str:
    folder = tmp_path / "work"
    folder.mkdir()
    return str(folder)


@needs_compiler
@pytest.mark.slow
def test_a_probed_stage_is_classified(requests: str, machine: str, work: str, tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    common = ("--requests", requests, "-o", str(out), "--machine", machine, "--working-folder", work, *QUICK)
    result = run("probe", "stage", HELLO, "--stage", "tidy", *common)
    assert result.exit_code == 0, result.stderr
    assert "1 replica of 0.5 cores with 1 GB on speed-1" in result.stdout
    result = run("probe", "stage", HELLO, "--stage", "greet", "--name", "greet", "--json", *common)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    tidy, greet = measurements_from_text(out.read_text(), where="mine").workloads
    assert (tidy.name, greet.name, told["name"]) == ("hello/tidy", "greet", "greet")
    for measured in (tidy, greet):
        assert len(measured.runs) == 4
        assert len(measured.tolerated) == len(measured.caused) == 2
    assert set(told["rough"]) <= set(greet.tolerated)  # on a busy machine a source may be hard to set
    assert [round(run.performance) for run in greet.runs] == pytest.approx(
        [each["performance"] for each in told["runs"]], rel=0.01
    )
    classified = run("classify", str(out), "--json")
    assert classified.exit_code == 0, classified.stderr
    assert [each["name"] for each in json.loads(classified.stdout)["workloads"]] == ["hello/tidy", "greet"]


@pytest.mark.slow
@needs_compiler
def test_a_machine_is_probed(tmp_path: Path) -> None:
    out = tmp_path / "machine.json"
    words = ("--source", "l1d", "--source", "tlb", "-o", str(out))
    result = run("probe", "machine", *words)
    assert result.exit_code == 0, result.stderr
    assert "residual" in result.stdout
    assert "crosstalk at level 0.5: mean loss" in result.stdout
    found = probe_from_json(out.read_text(), where="m")
    assert set(found.calibrations) == {"l1d", "tlb"}


@needs_compiler
@pytest.mark.slow
def test_a_machine_probe_as_json() -> None:
    result = run("probe", "machine", "--source", "l1d", "--no-crosstalk", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["crosstalk"] is None
    assert told["sources"]["l1d"]["reached"][-1] == 1.0
    assert told["sources"]["l1d"]["residual"] >= 0


def stage(*words: str) -> tuple[str, ...]:
    return ("probe", "stage", HELLO, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--stage", "nope"), "service 'hello' has no stage 'nope'; it has: tidy, greet, join"),
        (("--stage", "tidy", "-o", "-"), "--out: must be a file: the entry is appended to it"),
        (("--stage", "tidy", "--source", "l9"), r"--source: no workload of .* was measured at 'l9'"),
        (("--stage", "tidy", "--class", "fast"), "--class: must be NAME=SPEED with a speed above 0 and at"),
        (("--stage", "tidy", "--class", "a=2"), "--class: must be NAME=SPEED with a speed above 0 and at"),
        (("--stage", "tidy", "--class", "a=0.5"), "no class 'a' in the history; it has speed-1"),
        (("--stage", "tidy", "--all", "--source", "l2"), "--all: has every source already"),
        (("--stage", "tidy", "--working-folder", "/no/folder"), "/no/folder: is no folder"),
        (("--stage", "tidy", "--history", "/no/file"), "/no/file: there is no such file"),
        (("--stage", "tidy", "--machine", "/no/file"), "/no/file: there is no such file"),
    ],
)
def test_wrong_words_are_one_line(words: tuple[str, ...], told: str, requests: str) -> None:
    refused(run(*stage(*words, "--requests", requests)), told)


def test_requests_are_needed(tmp_path: Path) -> None:
    refused(run(*stage("--stage", "tidy")), "Missing option '--requests'")
    refused(run(*stage("--stage", "tidy", "--requests", str(tmp_path / "none"))), "there is no such file")


def test_a_stage_is_not_measured_twice_under_one_name(requests: str, tmp_path: Path) -> None:

    out = tmp_path / "mine.toml"
    entry = '[[workloads]]\nname = "hello/tidy"\nmeasure = "rate"\n'
    out.write_text(RECORDED_HISTORY.read_text() + entry)
    words = stage("--stage", "tidy", "--requests", requests, "-o", str(out))
    refused(run(*words), "mine.toml: has a workload 'hello/tidy' already; give --name NAME")
    refused(
        run(*words, "--history", str(RECORDED_HISTORY)),
        "--history: .*mine.toml exists and has a history already",
    )
    out.write_text('{"version": 1}')
    refused(run(*words), "mine.toml: must be TOML: an entry is appended as text")


@needs_compiler
@pytest.mark.parametrize(
    ("target", "name", "body", "told"),
    [
        (HELLO, "tidy", '{"nam": "ada"}', "cannot be recorded: line 1: unknown field|line 1: .*name"),
        (HELLO, "tidy", "{", "inputs of stage 'tidy' cannot be recorded: line 1: "),
        (
            "tests.support.services.failing:failing",
            "raises",
            "1",
            "line 1: the request fails: .*out of order",
        ),
        (
            "tests.support.services.failing:crashing",
            "crashes",
            "1",
            "cannot be recorded: it ended without a re",
        ),
        ("tests.support.services.failing:tired", "tires", "1", "replica 0: a recorded call fails: .*enough"),
        ("tests.support.services.failing:unready", "starts", "1", "no database"),
    ],
)
def test_a_stage_that_fails_is_one_line(
    target: str, name: str, body: str, told: str, tmp_path: Path, machine: str, work: str
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(body + "\n")
    words = ("--stage", name, "--requests", str(file), "--machine", machine, "--working-folder", work)
    refused(run("probe", "stage", target, *words, *QUICK), told)


def test_an_unknown_source_of_the_machine_is_one_line() -> None:
    refused(run("probe", "machine", "--source", "l9"), "--source: no source 'l9'; known: cpu-int, cpu-fp")


def test_no_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    refused(run("probe", "machine", "--source", "l1d"), "needs a C compiler and found none: install gcc or")


def test_sources_are_named_one_by_one() -> None:
    words = ("probe", "stage", HELLO, "--stage", "greet", "--requests", "r.jsonl", "--sources", "auto")
    refused(run(*words), "--sources was removed; use --source NAME for each")
