"""Entry point: verbs are imported on use, and each failure is one line."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from kwiken.base.errors import InputError
from kwiken.cli.verbs import VERBS, explain, explain_os, module_of, one_line
from tests.support.project.commands import one_refusal, reading_command, refused, run

ROOT = Path(__file__).resolve().parents[2]


def process(*args: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kwiken", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, **settings
    )


class TestHelp:
    def test_no_verb_shows_the_verbs(self) -> None:
        result = run()
        assert result.exit_code == 0
        assert all(verb in result.stdout for verb in VERBS)
        assert result.stderr == ""

    @pytest.mark.parametrize("flag", ["-h", "--help"])
    def test_help(self, flag: str) -> None:
        assert run(flag).stdout == run().stdout

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_verb_has_help(self, verb: str) -> None:
        result = run(verb, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: kwiken {verb}")
        assert len(result.stdout.splitlines()) > 5

    def test_help_loads_no_verb(self) -> None:
        code = "import sys; from kwiken.cli import kwiken\ntry: kwiken.main(['--help'])\nexcept SystemExit: pass\n"
        code += "print('LOADED', *[m for m in sys.modules if m.startswith(('kwiken.cli.', 'kwiken.apps.'))])"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        assert set(done.stdout.splitlines()[-1].split()) == {
            "LOADED",
            "kwiken.cli.verbs",
            "kwiken.cli.shared",
            "kwiken.cli.shared.verb_group",
            "kwiken.apps.console",
            "kwiken.apps.console.output",
            "kwiken.apps.console.process",
        }

    def test_version(self) -> None:
        result = run("--version")
        assert result.exit_code == 0
        assert result.stdout.startswith("kwiken 0.")


class TestUsage:
    def test_an_unknown_verb_names_the_nearest(self) -> None:
        refused(run("simulat"), "no verb 'simulat'; did you mean 'simulate'")

    def test_an_unknown_command_of_a_verb_names_the_nearest(self) -> None:
        refused(
            run("probe", "machin"), "no command 'machin'; did you mean 'machine'.*see kwiken probe --help"
        )

    def test_an_unknown_verb_without_a_near_one_lists_them(self) -> None:
        refused(run("xyzzy"), "no verb 'xyzzy'; known: .*plan")

    def test_an_unknown_option(self) -> None:
        refused(run("--colour"), "No such option.*--colour.*see kwiken --help")
        refused(run("plan", "--colour"), "No such option.*--colour.*see kwiken plan --help")

    def test_a_missing_argument(self) -> None:
        refused(run("plan"), "Missing argument 'PROFILE'")

    def test_an_argument_too_many(self) -> None:
        refused(run("plan", "a", "b"), "unexpected extra argument")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Makes `kwiken demo` run a function of the test."""

    def install(action: Callable[[], Any]) -> None:
        module = type(sys)("kwiken.cli.live.demo")
        module.command = click.Command("demo", callback=action)  # type: ignore[attr-defined]
        module.__spec__ = importlib.util.spec_from_loader("kwiken.cli.live.demo", loader=None)
        monkeypatch.setitem(sys.modules, "kwiken.cli.live.demo", module)

    return install


