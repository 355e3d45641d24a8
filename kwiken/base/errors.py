"""Base classes of the errors that kwiken raises on purpose."""

from __future__ import annotations

import re
from typing import Final

from kwiken.base.printable import printable

MAX_REPEATED: Final = 200  # characters of an input that a message repeats
# An input in a message is a word, or stands in quotes, which do not begin within a word.
_LONG_WORD: Final = re.compile(rf"(\S{{{MAX_REPEATED}}})\S+")
_LONG_QUOTE: Final = re.compile(rf"(?<!\S)(['\"`])((?:(?!\1).){{{MAX_REPEATED}}})(?:(?!\1).)+")


class KwikenError(Exception):
    """Base class of all errors that kwiken raises on purpose."""


class DefinitionError(KwikenError):
    """Error in a service definition; the message names the stage.

    Args:
        message: problem, and what would be right.
        stage: name of the stage, put before the message; None for a problem of the service itself.
    """

    def __init__(self, message: str, *, stage: str | None = None) -> None:
        super().__init__(
            _line(message) if stage is None else f"{_line(f'stage {stage!r}')}: {_line(message)}"
        )
        self.stage = stage


class InputError(KwikenError):
    """Error in input from outside: a file, line, field or value.

    Args:
        message: problem, and what would be right.
        where: file, line or field, put before the message; None for none.
    """

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(_line(message) if where is None else f"{_line(where)}: {_line(message)}")
        self.where = where

    @property
    def problem(self) -> str:
        """Message without `where`."""
        return str(self) if self.where is None else str(self).removeprefix(f"{_line(self.where)}: ")


class MissingExtraError(KwikenError, ModuleNotFoundError):
    """A library that is installed with one of the package's extras, and is not there.

    Args:
        message: what needs the library, and how to install it.
    """

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message, name=name)


def _line(message: str) -> str:
    """Message as one printable line: messages quote names and fields from untrusted input."""
    line = printable(" ".join(message.expandtabs(1).splitlines()))
    return _LONG_WORD.sub(r"\1...", _LONG_QUOTE.sub(r"\1\2...", line)) if len(line) > MAX_REPEATED else line
