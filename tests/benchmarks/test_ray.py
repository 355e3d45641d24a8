"""Comparison with Ray Serve, tested without Ray: skipping, load, figures, clean-up."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from benchmarks import __main__ as program
from benchmarks.gateway import open_load as open_load_module
from benchmarks.gateway.open_load import arrivals, open_load
from benchmarks.gateway.ray_serve import behind_haproxy, bench_ray, measure, namespace, ray_process
from benchmarks.gateway.ray_serve.measure import Turn
from benchmarks.harness import Row

ROOT = Path(program.__file__).parents[1]


def test_without_ray_it_is_skipped_in_one_line_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_ray, "missing", lambda: ["ray"])
    assert program.main(["--quick", "--only", "ray"]) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "ray ...",
        "ray: skipped, not installed: ray (`make bench` installs it)",
    ]
    assert "1 skipped" in captured.out


def test_missing_names_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_process, "NEEDED", ("asyncio", "no_such_module_here"))
    assert ray_process.missing() == ["no_such_module_here"]


def test_environment_keeps_ours_and_sets_rays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:1")
    monkeypatch.setenv("KEPT", "yes")
    monkeypatch.setenv("PYTHONPATH", "mine")
    found = ray_process.environment("/a/folder", haproxy=False)
    assert "RAY_ADDRESS" not in found  # else it would join a cluster that runs already
    assert found["KEPT"] == "yes"
    assert found["RAY_USAGE_STATS_ENABLED"] == "0"
    assert found["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "mine"]
    assert found["RAY_SERVE_DEFAULT_HTTP_HOST"] == "127.0.0.1"
    assert "RAY_SERVE_ENABLE_HA_PROXY" not in found


def test_all_files_of_haproxy_lie_in_the_runs_own_folder() -> None:
    found = ray_process.environment("/a/folder", haproxy=True)
    assert found["RAY_SERVE_ENABLE_HA_PROXY"] == "1"
    assert "RAY_SERVE_DEFAULT_HTTP_HOST" not in found  # Ray would warn that it heeds none
    files = [found[f"RAY_SERVE_HAPROXY_{name}"] for name in ray_process.HAPROXY_FILES]
    assert len(set(files)) == len(files)
    assert all(Path(file).is_relative_to("/a/folder") for file in files)


def test_where_haproxy_cannot_run_the_other_comparison_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Row(name="the other", ours=1.0, unit="us")
    monkeypatch.setattr(bench_ray, "missing", list)
    monkeypatch.setattr(bench_ray, "compare", lambda *_, **__: [other])
    monkeypatch.setattr(behind_haproxy, "lacking", lambda: "no network namespace: refused")
    assert [row.unit for row in bench_ray.run(quick=True)] == ["us", "skipped"]
    said = capsys.readouterr().err
    assert said == "ray: Ray Serve, by HAProxy: skipped, no network namespace: refused\n"


def test_lacking_names_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind_haproxy, "find_spec", lambda _: object())
    monkeypatch.setattr(behind_haproxy, "refused", lambda: "")
    assert behind_haproxy.lacking() == ""
    monkeypatch.setattr(behind_haproxy, "refused", lambda: "there is no `unshare`")
    assert behind_haproxy.lacking() == "no network namespace: there is no `unshare`"
    monkeypatch.setattr(behind_haproxy, "find_spec", lambda _: None)
    monkeypatch.setattr(behind_haproxy, "which", lambda _: None)
    assert behind_haproxy.lacking() == "not installed: haproxy"


def test_without_unshare_there_is_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "which", lambda _: None)
    assert namespace.refused() == "there is no `unshare`"


def test_what_unshare_says_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [sys.executable, "-c", "import sys; sys.exit('not permitted')"]
    monkeypatch.setattr(namespace, "own_namespace", lambda: told)
    assert namespace.refused() == "not permitted"


@pytest.mark.skipif(bool(namespace.refused()), reason="no network namespace can be made here")
def test_in_a_namespace_of_its_own_a_program_hears_itself_and_nothing_else() -> None:
    code = """
import socket
from benchmarks.gateway.ray_serve.namespace import interfaces, open_loopback
assert interfaces() == ["lo"], interfaces()
open_loopback()
inside = socket.create_server(("0.0.0.0", 0))
socket.create_connection(("127.0.0.1", inside.getsockname()[1]), timeout=5).close()
try:
    socket.create_connection(("127.0.0.1", PORT), timeout=5)
except ConnectionRefusedError:
    print("refused")
