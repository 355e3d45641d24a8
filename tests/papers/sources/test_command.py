"""`python -m papers`: names of sources, and one line for bad input."""

from __future__ import annotations

import pytest

from papers.__main__ import command
from papers.sources import NAMES
from tests.support.project.commands import refused, run


def test_sources_are_listed() -> None:
    table = run("--list", command=command).stdout
    assert all(name in table for name in NAMES)


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        (["ghost"], "nothing reproduces 'ghost'"),
        (["kwiken", "-o", "-", "--json"], "-o - and --json both write to stdout; choose one"),
        (["--list", "-o", "page.html"], "--list computes nothing"),
        (["storage-model", "-o", "missing/page.html"], "missing/page.html: its folder does not exist"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], pattern: str) -> None:
    refused(run(*arguments, command=command), pattern)
