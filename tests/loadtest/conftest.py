"""A known server and the `kwiken load` command, each in a process of its own: gevent never enters the tests'."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtest.selfcheck import fake_server
from tests.support.load_commands import Load, Ran, Serve, StartLoad

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers (options of `loadtest._fake`) and ends them after the test."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(fake_server(*options))


@pytest.fixture
def start_load() -> Iterator[StartLoad]:
    """Starts `kwiken load`; whatever still runs after the test is killed."""
    # -W error: importing Locust and gevent must not warn.
    verb = (sys.executable, "-W", "error", "-c", "from cli import main; main()", "load")
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


@pytest.fixture
def load(start_load: StartLoad) -> Load:
    """Runs `kwiken load` and waits for it."""

    def run(*arguments: str) -> Ran:
        process = start_load(*arguments)
        out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out, err)

    return run
