"""Every error that kwiken raises on purpose, in one place."""

from __future__ import annotations


class KwikenError(Exception):
    """Base of all errors that this project raises on purpose."""


class DefinitionError(KwikenError):
    """A service definition that cannot be run; the message names the stage.

    Args:
        message: what is wrong and what would be right.
        stage: the stage, named before the message; None where it is the service itself.
    """

    def __init__(self, message: str, *, stage: str | None = None) -> None:
        super().__init__(f"stage {stage!r}: {message}" if stage is not None else message)
        self.stage = stage


class InputError(KwikenError):
    """A file, line, field or value from outside that is not what it should be.

    Args:
        message: what is wrong and what would be right.
        where: the file, line or field, named before the message.
    """

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where is not None else message)
        self.where = where
