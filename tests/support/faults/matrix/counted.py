"""`python -m tests.support.faults.matrix.counted VERB ...`: a verb of `kwiken` that tells how many tasks it has.

Whoever connects to the socket in the file that `KWIKEN_TEST_COUNTS` names, with the pid at its end, gets the number
of tasks that are not done.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from typing import Final

SOCKETS: Final = "KWIKEN_TEST_COUNTS"  # variable with the beginning of the file's name


def place_of(prefix: str, pid: int) -> str:
    """File of the socket of a process."""
    return f"{prefix}.{pid}"


def tasks() -> int:
    """Number of tasks of this process, in all loops, that are not done."""
    gc.collect()
    return sum(1 for each in gc.get_objects() if isinstance(each, asyncio.Task) and not each.done())


def tasks_of(prefix: str, pid: int) -> int:
    """Number of tasks of a process that this module runs."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10.0)
        sock.connect(place_of(prefix, pid))
        return int(sock.recv(100))


def _tell(server: socket.socket) -> None:
    while True:
        caller, _ = server.accept()
        with caller:
            caller.sendall(str(tasks()).encode())


def main() -> None:
    """Run the verb beside a thread that answers."""
    from kwiken.cli import main as verb

    server = socket.socket(socket.AF_UNIX)
    server.bind(place_of(os.environ[SOCKETS], os.getpid()))
    server.listen()
    threading.Thread(target=_tell, args=(server,), daemon=True).start()
    verb()


if __name__ == "__main__":
    main()
