"""Load over TLS, by HTTP and gRPC: certificates come from variables, and strangers on both sides are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.faults.authority import Authority
from tests.support.loadtest.load_commands import StartLoad
from tests.support.runtime.server_processes import free_port, running

HELLO = "services.hello:hello"
RUN = ("--rate", "50", "--duration", "0.6", "--arrivals", "constant", "--json", "--body", '{"name": "ada"}')


def test_both_sides_show_certificates_of_their_authorities(
    start_load: StartLoad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    door, caller = ours.issue("gateway"), ours.issue("caller")
    assert caller.authorities is not None
    port = free_port()
    words = ["serve", HELLO, "--local", "--port", "0", "--grpc-port", str(port)]
    words += ["--tls-cert", door.certificate, "--tls-key", door.key, "--tls-ca", str(ours.file)]

    def ran(url: str) -> tuple[int, str, str]:
        process = start_load(url, *RUN)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.replace(" ", "").replace("\n", ""), err

    with running(*words) as gateway:
        assert gateway.stderr is not None
        told = gateway.stderr.readline() + gateway.stderr.readline()
        found = re.search(r"https://127\.0\.0\.1:\d+", told)
        assert found is not None, told
        urls = (found[0], f"grpcs://127.0.0.1:{port}")
        monkeypatch.setenv("KWIKEN_TLS_CA", caller.authorities)
        for url in urls:  # no certificate of one's own
            code, out, err = ran(url)
            assert '"ok":30' not in out, err
            assert code != 0
        monkeypatch.setenv("KWIKEN_TLS_CERT", caller.certificate)
        monkeypatch.setenv("KWIKEN_TLS_KEY", caller.key)
        for url in urls:
            code, out, err = ran(url)
            assert code == 0, err
            assert '"ok":30' in out
        monkeypatch.setenv("KWIKEN_TLS_CA", str(theirs.file))  # the gateway is a stranger
        for url in urls:
            code, _, err = ran(url)
            assert code == 2, err
            assert "cannot be reached" in err
        monkeypatch.setenv("KWIKEN_TLS_CA", str(tmp_path / "nowhere"))
        for url in urls:
            code, _, err = ran(url)
            assert code == 2
            assert "nowhere" in err
            assert "Traceback" not in err
        monkeypatch.delenv("KWIKEN_TLS_CA")
        code, _, err = ran(urls[1])
        assert code == 2
        assert "KWIKEN_TLS_CA must name the authorities of the server" in err
