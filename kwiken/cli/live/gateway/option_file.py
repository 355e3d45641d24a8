"""File `kwiken.toml` of a folder: options of `kwiken up` that the command line leaves out."""

from __future__ import annotations

from typing import Any, Final

import click

from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB, read_file

OPTION_FILE: Final = "kwiken.toml"
TABLE: Final = "up"
MAX_FILE: Final = 1 * MIB
NOT_IN_FILE: Final = frozenset({"help", "detach"})


def read_option_file(command: click.Command, ctx: click.Context) -> dict[str, Any]:
    """Values of a verb's options by the name of the parameter, from the current folder; empty for no file.

    The table `[up]` holds each option by its name without the dashes, and the services as `services`.

    Raises:
        InputError: for broken TOML, another table, an unknown option, or a value that no option takes.
    """
    try:
        text = read_file(OPTION_FILE, MAX_FILE)
    except FileNotFoundError:
        return {}
    from kwiken.base.parsing.strict_toml import parse_toml

    document = parse_toml(text, where=OPTION_FILE)
    table = document.pop(TABLE, {})
    if document or not isinstance(table, dict):
        raise InputError(
            f"must hold one table, [{TABLE}], not {', '.join(document) or TABLE!r}", where=OPTION_FILE
        )
    known = {
        option.lstrip("-"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    values: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{OPTION_FILE}: {name}"
        if name == "services":
            values |= _services(value, where)
            continue
        parameter = known.get(name)
        if parameter is None or parameter.name is None or name in NOT_IN_FILE:
            raise InputError(f"is no option that may stand here; see: kwiken {TABLE} --help", where=where)
        _check(parameter, value, where)
        try:
            parameter.type_cast_value(ctx, value)
        except click.BadParameter as error:
            raise InputError(error.message, where=where) from error
        values[parameter.name] = value
    return values


def _services(value: object, where: str) -> dict[str, Any]:
    """Services as the command line takes them: the first one, and others."""
    if not (isinstance(value, list) and value and all(isinstance(one, str) for one in value)):
        raise InputError("must be a list of services, as MODULE:NAME or FILE.py:NAME", where=where)
    return {"target": value[0], "others": tuple(value[1:])}


def _check(parameter: click.Option, value: object, where: str) -> None:
    """Refuse a value of a kind that the command line could not have given."""
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"must be true or false, not {value!r}", where=where)
    elif parameter.multiple:
        if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise InputError(f"must be a list of texts, not {value!r}", where=where)
    elif isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"must be a text or a number, not {value!r}", where=where)
