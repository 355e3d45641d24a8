"""HTTP server on a free port whose answers hardly end: heads or bodies, dripping or as fast as they are read."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MAX_SENT = 64 << 20  # after which a client that has no bound is let go, so that its test fails
MAX_DRIPS = 500
OPEN_BODY = HEAD + b"\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def endless_peer(start: bytes, again: bytes, *, pause_s: float = 0.0) -> Iterator[tuple[str, list[int]]]:
    """Serve each connection `start` and then `again`, until the block ends or the client hangs up.

    Yields:
        `HOST:PORT`, and the numbers of bytes that were sent on each connection.
    """
    done, sent = threading.Event(), list[int]()
    door = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        place = len(sent)
        sent.append(0)
        with client, suppress(OSError):
            client.settimeout(5.0)
            client.recv(65536)
            part = start
            drips = 0
            while not done.is_set() and sent[place] < MAX_SENT and drips < MAX_DRIPS:
                drips += pause_s > 0
                client.sendall(part)
                sent[place] += len(part)
                part = again
                done.wait(pause_s)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                if done.is_set():
                    client.close()
                    return
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    threads = [threading.Thread(target=accept)]
    threads[0].start()
    try:
        yield f"127.0.0.1:{door.getsockname()[1]}", sent
    finally:
        done.set()
        with suppress(OSError):
            socket.create_connection(door.getsockname(), 1.0).close()
        for thread in threads:
            thread.join()
        door.close()
