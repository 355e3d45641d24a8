"""Places of output files: every verb refuses a file that it could not write before the verb does any work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kwiken.apps.console.output import check_writable, write_text
from kwiken.base.errors import InputError
from kwiken.cli.shared.input_files import OUTPUTS
from kwiken.cli.shared.verb_group import VerbContext
from kwiken.cli.verbs import kwiken

ELSEWHERE = {"FILE|FOLDER", "FOLDER", "DIR"}  # metavars of outputs that may be folders, which a verb makes


def verbs(group: click.Command = kwiken, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """All verbs with their words, those of groups too."""
    if not isinstance(group, click.Group):
        yield path.strip(), group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from verbs(command, f"{path} {name}")


def outputs() -> list[tuple[str, str]]:
    """Words of a verb and name of a parameter, for each option that names an output file."""
    return [
        (words, str(param.name))
        for words, command in verbs()
        for param in command.params
        if param.name in OUTPUTS and getattr(param, "metavar", None) == "FILE"
    ]


def command_of(words: str) -> click.Command:
    return dict(verbs())[words]


def invoked(command: click.Command, **values: Any) -> None:
    """Invoke a verb up to its work, which fails the test."""
    context = VerbContext(command, info_name=command.name)
    context.params = {str(param.name): None for param in command.params} | values
    context.invoke(lambda **_: pytest.fail("the work was begun"))


@pytest.mark.parametrize(("words", "name"), outputs())
def test_a_file_in_a_missing_folder_is_refused_before_the_work(words: str, name: str, tmp_path: Path) -> None:
    out = f"{tmp_path}/missing/out"
    with pytest.raises(InputError, match="its folder does not exist") as found:
        invoked(command_of(words), **{name: out})
    assert found.value.where == out


def test_every_option_that_writes_a_file_is_known_as_an_output() -> None:
    writes = re.compile(r"\b(to write|write the|write a|write one|to append)\b", re.IGNORECASE)
    unknown = [
        (words, param.name)
        for words, command in verbs()
        for param in command.params
        if isinstance(param, click.Option)
        and str(param.metavar).startswith("FILE")
        and writes.search(param.help or "")
        and param.name not in OUTPUTS
    ]
    assert not unknown
    assert len(outputs()) > 20
    kinds = {
        str(getattr(param, "metavar", None))
        for _, command in verbs()
        for param in command.params
        if param.name in OUTPUTS and isinstance(param, click.Option) and not param.hidden  # it is gone
    }
    assert kinds == {"FILE", *ELSEWHERE}


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "missing.json", "-o", "missing/profile.json"],
        ["export", "missing.json", "--to", "envoy", "-o", "missing/envoy.yaml"],
        ["batch", "profile", "module:job", "-o", "missing/jobs.json"],
        ["storage", "fit", "missing.trace", "-o", "missing/storage.json"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_the_line_names_the_file_and_comes_first(words: list[str]) -> None:
    found = CliRunner().invoke(kwiken, words)
    assert found.exit_code == 2
    assert found.stderr == f"kwiken: {words[-1]}: its folder does not exist\n"


def test_two_options_do_not_write_one_file(tmp_path: Path) -> None:
    place = command_of("place")
    one, same = f"{tmp_path}/a", f"{tmp_path}/./a"
    with pytest.raises(InputError, match="is the file of -o too"):
        invoked(place, out=one, picture=same)
    context = VerbContext(place, info_name="place")
    context.params = {"out": "/dev/null", "picture": "/dev/null"}
    assert context.invoke(lambda **_: "worked") == "worked"


class TestPlaces:
    @pytest.mark.parametrize("name", ["new", "old", "link", "dangling"])
    def test_files_that_can_be_written(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "old").write_text("x")
        (tmp_path / "link").symlink_to(tmp_path / "old")
        (tmp_path / "dangling").symlink_to(tmp_path / "new")
        check_writable(str(tmp_path / name))
        assert (tmp_path / "old").read_text() == "x"
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("path", ["-", "/dev/null", "/dev/stdout", "plain"])
    def test_stdout_devices_and_the_current_folder(self, path: str) -> None:
        check_writable(path)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("", "is a folder"),
            ("no/a", "folder does not exist"),
            ("file/a", "Not a directory"),
            ("astray", "folder does not exist"),
            ("loop", "leads to itself"),
            ("n" * 300, "too long"),
        ],
    )
    def test_files_that_cannot(self, name: str, message: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        (tmp_path / "astray").symlink_to(tmp_path / "no" / "a")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        path = f"{tmp_path}/{name}"
        with pytest.raises(InputError, match=message) as checked:
            check_writable(path)
        with pytest.raises(InputError) as written:
            write_text(path, "x")
        assert str(written.value) == str(checked.value)

    def test_a_folder_without_the_right_to_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(InputError, match="Permission denied"):
            check_writable(f"{tmp_path}/a")
