"""DNS server for one name, whose addresses change, and programs that ask this server alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.support.runtime.server_processes import KWIKEN, ROOT

ADDRESS = "127.0.0.153"  # port 53 of it is free where another server of names has 127.0.0.53
HEADER = struct.Struct("!6H")
ANSWERED, NO_NAME = 0x8580, 0x8583
A_RECORD = 1


class NameServer:
    """Names with their addresses, as a headless Service of Kubernetes has those of pods that are ready.

    Attributes:
        names: addresses by name; a name without addresses is not there.
    """

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((ADDRESS, 53))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nothing more."""
        with contextlib.suppress(OSError):  # it has no peer; this ends the wait all the same
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                asked, client = self._socket.recvfrom(1024)
            except OSError:
                return
            if not asked:
                return
            with contextlib.suppress(OSError):
                self._socket.sendto(self._answer(asked), client)

    def _answer(self, asked: bytes) -> bytes:
        number = HEADER.unpack_from(asked)[0]
        labels, place = [], HEADER.size
        while length := asked[place]:
            labels.append(asked[place + 1 : place + 1 + length].decode())
            place += 1 + length
        question = asked[HEADER.size : place + 5]
        found = self.names.get(".".join(labels), [])
        kind = struct.unpack_from("!H", asked, place + 1)[0]
        records = [
            struct.pack("!HHHIH", 0xC00C, A_RECORD, 1, 0, 4) + socket.inet_aton(address)
            for address in (found if kind == A_RECORD else [])
        ]
        flags = ANSWERED if found else NO_NAME
        return HEADER.pack(number, flags, 1, len(records), 0, 0) + question + b"".join(records)


@contextlib.contextmanager
def name_server() -> Iterator[NameServer]:
    """A server of names, while it is needed."""
    server = NameServer()
    try:
        yield server
    finally:
        server.close()


def can_ask_alone() -> bool:
    """Whether this user may give a process a configuration of its own for names."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return not subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode


@contextlib.contextmanager
def running_alone(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A running `kwiken` that looks names up at our server; killed at the end if it still runs."""
    settings = folder / "resolv.conf"
    settings.write_text(f"nameserver {ADDRESS}\noptions attempts:1 timeout:1\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, str(settings), *KWIKEN, *args]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
