"""Runner of the command line inside the test's process, and checks of refusals."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner, Result

from kwiken.cli.verbs import kwiken

ROOT = Path(__file__).resolve().parents[3]


def run(*args: str, stdin: str | bytes | None = None, command: click.Command = kwiken) -> Result:
    """One command line of `kwiken`, or of another command."""
    return CliRunner(catch_exceptions=False).invoke(command, list(args), input=stdin)


def refused(result: Result, pattern: str) -> None:
    """Check that the input was refused: exit code 2 and one line, which matches the pattern."""
    assert result.exit_code == 2, (result.exit_code, result.stdout, result.stderr)
    one_refusal(result.stderr, pattern)


def one_refusal(stderr: str, pattern: str) -> None:
    """Check that stderr is one line of ours that matches."""
    assert "Traceback" not in stderr
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith(("kwiken: ", "python -m ")), stderr
    assert re.search(pattern, lines[0]), stderr


@contextlib.contextmanager
def reading_command() -> Iterator[subprocess.Popen[str]]:
    """A `kwiken plan` that has begun to read its standard input, in which nothing more comes."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "kwiken", "plan", "-"]
    child = subprocess.Popen(command, stdin=reader, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        os.write(writer, b"{")
        for _ in range(1500):
            if not struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0]:
                break
            time.sleep(0.02)
        else:
            raise AssertionError("nobody read the pipe")
        yield child
    finally:
        child.kill()
        child.communicate()
        os.close(writer)
        os.close(reader)
