"""`kwiken traffic`: group of the commands on traffic models."""

from __future__ import annotations

from typing import Final

import click

from kwiken.cli.shared.verb_group import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "fit": "Learn who sends how much to whom, from traces or flow logs.",
    "show": "Show a traffic model: maps by level, locality, talkers.",
    "judge": "Judge a traffic model on later traffic, beside the plain mean map.",
}
REMOVED: Final = {"generate": "`kwiken load`, or `kwiken traffic show --json` for the rates"}


@click.command(
    cls=LazyGroup,
    lazy={name: LazyCommand(f"kwiken.cli.data.traffic.{name}", line) for name, line in _COMMANDS.items()},
    removed=REMOVED,
    noun="command",
)
def command() -> None:
    """Learn and judge traffic between services: who sends how much to whom, and when."""
