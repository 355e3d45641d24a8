"""Base of documents in JSON: typed, versioned, unknown fields refused; errors name the field."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import MAX_BYTES, check_version, convert, parse_json


class StrictStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Struct of a document: it cannot change, and fields that it does not have are refused."""


class DocumentFormat(NamedTuple):
    """Format of a document.

    Attributes:
        version: version of the format that is read and written.
        max_bytes: largest length of a document, bytes.
        marks: fields without which the text is a document of another kind.
        absent: error message for a document of another kind.
        indented: whether the text has one field a line.
    """

    version: int = 1
    max_bytes: int = MAX_BYTES
    marks: tuple[str, ...] = ()
    absent: str = ""
    indented: bool = True


class JsonDocument(StrictStruct, frozen=True, kw_only=True):
    """Document that is written as JSON and read strictly; a subclass states its `FORMAT`."""

    FORMAT: ClassVar[DocumentFormat]

    def to_json(self) -> str:
        """The document as JSON, readable by `from_json`."""
        text = msgspec.json.encode(self)
        return (msgspec.json.format(text, indent=1) if self.FORMAT.indented else text).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> Self:
        """Read a document.

        Args:
            where: source to name in errors, such as a file's path.

        Raises:
            InputError: names the line of broken syntax, or the field that is missing, unknown, doubled, of
                another version, out of range, or at odds with another field.
        """
        told = cls.FORMAT
        raw = parse_json(text, where=where, max_bytes=told.max_bytes)
        if told.marks and not (isinstance(raw, dict) and raw.keys() >= {*told.marks}):
            raise InputError(told.absent, where=where)
        if isinstance(raw, dict) and (
            told.marks or "version" in raw
        ):  # else it is missing, which is said below
            check_version(raw.get("version"), told.version, where=where)
        found = convert(raw, cls, where=where)
        found.check(where)
        return found

    def check(self, where: str) -> None:
        """Check what the fields say of each other.

        Args:
            where: source to name in errors, such as a file's path.

        Raises:
            InputError: names the fields that are at odds.
        """
