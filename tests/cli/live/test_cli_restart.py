"""`kwiken restart` and `kwiken up --reload`: new code takes over, and no request is lost."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwiken.runtime.cluster.state.documents import ClusterState
from kwiken.runtime.cluster.state.files import StateFiles
from tests.support.project.commands import refused, run
from tests.support.runtime.waiting import soon

CODE = """
from kwiken import Service

service = Service("greeting")


@service.stage(replicas={replicas})
async def word(request: dict[str, str]) -> str:
    return {word!r} + request["name"]


@service.stage(after=[word])
async def answer(word: str) -> str:
    return word + "!"
"""


class Running:
    """A service of one file, which is up."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.write("hello ")
        done = self._command("up", "own.py:service", "--port", "0", "--detach", *words)
        assert done.returncode == 0, done.stderr

    def _command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kwiken", *words],
            cwd=self.folder,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def write(self, word: str) -> None:
        (self.folder / "own.py").write_text(CODE.format(replicas=2, word=word))

    @property
    def state(self) -> ClusterState:
        state = StateFiles(self.folder / ".kwiken", "greeting").read()
        assert state is not None
        return state

    def restart(self) -> subprocess.CompletedProcess[str]:
        return self._command("restart", "greeting")

    def ask(self) -> str:
        request = urllib.request.Request(
            self.state.url + "/v1/request",
            data=b'{"name": "ada"}',
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            answer: str = json.load(reply)["answer"]
        return answer

    def down(self) -> None:
        self._command("down")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    service = Running(tmp_path)
    try:
        yield service
    finally:
        service.down()


@contextlib.contextmanager
def asking(running: Running) -> Iterator[list[str]]:
    """Requests one after another while the body runs; a request that fails ends the test."""
    answers: list[str] = []
    failures: list[BaseException] = []
    over = threading.Event()

    def ask() -> None:
        try:
            while not over.is_set():
                answers.append(running.ask())
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def test_a_restart_brings_new_code_and_loses_no_request(running: Running) -> None:
    before = running.state
    with asking(running) as answers:
        soon(lambda: len(answers) > 5)
        running.write("good day ")
        done = running.restart()
        count = len(answers)
        soon(lambda: len(answers) > count + 5)
    assert done.returncode == 0, done.stderr
    assert "greeting: 4 processes run the code that is now on disk" in done.stderr
    assert set(answers) == {"hello ada!", "good day ada!"}
    assert running.ask() == "good day ada!"
    after = running.state
    assert after.supervisor == before.supervisor
    assert not {each.identity for each in before.children} & {each.identity for each in after.children}
    assert not any(each.identity.alive for each in before.children)


def test_code_that_does_not_start_leaves_the_old_one_in_service(running: Running) -> None:
    before = {each.identity for each in running.state.children}
    (running.folder / "own.py").write_text("this is no Python")
    done = running.restart()
    assert done.returncode == 2
    assert "cannot be imported" in done.stderr
    assert "what was not reached runs the old code" in done.stderr
    assert {each.identity for each in running.state.children} == before
    assert running.ask() == "hello ada!"
    running.write("good day ")
    assert running.restart().returncode == 0
    assert running.ask() == "good day ada!"


def test_a_service_that_is_not_up_cannot_be_restarted(tmp_path: Path) -> None:
    refused(run("restart", "--state", str(tmp_path)), "no service is up")
    refused(run("restart", "greeting", "--state", str(tmp_path)), "'greeting' is not up")


def test_a_changed_file_reloads_the_processes(tmp_path: Path) -> None:
    running = Running(tmp_path, "--reload")
    try:
        assert running.ask() == "hello ada!"
        running.write("good day ")
        soon(lambda: running.state.restart.number == 1 and not running.state.restart.running)
        assert running.ask() == "good day ada!"
    finally:
        running.down()
