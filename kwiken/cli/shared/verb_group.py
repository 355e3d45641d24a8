"""Group of verbs: imports a verb on first use, and names its options and files in errors."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import click

from kwiken.base.errors import InputError


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
        removed: commands of earlier releases, and what does their work now.
        groups: names of commands by the heading under which the help text lists them; None for one list.
    """

    def __init__(
        self,
        *,
        lazy: Mapping[str, LazyCommand],
        noun: str,
        removed: Mapping[str, str] | None = None,
        groups: Mapping[str, Collection[str]] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self._lazy = lazy
        self._removed = removed or {}
        self._groups = groups or {f"{noun.capitalize()}s": lazy}
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
        if args and args[0] in self._removed:
            raise click.UsageError(f"{args[0]!r} was removed; use {self._removed[args[0]]}", ctx)
        if args and not args[0].startswith("-") and args[0] not in self._lazy:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._lazy, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self._lazy)}"
            raise click.UsageError(f"no {self._noun} {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands and their help lines, without importing any command."""
        del ctx
        for heading, names in self._groups.items():
            if rows := [(name, self._lazy[name].help) for name in names if name in self._lazy]:
                with formatter.section(heading):
                    formatter.write_dl(rows)


T = TypeVar("T")
FILES: Final = ("FILE", "FILE|FOLDER")  # metavars of options that take a file
_QUOTED: Final = re.compile(r"`([a-z][a-z_-]*)`")


class VerbContext(click.Context):
    """Click context of a verb: an input error that names a parameter is raised with its option or file."""

    def invoke(self, callback: Callable[..., T] | click.Command, /, *args: Any, **kwargs: Any) -> Any:
        """Check the named files, run the command, and translate its input errors."""
        from kwiken.cli.shared.input_files import check_files

        check_files(self)
        try:
            return super().invoke(callback, *args, **kwargs)
        except InputError as error:
            told = in_options(error, self)
            if told is None:
                raise
            raise told from error


def in_options(error: InputError, ctx: click.Context) -> InputError | None:
    """Translate an input error into options and files; None if it names no parameter.

    Args:
        error: its `where` may be a parameter's name, and its message may hold such names in backticks.
        ctx: context of the verb, with the values of its parameters.
    """
    where, message = error.where, error.problem
    if where is not None and _is_file(where, ctx):
        return None  # what stands in backticks is a field of the file
    place = _parameter_name(where, ctx) if where is not None else None
    words = _QUOTED.sub(lambda found: _parameter_name(found[1], ctx) or found[0], message)
    if place is None and words == message:
        return None
    return InputError(words, where=place or where)


def _parameter_name(name: str, ctx: click.Context) -> str | None:
    """Name of a parameter on the command line: its file if it takes one, else its option; None for others."""
    if name.startswith("-"):
        return None  # an option already
    if _is_file(name, ctx):
        return None  # its name may equal a parameter's
    for param in ctx.command.params:
        if _plain(name) in {_plain(known) for known in (str(param.name), *param.opts)}:
            value = ctx.params.get(str(param.name))
            if _takes_file(param) and isinstance(value, str):
                return "<stdin>" if value == "-" else value
            return None if isinstance(param, click.Argument) else _option(param)
    return None


def _is_file(name: str, ctx: click.Context) -> bool:
    """Whether a name is that of a file on the command line."""
    return any(_takes_file(param) and ctx.params.get(str(param.name)) == name for param in ctx.command.params)


def _option(param: click.Parameter) -> str:
    """Longest name of an option, and that of its opposite: `--guard/--no-guard`."""
    names = (max(each, key=len) for each in (param.opts, param.secondary_opts) if each)
    return "/".join(names)


def _takes_file(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument) or getattr(param, "metavar", None) in FILES


def _plain(name: str) -> str:
    """Normal form of a name: options and parameters differ in dashes, underscores, spaces and a plural."""
    return re.sub(r"[-_ ]+", " ", name).strip().removesuffix("s")
