"""Token of a gateway's control routes that is named on the command line: by a file or by a variable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError

TOKEN_VARIABLE: Final = "KWIKEN_TOKEN"  # noqa: S105 - the variable's name
MAX_TOKEN: Final = 4096  # bytes of a token file


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