"""
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        done = subprocess.run(
            [*namespace.own_namespace(), sys.executable, "-c", code.replace("PORT", str(port))],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "refused\n"


def test_beside_other_interfaces_haproxy_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind_haproxy, "interfaces", lambda: ["lo", "eth0"])
    with pytest.raises(RuntimeError, match="eth0"):
        behind_haproxy.main([])


def test_rows_come_back_from_the_namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = Row(name="a", ours=1.0, unit="us", alternative="b", theirs=2.0, ratio=2.0, spread=(1.5, 3.0))
    program = tmp_path / "start"
    program.write_text(f"#!/bin/sh\necho '{msgspec.json.encode([row]).decode()}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(behind_haproxy, "own_namespace", lambda: [str(program)])
    assert behind_haproxy.compared(quick=True) == [row]
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(RuntimeError, match="behind its HAProxy failed"):
        behind_haproxy.compared(quick=True)


async def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "ray"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise SystemExit('this ray is broken')")
    made = ray_process.environment
    monkeypatch.setattr(
        ray_process,
        "environment",
        lambda folder, **how: made(folder, **how) | {"PYTHONPATH": f"{broken.parent}:{ROOT}"},
    )
    with pytest.raises(RuntimeError, match="this ray is broken"):
        async with ray_process.ray_serve(haproxy=False):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted by a call of Linux")
def test_no_orphan_outlives_the_process() -> None:
    """A child leaves a child of its own behind, which neither ends by itself nor heeds a polite signal."""
    orphan = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {orphan!r}]).pid, flush=True)"
    )
    code = (
        "import subprocess, sys; from benchmarks.gateway.ray_serve import ray_process; ray_process.adopt_orphans();"
        f"subprocess.run([sys.executable, '-c', {child!r}]); print(ray_process.end_orphans(0.5))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    pid, killed = map(int, done.stdout.split())
    assert killed == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_arrivals_are_the_same_each_time_and_as_many_as_asked_for() -> None:
    due = list(arrivals(200.0, 50.0))
    assert due == list(arrivals(200.0, 50.0))
    assert due == sorted(due)
    assert due[0] > 0
    assert due[-1] < 50.0
    assert len(due) == pytest.approx(10_000, rel=0.05)


class Server(asyncio.Protocol):
    """One connection of a server that answers every request alike, in two parts, once so many were heard."""

    heard: ClassVar[list[bytes]]
    waiting: ClassVar[list[asyncio.Transport]]
    connections: ClassVar[list[asyncio.Transport]]
    answer: ClassVar[bytes]
    after: ClassVar[int]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.connections.append(transport)

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)  # requests this small come in one piece over loopback
        self.waiting.append(self.transport)
        if len(self.heard) >= self.after:
            for transport in self.waiting:
                transport.write(self.answer[:20])
                asyncio.get_running_loop().call_later(0.001, transport.write, self.answer[20:])
            self.waiting.clear()


@asynccontextmanager
async def server(answer: bytes, *, after: int = 1) -> AsyncIterator[tuple[str, list[bytes]]]:
    """The server's address and what it was asked."""
    kind = type("Kind", (Server,), {"heard": [], "waiting": [], "connections": []})
    assert issubclass(kind, Server)
    kind.answer, kind.after = answer, after
    listening = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}", kind.heard
    finally:
        listening.close()
        for transport in kind.connections:
            transport.abort()
        await listening.wait_closed()


FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


async def test_open_load_asks_once_for_each_arrival() -> None:
    async with server(FINE) as (url, heard):
        latencies = await open_load(url, "/here", b"body", rate=200.0, seconds=0.5)
    assert len(latencies) == len(heard) == len(list(arrivals(200.0, 0.5)))
    assert all(latency > 0 for latency in latencies)
    assert {request.split(b"\r\n")[0] for request in heard} == {b"POST /here HTTP/1.1"}
    assert all(request.endswith(b"\r\n\r\nbody") for request in heard)


async def test_open_load_does_not_wait_for_answers() -> None:
    """The server answers only once all requests have come; a closed loop would never finish."""
    wanted = len(list(arrivals(200.0, 0.3)))
    async with server(FINE, after=wanted) as (url, heard):
        latencies = await open_load(url, "/", b"", rate=200.0, seconds=0.3)
    assert len(latencies) == len(heard) == wanted


async def test_open_load_fails_with_an_answer_that_is_none() -> None:
    async with server(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n") as (url, _):
        with pytest.raises(ExceptionGroup) as caught:
            await open_load(url, "/", b"", rate=200.0, seconds=0.2)
    assert "503 Busy" in str(caught.value.exceptions[0])


async def test_open_load_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_load_module, "MAX_AT_ONCE", 3)
    async with server(FINE, after=1000) as (url, _):
        with pytest.raises(ExceptionGroup) as caught:
            await open_load(url, "/", b"", rate=1000.0, seconds=0.5)
    assert "3 requests wait" in str(caught.value.exceptions[0])


@pytest.mark.parametrize(
    ("times", "met"), [(4.5, [False, None, True]), (6.0, [True, None, True]), (1.5, [False, None, False])]
)
def test_rows_judge_the_ratios(times: float, met: list[bool | None]) -> None:
    """Theirs takes so many times as long; the machine is ten times slower in the last round."""

    def turn(scale: float) -> Turn:
        return Turn([0.001 * scale] * 100, 0.1 * scale, [0.002 * scale] * 200)

    turns = [[turn(mood), turn(mood * times), turn(mood * 100)] for mood in (1.0, 1.0, 10.0)]
    *rows, busy, at_once, moderate = measure.rows(turns, 123.4, bench_ray.RIVALS)
    assert [row.ratio for row in (busy, at_once, moderate)] == pytest.approx([100.0] * 3)
    assert {row.alternative for row in rows} == {bench_ray.RIVALS[0]}
    assert {busy.alternative, at_once.alternative, moderate.alternative} == {bench_ray.RIVALS[1]}
    assert [row.met for row in rows] == met
    assert [row.ratio for row in rows] == pytest.approx([times] * 3)
    assert [row.ours for row in rows] == pytest.approx([1000.0, 1.0, 2.0])
    assert rows[0].theirs == pytest.approx(1000.0 * times)
    assert rows[0].target == pytest.approx(1000.0 * times / 5)
    assert rows[2].target == pytest.approx(2.0 * times / 2)
    assert "123/s" in rows[2].name
