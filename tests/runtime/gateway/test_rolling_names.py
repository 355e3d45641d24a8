"""Replicas behind one name come and go under load, as pods of a headless Service do: no request is lost."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

import pytest

from tests.support.pods.name_server import NameServer, can_ask_alone, name_server, running_alone
from tests.support.runtime.server_processes import address_of, ask, free_port, running
from tests.support.runtime.waiting import soon

TARGET = "tests.support.services.single:service"
NAME = "work.test"
RATE_PER_S = 40.0
LOOKED_UP_S = 6.5  # in which a gateway looks a name up again

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not can_ask_alone(), reason="needs root, to give a process a name server of its own"),
]


class Pods:
    """Replicas at addresses of their own and one port; those that are ready are in the name's addresses."""

    def __init__(self, stack: contextlib.ExitStack, names: NameServer, port: int) -> None:
        self._stack, self._names, self.port = stack, names, port
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._count = 0

    def add(self, count: int) -> None:
        new: dict[str, subprocess.Popen[str]] = {}
        for _ in range(count):
            self._count += 1
            host = f"127.0.7.{self._count}"
            words = ("stage", TARGET, "--stage=work", f"--host={host}", f"--port={self.port}")
            new[host] = self._stack.enter_context(running(*words))
        for process in new.values():
            address_of(process)
        self.running |= new
        self._tell()

    def end(self, count: int) -> None:
        """End the oldest at the moment in which the name forgets them; no gateway knows yet."""
        gone = [self.running.pop(host) for host in list(self.running)[:count]]
        self._tell()
        for process in gone:
            process.terminate()
        for process in gone:
            assert process.wait(timeout=30) == 0

    def _tell(self) -> None:
        self._names.names[NAME] = list(self.running)


class Load:
    """Requests at a constant rate from a thread, each due at its time whether or not others are answered."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.answers: list[tuple[int, bytes]] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._main = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._main.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._main.join()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            thread = threading.Thread(target=self._one)
            thread.start()
            self._threads.append(thread)
            due += 1 / RATE_PER_S
            time.sleep(max(0.0, due - time.monotonic()))

    def _one(self) -> None:
        try:
            self.answers.append(ask(self._url, "/v1/request", "hi"))
        except OSError as error:
            self.answers.append((0, repr(error).encode()))


def test_a_rolling_restart_and_a_scale_up_and_down_lose_nothing(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(name_server())
        pods = Pods(stack, names, free_port())
        pods.add(2)
        gateway = stack.enter_context(
            running_alone(tmp_path, "serve", TARGET, "--port=0", f"--replica=work={NAME}:{pods.port}")
        )
        url = address_of(gateway)
        with Load(url) as load:
            time.sleep(1.0)
            for _ in range(2):  # a rolling restart with one more than are wanted
                pods.add(1)
                time.sleep(LOOKED_UP_S)
                pods.end(1)
            pods.add(6)
            time.sleep(LOOKED_UP_S)
            pods.end(6)
            time.sleep(1.0)
        failed = [answer for answer in load.answers if answer[0] != 200]
        assert not failed, (len(failed), len(load.answers), failed[:3])
        assert len(load.answers) > 0.5 * RATE_PER_S * (3 * LOOKED_UP_S + 2)
        # The last two serve all: the others are gone.
        time.sleep(LOOKED_UP_S)
        soon(lambda: ask(url, "/v1/request", "hi")[0] == 200)
