"""Address and token of a gateway that the command line names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from kwiken.base.errors import InputError

TOKEN_VARIABLE: Final = "KWIKEN_TOKEN"  # noqa: S105 - the variable's name
MAX_TOKEN: Final = 4096  # bytes of a token file

token_file_option = click.option(
    "--token-file", metavar="FILE", help=f"Token for --url.  [default: the variable {TOKEN_VARIABLE}]"
)


def remote_gateway(url: str, token_file: str | None) -> tuple[str, str]:
    """Address and token of a gateway that is named on the command line.

    Args:
        token_file: path of the file with its token; None for the token in the environment.

    Raises:
        InputError: there is no token, or the file holds none.
    """
    if token_file is not None:
        return url.rstrip("/"), _token_in(Path(token_file))
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InputError(f"needs a token: give --token-file, or set {TOKEN_VARIABLE}", where=url)
    return url.rstrip("/"), token


def _token_in(file: Path) -> str:
    from kwiken.base.machine import read_file

    try:
        return read_file(file, MAX_TOKEN).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"holds no token: {error}", where=str(file)) from error
