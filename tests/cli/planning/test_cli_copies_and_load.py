"""Table of `kwiken plan` with the utilisation from which copies hurt, searched or not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kwiken.model.profile.codec import profile_to_json
from kwiken.tail.planning import under_load
from kwiken.tail.queueing.load import guard as guard_module
from tests.support.models.queue_profiles import queue_profile, rate_of
from tests.support.project.commands import run


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "CALLS_PER_COMPARISON", 9000)
    monkeypatch.setattr(under_load, "MAX_SEARCHED_STAGES", 1)


def rows(told: str) -> dict[str, list[str]]:
    """The table's cells by stage."""
    table = told.split("Copies and load\n", 1)[1].split("\n\n", 1)[0]
    cells = [re.split(r"\s*[│┃]\s*", line.strip()) for line in table.splitlines() if {*"│┃"} & {*line}]
    assert cells[0] == ["stage", "busy", "copies", "hurt from"]
    return {name: found for name, *found in cells[1:]}


@pytest.mark.slow
def test_a_stage_that_was_not_searched_says_so(tmp_path: Path) -> None:
    """Nothing is known of a higher load there, which is not to say that copies never hurt."""
    (tmp_path / "p.json").write_text(profile_to_json(queue_profile(rate_of(0.4), requests=3000)))
    (tmp_path / "queues.toml").write_text("replicas.fetch = 5\n")
    options = ("--queues", str(tmp_path / "queues.toml"), "--reissue", "0.2")
    result = run("plan", str(tmp_path / "p.json"), *options)
    assert result.exit_code == 0, result.stderr
    found = rows(result.stdout)
    assert {*found} == {"fetch", "rank"}
    (busy, copies, above) = found["rank"]
    assert 37 <= int(busy.rstrip("%")) <= 43
    assert copies == "sent"
    assert above == "never seen" or 40 < int(above.removesuffix("% busy")) <= 95
    assert found["fetch"][1:] == ["sent", "not searched"]
    result = run("plan", str(tmp_path / "p.json"), *options, "--json")
    load = json.loads(result.stdout)["load"]
    assert [*load["guards"]] == ["rank"]
    assert load["unsearched"] == ["fetch"]


def test_refused_copies_are_shown_as_that(tmp_path: Path) -> None:
    """At 93% of the time copies at once hurt, and how busy a stage may be for them lies below."""
    (tmp_path / "p.json").write_text(profile_to_json(queue_profile(rate_of(0.7), requests=3000)))
    (tmp_path / "queues.toml").write_text('cancel = "none"\ndispatch = "random"\n')
    options = ("--queues", str(tmp_path / "queues.toml"), "--reissue", "0.3", "--load", "1.3")
    result = run("plan", str(tmp_path / "p.json"), *options)
    assert result.exit_code == 0, result.stderr
    refused = [cells for cells in rows(result.stdout).values() if cells[1] == "refused"]
    assert refused
    searched = [cells[2] for cells in refused if cells[2] != "not searched"]
    assert all(int(above.removesuffix("% busy")) <= 93 for above in searched)


def test_without_load_there_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(profile_to_json(queue_profile(rate_of(0.02), requests=500)))
    assert "Copies and load" not in run("plan", str(tmp_path / "p.json")).stdout


@pytest.mark.parametrize(
    ("known", "queues", "stage", "words"),
    [
        (False, "utilisation.fetch = 0.3\nreplicas.fetch = 4", "rank", "not known"),
        (True, "replicas.fetch = 80", "fetch", "stays quiet"),
    ],
)
def test_simulate_says_why_a_stage_has_no_threshold(
    tmp_path: Path, *, known: bool, queues: str, stage: str, words: str
) -> None:
    profile, plan = str(tmp_path / "p.json"), str(tmp_path / "plan.json")
    Path(profile).write_text(profile_to_json(queue_profile(rate_of(0.4), requests=2000, known=known)))
    assert run("plan", profile, "--no-guard", "-o", plan).exit_code == 0
    common = ("--plan", plan, "--load", "1", "--requests", "800")
    (tmp_path / "queues.toml").write_text(queues)
    result = run("simulate", profile, *common, "--queues", str(tmp_path / "queues.toml"))
    assert result.exit_code == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith(stage))
    assert row.rstrip().endswith(words)
