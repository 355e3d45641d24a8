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
        (["echo", "--figure", "99"], "--figure: echo has no figure '99'"),
        (["--summary"], "no results; `make papers` writes them"),
        (["ghost"], "nothing reproduces 'ghost'"),
        (["kwiken", "-o", "-", "--json"], "-o - and --json both write to stdout; choose one"),
        (["--list", "-o", "page.html"], "--list computes nothing"),
        (["storage-model", "-o", "missing/page.html"], "missing/page.html: its folder does not exist"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], pattern: str) -> None:
    refused(run(*arguments, command=command), pattern)


def test_one_figure_is_computed_and_counted_alone() -> None:
    shown = run("storage-model", "--figure", "Table A.1", "--engine", "local", command=command).stdout
    assert "Figure" not in shown
    assert shown.splitlines()[-1].startswith("met 0, missed 0, order held 0, order failed 0, exact 18,")
