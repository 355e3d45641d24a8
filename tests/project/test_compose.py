"""Commands in the container files and the guide: the command line's own parser must accept them.

Stages, replicas, ports and images are tested in `tests/runtime/cluster/test_gateway_compose.py`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kwiken.cli.verbs import kwiken
from kwiken.services.search import search
from tests.support.project.commands import run

ROOT = Path(__file__).resolve().parents[2]
TARGET = "kwiken.services.search:search"
OTLP = "http://jaeger:4318"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "runtime" / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(set(SERVICES) - {"grafana", "jaeger", "locust", "prometheus"})
DOCKERFILE = (ROOT / "runtime" / "Dockerfile").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "operate" / "running.md").read_text(encoding="utf-8")


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of `kwiken WORDS`, by the command line's own parser; nothing is run."""
    verb, *rest = words
    group = click.Context(kwiken)
    command = kwiken.get_command(group, verb)
    assert command is not None, f"no verb {verb}"
    return command.make_context(verb, rest, parent=group).params


def commands_in(text: str) -> list[str]:
    """Lines of fenced blocks that begin with `kwiken`, without remarks, prompts and a final `&`."""
    blocks = re.findall(r"^```[^`\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line.partition("  #")[0].strip(" &") for line in lines if line.startswith("kwiken ")]


@pytest.mark.parametrize("name", OURS)
def test_a_container_runs_a_command_that_exists(name: str) -> None:
    command = SERVICES[name]["command"]
    options = parsed(command)
    assert options["target"] == TARGET
    # A container's loopback is its own: published ports and other containers would not reach it.
    assert options["host"] == "0.0.0.0"
    assert options["otlp"] == OTLP
    if name == "gateway":
        assert command[0] == "serve"
        assert not options["local"]
    else:
        assert command[0] == "stage"
        assert options["stage"] == name


def test_the_parser_refuses_what_is_not_there() -> None:
    with pytest.raises(click.NoSuchOption):
        parsed(["stage", TARGET, "--stage=lookup", "--no-such-option=1"])
    with pytest.raises(click.MissingParameter):
        parsed(["stage", TARGET])


def test_the_gateway_calls_the_ports_that_the_stages_listen_on() -> None:
    gateway = parsed(SERVICES["gateway"]["command"])
    listening = {
        f"{name}={name}:{parsed(SERVICES[name]['command'])['port']}" for name in OURS if name != "gateway"
    }
    assert set(gateway["replicas"]) == listening
    assert len(gateway["replicas"]) == len(search.stages)
    [published] = SERVICES["gateway"]["ports"]
    assert published == f"127.0.0.1:{gateway['port']}:{gateway['port']}"
    # Two replicas of one service cannot both have one port of the host.
    assert not any("ports" in SERVICES[name] for name in search.stages)


def test_a_stop_leaves_time_to_finish() -> None:
    for name in OURS:
        grace = re.fullmatch(r"(\d+)s", SERVICES[name]["stop_grace_period"])
        assert grace is not None
        assert int(grace[1]) > parsed(SERVICES[name]["command"])["grace_s"], name


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_container_is_bounded_and_comes_back(name: str) -> None:
    assert re.fullmatch(r"\d+m", SERVICES[name]["mem_limit"])
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_no_token_is_written_down() -> None:
    assert SERVICES["gateway"]["environment"] == {"KWIKEN_TOKEN": "${KWIKEN_TOKEN:-}"}
    assert not re.search(r"^(ENV|ARG)\b.*(TOKEN|SECRET|PASSWORD)", DOCKERFILE, re.MULTILINE | re.IGNORECASE)


def test_the_image_holds_what_is_locked_and_no_more() -> None:
    syncs = re.findall(r"^RUN uv sync (.*)$", DOCKERFILE, re.MULTILINE)
    assert len(syncs) == 3
    assert all("--frozen --no-dev --extra otel " in options for options in syncs)  # compose sends spans
    assert [("--extra load" in options) for options in syncs] == [False, False, True]  # Locust's own image
    assert DOCKERFILE.rindex("AS locust\n") < DOCKERFILE.rindex("\nFROM ")  # which is not the default
    assert "://" not in DOCKERFILE  # no registry or mirror is named


def test_what_the_image_copies_is_sent_to_the_builder() -> None:
    copied = {
        source
        for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in words.split()[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)
    assert "kwiken" in copied


@pytest.mark.parametrize("line", commands_in(GUIDE))
def test_the_guide_shows_commands_that_exist(line: str) -> None:
    options = parsed(shlex.split(line)[1:])
    assert options.get("target", TARGET) in {TARGET, "services/hello.py:hello"}


def test_the_file_is_what_export_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "Dockerfile").write_text(
        "FROM scratch AS locust\nFROM scratch\n"
    )  # as here: the image is the repository's own
    monkeypatch.chdir(tmp_path)
    told = re.search(
        r"^# Made by: kwiken (.*)$", (ROOT / "runtime" / "compose.yaml").read_text(), re.MULTILINE
    )
    assert told is not None
    result = run(*shlex.split(told[1]))
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "runtime" / "compose.yaml").read_text() == (
        ROOT / "runtime" / "compose.yaml"
    ).read_text()


def test_the_guide_has_every_way_to_run() -> None:
    assert {shlex.split(line)[1] for line in commands_in(GUIDE)} >= {"serve", "up", "stage"}
    assert "docker compose -f runtime/compose.yaml up" in GUIDE
