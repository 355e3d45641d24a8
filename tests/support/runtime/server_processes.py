"""Server processes that tests start from the command line and ask over HTTP."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kwiken.runtime.cluster.cluster import Cluster

ROOT = Path(__file__).resolve().parents[3]
KWIKEN = [sys.executable, "-m", "kwiken"]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    """A running command; killed at the end if it still runs."""
    process = subprocess.Popen(
        [*KWIKEN, *args], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_of(process: subprocess.Popen[str]) -> str:
    """Address that a server prints on stderr."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert " at http://" in line, line
    return line.rpartition(" at ")[2].strip().removesuffix('"}')  # the end of a line in JSON


def ask(url: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        url + path, data=data, headers={"Content-Type": "application/json", **headers}
    )
    try:
        with DIRECT.open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def gateway_pid(cluster: Cluster) -> int | None:
    """Pid of the gateway; None while it is being restarted."""
    return next(iter(cluster.gateway_pids), None)
