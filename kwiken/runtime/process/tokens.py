"""Tokens of the control routes in a file, which may change while a gateway runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.base.machine.files import read_file
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.tls.files import keep_looking, stamps_of

LOG = logging.getLogger("kwiken.gateway")
MAX_FILE: Final = 4096  # bytes
MAX_TOKENS: Final = (
    4  # in one file: the one that is sent, and those that are taken while others still send them
)


def read_tokens(path: str) -> tuple[str, ...]:
    """Read the tokens in a file, one a line; the first is the one that a gateway sends itself.

    Raises:
        InputError: the file cannot be read, or holds none; names the file.
    """
    try:
        text = read_file(Path(path), MAX_FILE).decode("utf-8")
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path) from error
    except UnicodeDecodeError as error:
        raise InputError("is not text", where=path) from error
    tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not tokens:
        raise InputError("is empty; it must hold the control routes' token", where=path)
    if len(tokens) > MAX_TOKENS:
        raise InputError(
            f"holds {len(tokens)} tokens, one a line; at most {MAX_TOKENS} are taken", where=path
        )
    return tokens


class TokenFile:
    """File of tokens, read again when it changes. A file that cannot be used keeps the tokens as they are.

    Args:
        take: called with the tokens of a file that has changed.

    Raises:
        InputError: the file cannot be used; names it.
    """

    def __init__(self, path: str, take: Callable[[tuple[str, ...]], None]) -> None:
        self._path = path
        self._take = take
        self._seen = stamps_of((path,))
        self._tokens = read_tokens(path)

    def refresh(self) -> None:
        """Look at the file, and hand its tokens on if it holds others."""
        seen = stamps_of((self._path,))
        if seen == self._seen:
            return
        self._seen = seen
        try:
            tokens = read_tokens(self._path)
        except InputError as error:
            LOG.error(  # noqa: TRY400 - the message has the reason
                "the token in force stays, because the new one cannot be used: %s",
                error,
                extra=about(Event.TOKEN_REFUSED),
            )
            return
        if tokens != self._tokens:
            self._tokens = tokens
            self._take(tokens)
            LOG.warning(
                "the control routes take the token that %s holds now",
                self._path,
                extra=about(Event.TOKEN_READ),
            )

    async def watch(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look at the file at intervals, until cancelled.

        Args:
            sleep: waits for a number of seconds.
        """
        await keep_looking(self.refresh, sleep)
