"""Documents as long as a reader allows, without the memory that so many bytes take."""

from __future__ import annotations

from typing import Self


class StatedLength(bytes):
    """Short text whose `len` is a stated number of bytes: readers bound `len` before anything else."""

    stated: int

    def __new__(cls, text: bytes, stated: int) -> Self:
        found = super().__new__(cls, text)
        found.stated = stated
        return found

    def __len__(self) -> int:
        return self.stated
