"""`up --detach`, `status` and `down` when something is wrong: broken states, dead supervisors, Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kwiken.cli.live.gateway.detach import _last_log_line
from kwiken.cli.live.up import crowd_line
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.state.documents import STATE_VERSION, ClusterState, ProcessState
from kwiken.runtime.cluster.state.files import StateFiles
from tests.support.peers.http_servers import Asked, Told, http_server
from tests.support.project.commands import refused, run
from tests.support.runtime.waiting import soon

ROOT = Path(__file__).resolve().parents[3]
TARGET = "tests.support.services.http:service"
UP = [sys.executable, "-m", "kwiken", "up", TARGET, "--port", "0", "--detach"]


def cluster(service: str, url: str, identity: Identity, token_file: Path) -> ClusterState:
    gateway = ProcessState(identity=identity, url=url, restarts=0)
    return ClusterState(
        version=STATE_VERSION,
        service=service,
        target=f"{service}:{service}",
        supervisor=identity,
        ready=True,
        token_file=str(token_file),
        url=url,
        gateways=[gateway],
        replicas=[],
    )


def write(folder: Path, state: ClusterState) -> None:
    (folder / f"{state.service}.json").write_bytes(msgspec.json.encode(state))


@pytest.fixture
def ear() -> Iterator[tuple[str, list[str]]]:
    """A server that hears which tokens it is sent."""
    heard: list[str] = []

    def hear(asked: Asked) -> Told:
        heard.append(str(asked.headers["Authorization"]))
        return Told(b"{}")

    with http_server(hear) as server:
        yield server.url, heard


class TestStatesFromElsewhere:
    """A state folder may come with a repository that somebody cloned; `kwiken status` must be safe in it."""

    def test_no_secret_is_sent_to_an_address_from_the_state_file(
        self, tmp_path: Path, ear: tuple[str, list[str]]
    ) -> None:
        url, heard = ear
        secret = tmp_path / "secret"
        secret.write_text("hunter2\n")
        folder = tmp_path / ".kwiken"
        folder.mkdir()
        stranger = Identity(1, "another start")
        write(folder, cluster("evil", url, stranger, secret))
        (folder / "evil.token").symlink_to(secret)
        assert run("status", "--state", str(folder)).exit_code == 1
        own = Identity.of(os.getpid())
        assert own is not None
        write(folder, cluster("evil", url, own, secret))  # a gateway that lives, and a token that is a link
        assert run("status", "--state", str(folder)).exit_code == 1
        assert heard == []
        (folder / "evil.token").unlink()
        (folder / "evil.token").write_text("its own\n")
        run("status", "--state", str(folder), "--json")
        assert heard == ["Bearer its own"]

    @pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1:1", "nonsense"])
    def test_only_http_is_opened(self, tmp_path: Path, url: str) -> None:
        own = Identity.of(os.getpid())
        assert own is not None
        write(tmp_path, cluster("odd", url, own, tmp_path))
        (tmp_path / "odd.token").write_text("t\n")
        result = run("status", "--state", str(tmp_path), "--json")
        assert result.exit_code == 1
        assert json.loads(result.stdout)["clusters"][0]["runtime"] is None


class TestTrouble:
    def test_a_dead_supervisor_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, cluster("gone", "http://127.0.0.1:1", Identity(1, "another start"), tmp_path))
        result = run("status", "--state", str(tmp_path))
        assert result.exit_code == 1
        assert "gone: its supervisor (pid 1) has died; start anew with kwiken up" in result.stderr

    def test_one_broken_state_hides_no_other(self, tmp_path: Path) -> None:
        write(tmp_path, cluster("gone", "http://127.0.0.1:1", Identity(1, "another start"), tmp_path))
        (tmp_path / "broken.json").write_text("{")
        shown = run("status", "--state", str(tmp_path), "--json")
        assert shown.exit_code == 1
        assert [each["service"] for each in json.loads(shown.stdout)["clusters"]] == ["gone"]
        assert "broken.json: is not a cluster's state" in shown.stderr
        refused(run("down", "--state", str(tmp_path)), r"broken\.json: is not a cluster's state")
        assert not (tmp_path / "gone.json").exists()
        refused(run("status", "--state", str(tmp_path)), r"broken\.json: is not a cluster's state")

    @pytest.mark.parametrize("verb", ["status", "down"])
    def test_a_folder_that_cannot_be_read_does_not_pass_for_an_empty_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
    ) -> None:
        def denied(path: object) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

        monkeypatch.setattr(os, "listdir", denied)  # root may read any
        monkeypatch.setattr(os, "scandir", denied)
        refused(run(verb, "--state", str(tmp_path)), "cannot be read: Permission denied")

    def test_a_cluster_of_another_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path, cluster("theirs", "http://127.0.0.1:1", Identity(1, "x"), tmp_path))

        def deny(files: StateFiles) -> bool:
            del files
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr("kwiken.runtime.cluster.state.stop.stop_cluster", deny)
        refused(
            run("down", "--state", str(tmp_path)), "theirs cannot be stopped: Operation not permitted; did"
        )


class TestDetached:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_an_interrupt_takes_the_supervisor_with_it(self, tmp_path: Path, number: int) -> None:
        files = StateFiles(tmp_path, "echo")
        up = subprocess.Popen(
            [*UP, "--state", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            soon(lambda: files.state.exists() or up.poll() is not None)
            noted = files.read()
            up.send_signal(number)
            _, stderr = up.communicate(timeout=30)
        finally:
            up.kill()
            up.wait()
        assert noted is not None
        if up.returncode == 0:  # it was up before the signal came
            assert run("down", "--state", str(tmp_path)).exit_code == 0
            pytest.skip("the machine was too fast")
        assert (up.returncode, stderr.strip()) == (128 + number, b"")
        soon(lambda: not noted.supervisor.alive)
        assert files.read() is None

    def test_a_truncated_state_file_does_no_harm(self, tmp_path: Path) -> None:
        (tmp_path / "echo.json").write_text('{"version": 1, "serv')
        up = subprocess.run(
            [*UP, "--state", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        try:
            assert up.returncode == 0, up.stderr
            assert run("status", "--state", str(tmp_path)).exit_code == 0
        finally:
            assert run("down", "--state", str(tmp_path)).exit_code == 0


def test_a_supervisor_that_ended_without_a_message_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "hello.log"
    log.write_text("before\n")
    assert _last_log_line(log, 0) == "before"
    assert _last_log_line(log, 7) == f"the supervisor ended without a message; its log is {log}"
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert (
        _last_log_line(log, 7)
        == f"{tmp_path}: the disk is full, so the state of the cluster cannot be written"
    )


def test_more_processes_than_processors_are_told_in_a_line() -> None:
    assert crowd_line(2, 2.0) is None
    assert crowd_line(1, 64.0) is None
    line = crowd_line(17, 0.5)
    assert line is not None
    assert line.startswith("17 processes share 0.5 processors: under load calls and their copies wait")
