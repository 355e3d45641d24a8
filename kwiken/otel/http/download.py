"""Bounded download from the HTTP API of a Jaeger or a Prometheus."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Final
from urllib.parse import urlsplit

from kwiken.base.errors import InputError
from kwiken.otel.http.bounded_answers import AnswerBoundError, Bounds, bounded_by

_CHUNK: Final = 1 << 20


class StatusError(InputError):
    """A server answered with an error."""

    def __init__(self, message: str, *, where: str, status: int) -> None:
        super().__init__(message, where=where)
        self.status = status


@contextmanager
def downloaded(
    url: str, *, who: str, where: str, bounds: Bounds, headers: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Send a GET request, and yield the response body as a file.

    No redirect is followed and no proxy is used, so that no other host is asked than the one in the URL.

    Args:
        url: URL to get, `http` or `https`.
        where: address as given, for errors.

    Raises:
        StatusError: the server answered with an error; names the address.
        InputError: there is no response, or the body is too large or too slow; names the address.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        HTTPSConnection(host, port, timeout=bounds.timeout_s, context=ssl.create_default_context())
        if parts.scheme == "https"
        else HTTPConnection(host, port, timeout=bounds.timeout_s)
    )
    connection.response_class = bounded_by(bounds)  # type: ignore[assignment]  # any callable will do
    with tempfile.TemporaryFile() as spool:
        try:
            with closing(connection):
                target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
                connection.request("GET", target, headers={"Connection": "close", **(headers or {})})
                with connection.getresponse() as answer:
                    _copy(answer, spool, who, where)
        except AnswerBoundError as error:
            raise InputError(f"{who}: {error}; ask for less", where=where) from error
        except (OSError, HTTPException) as error:
            raise InputError(
                f"{who} does not answer: {error or type(error).__name__}", where=where
            ) from error
        spool.seek(0)
        yield spool


def _copy(answer: HTTPResponse, spool: IO[bytes], who: str, where: str) -> None:
    """Copy a response body to a file; errors as `downloaded`."""
    if answer.status != HTTPStatus.OK:
        raise StatusError(
            f"{who} answered {answer.status} {answer.reason}", where=where, status=answer.status
        )
    while chunk := answer.read1(_CHUNK):
        spool.write(chunk)
    if answer.length:
        raise HTTPException("the answer is incomplete")
