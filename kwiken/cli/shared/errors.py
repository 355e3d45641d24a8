"""What the library names by its parameters, a user knows as options and files: errors say these instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kwiken.errors import InputError

T = TypeVar("T")
FILE: Final = "FILE"  # the metavar of options that take a file
_QUOTED: Final = re.compile(r"`([a-z][a-z_-]*)`")


class VerbContext(click.Context):
    """The context of a verb's run; an input error that names a parameter names the option or file of it."""

    def invoke(self, callback: Callable[..., T] | click.Command, /, *args: Any, **kwargs: Any) -> Any:
        """As click's, once the files named are checked; errors are told in the words of the command line."""
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
    """The error as the user of a verb should read it; None where nothing in it is a parameter.

    Args:
        error: `where` may be a parameter's name; its message may hold such names in backticks.
        ctx: of the verb, with the values that were given.
    """
    where, message = error.where, error.problem
    place = _told(where, ctx) if where is not None else None
    words = _QUOTED.sub(lambda found: _told(found[1], ctx) or found[0], message)
    if place is None and words == message:
        return None
    return InputError(words, where=place or where)


def _told(name: str, ctx: click.Context) -> str | None:
    """A parameter as it was given: the file where it takes one, else the option; None for another name."""
    if name.startswith("-"):
        return None  # a verb's own word
    if any(_takes_file(param) and ctx.params.get(str(param.name)) == name for param in ctx.command.params):
        return None  # a file may be called anything
    for param in ctx.command.params:
        if _plain(name) in {_plain(known) for known in (str(param.name), *param.opts)}:
            value = ctx.params.get(str(param.name))
            if _takes_file(param) and isinstance(value, str):
                return "<stdin>" if value == "-" else value
            return None if isinstance(param, click.Argument) else max(param.opts, key=len)
    return None


def _takes_file(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument) or getattr(param, "metavar", None) == FILE


def _plain(name: str) -> str:
    """A name without what options and parameters differ in: dashes, underscores, spaces, a plural."""
    return re.sub(r"[-_ ]+", " ", name).strip().removesuffix("s")
