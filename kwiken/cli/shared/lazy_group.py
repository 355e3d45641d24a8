"""Group of commands that imports the module of a command when the command is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from kwiken.cli.shared.errors import VerbContext


class LazyCommand(NamedTuple):
    """A command of a `LazyGroup` that is not imported yet.

    Attributes:
        module: full name of the module whose `command` is the command.
        help: the line of help that the group's own help text shows.
    """

    module: str
    help: str


class LazyGroup(click.Group):
    """Group that knows the names and help lines of its commands, and imports a command on first use.

    Args:
        lazy: the commands by name, in the order of the help text.
        noun: what the group's messages call a command, such as "verb".
    """

    def __init__(self, *, lazy: Mapping[str, LazyCommand], noun: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._lazy = lazy
        self._noun = noun

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, in the order of the help text."""
        del ctx
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if the group has none of this name."""
        del ctx
        if cmd_name not in self._lazy:
            return None
        command = importlib.import_module(self._lazy[cmd_name].module).command
        assert isinstance(command, click.Command)
        command.context_class = VerbContext
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does; the error for an unknown one names the nearest known one."""
        if args and not args[0].startswith("-") and args[0] not in self._lazy:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._lazy, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self._lazy)}"
            raise click.UsageError(f"no {self._noun} {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands and their help lines, without importing any command."""
        del ctx
        with formatter.section(f"{self._noun.capitalize()}s"):
            formatter.write_dl([(name, each.help) for name, each in self._lazy.items()])
