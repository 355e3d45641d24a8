"""Kinds of requests: where a request names its kind, so that kinds can wait in lines of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from kwiken.base.errors import InputError
from kwiken.base.printable import printable

MAX_NAMED: Final = 31  # kinds that a setting may name
MAX_KIND: Final = 64  # characters of a kind
TOO_LONG: Final = 10 ** (MAX_KIND - 1)  # whole number that is too long for a kind
OTHER: Final = "other"  # kind of requests that name none, or none of those that are listed
NO_LINES: Final = "off"  # setting that overrides the lines of a service
FORM: Final = (
    "header:NAME, field:NAME, or one of them with the kinds to tell apart, as field:size=small,large"
)
_SETTING: Final = re.compile(
    r"(header|field):([A-Za-z_][A-Za-z0-9_.-]{0,127})(?:=(.+))?", re.ASCII | re.DOTALL
)


@dataclass(frozen=True)
class RequestKinds:
    """Place in which requests name their kind.

    Attributes:
        source: part of the request: an HTTP header, which is metadata in gRPC, or a field of its body.
        name: name of the header in small letters, or of the field; dots lead into fields of fields.
        listed: kinds to tell apart; empty for all that come, up to the number that the lines bear.
    """

    source: Literal["header", "field"]
    name: str
    listed: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Read a setting such as `header:x-kind` or `field:size=small,large`.

        Args:
            text: setting as somebody wrote it, of the form above.
            where: place to name in errors, such as an option.

        Raises:
            InputError: for text of another form, or too many, too long or repeated kinds.
        """
        match = _SETTING.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InputError(f"must be {FORM}, not {str(text)[:80]!r}", where=where)
        source, name, told = match.groups()
        kinds = told.split(",") if told is not None else []
        if len(kinds) > MAX_NAMED or len(set(kinds)) < len(kinds):
            raise InputError(f"must name each of at most {MAX_NAMED} kinds once", where=where)
        for kind in kinds:
            if not 0 < len(kind) <= MAX_KIND or printable(kind) != kind:
                raise InputError(
                    f"a kind has 1 to {MAX_KIND} printable characters, unlike {kind[:80]!r}", where=where
                )
        if source == "header":
            return cls("header", name.lower(), frozenset(kinds))
        return cls("field", name, frozenset(kinds))

    def of(self, request: Any, headers: Mapping[str, str]) -> str:
        """Kind of a request; `OTHER` where it names none that counts.

        Args:
            request: the body as the first stages get it.
            headers: headers of the request by their names in small letters.
        """
        if self.source == "header":
            found: Any = headers.get(self.name)
        else:
            found = request
            for part in self.name.split("."):
                found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
        if isinstance(found, bool | int) and abs(found) < TOO_LONG:
            found = str(found).lower()
        if not isinstance(found, str) or not 0 < len(found) <= MAX_KIND or printable(found) != found:
            return OTHER
        return found if not self.listed or found in self.listed else OTHER