def raising(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


class TestFailures:
    @pytest.mark.parametrize(
        ("error", "code", "line"),
        [
            (InputError("is empty", where="a.json"), 2, "kwiken: a.json: is empty"),
            (
                click.BadParameter("too small", param_hint="--rate"),
                2,
                "kwiken: Invalid value for --rate: too small",
            ),
            (click.ClickException("no such file"), 2, "kwiken: no such file"),
            (FileNotFoundError(errno.ENOENT, "No such file", "x"), 2, "kwiken: x: No such file"),
            (
                OSError(errno.EADDRINUSE, "error while attempting to bind"),
                2,
                "kwiken: address already in use: error",
            ),
            (
                ExceptionGroup("both", [ValueError("x"), InputError("is bad", where="f")]),
                2,
                "kwiken: f: is bad",
            ),
            (
                TypeError("a bug"),
                1,
                "kwiken: unexpected failure: TypeError: a bug (KWIKEN_TRACEBACK=1 shows where)",
            ),
            (MemoryError(), 1, "kwiken: out of memory"),
            (InputError("two\nlines\x1b[31m and\ttabs"), 2, "kwiken: two lines\\x1b[31m and tabs"),
        ],
    )
    def test_each_is_one_line(
        self, verb: Callable[[Callable[[], Any]], None], error: BaseException, code: int, line: str
    ) -> None:
        verb(raising(error))
        result = run("demo")
        assert result.exit_code == code
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith(line)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
    def test_an_interrupt_is_no_failure_of_input(
        self, verb: Callable[[Callable[[], Any]], None], error: BaseException
    ) -> None:
        verb(raising(error))
        result = run("demo")
        assert result.exit_code == 130
        assert "Traceback" not in result.stderr

    def test_a_verb_chooses_its_exit_code(self, verb: Callable[[Callable[[], Any]], None]) -> None:
        verb(lambda: 3)
        assert run("demo").exit_code == 3
        verb(lambda: None)
        assert run("demo").exit_code == 0
        verb(lambda: True)
        assert run("demo").exit_code == 0

    def test_a_traceback_is_shown_on_request(
        self, verb: Callable[[Callable[[], Any]], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KWIKEN_TRACEBACK", "1")
        verb(raising(TypeError("a bug")))
        with pytest.raises(TypeError, match="a bug"):
            run("demo")

    def test_lines_are_bounded(self) -> None:
        assert len(one_line("x" * 10_000)) < 2100
        assert one_line("") == ""

    def test_the_first_error_that_has_a_meaning_explains_a_group(self) -> None:
        nested = ExceptionGroup(
            "a", [KeyError("k"), ExceptionGroup("b", [OSError(errno.EACCES, "denied", "f")])]
        )
        assert explain(nested) == ("f: denied", 2)
        assert explain(ExceptionGroup("a", [KeyError("k")]))[1] == 1

    def test_an_os_error_without_a_message_is_still_named(self) -> None:
        assert explain_os(TimeoutError()) == "TimeoutError"


class TestProcess:
    """What only a process of its own shows."""

    def test_help_and_exit_code(self) -> None:
        done = process("--help")
        assert (done.returncode, done.stderr) == (0, "")
        done = process("plan", "/nowhere.json")
        assert (done.returncode, done.stdout) == (2, "")
        one_refusal(done.stderr, "/nowhere.json: there is no such file")

    def test_a_closed_pipe_is_silent(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "kwiken", "--help"],
                stdout=writer,
                stderr=subprocess.PIPE,
                timeout=60,
                cwd=ROOT,
                check=False,
            )
        finally:
            os.close(writer)
        assert done.stderr == b""
        assert done.returncode == 1

    @pytest.mark.parametrize(
        ("redirect", "code", "stderr"),
        [
            (">&-", 0, ""),
            (">/dev/full", 2, "kwiken: standard output: No space left on device\n"),
            ("</dev/null", 0, ""),
        ],
    )
    def test_wherever_stdout_goes(self, redirect: str, code: int, stderr: str) -> None:
        line = f'"{sys.executable}" -m kwiken --help {redirect}'
        done = subprocess.run(
            ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        assert (done.returncode, done.stderr) == (code, stderr)

    def test_nobody_reads_stderr(self) -> None:
        line = f'"{sys.executable}" -m kwiken plan /nowhere.json 2>&-'
        done = subprocess.run(
            ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        assert (done.returncode, done.stdout) == (2, "")

    def test_an_interrupt_ends_it_at_once(self) -> None:
        with reading_command() as child:
            stderr = _interrupt(child)
        assert child.returncode == 130
        assert "Traceback" not in stderr


def _interrupt(child: subprocess.Popen[str]) -> str:
    """Stderr of a process that was interrupted; a signal just before a blocking read is seen after it only."""
    for _ in range(20):
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=2)[1]
    raise AssertionError("the process does not end")


def test_the_table_of_verbs_holds_the_contract() -> None:
    wanted = "demo fit plan simulate report serve stage up down status load"
    assert {*wanted.split()} <= {*VERBS}


def test_every_verb_has_a_module() -> None:
    assert [verb for verb in VERBS if importlib.util.find_spec(module_of(verb)) is None] == []
