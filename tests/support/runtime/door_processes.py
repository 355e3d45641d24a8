"""Server processes with doors over HTTP and gRPC, started from the command line, and their memory."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from tests.support.peers.grpc_messages import Request, ask_of
from tests.support.runtime.server_processes import KWIKEN, ROOT, ask, free_port
from tests.support.runtime.waiting import soon

TARGET = "tests.support.services.http:service"
MIB = 1 << 20


class DoorProcess:
    """A server process and the ports that it listens on.

    Args:
        process: the process.
        port: port for HTTP; 0 for none.
        grpc_port: port for gRPC; 0 for none.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, grpc_port: int) -> None:
        self._process = process
        self.port = port
        self.grpc_port = grpc_port

    @property
    def pid(self) -> int:
        """Pid of the process."""
        return self._process.pid

    @property
    def resident_mib(self) -> float:
        """Resident memory of the process, from /proc."""
        assert self._process.poll() is None, "the server ended"
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * 4096 / MIB

    def serves_http(self) -> bool:
        """Whether a request over HTTP is answered."""
        with contextlib.suppress(OSError):
            return ask(f"http://127.0.0.1:{self.port}", "/v1/request", {"text": "a"})[0] == 200
        return False

    def serves_grpc(self) -> bool:
        """Whether a request over gRPC is answered, on a connection of its own."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        with (
            contextlib.suppress(grpc.RpcError),
            grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options) as channel,
        ):
            request = Request(json=json.dumps({"text": "a"}))
            return bool(ask_of(channel)(request, timeout=5.0, wait_for_ready=True).json)
        return False


@contextlib.contextmanager
def server_process(*args: str, grpc_port: int, port: int = 0, files: int = 0) -> Iterator[DoorProcess]:
    """A server started by `kwiken`, once it listens; killed at the end.

    Args:
        args: verb and options.
        grpc_port: port for gRPC that the options name; 0 for none.
        port: port for HTTP that the options name; 0 for none.
        files: largest number of open files; 0 for the limit of the tests.
    """
    command = [*KWIKEN, *args]
    if files:
        limit = shutil.which("prlimit")
        assert limit is not None
        command = [limit, f"--nofile={files}:{files}", *command]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        found = DoorProcess(process, port, grpc_port)
        for each in (port, grpc_port):
            if each:
                soon(lambda: listens(each, process))  # noqa: B023 - called at once
        yield found
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def gateway_process(*options: str, files: int = 0, local: bool = True) -> Iterator[DoorProcess]:
    """A gateway with both doors."""
    port, grpc_port = free_port(), free_port()
    more = ["--local"] if local else []
    with server_process(
        "serve", TARGET, "--port", str(port), "--grpc-port", str(grpc_port), *more, *options,
        port=port, grpc_port=grpc_port, files=files,
    ) as found:  # fmt: skip
        yield found


@contextlib.contextmanager
def replica_process(stage: str, *options: str) -> Iterator[DoorProcess]:
    """A replica of one stage of the small test service."""
    port = free_port()
    with server_process(
        "stage", TARGET, "--stage", stage, "--port", str(port), *options,
        port=port, grpc_port=0,
    ) as found:  # fmt: skip
        yield found


def listens(port: int, process: subprocess.Popen[Any]) -> bool:
    """Whether something takes connections at a port; fails if the process has ended."""
    assert process.poll() is None, f"the server ended with {process.returncode}"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False
