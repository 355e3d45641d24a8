"""Foreign services over TLS, by HTTP and gRPC: who is taken, what is shown, and files that change."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from kwiken.base.errors import DefinitionError
from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.errors import LostError, RefusedError
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.files import TlsFiles
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.faults.authority import Authority
from tests.support.peers.foreign_grpc import Stock, grpc_server
from tests.support.peers.foreign_http import call_of, http_server

HOST = "replica.test"  # held by the certificates, unlike the addresses' names elsewhere
NO_CALL = (RefusedError, LostError)


async def tea(request: web.Request) -> web.Response:
    del request
    return web.json_response({"sku": "tea"})


async def stock(message: Any, context: Any) -> Any:
    del context
    return Stock(sku=message.sku)


@pytest.fixture(params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.asynccontextmanager
async def serving(protocol: str, files: TlsFiles) -> AsyncIterator[Replica]:
    """A service that asks for certificates of its callers if its files name authorities."""
    if protocol == "http":
        async with http_server(tea, tls=Certificates(files).server) as replica:
            yield replica
        return
    certificate, key, authorities = Certificates(files).pem
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], authorities, require_client_auth=authorities is not None
    )
    async with grpc_server(stock, credentials=credentials) as replica:
        yield replica


def service_of(protocol: str, host: str = HOST, **files: Any) -> Service:
    paths: dict[str, Any] = {name: str(path) for name, path in files.items()}
    remote: HttpCall | GrpcCall = (
        HttpCall(f"https://{host}/{{request.sku}}", method="GET", **paths)
        if protocol == "http"
        else GrpcCall(f"grpcs://{host}:50051/shop.Inventory/Get", **paths)
    )
    return Service.of("shop", [Stage(name="price", remote=remote, idempotent=True)])


async def sku_of(service: Service, replica: Replica) -> Any:
    async with ForeignTransport(service, LocalTransport(service)) as transport:
        return (await transport.call(replica, call_of("price", {"sku": "tea"}))).value["sku"]


async def test_only_services_of_the_authorities_with_the_right_name_are_called(
    protocol: str, tmp_path: Path
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    issued = ours.issue("service")
    async with serving(protocol, TlsFiles(certificate=issued.certificate, key=issued.key)) as replica:
        assert await sku_of(service_of(protocol, tls_ca=ours.file), replica) == "tea"
        for stranger in (
            service_of(protocol, tls_ca=theirs.file),
            service_of(protocol),  # by the system's authorities
            service_of(protocol, "other.test", tls_ca=ours.file),
        ):
            with pytest.raises(NO_CALL):
                await sku_of(stranger, replica)


async def test_a_service_may_ask_for_a_certificate(protocol: str, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    gateway, stranger = ours.issue("gateway"), theirs.issue("gateway")
    async with serving(protocol, ours.issue("service")) as replica:
        shown = service_of(protocol, tls_ca=ours.file, tls_cert=gateway.certificate, tls_key=gateway.key)
        assert await sku_of(shown, replica) == "tea"
        wrong = service_of(protocol, tls_ca=ours.file, tls_cert=stranger.certificate, tls_key=stranger.key)
        for service in (wrong, service_of(protocol, tls_ca=ours.file)):
            with pytest.raises(NO_CALL):
                await sku_of(service, replica)


async def test_files_that_change_count_for_the_next_connection(
    protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwiken.runtime.wire.tls.outside.POLL_S", 0.0)
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    known = tmp_path / "known.pem"
    known.write_text(theirs.file.read_text())
    issued = ours.issue("service")
    service = service_of(protocol, tls_ca=known)
    call = call_of("price", {"sku": "tea"})
    async with (
        serving(protocol, TlsFiles(certificate=issued.certificate, key=issued.key)) as replica,
        ForeignTransport(service, LocalTransport(service)) as transport,
    ):
        with pytest.raises(NO_CALL):
            await transport.call(replica, call)
        known.write_text("nonsense\n")
        with caplog.at_level(logging.ERROR, "kwiken.tls"):
            for _ in range(2):
                with pytest.raises(NO_CALL):
                    await transport.call(replica, call)
        (told,) = [record.message for record in caplog.records if HOST in record.message]
        assert f"the certificates for calls of {HOST} stay, because the new files cannot be used: " in told
        assert f"{known}: is not PEM" in told
        known.write_text(theirs.file.read_text() + ours.file.read_text())
        assert (await transport.call(replica, call)).value["sku"] == "tea"


async def test_a_service_without_tls_is_not_called(protocol: str, tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    server = http_server(tea) if protocol == "http" else grpc_server(stock)
    async with server as replica:
        with pytest.raises(NO_CALL):
            await sku_of(service_of(protocol, tls_ca=ours.file), replica)


async def test_files_that_cannot_be_used_are_told_at_the_start(protocol: str, tmp_path: Path) -> None:
    one, other = Authority(tmp_path).issue("one"), Authority(tmp_path / "more").issue("other")
    for files, told in (
        ({"tls_ca": tmp_path / "none"}, "stage 'price': remote: .*none: No such file"),
        ({"tls_ca": one.key}, "holds no certificate that can be read"),
        ({"tls_cert": one.certificate, "tls_key": other.key}, "is no certificate of the key in .*other.key"),
    ):
        service = service_of(protocol, **files)
        with pytest.raises(DefinitionError, match=told):
            async with ForeignTransport(service, LocalTransport(service)):
                pass


def test_a_url_says_whether_tls_is_spoken() -> None:
    assert [HttpCall("https://a/x").endpoints, HttpCall("http://a/x").endpoints] == [("a:443",), ("a:80",)]
    assert GrpcCall("grpcs://a:1/b.C/D").endpoints == ("grpc://a:1",)
    assert HttpCall("https://[::1]:7/x").host == "::1"
    with pytest.raises(DefinitionError, match=r"tls_ca has no effect: .* a URL of https://"):
        Service.of("s", [Stage(name="a", remote=HttpCall("http://a/x", tls_ca="ca.pem"))])
    with pytest.raises(DefinitionError, match="tls_cert and tls_key go together"):
        Service.of("s", [Stage(name="a", remote=GrpcCall("grpcs://a:1/b.C/D", tls_key="key.pem"))])
