"""Certificate authority of one test."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kwiken.runtime.wire.tls.files import TlsFiles

NAMES = "DNS:localhost,DNS:replica.test,IP:127.0.0.1"


class Authority:
    """Authority whose certificates tests take.

    Args:
        folder: folder for its files, which is made.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-days", "60", "-keyout", self._key, "-out", self.file),
        )

    def issue(
        self, name: str, *, names: str = NAMES, days: int = 30, into: TlsFiles | None = None
    ) -> TlsFiles:
        """Issue a certificate; it and its authority are the files of one side.

        Args:
            names: names that it holds.
            days: days that it is valid, below 0 for one that has expired.
            into: files to write instead of new ones, as a rotation does.
        """
        request, extra = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        fresh_key, fresh = self._folder / f"{name}.new.key", self._folder / f"{name}.new.pem"
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", fresh_key, "-out", request),
        )
        extra.write_text(f"subjectAltName={names}\n")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self._key, "-CAcreateserial"),
            *("-extfile", extra, "-out", fresh, "-days", str(days)),
        )
        files = into or TlsFiles(
            certificate=str(self._folder / f"{name}.pem"),
            key=str(self._folder / f"{name}.key"),
            authorities=str(self.file),
        )
        fresh_key.replace(files.key)
        fresh.replace(files.certificate)
        return files


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
