"""Tools of others for gRPC (grpcurl, ghz, grpc-health-probe) ask a gateway and a replica that know nothing of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runtime.server_processes import free_port
from tests.support.runtime.stacks import running_cluster

# Go modules; `go install NAME@latest` builds each within minutes.
MODULES = {
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl",
    "ghz": "github.com/bojand/ghz/cmd/ghz",
    "grpc-health-probe": "github.com/grpc-ecosystem/grpc-health-probe",
}
ASK = "kwiken.v1.Gateway/Ask"
REQUEST = json.dumps({"json": json.dumps({"text": "hi"})})
CALLS = 200

pytestmark = pytest.mark.stack


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a tool; the test is skipped where the tool is missing."""
    path = shutil.which(name)
    if path is None:
        built = Path.home() / "go" / "bin" / name
        if not built.exists():
            pytest.skip(f"{name} is not installed: go install {MODULES[name]}@latest")
        path = str(built)
    return subprocess.run([path, *words], capture_output=True, text=True, timeout=120, check=False)


def told(name: str, *words: str) -> str:
    """Standard output of a tool that must succeed."""
    done = run(name, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a gateway's gRPC, whose calls to replicas go over gRPC too."""
    port = free_port()
    options = ("--grpc-port", str(port))
    with running_cluster(tmp_path_factory.mktemp("state"), *options):
        yield f"127.0.0.1:{port}"


def test_grpcurl_lists_the_services_by_reflection(gateway: str) -> None:
    services = told("grpcurl", "-plaintext", gateway, "list").split()
    assert {"kwiken.v1.Gateway", "grpc.health.v1.Health"} <= set(services)
    assert ASK.replace("/", ".") in told("grpcurl", "-plaintext", gateway, "list", "kwiken.v1.Gateway")


@pytest.mark.parametrize("symbol", ["kwiken.v1.Gateway", "kwiken.v1.Gateway.Ask", "kwiken.v1.Request"])
def test_grpcurl_describes_services_methods_and_messages(gateway: str, symbol: str) -> None:
    assert symbol in told("grpcurl", "-plaintext", gateway, "describe", symbol)


def test_grpcurl_gets_an_answer(gateway: str) -> None:
    answer = json.loads(told("grpcurl", "-plaintext", "-d", REQUEST, gateway, ASK))
    assert json.loads(answer["json"])


def test_grpcurl_shows_an_error_with_its_code(gateway: str) -> None:
    wrong = json.dumps({"json": "[]"})
    done = run("grpcurl", "-plaintext", "-d", wrong, gateway, ASK)
    assert done.returncode != 0
    assert "InvalidArgument" in done.stderr


def test_ghz_sends_load_by_reflection_and_every_call_is_answered(gateway: str) -> None:
    report = json.loads(
        told(
            "ghz",
            "--insecure",
            f"--call={ASK.replace('/', '.')}",
            f"--data={REQUEST}",
            f"--total={CALLS}",
            "--concurrency=4",
            "--format=json",
            gateway,
        )
    )
    assert report["statusCodeDistribution"] == {"OK": CALLS}


def test_ghz_sends_load_by_the_proto_file(gateway: str) -> None:
    proto = Path(__file__).resolve().parents[2] / "kwiken" / "runtime" / "wire" / "grpc" / "kwiken.proto"
    report = json.loads(
        told(
            "ghz",
            "--insecure",
            f"--proto={proto}",
            f"--call={ASK.replace('/', '.')}",
            f"--data={REQUEST}",
            "--total=20",
            "--format=json",
            gateway,
        )
    )
    assert report["statusCodeDistribution"] == {"OK": 20}


@pytest.mark.parametrize("service", ["", "kwiken.v1.Gateway"])
def test_the_health_probe_finds_the_gateway_serving(gateway: str, service: str) -> None:
    done = run("grpc-health-probe", f"-addr={gateway}", f"-service={service}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SERVING" in done.stdout + done.stderr


def test_the_health_probe_fails_where_nobody_serves() -> None:
    assert run("grpc-health-probe", f"-addr=127.0.0.1:{free_port()}").returncode != 0
