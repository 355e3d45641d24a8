"""Process behaviour of the command: signals at any time, closed or broken standard streams."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.cli.shared.engines import spread
from kwiken.model.profile.codec import profile_to_json
from kwiken.runtime.base.target import load_target
from tests.support.models.profiles import small_profile
from tests.support.project.commands import reading_command, refused, run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("process") / "profile.json"
    path.write_text(profile_to_json(small_profile()))
    return path


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A shell's line in which `kwiken` is this command."""
    line = line.replace("kwiken", f'"{sys.executable}" -m kwiken')
    return subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )


def members(session: int) -> list[int]:
    """Live processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def wait_until(true: Callable[[], bool]) -> bool:
    for _ in range(600):
        if true():
            return True
        time.sleep(0.05)
    return False


class TestStandardFiles:
    def test_closed_ones_are_no_failure(self, profile: Path) -> None:
        for line in (
            f"kwiken explain {profile} >&-",
            f"kwiken plan {profile} <&- >&- 2>&-",
        ):
            done = shell(line)
            assert done.returncode == 0, (line, done.stderr)
            assert "kwiken:" not in done.stderr

    def test_nothing_is_printed_into_a_file_that_took_a_closed_ones_number(
        self, profile: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "plan.json"
        assert shell(f"kwiken plan {profile} -o {out} >&- 2>&-").returncode == 0
        assert json.loads(out.read_text())["version"] == 1

    def test_a_closed_stdin_is_empty(self) -> None:
        done = shell("kwiken plan - <&-")
        assert (done.returncode, done.stderr) == (2, "kwiken: <stdin>: is empty\n")

    def test_a_full_stdout_is_named(self, profile: Path) -> None:
        for options in ("", "--json"):
            done = shell(f"kwiken explain {profile} {options} >/dev/full")
            assert done.returncode == 2
            assert done.stderr == "kwiken: standard output: No space left on device\n"

    def test_an_unwritable_stderr_does_no_harm(self, profile: Path, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        assert shell("kwiken plan /nowhere.json 2>/dev/full").returncode == 2
        assert shell(f"kwiken plan {profile} -o {out} 2>/dev/full").returncode == 0
        assert out.exists()
        assert shell(f"kwiken plan {profile} -o {out} 2>&1 | true").returncode == 0

    def test_names_cannot_steer_the_terminal(self, tmp_path: Path) -> None:
        assert run("down", "--state", f"{tmp_path}/\x1b[31m").stderr.endswith("\\x1b[31m\n")


class TestSignals:
    @pytest.fixture
    def waiting(self) -> Iterator[subprocess.Popen[str]]:
        """A command that reads from a pipe in which nothing comes."""
        with reading_command() as child:
            yield child

    def test_sigterm_ends_it_as_ctrl_c_does(self, waiting: subprocess.Popen[str]) -> None:
        for _ in range(20):  # one that comes just before a blocking read is seen after it only
            waiting.send_signal(signal.SIGTERM)
            try:
                stderr = waiting.communicate(timeout=2)[1]
                break
            except subprocess.TimeoutExpired:
                continue
        assert waiting.returncode == 143
        assert "Traceback" not in stderr

    def test_an_interrupt_while_it_loads_is_silent(self) -> None:
        """Not a traceback out of the middle of an import."""
        code = (
            "import builtins, os, signal, sys\n"
            "true = builtins.__import__\n"
            "def slow(name, *rest):\n"
            "    if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
            "    return true(name, *rest)\n"
            "import kwiken.cli\n"
            "builtins.__import__ = slow\n"
            "kwiken.cli.main(['--help'])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")

    def test_an_interrupt_after_all_is_done_is_silent(self) -> None:
        code = (
            "import atexit, os, signal, sys\n"
            "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
            "import kwiken.cli\n"
            "kwiken.cli.main(['--version'])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")

    @pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
    def test_no_worker_outlives_an_interrupted_reproduction(self, number: signal.Signals) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "papers", "kwiken", "--jobs", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            assert wait_until(lambda: len(members(child.pid)) >= 3)  # itself and two workers
            child.send_signal(number)
            stderr = child.communicate(timeout=30)[1]
            assert child.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number], stderr
            assert wait_until(lambda: not members(child.pid))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def test_an_interrupt_that_breaks_the_pool_is_still_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It came as the pool started, and what tidies up failed."""

        def broken(_: Any) -> Any:
            error = RuntimeError("cannot join thread before it is started")
            error.__context__ = KeyboardInterrupt()
            raise error

        monkeypatch.setattr("joblib.Parallel", lambda **_: broken)
        with pytest.raises(KeyboardInterrupt):
            list(spread([], "local", 2, lambda: None))

    def test_ignored_signals_stay_ignored(self) -> None:
        """As `nohup` and a shell's background jobs have them."""
        code = (
            "import signal, kwiken.cli\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "try: kwiken.cli.main(['--version'])\n"
            "finally: print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        assert done.stdout.splitlines()[1] == f"{signal.SIG_IGN} {signal.SIG_IGN}"


class TestArguments:
    @pytest.mark.parametrize("verb", [["serve", "--local"], ["stage", "--stage", "first"]])
    def test_an_empty_host_is_not_every_address(self, verb: list[str]) -> None:
        target = "tests.support.services.http:service"
        for host in ("", " "):
            refused(
                run(*verb, target, "--port", "0", "--host", host), "'--host': is empty; give 127.0.0.1, or 0"
            )

    @pytest.mark.parametrize(
        ("target", "hint"),
        [
            ("shop.py:shop", r"shop\.py: there is no such file"),
            ("services/shop:shop", r"not a module's name; try services\.shop:shop"),
            ("..:shop", r"'\.\.' is not a module's name; try|'\.\.' is not a module's name$"),
            (".shop:shop", "is not a module's name"),
        ],
    )
    def test_a_path_without_a_module_is_refused(self, target: str, hint: str) -> None:
        refused(run("up", target), hint)

    def test_a_file_out_of_reach_says_where_to_run(self, tmp_path: Path) -> None:
        file = tmp_path / "shop.py"
        file.write_text("", encoding="utf-8")
        refused(run("up", f"{file}:shop"), f"run kwiken in {tmp_path}")

    def test_a_file_in_a_folder_below_this_one_is_a_module_of_that_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "shops").mkdir()
        text = "from kwiken import Service\nshop = Service('shop')\n@shop.stage()\nasync def sell(item: str) -> str: ..."
        (tmp_path / "shops" / "corner.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert load_target("shops/corner.py:shop").name == "shop"
        assert sys.modules["shops.corner"].__file__ == str(tmp_path / "shops" / "corner.py")
