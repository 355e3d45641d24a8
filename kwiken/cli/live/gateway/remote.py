"""Address and token of a gateway that the command line names."""

from __future__ import annotations

import click

from kwiken.cli.live.gateway.tokens import TOKEN_VARIABLE, token_of

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
    return url.rstrip("/"), token_of(url, token_file)
