"""`kwiken traffic`: group of the commands on traffic models."""

from __future__ import annotations

from typing import Final

import click

from kwiken.cli.shared.verb_group import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "fit": "Learn who sends how much to whom, from traces or flow logs.",
    "show": "Show a traffic model: maps by level, locality, talkers.",
    "judge": "Judge a traffic model on later traffic, beside the plain mean map and a low-rank one.",
    "generate": "Generate traffic of a model: single calls, or counts by bin and pair.",
}


@click.command(
    cls=LazyGroup,
    lazy={name: LazyCommand(f"kwiken.cli.data.traffic.{name}", line) for name, line in _COMMANDS.items()},
    noun="command",
)
def command() -> None:
    """Learn, judge and generate traffic between services: who sends how much to whom, and when."""
