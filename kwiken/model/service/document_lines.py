"""Document that a service is read from, in errors: its name, and the lines of its values where known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from kwiken.base.errors import DefinitionError, InputError

Lines = Mapping[tuple[str | int, ...], int]


class DocumentLines:
    """Document in errors.

    Args:
        name: name of the document, such as a file's path.
        lines: line of each value, from 1, by the fields and positions that lead to the value; None for a
            document of which the lines are unknown.
    """

    def __init__(self, name: str, lines: Lines | None = None) -> None:
        self._name = name
        self._lines = lines

    def at(self, *path: str | int) -> str:
        """Name of the document, with the line of a value, or of the nearest one that would hold the value."""
        if self._lines is None:
            return self._name
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self._name}:{self._lines.get(path, 1)}"

    @contextlib.contextmanager
    def naming_lines(self, stages: Mapping[str, int]) -> Iterator[None]:
        """Name the line in errors of a definition; without lines they stay as they are.

        Args:
            stages: position from 0 in the document of each stage that the body defines, by name.

        Raises:
            InputError: the definition's error, with the line of the stage, or of the field of the stage that
                the error begins with; an error of no stage has the line of the service's name.
        """
        try:
            yield
        except DefinitionError as error:
            if self._lines is None:
                raise
            place: tuple[str | int, ...] = ("service",)
            if error.stage is not None and error.stage in stages:
                place = ("stages", stages[error.stage])
                field = str(error).removeprefix(f"stage {error.stage!r}: ").partition(" ")[0].strip("`:")
                place = (*place, field) if (*place, field) in self._lines else place
            raise InputError(str(error), where=self.at(*place)) from error
