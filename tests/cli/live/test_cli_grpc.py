"""Commands with gRPC: replicas by hand, a gateway with both front doors, and a detached cluster."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from pathlib import Path

import grpc
import pytest

from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.project.commands import run
from tests.support.runtime.server_processes import KWIKEN, ROOT, ask, free_port, running

TARGET = "tests.support.services.http:service"


def address_of(process: subprocess.Popen[str]) -> str:
    """Last address that a server prints before it serves."""
    assert process.stderr is not None
    while True:
        line = process.stderr.readline()
        assert " at " in line, line
        if "requests over gRPC" not in line:
            return line.rpartition(" at ")[2].strip()


def answer_over_grpc(port: int) -> str:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer: str = ask_of(channel)(Request(json='{"text":"hi"}'), timeout=10.0).json
        return answer


def test_one_gateway_has_two_doors() -> None:
    with contextlib.ExitStack() as stack:
        replicas = []
        for stage in ("first", "middle", "last"):
            process = stack.enter_context(running("stage", TARGET, "--stage", stage))
            replicas += ["--replica", f"{stage}={address_of(process)}"]
        port = free_port()
        gateway = stack.enter_context(
            running("serve", TARGET, "--port", "0", "--grpc-port", str(port), *replicas)
        )
        url = address_of(gateway)
        assert ask(url, "/v1/request", {"text": "hi"}) == (200, b'{"answer":{"said":"HI0 HI1"}}')
        assert answer_over_grpc(port) == '{"said":"HI0 HI1"}'
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(20) == 0


def test_a_detached_cluster_keeps_its_port(tmp_path: Path) -> None:
    port = free_port()
    state = ["--state", str(tmp_path)]
    options = ["--detach", "--port", "0", "--grpc-port", str(port)]
    command = [*KWIKEN, "up", TARGET, *state, *options]
    up = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert up.returncode == 0, up.stderr
    try:
        status = json.loads(run("status", *state, "--json").stdout)
        addresses = [replica["address"] for cluster in status["clusters"] for replica in cluster["replicas"]]
        assert len(addresses) == 6
        assert answer_over_grpc(port) == '{"said":"HI0 HI1"}'
    finally:
        down = run("down", *state)
    assert down.exit_code == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["up", TARGET, "--transport", "grpc"], "No such option '--transport'"),
        (["serve", TARGET, "--local", "--grpc-port", "70000"], "70000 is not in the range"),
        (["serve", TARGET, "--replica", "first=smtp://a:1"], "must be HOST:PORT or grpc://HOST:PORT"),
    ],
)
def test_bad_options_are_told(words: list[str], reason: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert reason in result.output
