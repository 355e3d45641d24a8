"""Access to the HTTP APIs of Jaeger and Prometheus: the address that a user gives, and a bounded download."""

from __future__ import annotations

import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from kwiken.base.errors import InputError

_CHUNK: Final = 1 << 20
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"([1-9]\d{0,8})([smhd])")


@dataclass(frozen=True, slots=True)
class QueryAddress:
    """Address of a server that stores traces or metrics, with what to ask for.

    Attributes:
        where: address as given, for errors.
        form: form that the address should have, for errors.
        path: path without slashes at its ends, as given.
    """

    where: str
    form: str
    host: str
    path: str
    asked: dict[str, str]

    @classmethod
    def parse(cls, address: str, *, form: str, known: Sequence[str]) -> QueryAddress:
        """Read an address.

        Args:
            form: form that the address should have; begins with its scheme.

        Raises:
            InputError: the address has another form; says what is wrong.
        """
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError as error:
            raise _refused(address, form, f"is no address: {error}") from error
        if parts.scheme != form.partition(":")[0] or not parts.hostname or port is None:
            raise _refused(address, form, "names no host and port")
        if parts.username is not None or parts.fragment:
            raise _refused(address, form, "has a user or a fragment")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(asked.keys() - set(known))
        if unknown:
            names = f"known {'are' if len(known) > 1 else 'is'} {', '.join(known)}"
            raise _refused(address, form, f"has an unknown parameter {unknown[0]!r}, {names}")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(address, form, f"{host}:{port}", parts.path.strip("/"), asked)

    def refused(self, message: str) -> InputError:
        """Error that says what is wrong with the address, and the form that it should have."""
        return _refused(self.where, self.form, message)

    def lookback(self, default: str) -> tuple[str, int]:
        """Length of the window to ask for, as given and in seconds.

        Args:
            default: length where the address names none.

        Raises:
            InputError: the length is no duration.
        """
        told = _DURATION.fullmatch(self.asked.get("lookback", default))
        if told is None:
            raise self.refused("has a lookback that is no duration such as 30m, 1h or 2d")
        return told[0], int(told[1]) * _SECONDS[told[2]]


def _refused(address: str, form: str, message: str) -> InputError:
    return InputError(f"{message}; the form is {form}", where=address)


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
        where: address as given, for errors.

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
