"""Address and token of a gateway that the command line names, and requests to its control routes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from kwiken.base.errors import InputError

if TYPE_CHECKING:
    from kwiken.runtime.gateway.control.client import ControlClient

T = TypeVar("T")
TOKEN_VARIABLE: Final = "KWIKEN_TOKEN"  # noqa: S105 - the variable's name
MAX_TOKEN: Final = 4096  # bytes of a token file

token_file_option = click.option(
    "--token-file", metavar="FILE", help=f"Token for --url.  [default: the variable {TOKEN_VARIABLE}]"
)


def ask(url: str, token: str, request: Callable[[ControlClient], Awaitable[T]]) -> T:
    """Send a request to a gateway, and wait for the answer.

    Args:
        request: sends the request by the client that it is given.

    Raises:
        NoAnswerError: there is no answer of a gateway; says what failed, and what to set.
        InputError: the gateway refuses; with its reason.
    """
    import asyncio

    from kwiken.runtime.gateway.control.client import ControlClient

    async def asked() -> T:
        return await request(ControlClient(url, token))

    return asyncio.run(asked())


def remote_gateway(url: str, token_file: str | None) -> tuple[str, str]:
    """Address and token of a gateway that is named on the command line.

    Args:
        token_file: path of the file with its token; None for the token in the environment.

    Raises:
        InputError: there is no token, or the file holds none.
    """
    return url.rstrip("/"), token_of(url, token_file)


def token_of(url: str, token_file: str | None) -> str:
    """Token of a gateway: of the file, else of the variable.

    Args:
        url: address of the gateway, for errors.
        token_file: file with the token; None for the variable.

    Raises:
        InputError: there is no token.
    """
    if token_file is not None:
        return _token_in(Path(token_file))
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise InputError(f"needs a token: give --token-file, or set {TOKEN_VARIABLE}", where=url)
    return token


def _token_in(file: Path) -> str:
    from kwiken.base.machine.files import read_file

    try:
        tokens = read_file(file, MAX_TOKEN).decode("ascii").split()
    except (OSError, ValueError) as error:
        raise InputError(f"holds no token: {error}", where=str(file)) from error
    if not tokens:
        raise InputError("is empty, and must hold a token", where=str(file))
    return tokens[0]
