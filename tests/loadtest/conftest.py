"""Fixtures: a server with known behaviour and `kwiken load`, in processes of their own because of gevent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.load.generator_accuracy import fake_server
from tests.support.loadtest.load_commands import Load, Ran, Serve, StartLoad
from tests.support.loadtest.locust_commands import LOCUSTFILE, Locust

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers (options of `benchmarks.load.fake_server`) and ends them after the test."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(fake_server(*options))


@pytest.fixture
def start_load() -> Iterator[StartLoad]:
    """Starts `kwiken load`; whatever still runs after the test is killed."""
    # -W error: importing Locust and gevent must not warn.
    verb = (sys.executable, "-W", "error", "-c", "from kwiken.cli import main; main()", "load")
    with ExitStack() as stack:

        def start(*arguments: str) -> subprocess.Popen[str]:
            process = stack.enter_context(
                subprocess.Popen(
                    (*verb, *arguments),
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture(scope="session")
def load_forks() -> Iterator[subprocess.Popen[str]]:
    """The process that forks once per command."""
    with subprocess.Popen(
        (sys.executable, "-W", "error", "-m", "tests.support.loadtest.load_forks"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.write("\n")


@pytest.fixture
def load(load_forks: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Runs `kwiken load` and waits for it."""

    def run(*arguments: str) -> Ran:
        folder = tmp_path_factory.mktemp("load")
        out, err = folder / "out", folder / "err"
        out.touch()
        err.touch()
        asked = {"arguments": arguments, "environment": dict(os.environ), "out": str(out), "err": str(err)}
        assert load_forks.stdin is not None
        assert load_forks.stdout is not None
        load_forks.stdin.write(json.dumps(asked) + "\n")
        load_forks.stdin.flush()
        code = int(load_forks.stdout.readline())
        return Ran(code, out.read_text("utf-8"), err.read_text("utf-8"))

    return run


@pytest.fixture
def locust() -> Iterator[Locust]:
    """Starts Locust's command with a locustfile; whatever still runs after the test is killed."""
    with ExitStack() as stack:

        def start(*arguments: str, file: Path = LOCUSTFILE) -> subprocess.Popen[str]:
            command = (sys.executable, "-W", "error", "-m", "locust", "-f", str(file), *arguments)
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            return process

        yield start
