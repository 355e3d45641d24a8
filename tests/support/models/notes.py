"""Notes of one kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def of_kind(notes: Iterable[object], kind: type[T]) -> list[T]:
    """The notes that are of a kind, in their order."""
    return [note for note in notes if isinstance(note, kind)]
