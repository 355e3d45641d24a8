"""Download of an answer from a server that somebody named: bounded, without proxies or redirects."""

from __future__ import annotations

import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Final, NamedTuple

from kwiken.errors import InputError

_CHUNK: Final = 1 << 20


class Bounds(NamedTuple):
    """Bounds of a download.

    Attributes:
        timeout_s: longest wait for the server at a time, seconds.
        whole_s: longest time of the whole download, seconds.
        size: largest size of the body, bytes.
    """

    timeout_s: float
    whole_s: float
    size: int


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirect handler that follows no redirect, so that only the given host is contacted."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002 - the library's signature
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Refuse the redirect."""
        return


@contextmanager
def downloaded(url: str, *, who: str, where: str, bounds: Bounds) -> Iterator[IO[bytes]]:
    """Send a GET request, and yield the response body as a file.

    Args:
        url: URL to get.
        who: name of the server in errors.
        where: address as given, for errors.
        bounds: bounds of the download.

    Raises:
        InputError: there is no response, or an error, or the body is too large; names the address.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    with tempfile.TemporaryFile() as spool:
        try:
            with opener.open(url, timeout=bounds.timeout_s) as answer:
                _copy(answer, spool, who, where, bounds)
        except urllib.error.HTTPError as error:
            error.close()
            raise InputError(f"{who} answered {error.code} {error.reason}", where=where) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise InputError(f"{who} does not answer: {reason}", where=where) from error
        spool.seek(0)
        yield spool


def _copy(answer: HTTPResponse, spool: IO[bytes], who: str, where: str, bounds: Bounds) -> None:
    """Copy a response body to a file.

    Raises:
        InputError: the body is too large or takes too long.
        HTTPException: the body is truncated.
    """
    size = 0
    end = time.monotonic() + bounds.whole_s
    while chunk := answer.read1(_CHUNK):
        size += len(chunk)
        if size > bounds.size:
            raise InputError(f"{who}'s answer is larger than {_told(bounds.size)}; ask for less", where=where)
        if time.monotonic() > end:
            raise InputError(
                f"{who}'s answer takes longer than {bounds.whole_s:g} s; ask for less", where=where
            )
        spool.write(chunk)
    if answer.length:
        raise HTTPException("the answer is incomplete")


def _told(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
