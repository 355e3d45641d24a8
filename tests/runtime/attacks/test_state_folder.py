"""State folders that somebody else prepared: nothing outside of them is read, appended to, emptied or made."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.cli import main as run
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.state.documents import STATE_VERSION, ClusterState
from kwiken.runtime.cluster.state.files import StateFiles
from kwiken.runtime.cluster.state.folder import StateFolder
from kwiken.runtime.gateway.control.plan_store import PlanStore
from kwiken.runtime.process.log_file import LogFile
from tests.support.runtime.server_processes import KWIKEN, ROOT
from tests.support.runtime.waiting import until

TARGET = "services.hello:hello"
LINKS = ("symbolic", "hard", "dangling")


def main(args: list[str]) -> object:
    """Exit code of a command."""
    with pytest.raises(SystemExit) as caught:
        run(args)
    return caught.value.code


def link(place: Path, target: Path, kind: str) -> None:
    """Put a link to a file of the victim, or to none, at a place."""
    if kind == "hard":
        place.hardlink_to(target)
    else:
        place.symlink_to(target if kind == "symbolic" else target.with_name("made"))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"precious\n")
    return path


def untouched(victim: Path) -> bool:
    return victim.read_bytes() == b"precious\n" and not victim.with_name("made").exists()


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize(
    ("name", "detach"), [("hello.lock", False), ("hello.lock", True), ("hello.log", True)]
)
def test_up_follows_no_link(
    name: str, kind: str, detach: bool, victim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    link(state / name, victim, kind)
    assert main(["up", TARGET, "--port", "0", "--state", str(state), *(["--detach"] if detach else [])]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert name in line
    assert "link" in line
    assert untouched(victim)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
@pytest.mark.parametrize("detach", [False, True])
def test_a_folder_that_others_may_write_to_is_refused(
    mode: int, detach: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)
    assert main(["up", TARGET, "--port", "0", "--state", str(state), *(["--detach"] if detach else [])]) == 2
    assert capsys.readouterr().err.strip().endswith(f"forbid that with: chmod go-w {state}")
    assert list(state.iterdir()) == []


def test_folder_and_log_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files = StateFiles(tmp_path / "a" / "state", "hello")
        files.lock()
        files.open_log().close()
        files.unlock()
    finally:
        os.umask(before)
    assert files.folder.stat().st_mode & 0o777 == 0o700
    assert files.log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", LINKS)
def test_what_is_written_replaces_links(kind: str, victim: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    files = StateFiles(state, "hello")
    for name in ("hello.json.new", "hello.token.new", "hello.plan.new", "hello.token", "hello.plan"):
        link(state / name, victim, kind)
    folder = StateFolder(state, "hello")
    us = Identity.of(os.getpid())
    assert us is not None
    folder.begin(
        ClusterState(
            version=STATE_VERSION,
            service="hello",
            target=TARGET,
            supervisor=us,
            ready=False,
            token_file=str(files.token),
            url="http://127.0.0.1:1",
            gateways=[],
            replicas=[],
        )
    )
    PlanStore(files.plan).save(b"{}", None)
    assert untouched(victim)
    assert not any(path.is_symlink() for path in state.iterdir())
    folder.close()


@pytest.mark.parametrize("kind", LINKS[:2])
def test_a_linked_log_is_not_emptied(kind: str, tmp_path: Path) -> None:
    victim, log = tmp_path / "victim", tmp_path / "state.log"
    victim.write_bytes(b"x" * 100)
    link(log, victim, kind)
    with victim.open("ab") as other:
        assert kind == "hard" or not LogFile(log, most=10).written_by(other.fileno())
    assert not LogFile(log, most=10).shorten()
    assert victim.stat().st_size == 100


@pytest.mark.parametrize("kind", LINKS[:2])
def test_a_linked_token_is_not_read(kind: str, victim: Path, tmp_path: Path) -> None:
    files = StateFiles(tmp_path, "hello")
    link(files.token, victim, kind)
    with pytest.raises(InputError, match="is a link") as caught:
        files.read_token()
    assert "precious" not in str(caught.value)


def test_two_at_once_on_one_folder_leave_one(tmp_path: Path) -> None:
    first = StateFiles(tmp_path, "hello")
    first.lock()
    with pytest.raises(InputError, match="is up already"):
        StateFiles(tmp_path, "hello").lock()
    first.unlock()


async def test_a_state_that_could_not_be_written_is_written_once_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a full disk; a folder in the file's way stops root too."""
    monkeypatch.setattr("kwiken.runtime.cluster.cluster.CHECK_S", 0.2)
    files = StateFiles(tmp_path, "echo")
    async with Cluster("tests.support.services.http:service", state=tmp_path) as cluster:
        obstacle = files.state.with_name(files.state.name + ".new")
        obstacle.mkdir()
        ((killed, _), *_) = cluster.replicas["first"]
        os.kill(killed, signal.SIGKILL)
        await until(lambda: cluster.replicas["first"] and cluster.replicas["first"][0][0] != killed)
        ((pid, _), *_) = cluster.replicas["first"]

        def recorded() -> set[int]:
            state = files.read()
            assert state is not None
            return {each.identity.pid for each in state.replicas}

        await asyncio.sleep(0.3)
        assert pid not in recorded()
        obstacle.rmdir()
        await until(lambda: pid in recorded())


def test_several_up_at_once_on_one_folder_leave_one_service(tmp_path: Path) -> None:
    """Real processes: one comes up, each other says in one line why it does not, and `down` ends all."""
    words = [*KWIKEN, "up", TARGET, "--port", "0", "--state", str(tmp_path), "--detach"]
    started = [
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    told = [process.communicate(timeout=120) for process in started]
    try:
        codes = sorted(process.returncode for process in started)
        assert codes == [0, 2, 2], told
        for process, (_, errors) in zip(started, told, strict=True):
            if process.returncode:
                (line,) = errors.strip().splitlines()
                assert "is up already" in line
        state = StateFiles(tmp_path, "hello").read()
        assert state is not None
        assert state.ready
        pids = [each.identity.pid for each in (*state.gateways, *state.replicas)] + [state.supervisor.pid]
    finally:
        assert main(["down", "--state", str(tmp_path)]) in {0, None}
    assert not any(runs(pid) for pid in pids)


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended may stay as a zombie until somebody asks for its code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
