"""Client of control routes: a line with cause and cure for each mistake, and bounds on what an answer may be."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.runtime.gateway.control import client as module
from kwiken.runtime.gateway.control.client import ControlClient, NoAnswerError
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.files import TlsFiles
from tests.runtime.gateway.test_tls_door import TOKEN, gateways
from tests.support.faults.authority import Authority
from tests.support.runtime.server_processes import free_port

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.asynccontextmanager
async def server(answer: bytes, *, then: bytes = b"") -> AsyncIterator[str]:
    """Address of a server that sends an answer, and then some bytes without end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            while then:
                writer.write(then)
                await writer.drain()
            await reader.read()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def refusal(url: str, token: str = TOKEN) -> str:
    """What a client says of a request that must fail."""
    with pytest.raises(InputError) as caught:
        await ControlClient(url, token).status()
    assert str(caught.value).startswith(f"{url}: ")
    return caught.value.problem


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CERT", "KEY", "CA"):
        monkeypatch.delenv(f"KWIKEN_TLS_{name}", raising=False)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda _: "http://no-such-host.invalid", "its host name is not known here"),
        (lambda _: f"http://127.0.0.1:{free_port()}", "the connection was refused; is the gateway up"),
        (
            lambda url: url.replace("https", "http"),
            "the connection was closed.*; if it speaks TLS, give an https",
        ),
        (
            lambda url: url,
            "certificate verify failed: .*; set KWIKEN_TLS_CA",
        ),
    ],
)
async def test_a_wrong_address_names_cause_and_cure(
    mistake: Callable[[str], str], said: str, tmp_path: Path
) -> None:
    async with gateways([Certificates(Authority(tmp_path).issue("gateway"))]) as (gateway,):
        assert re.search(said, await refusal(mistake(gateway.url)))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "other name",
            "certificate verify failed: .*; call the gateway by a name that its certificate holds",
        ),
        ("expired", "certificate verify failed: certificate has expired; renew the certificate"),
        (
            "no certificate",
            "(refuses the certificate of the client|connection was closed).*; set KWIKEN_TLS_CERT",
        ),
        ("plain", "does not speak TLS .*; give an http address"),
    ],
)
async def test_a_wrong_certificate_names_cause_and_cure(
    kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Authority(tmp_path)
    monkeypatch.setenv("KWIKEN_TLS_CA", str(ours.file))
    files = {
        "other name": lambda: ours.issue("gateway", names="DNS:elsewhere.test"),
        "expired": lambda: ours.issue("gateway", days=-1),
        "no certificate": lambda: ours.issue("gateway"),
    }
    tls = None
    if kind != "plain":
        issued = files[kind]()
        asked = issued.authorities if kind == "no certificate" else None
        tls = Certificates(TlsFiles(certificate=issued.certificate, key=issued.key, authorities=asked))
    async with gateways([tls]) as (gateway,):
        problem = await refusal(gateway.url.replace("http:", "https:"))
    assert re.search(said, problem), problem


async def test_a_wrong_token_names_cause_and_cure() -> None:
    async with gateways([None]) as (gateway,):
        problem = await refusal(gateway.url, "wrong")
        assert "Bearer TOKEN; is the token right? Set KWIKEN_TOKEN, or give --token-file" in problem
        gateway.control.take_tokens(())
        assert "the control routes are closed" in await refusal(gateway.url)


@pytest.mark.parametrize(
    ("answer", "then", "said"),
    [
        (
            HEAD + b"content-length: 2\r\n\r\n[]",
            b"",
            "answers with another status than a gateway of this version",
        ),
        (HEAD + b"content-length: 2\r\n\r\n{}", b"", "of this version: Object missing required field `"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno", b"", "in a form that no gateway has"),
        (HEAD + b"\r\n", b"x" * 4096, "at most 65536 are taken"),
        (HEAD + b"content-length: 9\r\n\r\nx", b"", "no answer in time"),
    ],
)
async def test_an_answer_that_no_gateway_sends_is_refused(
    answer: bytes, then: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 1 << 16)
    monkeypatch.setattr(module, "REQUEST_S", 0.5)
    async with server(answer, then=then) as url:
        with pytest.raises(NoAnswerError, match=said):
            await ControlClient(url, TOKEN).status()
