"""Request bodies, drawn at random with a Zipf-like popularity."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import NDArray

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.files import read_lines

MAX_BODY = 1024 * 1024
MARK = "{query}"
DEFAULT_TEMPLATE = '{"query": "{query}"}'


class Queries:
    """Request bodies with a Zipf-like popularity: the k-th is drawn in proportion to 1 / k**zipf.

    Query popularity of real search engines falls off like that (Baeza-Yates et al., SIGIR 2007).

    Args:
        bodies: JSON documents as bytes, the most popular first; an empty one is not sent.
        paths: path of the request for each body; empty if all requests have the target's path.
        zipf: the exponent, a number without unit; 0 draws all alike.

    Raises:
        InputError: no body, or an exponent outside 0 to 10.
    """

    def __init__(self, bodies: tuple[bytes, ...], *, paths: tuple[str, ...] = (), zipf: float = 1.0) -> None:
        if not bodies:
            raise InputError("there is no query to draw", where="queries")
        if not 0 <= zipf <= 10:  # noqa: PLR2004 - beyond 10 the first takes 99.9 percent
            raise InputError(f"must lie between 0 and 10; got {zipf:g}", where="zipf")
        self.bodies = bodies
        self.paths = paths
        weights = np.arange(1, len(bodies) + 1, dtype=np.float64) ** -zipf
        cumulative = np.cumsum(weights)
        self._shares = cumulative / cumulative[-1]

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.intp]:
        """(count,): indices into `bodies`, drawn by popularity.

        Args:
            count: number of queries to draw, 0 or more.
        """
        if len(self.bodies) == 1:
            return np.zeros(count, dtype=np.intp)
        return np.searchsorted(self._shares, rng.random(count), side="right")


def parse_queries(
    path: str | None, *, body: str | None, zipf: float = 1.0, target: str = "/", has_body: bool = True
) -> Queries:
    """Build the request bodies from command-line options.

    Args:
        path: a text file with one query a line; a `.jsonl` or `.ndjson` file holds one JSON body a line.
        body: a JSON body. With a text file each string in it that holds `{query}` takes the line's text; the
            default is `{"query": "{query}"}`, without a file or with a query in the path `{}`.
        target: path of the requests; `{query}` in it takes the line's text, percent-encoded.
        has_body: False for requests without a body.
        zipf: exponent of the draw; the file's first line is the most popular.

    Raises:
        InputError: names the file and line, or the option.
    """
    if path is None:
        return Queries((_without_queries(body, target, has_body=has_body),), zipf=zipf)
    in_path = MARK in target
    if not (has_body or in_path):
        raise InputError(f"has no effect: no body is sent, and the path holds no {MARK}", where="queries")
    lines = read_lines(path)
    if not lines:
        raise InputError("is empty; it needs one query a line", where=path)
    for number, line in enumerate(lines, start=1):
        if not line:
            raise InputError("is blank; it needs one query a line", where=f"{path}:{number}")
    if path.endswith((".jsonl", ".ndjson")):
        bodies = _whole_bodies(path, lines, body, target)
    elif has_body:
        bodies = _filled(lines, body, in_path=in_path)
    else:
        bodies = (b"",) * len(lines)
    return Queries(bodies, paths=_paths(target, lines) if in_path else (), zipf=zipf)


def _without_queries(body: str | None, target: str, *, has_body: bool) -> bytes:
    """The one body of a run without a file of queries; empty for requests without a body."""
    for text, where in ((target, "path"), (body or "", "body")):
        if MARK in text:
            raise InputError(f"holds {MARK}, and there is no file of queries to fill it from", where=where)
    return msgspec.json.encode(_json("{}" if body is None else body, "body")) if has_body else b""


def _whole_bodies(path: str, lines: list[str], body: str | None, target: str) -> tuple[bytes, ...]:
    """Bodies of a file that holds one JSON document a line."""
    if MARK in target:
        raise InputError(f"holds {MARK}, but {path} holds whole JSON bodies, no texts", where="path")
    if body is not None:
        raise InputError(
            f"{path} already holds whole JSON bodies, one a line; leave one of the two", where="body"
        )
    return tuple(
        msgspec.json.encode(_json(line, f"{path}:{number}")) for number, line in enumerate(lines, start=1)
    )


def _filled(lines: list[str], body: str | None, *, in_path: bool) -> tuple[bytes, ...]:
    """Bodies from the template, one for each line."""
    template = _json(("{}" if in_path else DEFAULT_TEMPLATE) if body is None else body, "body")
    if not in_path and _fill(template, "") == template:
        raise InputError(f"must hold {MARK} in a string, the place of the query", where="body")
    return tuple(msgspec.json.encode(_fill(template, line)) for line in lines)


def _paths(target: str, lines: list[str]) -> tuple[str, ...]:
    """Path for each line, which stands in it percent-encoded, `/` included."""
    return tuple(target.replace(MARK, quote(line, safe="")) for line in lines)


def _json(text: str, where: str) -> Any:
    if len(text) > MAX_BODY:
        raise InputError(f"is longer than {MAX_BODY} characters", where=where)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", where=where) from error


def _fill(template: Any, query: str) -> Any:
    """`template` with the query's text in place of every mark within its strings (not its keys)."""
    if isinstance(template, str):
        return template.replace(MARK, query)
    if isinstance(template, list):
        return [_fill(item, query) for item in template]
    if isinstance(template, dict):
        return {key: _fill(item, query) for key, item in template.items()}
    return template
