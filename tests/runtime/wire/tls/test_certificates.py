"""Certificates from files: what is refused at the start, followed while running, and kept when files break."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import msgspec
import pytest

from kwiken.base.errors import InputError
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.clients import ClientTls
from kwiken.runtime.wire.tls.files import POLL_S
from tests.support.faults.authority import Authority


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, other = authority.issue("good"), authority.issue("other")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    text = tmp_path / "text.pem"
    text.write_text("no certificate at all")
    huge = tmp_path / "huge.pem"
    huge.write_bytes(b"-----BEGIN CERTIFICATE-----" + b"a" * (1 << 21))
    secret = tmp_path / "secret.key"
    secret.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
    for change, named, reason in (
        ({"certificate": str(tmp_path / "none")}, "none", "No such file"),
        ({"certificate": str(text)}, "text.pem", "is not PEM"),
        ({"certificate": str(broken)}, "broken.pem", "is no certificate of the key"),
        ({"key": other.key}, "good.pem", "is no certificate of the key"),
        ({"key": str(secret)}, "secret.key", "is encrypted"),
        ({"authorities": str(broken)}, "broken.pem", "holds no certificate"),
        ({"authorities": str(huge)}, "huge.pem", "is larger than"),
        ({"authorities": str(tmp_path)}, str(tmp_path), "Is a directory"),
    ):
        with pytest.raises(InputError, match=reason) as caught:
            Certificates(msgspec.structs.replace(good, **change))
        assert named in str(caught.value)


def test_files_are_followed_and_broken_ones_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("server")
    certificates = Certificates(files)
    server, pem = certificates.server, certificates.pem
    assert not certificates.refresh()
    assert certificates.server is server

    authority.issue("server", into=files)
    assert certificates.refresh()
    assert certificates.server is not server
    assert certificates.pem != pem
    assert certificates.version == 2

    good = Path(files.certificate).read_bytes()
    Path(files.certificate).write_text("nonsense")
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > 5:
            raise EOFError

    caplog.clear()
    server = certificates.server
    with caplog.at_level(logging.INFO), pytest.raises(EOFError):
        asyncio.run(certificates.watch(sleep))
    assert waits == [POLL_S] * 6
    assert certificates.server is server
    assert certificates.version == 2
    (line,) = caplog.messages
    assert "the certificate in force stays" in line
    assert "is not PEM" in line

    Path(files.certificate).write_bytes(good)
    assert certificates.refresh(), "what works again is taken, though it is the one before"


def test_an_expired_certificate_does_not_replace_a_valid_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("server", days=100)
    certificates = Certificates(files)
    assert 99.9 < certificates.days_left <= 100
    pem = certificates.pem
    authority.issue("server", days=-1, into=files)
    assert not certificates.refresh()
    assert certificates.pem == pem
    assert "has expired, and the one in force has not" in caplog.text
    authority.issue("server", days=50, into=files)
    assert certificates.refresh()
    assert 49.9 < certificates.days_left <= 50
    assert "expires in" not in caplog.text


@pytest.mark.parametrize("days", [20, 20_000])  # the later one states its end in another form
def test_the_end_of_a_certificate_is_announced_once_a_day(
    days: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moment = time.time()
    certificates = Certificates(Authority(tmp_path).issue("server", days=days), now=lambda: moment)
    started = moment
    for hour in range((days - 16) * 24, (days + 2) * 24):
        moment = started + 3600 * hour
        certificates.refresh()
    assert len(caplog.messages) == 16
    assert caplog.messages[0].endswith("expires in 13 to 14 days")
    assert caplog.messages[13].endswith("expires in 0 to 1 days")
    assert all(line.endswith("has expired") for line in caplog.messages[14:])


def test_clients_name_their_files_by_variables(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("client")
    named = {"KWIKEN_TLS_CERT": files.certificate, "KWIKEN_TLS_KEY": files.key}
    assert ClientTls({}).context().check_hostname
    assert not ClientTls(named).context().check_hostname, "the certificate itself is compared"
    assert ClientTls(named | {"KWIKEN_TLS_CA": str(authority.file)}).context().check_hostname
    assert ClientTls({"KWIKEN_TLS_CA": str(authority.file)}).context().check_hostname
    with pytest.raises(InputError, match="go together"):
        ClientTls({"KWIKEN_TLS_KEY": files.key})
