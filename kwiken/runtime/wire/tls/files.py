"""Files of one side of TLS connections: its certificate and key, and the authorities of the other side."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import read_file

MAX_FILE: Final = 1 << 20  # bytes of a file of certificates or of a key
POLL_S: Final = 2.0  # interval of looks at the files
VERSION_TAG: Final = 0xA0
UTC_TIME_TAG: Final = 0x17
LONG_LENGTH: Final = 0x80
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"

Stamps = tuple[tuple[int, int, int] | None, ...]


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of the files of one side of TLS connections.

    Attributes:
        certificate: file with the certificate that this side shows, and those of authorities between, as PEM.
        key: file with the private key of the certificate, not encrypted, as PEM.
        authorities: file with the authorities of the other side, as PEM; a server then takes only clients
            that show a certificate of them. None at a server to ask for none, at a client for the system's.
        name: host name that certificates of servers must hold, in place of the address that is called; None
            for that address.
    """

    certificate: str
    key: str
    authorities: str | None = None
    name: str | None = None

    @property
    def paths(self) -> list[str]:
        """Paths of the files."""
        return [path for path in (self.certificate, self.key, self.authorities) if path is not None]


def stamps_of(paths: Iterable[str]) -> Stamps:
    """Version of each file: change time in nanoseconds, size, inode; None where it cannot be found."""
    return tuple(_stamp_of(path) for path in paths)


async def keep_looking(look: Callable[[], object], sleep: Callable[[float], Awaitable[None]]) -> None:
    """Look at files at intervals, until cancelled.

    Args:
        look: looks at the files once.
        sleep: waits for a number of seconds.
    """
    while True:
        await sleep(POLL_S)
        look()


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a text, not a path
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_pem(path: str) -> bytes:
    """Read a file of certificates or of a key.

    Raises:
        InputError: it cannot be read, or holds no PEM; names the file.
    """
    try:
        text = read_file(path, MAX_FILE)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path) from error
    if b"-----BEGIN " not in text or not text.isascii():
        raise InputError("is not PEM: it must hold -----BEGIN ... and be ASCII", where=path)
    return text


def expiry_s(certificate: bytes) -> float:
    """Moment at which the first certificate of a PEM expires (RFC 5280, section 4.1), seconds since 1970."""
    text = certificate[certificate.index(_BEGIN) : certificate.index(_END) + len(_END)].decode("ascii")
    der = ssl.PEM_cert_to_DER_cert(text)
    _, at, _ = _element(der, _element(der, 0)[1])  # into the certificate, and into what is signed
    if der[at] == VERSION_TAG:
        at = _element(der, at)[2]
    for _ in ("serial number", "signature", "issuer"):
        at = _element(der, at)[2]
    not_before = _element(der, at)[1]
    tag, start, end = _element(der, _element(der, not_before)[2])
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME_TAG else "%Y%m%d%H%M%SZ"
    return datetime.strptime(der[start:end].decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag of an element of DER, and where its content begins and ends."""
    length, start = der[at + 1], at + 2
    if length & LONG_LENGTH:
        start += length & ~LONG_LENGTH
        length = int.from_bytes(der[at + 2 : start], "big")
    return der[at], start, start + length


def read_key(path: str) -> bytes:
    """Read a file of a private key.

    Raises:
        InputError: it cannot be read, holds no PEM, or is encrypted; names the file.
    """
    text = read_pem(path)
    if b"ENCRYPTED" in text:
        raise InputError("is encrypted; it must hold the key as it is", where=path)
    return text
