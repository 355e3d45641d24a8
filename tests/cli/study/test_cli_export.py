"""`kwiken export`: destination of the settings, notes beside them, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwiken.cli.study.export import PROGRAMS
from kwiken.export.plans.programs import PROGRAMS as EXPORTERS
from kwiken.model.plan.plan import Plan, SpanMatch, StagePlan
from kwiken.model.service.stage import Reissue
from tests.support.otel.exports import plan_with, stage
from tests.support.project.commands import refused, run

LATE = Reissue(after_ms=12.5, fraction=0.04)


def written(folder: Path, plan: Plan) -> str:
    path = folder / "plan.json"
    path.write_text(plan.to_json())
    return str(path)


@pytest.fixture
def plan(tmp_path: Path) -> str:
    return written(
        tmp_path, plan_with({"lookup": stage("shop.Search/Lookup", LATE), "rank": stage("rank", LATE)})
    )


@pytest.fixture
def targets(tmp_path: Path) -> str:
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"rank": "shop.Rank/Rank"}))
    return str(path)


def test_the_choices_are_those_that_exist() -> None:
    assert set(PROGRAMS) == set(EXPORTERS)


def test_grpc_to_stdout_with_notes_beside(plan: str, targets: str) -> None:
    result = run("export", plan, "--to", "grpc", "--map", targets)
    assert result.exit_code == 0, result.stderr
    config: Any = json.loads(result.stdout)
    assert [method["name"] for method in config["methodConfig"]] == [
        [{"service": "shop.Search", "method": "Lookup"}],
        [{"service": "shop.Rank", "method": "Rank"}],
    ]
    assert "note: lost: the budget." in result.stderr
    assert all(line.startswith("note: ") for line in result.stderr.splitlines())


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_is_written_whole(program: str, plan: str, targets: str, tmp_path: Path) -> None:
    out = tmp_path / "settings"
    result = run("export", plan, "--to", program, "--map", targets, "-o", str(out))
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert f"written to {out}" in result.stderr
    assert list(yaml.safe_load_all(out.read_text()))  # JSON is YAML too
    assert run("export", plan, "--to", program, "--map", targets).stdout == out.read_text()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plan_without_reissues_says_so(program: str, tmp_path: Path) -> None:
    path = written(tmp_path, plan_with({"rank": stage("rank")}))
    result = run("export", path, "--to", program)
    assert result.exit_code == 0
    told = " ".join((result.stdout.replace("\n#", " ") + result.stderr).split())
    assert told.count("the plan reissues nothing, so there are no settings to write") == 1


def test_a_template_holds_all_entries_that_are_missing(tmp_path: Path) -> None:
    stages = {name: stage(name, LATE, service=name) for name in ("rank", "spell", "page")}
    path = written(tmp_path, plan_with(stages | {"known": stage("/known", LATE), "idle": stage("idle")}))
    refused(run("export", path, "--to", "envoy"), r"'rank' \(and 2 more; --template writes a map with all\)")
    template = tmp_path / "map.json"
    result = run("export", path, "--to", "envoy", "--template", str(template))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "fill in its 3 entries, and give it by --map" in result.stderr
    entries = json.loads(template.read_text())
    assert {name: entry["host"] for name, entry in entries.items()} == {name: name for name in stages}
    assert run("export", path, "--to", "envoy", "--map", str(template)).exit_code == 0
    again = tmp_path / "again.json"
    told = run("export", path, "--to", "envoy", "--map", str(template), "--template", str(again))
    assert "no map is needed" in told.stderr
    assert not again.exists()
    assert run("export", path, "--to", "grpc", "--template", str(again)).exit_code == 0
    assert set(json.loads(again.read_text())) == {*stages, "known"}


def test_method_and_address_that_the_spans_state_are_exported(tmp_path: Path) -> None:
    match = SpanMatch(
        service="cart", operation="add", method="POST", path="/cart/{id}", host="cart.shop", port=8080
    )
    path = written(tmp_path, plan_with({"cart": StagePlan(match=match, reissue=LATE)}))
    text = run("export", path, "--to", "envoy").stdout
    assert re.search(r"exact: \"?POST", text)
    assert re.search(r"regex: \"?/cart/\[\^/\]\+", text)
    assert "cart.shop:8080" in text
    assert "is the service name of its spans" not in text
    other = tmp_path / "map.json"
    other.write_text(json.dumps({"cart": {"call": "/cart", "host": "edge", "port": 1}}))
    assert "edge:1" in run("export", path, "--to", "envoy", "--map", str(other)).stdout, "the map wins"


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = written(
        tmp_path, plan_with({"\x1b[31m\nnote: all is well": stage("s.S/M", Reissue(after_ms=1, copies=9))})
    )
    result = run("export", path, "--to", "grpc")
    assert result.exit_code == 0
    assert "\x1b" not in result.stderr
    assert "note: all is well" not in result.stderr.splitlines()


class TestRefusals:
    def test_a_stage_that_names_no_call(self, plan: str) -> None:
        """Among several plans the reader must see which: the file is named."""
        named = f"kwiken: {re.escape(plan)}: stage 'rank' names no "
        refused(run("export", plan, "--to", "grpc"), rf"{named}gRPC method.*name its call in --map")
        refused(run("export", plan, "--to", "envoy"), rf"{named}HTTP path or gRPC method at a host")

    def test_a_host_that_no_mesh_has(self, tmp_path: Path) -> None:
        path = written(tmp_path, plan_with({"a": stage("/x", LATE)}))
        targets = tmp_path / "map.json"
        targets.write_text('{"a": {"call": "/x", "host": "no_mesh.has_this"}}')
        refused(
            run("export", path, "--to", "istio", "--map", str(targets)),
            rf"kwiken: {re.escape(path)}: stage 'a': 'no_mesh.has_this' is no name of a host in a mesh",
        )

    def test_an_http_call_is_no_grpc_method(self, tmp_path: Path) -> None:
        path = written(tmp_path, plan_with({"a": stage("GET /x", LATE)}))
        refused(run("export", path, "--to", "grpc"), "stage 'a' names no gRPC method")

    def test_a_map_with_an_unknown_stage(self, plan: str, tmp_path: Path) -> None:
        path = tmp_path / "map.json"
        path.write_text('{"rnk": "/x"}')
        refused(
            run("export", plan, "--to", "envoy", "--map", str(path)),
            r"map\.json: the plan has no stage 'rnk'; its stages: lookup, rank",
        )

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "is empty"),
            ("{", r"map\.json:1: broken JSON"),
            ("[]", "must hold a JSON object"),
            ('{"rank": {"path": "/x"}}', r"map\.json: stage 'rank': unknown field `path`"),
            ('{"rank": {"port": 99999}}', r"port must be from 1 to 65535"),
            ('{"rank": "rank"}', r"call must be package\.Service/Method"),
        ],
    )
    def test_a_broken_map(self, text: str, words: str, plan: str, tmp_path: Path) -> None:
        path = tmp_path / "map.json"
        path.write_text(text)
        refused(run("export", plan, "--to", "envoy", "--map", str(path)), words)

    def test_files_that_are_not_there(self, plan: str, tmp_path: Path) -> None:
        refused(run("export", "nowhere.json", "--to", "grpc"), r"nowhere\.json: there is no such file")
        refused(run("export", plan, "--to", "grpc", "--map", "no.json"), r"no\.json: there is no such file")
        refused(
            run("export", written(tmp_path, plan_with({})), "--to", "grpc", "-o", str(tmp_path / "no" / "f")),
            "its folder does not exist",
        )

    def test_the_program_must_be_known(self, plan: str) -> None:
        refused(run("export", plan), "Missing option '--to'")
        refused(run("export", plan, "--to", "nginx"), "'nginx' is not one of 'grpc', 'envoy', 'istio'")

    def test_no_plan(self, tmp_path: Path) -> None:
        path = tmp_path / "plan.json"
        path.write_text('{"version": 2}')
        refused(run("export", str(path), "--to", "grpc"), r"plan\.json: version must be 1, not 2")

    def test_nothing_is_written_when_refused(self, plan: str, tmp_path: Path) -> None:
        out = tmp_path / "settings.yaml"
        refused(run("export", plan, "--to", "istio", "-o", str(out)), "stage 'rank'")
        assert not out.exists()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "name",
    [
        'a "quoted" one',
        "back\\slash",
        "größe",
        "tab\tand\nline",
        "two  spaces   three",
        "\u00a0\u2028\x1b[31m",
    ],
)
def test_the_map_in_a_refusal_can_be_used_unchanged(program: str, name: str, tmp_path: Path) -> None:
    path = written(tmp_path, plan_with({name: stage("rank", LATE, service="no host")}))
    result = run("export", path, "--to", program)
    refused(result, "name its call in --map: {")
    told = result.stderr.rpartition(" in --map: ")[2].strip()
    assert list(json.loads(told)) == [name]
    targets = tmp_path / "map.json"
    targets.write_text(told)
    assert run("export", path, "--to", program, "--map", str(targets)).exit_code == 0
