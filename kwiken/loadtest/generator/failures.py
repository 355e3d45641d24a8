"""Reason of a failed request in the server's own words, from the body of its answer."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kwiken.base.printable import printable

MAX_FAILURE_BYTES: Final = 4096
_MAX_CHARACTERS: Final = 300
_FIELDS: Final = ("error", "message", "detail", "reason", "title")


def failure_text(status: int, body: bytes) -> str:
    """One printable line: the status, and what the body says of the failure.

    Args:
        status: HTTP status of the answer.
        body: body of the answer, or its start.
    """
    said = _said(body)
    line = printable(" ".join(said.split()), most=_MAX_CHARACTERS)
    return f"HTTP {status}: {line}" if line else f"HTTP {status}"


def _said(body: bytes) -> str:
    """Text of the field that names the error in a JSON object, else the whole body."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
    while isinstance(document, dict):
        document = next((document[name] for name in _FIELDS if document.get(name)), None)
    return document if isinstance(document, str) else body.decode("utf-8", "replace")
