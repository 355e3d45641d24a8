"""`kwiken.toml`: options of `kwiken up` that stand in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project.commands import refused, run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[up]\nprt = 1", r"kwiken\.toml: prt: is no option"),
        ("[up]\ndetach = true", r"kwiken\.toml: detach: is no option"),
        ("[up]\nport = true", r"kwiken\.toml: port: must be a text or a number, not True"),
        ("[up]\nport = 99999", r"kwiken\.toml: port: 99999 is not in the range 0<=x<=65535"),
        ('[up]\ntrace = "none"', r"kwiken\.toml: trace: 'none' is not one of"),
        ('[up]\nreplicas = "a=1"', r"kwiken\.toml: replicas: must be a list of texts"),
        ("[up]\nreload = 1", r"kwiken\.toml: reload: must be true or false"),
        ("[up]\nservices = []", r"kwiken\.toml: services: must be a list of services"),
        ("[down]", r"kwiken\.toml: must hold one table, \[up\], not 'down'"),
        ("up = 1", r"kwiken\.toml: must hold one table"),
        ("[up\n", r"kwiken\.toml: broken TOML"),
    ],
)
def test_what_cannot_stand_in_the_file_is_refused_by_name(folder: Path, text: str, message: str) -> None:
    (folder / "kwiken.toml").write_text(text)
    refused(run("up", "kwiken.services.search:search"), message)


def test_the_file_gives_what_the_command_line_leaves_out(folder: Path) -> None:
    """Read off the refusals: of a service that is not there, and of replicas of an unknown stage."""
    (folder / "kwiken.toml").write_text('[up]\nservices = ["missing:it"]\nreplicas = ["none=2"]\n')
    refused(run("up"), r"module missing: there is no such module")
    refused(run("up", "kwiken.services.search:search"), r"none")
    refused(run("up", "kwiken.services.search:search", "--replicas", "other=2"), r"other")


def test_help_needs_no_file_that_is_right(folder: Path) -> None:
    (folder / "kwiken.toml").write_text("[down]")
    assert run("up", "--help").exit_code == 0
