"""Clusters that fail to start: the reason is given, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from kwiken.base.errors import DefinitionError, InputError, KwikenError
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.cluster.state.documents import ClusterState, ProcessState
from kwiken.runtime.cluster.state.files import StateFiles
from kwiken.runtime.cluster.state.stop import stop_cluster
from tests.support.runtime.waiting import until

TARGET = "tests.support.services.http:service"
BROKEN = "tests.support.services.broken:"
ONE_EACH = {"first": 1, "middle": 1, "last": 1}


def files_in(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "fails",
            "work-0: stage .work.: its setup failed: RuntimeError: no index here .at .*services/broken.py:",
        ),
        ("exits", "work-0: ended with exit code 7 before it was ready"),
    ],
)
async def test_a_replica_that_cannot_start_is_named_and_nothing_is_left(
    name: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(KwikenError, match=reason):
        async with Cluster(BROKEN + name, state=tmp_path):
            pass
    assert files_in(tmp_path) == [".lock"]


async def test_what_processes_say_is_appended_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "processes.log"
    log.write_text("before\n", encoding="ascii")
    with pytest.raises(KwikenError, match="ended with exit code 7"):
        async with Cluster(BROKEN + "exits", ClusterSettings(log=log)):
            pass
    first, *rest = log.read_text(encoding="ascii").splitlines()
    assert first == "before"
    assert set(rest) == {"no licence here"}
    assert "no licence here" not in capfd.readouterr().err


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        with pytest.raises(KwikenError, match=f"gateway: 127.0.0.1:{port}: the port is in use"):
            async with Cluster(TARGET, replicas=ONE_EACH, port=port, state=tmp_path):
                pass
    finally:
        server.close()
        await server.wait_closed()


async def test_a_bad_plan_file_is_named(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("{")
    with pytest.raises(KwikenError, match=r"gateway: .*plan\.json"):
        async with Cluster(TARGET, ClusterSettings(plan=str(plan)), replicas=ONE_EACH):
            pass


def test_an_unknown_target_or_stage_is_named() -> None:
    with pytest.raises(InputError, match="module no_such_module: there is no such module"):
        Cluster("no_such_module:x")
    with pytest.raises(InputError, match="is a StructMeta, not a Service"):
        Cluster("tests.support.services.http:Ask")
    with pytest.raises(DefinitionError, match="no stage 'nope'"):
        Cluster(TARGET, replicas={"nope": 2})


async def test_the_state_file_exists_only_while_the_cluster_runs(tmp_path: Path) -> None:
    files = StateFiles(tmp_path, "echo")
    async with Cluster(TARGET, replicas=ONE_EACH, state=tmp_path) as cluster:
        with pytest.raises(InputError, match="up already"):
            async with Cluster(TARGET, state=tmp_path):
                pass
        state = files.read()
        assert state is not None
        assert state.ready
        assert state.supervisor.pid == os.getpid()
        assert all(child.identity.alive for child in state.children)
        assert {child.stage for child in state.children} == {None, "first", "middle", "last"}
        assert files.token.read_text().strip() == cluster.token
        assert stat.S_IMODE(files.token.stat().st_mode) == 0o600
    assert files.read() is None
    assert not files.token.exists()
    await until(lambda: not any(child.identity.alive for child in state.children))


def test_another_process_with_a_recorded_pid_is_never_signalled(tmp_path: Path) -> None:
    sleeper = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    try:
        real = Identity.of(sleeper)
        assert real is not None
        stranger = Identity(sleeper, real.started + "0")
        assert not stranger.alive
        assert not stranger.signal(signal.SIGKILL)
        files = StateFiles(tmp_path, "echo")
        files.write(
            ClusterState(
                version=2,
                service="echo",
                target=TARGET,
                supervisor=stranger,
                ready=True,
                token_file="none",
                url="http://127.0.0.1:1",
                gateways=[],
                replicas=[ProcessState(stranger, "http://127.0.0.1:1", 0, "first", "first-0")],
            )
        )
        assert not stop_cluster(files)
        assert files.read() is None
        assert Identity.of(sleeper) == real
        assert real.signal(signal.SIGKILL)
    finally:
        os.waitpid(sleeper, 0)
    assert not real.alive
    assert not real.signal(signal.SIGKILL)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_no_process_has_an_odd_pid(pid: int) -> None:
    assert Identity.of(pid) is None
    assert not Identity(pid, "x").signal(signal.SIGTERM)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "colour": 3}', "\x00"])
def test_a_broken_state_file_is_named(tmp_path: Path, text: str) -> None:
    files = StateFiles(tmp_path, "echo")
    files.state.write_text(text)
    with pytest.raises(InputError, match=r"echo\.json: is not a cluster's state"):
        stop_cluster(files)
