"""`make demo-place`: log lines go to a file, which is named once; a failure shows the last of them."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from benchmarks.command.demo_place.__main__ import command
from benchmarks.command.demo_place.outcome import DemoPlaceResult, Loss, PlacedArm, Recovery, ServiceOutcome
from kwiken.base.errors import KwikenError
from kwiken.model.nodes.placement import PlacingStatus
from tests.support.project.commands import refused, run as run_command


def run(*words: str) -> Result:
    return run_command(*words, command=command)


def arm(scheduler: str, p99_ms: float) -> PlacedArm:
    one = ServiceOutcome(
        service="pack",
        status=PlacingStatus.MET,
        target_ms=100.0,
        p99_ms=p99_ms,
        requests=50,
        failed=0,
        replicas=1,
        nodes=["node-2 (quick)"],
    )
    return PlacedArm(
        scheduler=scheduler,
        services=[one],
        cores=0.3,
        cost_per_hour=1.0,
        best_effort_cores=0.1,
        busy=0.4,
        late_p99_ms=1.0,
    )


LOSS = Loss(
    node="node-2",
    services=["pack"],
    recovery_s=0.5,
    p99_ms={"pack": 60.0},
    failed=1,
    requests=90,
    actions=[(0.2, "moved")],
    busy=0.4,
)
OUTCOME = DemoPlaceResult(
    targets_ms={"pack": 100.0},
    rate_per_s={"pack": 9.0},
    arms=[arm("least-loaded", 200.0), arm("thrifty", 50.0)],
    growth=Recovery(
        recovery_s=1.0, p99_ms={"pack": 50.0}, failed=0, requests=80, actions=[(5.0, "grew")], busy=0.5
    ),
    loss=LOSS,
)


def test_log_lines_go_to_a_new_file_that_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def demo(*, seed: int, say: Any, log: Path) -> DemoPlaceResult:
        del seed
        say("measuring")
        logging.getLogger("kwiken.cluster").warning("replica pack-0 was slow")
        with log.open("ab") as said:  # as a process does
            said.write(b"gateway: a line of its own\n")
        logging.getLogger("kwiken.cluster").warning("and slow again")
        return OUTCOME

    monkeypatch.setattr("benchmarks.command.demo_place.run.run_demo", demo)
    folder = tmp_path / "out"
    for _ in range(2):  # the second run begins its log anew
        result = run("--out", str(folder))
    assert result.exit_code == 0
    assert "slow" not in result.stderr + result.stdout
    path = folder / "processes.log"
    assert (result.stderr + result.stdout).count(str(path)) == 1
    lines = path.read_text().splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        "replica pack-0 was slow",
        "a line of its own",
        "and slow again",
    ]
    assert (
        "after the load grew\n  5.0 s  grew\n         p99 of the whole time: pack 50 of 100 ms\n"
        "after node-2 was lost\n  0.2 s  moved\n         p99 of the whole time: pack 60 of 100 ms\n"
    ) in result.stdout
    assert "least-loaded misses the target of pack" in result.stdout
    assert "After node-2 was lost, all targets were kept again within 0.5 s" in result.stdout


@pytest.mark.parametrize(
    ("latest", "code"),
    [
        (arm("thrifty", 50.0), 0),
        (arm("thrifty", 150.0), 1),
        (dataclasses.replace(arm("thrifty", 50.0), busy=0.95), 3),
    ],
)
def test_json_has_the_outcome_and_the_verdict_and_the_exit_code_says_what_was_kept(
    latest: PlacedArm, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dataclasses.replace(OUTCOME, arms=[OUTCOME.arms[0], latest])

    async def demo(*, seed: int, say: Any, log: Path) -> DemoPlaceResult:
        del seed, say, log
        return found

    monkeypatch.setattr("benchmarks.command.demo_place.run.run_demo", demo)
    result = run("--out", str(tmp_path), "--json")
    assert result.exit_code == code
    told = json.loads(result.stdout)
    assert told["verdict"]["told"] == (code != 3)
    assert told["verdict"]["kept"] == (code == 0)
    assert told["outcome"]["arms"][1]["services"][0]["p99_ms"] == latest.services[0].p99_ms
    assert told["outcome"]["arms"][1]["services"][0]["status"] == "met"


def test_a_failure_shows_the_end_of_the_log_and_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def demo(*, seed: int, say: Any, log: Path) -> DemoPlaceResult:
        del seed, say
        with log.open("a") as said:
            said.writelines(f"line {number}\n" for number in range(20))
        raise KwikenError("pack-0: ended with exit code 1 before it was ready")

    monkeypatch.setattr("benchmarks.command.demo_place.run.run_demo", demo)
    result = run("--out", str(tmp_path))
    assert result.exit_code == 2
    told = result.stderr.splitlines()
    assert told[1:] == [
        *(f"log: line {number}" for number in range(15, 20)),
        "python -m benchmarks.command.demo_place: pack-0: ended with exit code 1 before it was ready",
    ]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(run("--out", str(tmp_path / "file")), "file.*cannot be written")
