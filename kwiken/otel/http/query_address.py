"""Address of a Jaeger or a Prometheus, as a user gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_regular

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SCHEMES: Final = ("jaeger", "prometheus")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)((?:\+[A-Za-z0-9.+-]*)?):(//)?")
MAX_TOKEN: Final = 8192
_TOKEN: Final = re.compile(rb"[!-~]+")
_DURATION: Final = re.compile(r"([1-9]\d{0,8})([smhd])")


def scheme_of(source: str) -> str | None:
    """`jaeger` or `prometheus` for an address of one; None for a file or a folder.

    Args:
        source: what the user gives traces or metrics by.

    Raises:
        InputError: an address of something else; names the schemes that there are.
    """
    found = _SCHEME.match(source)
    if found is None:
        return None
    scheme, tail, slashes = found[1].lower(), found[2], found[3]
    if scheme in SCHEMES and tail in {"", "+https"}:
        return scheme
    if not slashes:  # a file's name may hold a colon
        return None
    known = ", ".join(f"{each}{more}://" for each in SCHEMES for more in ("", "+https"))
    raise InputError(
        f"there is no scheme {scheme + tail!r}; there are {known}, and files and folders by their paths",
        where=source,
    )


@dataclass(frozen=True, slots=True)
class QueryAddress:
    """Address of a server that stores traces or metrics, with what to ask for.

    Attributes:
        where: address as given, for errors.
        form: form that the address should have, for errors.
        origin: scheme, host and port of the server, as in `http://127.0.0.1:9090`.
        path: path without slashes at its ends, as given.
    """

    where: str
    form: str
    origin: str
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
        scheme, _, secure = parts.scheme.partition("+")
        if scheme != form.partition(":")[0] or secure not in {"", "https"}:
            raise _refused(address, form, "is of another kind")
        if not parts.hostname or (port is None and not secure):
            raise _refused(address, form, "names no host and port")
        if parts.username is not None or parts.fragment:
            raise _refused(address, form, "has a user or a fragment")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(asked.keys() - set(known))
        if unknown:
            names = f"known {'are' if len(known) > 1 else 'is'} {', '.join(known)}"
            raise _refused(address, form, f"has an unknown parameter {unknown[0]!r}, {names}")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        origin = f"{secure or 'http'}://{host}{'' if port is None else f':{port}'}"
        return cls(address, form, origin, parts.path.strip("/"), asked)

    def refused(self, message: str) -> InputError:
        """Error that says what is wrong with the address, and the form that it should have."""
        return _refused(self.where, self.form, message)

    def headers(self) -> dict[str, str]:
        """Headers of each request: the bearer token from the file that `token-file` names, if it is given.

        Raises:
            InputError: the file cannot be read, or holds no token.
        """
        file = self.asked.get("token-file")
        if file is None:
            return {}
        try:
            with open_regular(file) as opened:
                text = opened.read(MAX_TOKEN + 1).strip()
        except (OSError, ValueError) as error:
            raise InputError(f"the token cannot be read: {error}", where=file) from error
        if len(text) > MAX_TOKEN or not _TOKEN.fullmatch(text):
            raise InputError(f"holds no bearer token of 1 to {MAX_TOKEN} characters", where=file)
        return {"Authorization": f"Bearer {text.decode()}"}

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
