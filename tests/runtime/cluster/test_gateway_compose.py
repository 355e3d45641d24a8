"""Compose file: it matches the service, and keeps the documented security settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwiken.export.deployments.compose import compose_files
from kwiken.export.deployments.deployment import Build, Deployment, StageReplicas
from kwiken.model.service.service import Service
from kwiken.services.search import search

ROOT = Path(__file__).resolve().parents[3]
OTHERS = {"grafana", "jaeger", "locust", "prometheus"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "runtime" / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)s", text)
    assert match is not None, text
    return float(match[1])


def stages_in(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose["services"].items() if name not in {"gateway", *OTHERS}}


def test_every_stage_has_its_replicas(compose: dict[str, Any]) -> None:
    service: Service = search
    stages = stages_in(compose)
    assert set(stages) == set(service.stages)
    for name, stage in service.stages.items():
        assert stages[name]["deploy"]["replicas"] == stage.replicas, name
        assert f"--stage={name}" in stages[name]["command"]


def test_the_files_are_what_the_command_in_the_header_writes() -> None:
    stages = [StageReplicas(name, name, stage.replicas) for name, stage in search.stages.items()]
    build = Build(context="..", dockerfile="runtime/Dockerfile")
    deployment = Deployment(
        service=search,
        target="kwiken.services.search:search",
        image="kwiken:local",
        load_image="kwiken-locust:local",
        build=build,
        stages=stages,
    )
    made_by = "kwiken export kwiken.services.search:search --to compose --image kwiken:local -o runtime"
    for path, text in compose_files(deployment, made_by=made_by).items():
        assert (ROOT / "runtime" / path).read_text(encoding="utf-8") == text, path


def test_the_gateway_knows_every_stage(compose: dict[str, Any]) -> None:
    named = {
        word.removeprefix("--replica=")
        for word in compose["services"]["gateway"]["command"]
        if word.startswith("--replica=")
    }
    assert named == {f"{name}={name}:9000" for name in search.stages}


def test_only_this_machine_reaches_the_gateway(compose: dict[str, Any]) -> None:
    for name, each in compose["services"].items():
        for port in each.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_checks_are_rare_images_pinned_and_rights_few(compose: dict[str, Any]) -> None:
    for name, each in compose["services"].items():
        if "healthcheck" in each:
            assert seconds(each["healthcheck"]["interval"]) >= 5, name
        assert re.search(r":(local|v?\d+\.\d+\.\d+)$", each["image"]), name
        if name not in OTHERS:
            assert each["cap_drop"] == ["ALL"]
            assert each["read_only"] is True
            assert "healthcheck" in each


def test_the_image_does_not_run_as_root() -> None:
    text = (ROOT / "runtime" / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert text.rindex("USER 10001") > text.rindex("RUN ")
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"build", "python:3.12-slim"}
    assert len(re.findall(r"^USER 10001$", text, re.MULTILINE)) == len(
        re.findall(r"^ENTRYPOINT", text, re.MULTILINE)
    )


@pytest.mark.parametrize(("name", "port"), [("gateway", 8080), ("lookup", 9000)])
def test_the_health_check_is_a_program(compose: dict[str, Any], name: str, port: int) -> None:
    *command, program = compose["services"][name]["healthcheck"]["test"]
    assert command == ["CMD", "python", "-IS", "-c"]
    compile(program, "healthcheck", "exec")
    assert f"('127.0.0.1', {port})" in program
    assert r"b'GET /readyz HTTP/1.0\r\n\r\n'" in program
