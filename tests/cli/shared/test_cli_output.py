"""Reading and writing files: bounded, atomic, and every failure names the file."""

from __future__ import annotations

import io
import json
import math
import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kwiken.apps.console.output import print_json, print_table, progress, read_text, write_text
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Ladder


class TestRead:
    def test_text_comes_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes("\ufeffgrüße\r\n".encode())
        assert read_text(str(path), 100) == "grüße\r\n"

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "is empty"),
            (b" \n\t\r\n", "is empty"),
            (b"\x7fELF\x00\x00", "is binary, not text"),
            (b"one\ntwo \xff", "a:2: is not UTF-8 text"),
            (b"x" * 101, "is larger than 100 bytes"),
        ],
    )
    def test_what_is_no_text(self, tmp_path: Path, data: bytes, message: str) -> None:
        path = tmp_path / "a"
        path.write_bytes(data)
        with pytest.raises(InputError, match=message) as caught:
            read_text(str(path), 100)
        assert str(caught.value).startswith(str(path))

    def test_the_bound_itself_is_taken(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"x" * 100)
        assert len(read_text(str(path), 100)) == 100

    def test_a_huge_file_is_refused_unread(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        with path.open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(InputError, match="larger than 16 MiB"):
            read_text(str(path), 16 << 20)

    def test_an_endless_device_is_refused(self) -> None:
        with pytest.raises(InputError, match="is not a regular file"):
            read_text("/dev/zero", 1 << 20)

    @pytest.mark.parametrize(
        ("name", "message"),
        [("nothing", "no such file"), ("", "is a folder"), ("a/b", "Not a directory"), ("x\0y", "null")],
    )
    def test_what_is_no_file(self, tmp_path: Path, name: str, message: str) -> None:
        (tmp_path / "a").write_text("x")
        with pytest.raises(InputError, match=message):
            read_text(str(tmp_path) + "/" + name, 100)

    def test_dash_is_stdin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text")))
        assert read_text("-", 100) == "text"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        with pytest.raises(InputError, match="<stdin>: is empty"):
            read_text("-", 100)

    @given(st.binary(max_size=50))
    def test_any_bytes_are_read_or_refused(self, data: bytes) -> None:
        reader, writer = os.pipe()
        os.write(writer, data)
        os.close(writer)
        try:
            assert read_text(f"/dev/fd/{reader}", 40).encode() in {data, data.removeprefix(b"\xef\xbb\xbf")}
        except InputError:
            pass
        finally:
            os.close(reader)


class TestWrite:
    def test_a_new_file_and_an_old_one(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        write_text(str(path), "one")
        path.chmod(0o640)
        write_text(str(path), "two")
        assert path.read_text() == "two"
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert [found.name for found in tmp_path.iterdir()] == ["a"]

    def test_a_new_file_has_the_usual_mode(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_text(str(tmp_path / "a"), "x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640

    def test_a_link_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to("real")
        write_text(str(tmp_path / "link"), "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "new"

    def test_a_failure_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "a"
        path.write_text("old")
        monkeypatch.setattr(Path, "replace", _full)
        with pytest.raises(InputError, match="a: cannot be written: No space left"):
            write_text(str(path), "new")
        assert path.read_text() == "old"
        assert [found.name for found in tmp_path.iterdir()] == ["a"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("", "is a folder"),
            ("no/a", "folder does not exist"),
            ("file/a", "Not a directory"),
            ("n" * 300, "too long"),
        ],
    )
    def test_where_nothing_can_be_written(self, tmp_path: Path, name: str, message: str) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError, match=message):
            write_text(f"{tmp_path}/{name}", "x")

    def test_dash_is_stdout_and_devices_stay(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_text("-", "text")
        assert capsys.readouterr().out == "text"
        write_text("/dev/null", "text")
        assert Path("/dev/null").is_char_device()


def _full(self: Path, target: Path) -> None:
    raise OSError(28, "No space left on device")


class TestPrint:
    def test_json_holds_no_nan(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_json(
            {"a": [math.nan, (1.5, -math.inf)], "ladder": Ladder(p50_ms=1), "spent": Budgets(), "ü": None}
        )
        found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert found["a"] == [None, [1.5, None]]
        assert found["ladder"]["p50_ms"] == 1
        assert found["ü"] is None

    def test_tables_take_names_as_they_are(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_table("Stages [x]", ("stage", "ms"), [("[bold]GET /[/bold]", "1.0"), ("b" * 200, "\x1b[2J")])
        captured = capsys.readouterr()
        assert captured.err == ""
        assert "[bold]GET /[/bold]" in captured.out
        assert "Stages [x]" in captured.out
        assert "\x1b" not in captured.out

    def test_tables_go_to_stderr_where_stdout_has_a_document(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        print_table("t", ("stage",), [("a",)], to_stderr=True, apart=True)
        captured = capsys.readouterr()
        assert captured.err.startswith("\nt")
        assert "a" in captured.err
        assert captured.out == ""


class TestProgress:
    def test_progress_is_silent_without_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        with progress("reading", total=10) as bar:
            bar.advance()
            bar.update(5, total=20, label="still")
        assert capsys.readouterr() == ("", "")

    def test_progress_shows_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with progress("reading", total=10) as bar:
            bar.advance(2)
            bar.update(10, total=20, label="still reading")
        assert "still reading" in terminal.getvalue()
