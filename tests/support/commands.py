"""Running the command line inside the test's process, and what a refusal looks like."""

from __future__ import annotations

import re

from click.testing import CliRunner, Result

from cli import kwiken


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    """One command line."""
    return CliRunner(catch_exceptions=False).invoke(kwiken, list(args), input=stdin)


def refused(result: Result, pattern: str) -> None:
    """Check that the input was refused: exit code 2 and one line, which matches the pattern."""
    assert result.exit_code == 2, (result.exit_code, result.stdout, result.stderr)
    one_refusal(result.stderr, pattern)


def one_refusal(stderr: str, pattern: str) -> None:
    """Check that stderr is one line of ours that matches."""
    assert "Traceback" not in stderr
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("kwiken: "), stderr
    assert re.search(pattern, lines[0]), stderr
