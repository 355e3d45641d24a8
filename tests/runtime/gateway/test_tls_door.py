"""Front door over TLS: both protocols, siblings, control clients, the autopilot's client, and other tokens."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import grpc
import pytest
from grpc import aio

from kwiken.base.errors import InputError
from kwiken.otel.metrics import catalog
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.ledger.shared_budget import SharedBudget
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.client import ControlClient, NoAnswerError
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.siblings import Siblings
from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.gateway.steering.gateways import Gateways
from kwiken.runtime.process.tokens import TokenFile, read_tokens
from kwiken.runtime.wire.tls.certificates import DAY_S, Certificates
from kwiken.runtime.wire.tls.clients import client_variables
from kwiken.runtime.wire.tls.files import TlsFiles
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.faults.authority import Authority
from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.runtime.waiting import PATIENCE_S
from tests.support.services.http import service

TOKEN = "secret"


@contextlib.asynccontextmanager
async def gateways(certificates: Sequence[Certificates | None]) -> AsyncIterator[list[Gateway]]:
    """Gateways that run their stages themselves and know one another."""
    found: list[Gateway] = []
    urls: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        for number, tls in enumerate(certificates):
            executor = Executor(
                service,
                LocalTransport(service),
                replicas=local_replicas(service),
                clock=SystemClock(),
                rng=random.Random(number),
            )
            settings = GatewaySettings(token=TOKEN, remote=False, name=f"gateway-{number}", certificates=tls)
            siblings = Siblings(lambda: urls, TOKEN, tls=tls)
            budget = SharedBudget(executor.ledger, settings.name, 0.0, least=2)
            exchange = Exchange(PlanInForce(executor, settings.name), siblings, budget, executor.ledger)
            gateway = Gateway(service, executor, settings, exchange=exchange)
            await gateway.start()
            stack.push_async_callback(gateway.stop, grace_s=1.0, linger_s=0.0)
            urls.append(gateway.url)
            found.append(gateway)
        yield found


async def answer_of(url: str, context: ssl.SSLContext | bool) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/request", json={"text": "hi"}, ssl=context) as response,
    ):
        return str((await response.json())["answer"]["said"])


async def test_callers_must_show_a_certificate_of_the_authority(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    caller = Certificates(ours.issue("caller"))
    async with gateways([Certificates(ours.issue("gateway"))]) as (gateway,):
        assert gateway.url.startswith("https://127.0.0.1:")
        assert await answer_of(gateway.url, caller.client) == "HI0 HI1"
        [validity] = [
            each for each in gateway.metrics.collect() if each.metric == catalog.CERTIFICATE_VALIDITY
        ]
        [(_, left_s)] = validity.points
        assert isinstance(left_s, float)
        assert 29.9 * DAY_S < left_s <= 30 * DAY_S
        refused = [
            ssl.create_default_context(cafile=str(ours.file)),
            Certificates(theirs.issue("caller")).client,
        ]
        refused[1].load_verify_locations(str(ours.file))
        expired = ours.issue("expired", days=-1)
        refused.append(Certificates(expired).client)
        for context in refused:
            with pytest.raises((aiohttp.ClientError, OSError)):
                await answer_of(gateway.url, context)
        plain = gateway.url.replace("https", "http")
        with pytest.raises(aiohttp.ClientError):
            await answer_of(plain, True)
        assert await answer_of(gateway.url, caller.client) == "HI0 HI1"
    lines = [line for line in caplog.messages if line.startswith("no connection over TLS")]
    assert [line.partition(": ")[2] for line in lines] == [
        "the client shows no certificate",
        "the client's certificate is refused: self-signed certificate in certificate chain",
        "the client's certificate is refused: certificate has expired",
        "the client does not speak TLS",
    ]


async def test_without_authorities_any_caller_is_served(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    files = ours.issue("gateway")
    open_files = TlsFiles(certificate=files.certificate, key=files.key)
    async with gateways([Certificates(open_files)]) as (gateway,):
        context = ssl.create_default_context(cafile=str(ours.file))
        assert await answer_of(gateway.url, context) == "HI0 HI1"


async def test_requests_over_grpc_are_over_tls_too(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    caller = ours.issue("caller")
    tls = Certificates(ours.issue("gateway"))
    authority, key, certificate = (
        Path(path).read_bytes()  # noqa: ASYNC240 - files of the test
        for path in (caller.authorities or "", caller.key, caller.certificate)
    )
    async with gateways([tls]) as (gateway,):
        server = GrpcGatewayServer(gateway.door, host="127.0.0.1", port=0, tls=gateway.tls)
        await server.start()
        try:
            target = server.url.removeprefix("grpc://")
            credentials = grpc.ssl_channel_credentials(authority, key, certificate)
            async with aio.secure_channel(target, credentials) as channel:
                answer = await ask_of(channel)(Request(json='{"text": "hi"}'), timeout=PATIENCE_S)
                assert json.loads(answer.json) == {"said": "HI0 HI1"}
            for other in (
                aio.secure_channel(target, grpc.ssl_channel_credentials(authority)),
                aio.insecure_channel(target),
            ):
                async with other as channel:
                    with pytest.raises(aio.AioRpcError) as caught:
                        await ask_of(channel)(Request(json='{"text": "hi"}'), timeout=PATIENCE_S)
                    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        finally:
            await server.stop()


async def test_siblings_and_control_clients_speak_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Authority(tmp_path)
    files = ours.issue("gateway", names="DNS:gateways.test")  # not the addresses, which come and go
    shared = [Certificates(files), Certificates(files)]
    async with gateways([*shared, Certificates(ours.issue("other"))]) as found:
        answers = await found[0].control.siblings.ask("/v1/status")
        assert answers.names == ["gateway-1"]
        (silent,) = answers.silent
        assert "certificate verify failed" in silent

        ours.issue("gateway", names="DNS:gateways.test", into=files)
        assert shared[0].refresh()
        answers = await found[0].control.siblings.ask("/v1/status")
        assert answers.names == ["gateway-1"], "the certificate before is still taken from siblings"
        assert shared[1].refresh()
        answers = await found[1].control.siblings.ask("/v1/status")
        assert answers.names == ["gateway-0"]

        for name, value in client_variables(files).items():
            monkeypatch.setenv(name, value)
        assert (await ControlClient(found[0].url, TOKEN).status(alone=True))["service"] == "echo"
        statuses = await Gateways([found[0].url, found[2].url], lambda: TOKEN).ask()
        assert list(statuses.figures) == [found[0].url]
        assert "certificate" in statuses.silent[found[2].url]
        monkeypatch.delenv("KWIKEN_TLS_CERT")
        monkeypatch.delenv("KWIKEN_TLS_KEY")
        with pytest.raises(NoAnswerError, match=r"certificate verify failed.*; set KWIKEN_TLS_CA"):
            await ControlClient(found[0].url, TOKEN).status()


async def test_other_tokens_are_taken_while_running(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def status(url: str, token: str) -> int:
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
            session.get(url + "/v1/plan") as response,
        ):
            return response.status

    async with gateways([None]) as (gateway,):
        tokens = TokenFile(str(file), gateway.control.take_tokens)
        gateway.control.take_tokens(read_tokens(str(file)))
        assert [await status(gateway.url, each) for each in ("old", "new")] == [200, 401]
        file.write_text("new\nold\n")
        tokens.refresh()
        assert [await status(gateway.url, each) for each in ("old", "new")] == [200, 200]
        file.write_text("new\n")
        tokens.refresh()
        assert [await status(gateway.url, each) for each in ("old", "new")] == [401, 200]
        caplog.clear()
        with caplog.at_level(logging.INFO):
            for broken in ("", " \n \n", "a\nb\nc\nd\ne\n"):
                file.write_text(broken)
                tokens.refresh()
                tokens.refresh()
        assert [line.split(",")[0] for line in caplog.messages] == ["the token in force stays"] * 3
        assert await status(gateway.url, "new") == 200
    with pytest.raises(InputError, match="at most 4"):
        read_tokens(str(file))
