"""Every error that kwiken raises on purpose, in one place."""

from __future__ import annotations

from kwiken.printable import printable


class KwikenError(Exception):
    """Base of all errors that this project raises on purpose."""


class DefinitionError(KwikenError):
    """A service definition that cannot be run; the message names the stage.

    Args:
        message: what is wrong and what would be right.
        stage: the stage, named before the message; None where it is the service itself.
    """

    def __init__(self, message: str, *, stage: str | None = None) -> None:
        super().__init__(_line(f"stage {stage!r}: {message}" if stage is not None else message))
        self.stage = stage


class InputError(KwikenError):
    """A file, line, field or value from outside that is not what it should be.

    Args:
        message: what is wrong and what would be right.
        where: the file, line or field, named before the message.
    """

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(_line(f"{where}: {message}" if where is not None else message))
        self.where = where

    @property
    def problem(self) -> str:
        """The message without the place."""
        return str(self) if self.where is None else str(self).removeprefix(f"{_line(self.where)}: ")


class MissingExtraError(KwikenError, ModuleNotFoundError):
    """A library that is installed with one of the package's extras, and is not there.

    Args:
        message: what needs the library, and how to install it.
        name: import name of the library.
    """

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message, name=name)


def _line(message: str) -> str:
    """One line fit for a terminal or a log: messages quote names and fields that came from anywhere."""
    return printable(" ".join(message.expandtabs(1).splitlines()))
