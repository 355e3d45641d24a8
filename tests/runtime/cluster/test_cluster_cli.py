"""`serve`, `stage`, `up`, `down` and `status` as their users run them: real processes, real signals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.state.files import StateFiles
from tests.support.project import commands
from tests.support.runtime.server_processes import KWIKEN, ROOT, address_of, ask, running
from tests.support.runtime.waiting import soon

TARGET = "tests.support.services.http:service"
ONE_OF_EACH = ("--replicas", "middle=1", "--replicas", "last=1")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    return subprocess.run([*KWIKEN, *args], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def refused(args: list[str], pattern: str) -> None:
    done = run(*args)
    assert done.returncode == 2, done.stderr
    commands.one_refusal(done.stderr, pattern)


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield str(taken.getsockname()[1])


def test_a_service_runs_in_one_process_and_stops_in_good_order() -> None:
    with running("serve", TARGET, "--local", "--port", "0") as gateway:
        url = address_of(gateway)
        assert ask(url, "/readyz") == (200, b"ok")
        assert ask(url, "/v1/request", {"text": "hi"}) == (200, b'{"answer":{"said":"HI0 HI1"}}')
        assert ask(url, "/v1/plan")[0] == 403
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(10) == 0


def test_objects_made_at_the_start_are_left_out_of_garbage_collections() -> None:
    with running("serve", "tests.support.services.steady:service", "--local", "--port", "0") as gateway:
        frozen, others = json.loads(ask(address_of(gateway), "/v1/request", "hi")[1])["answer"]
        assert others < frozen / 5


def test_replicas_and_gateway_started_by_hand(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        replicas = [
            stack.enter_context(running("stage", TARGET, "--stage", stage, "--traces", str(tmp_path / "t")))
            for stage in ("first", "middle", "middle", "last")
        ]
        wanted = []
        for replica, stage in zip(replicas, ("first", "middle", "middle", "last"), strict=True):
            place = address_of(replica).removeprefix("http://127.0.0.1")
            wanted += ["--replica", f"{stage}=localhost{place}"]
        gateway = stack.enter_context(
            running("serve", TARGET, "--port", "0", "--traces", str(tmp_path / "t"), *wanted)
        )
        url = address_of(gateway)
        soon(lambda: ask(url, "/readyz")[0] == 200)
        status, body = ask(url, "/v1/request", {"text": "hi"}, **{"kw-timing": "1"})
        assert status == 200
        trace_id = json.loads(body)["timing"]["trace_id"]
        for process in (gateway, *replicas):
            process.send_signal(signal.SIGTERM)
        assert [process.wait(10) for process in (gateway, *replicas)] == [0] * 5
    services = set()
    for path in (tmp_path / "t").iterdir():
        for line in path.read_text().splitlines():
            if trace_id in line:
                services.add(path.name.partition(".")[0])
    assert services == {"echo", "echo-first", "echo-middle", "echo-last"}


def test_bad_usage_of_serve(tmp_path: Path, taken_port: str) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    refused(["serve", TARGET, "--local", "--port", taken_port], f"127.0.0.1:{taken_port}: the port is in use")
    refused(
        ["serve", "tests.support.services.broken:fails", "--local", "--port", "0"],
        r"stage 'work': its setup failed: RuntimeError: no index here \(at .*services/broken\.py:\d+\)",
    )
    for words, pattern in (
        (["--port", "0"], "no replica of first, middle, last"),
        (["--port", "70000"], "--port"),
        (["--port", "0", "--replica", "first"], "STAGE=HOST:PORT"),
        (["--port", "0", "--replica", "first=localhost"], "HOST:PORT"),
        (["--port", "0", "--replica", "nope=localhost:1"], "no stage 'nope'"),
        (["--local", "--replica", "first=localhost:1"], "--local"),
        (["--local", "--port", "0", "--token-file", str(empty)], "empty"),
        (["--local", "--port", "0", "--token-file", str(tmp_path / "no")], "No such file"),
        (["--local", "--port", "0", "--token-file", "/dev/zero"], "is not a regular file"),
        (["--local", "--port", "0", "--plan", str(empty)], "empty"),
        (["--local", "--port", "0", "--plan", "/dev/zero"], "/dev/zero: is not a regular file"),
    ):
        commands.refused(commands.run("serve", TARGET, *words), pattern)
    commands.refused(commands.run("serve", "no_such:x", "--local"), "no_such")


def test_bad_usage_of_stage(taken_port: str) -> None:
    refused(["stage", TARGET, "--stage", "first", "--port", taken_port], "the port is in use")
    for words, pattern in (
        ([TARGET, "--stage", "nope"], "has no stage 'nope'; it has: first, middle, last"),
        ([TARGET], "--stage"),
        ([TARGET, "--stage", "first", "--host", "203.0.113.7"], "203.0.113.7"),
        (["tests.support.services.http:Ask", "--stage", "first"], "not a Service"),
    ):
        commands.refused(commands.run("stage", *words), pattern)


def test_bad_usage_of_up(tmp_path: Path, taken_port: str) -> None:
    state = ["--state", str(tmp_path / "state")]
    bad_plan = tmp_path / "plan.json"
    bad_plan.write_text('{"version": 9}')
    refused(
        ["up", TARGET, *state, "--port", taken_port], f"gateway: 127.0.0.1:{taken_port}: the port is in use"
    )
    refused(["up", TARGET, *state, "--port", taken_port, "--detach"], "the port is in use")
    refused(["up", TARGET, *state, "--plan", str(bad_plan)], r"plan\.json")
    refused(["up", "tests.support.services.broken:fails", *state, "--port", "0"], "no index here")
    (tmp_path / "file").write_text("")
    refused(["up", TARGET, "--state", str(tmp_path / "file"), "--port", "0"], "cannot be used")
    for words, pattern in (
        (["--replicas", "first"], "--replicas: must be STAGE=N, not 'first'"),
        (["--replicas", "nope=2"], "has no stage 'nope'; it has: first, middle, last"),
        (["--replicas", "first=0"], "stage 'first': must be a whole number from 1 to 10000, not '0'"),
        (["--replicas", "first=10001"], "from 1 to 10000, not '10001'"),
        (["--replicas", "first=-1"], "not '-1'"),
        (["--replicas", "first=1.5"], "not '1.5'"),
        (["--replicas", "first="], "not ''"),
        (["--replicas", "first=\u0663"], "from 1 to 10000"),  # a digit of another script
        (["--replicas", "first=2", "--replicas", "first=3"], "stage 'first' is given twice"),
        (["--host", " "], "--host"),
        (["--host", "203.0.113.7", "--port", "0"], "203.0.113.7"),
    ):
        commands.refused(commands.run("up", TARGET, *state, *words), pattern)
    commands.refused(commands.run("status", *state), "no service is up")
    commands.refused(commands.run("status", "../up", *state), "no service's name")


SLY = """
import sys
from kwiken import Service
if "kwiken.runtime.process.server_process" in " ".join(sys.orig_argv):
    raise RuntimeError("only in a child")
service = Service("sly")
@service.stage()
async def only(request: str) -> str: return request
"""


def test_a_module_that_fails_in_a_replica_only_is_one_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kw_sly.py").write_text(SLY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ["up", "kw_sly:service", "--state", str(tmp_path / "state"), "--port", "0"]
    refused(words, r"module kw_sly: cannot be imported: RuntimeError: only in a child at .*kw_sly\.py:5")
    monkeypatch.setenv("KWIKEN_TRACEBACK", "1")
    assert "Traceback" in run(*words).stderr


def test_up_status_down_and_down_again(tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state")]
    log = tmp_path / "state" / "echo.log"
    log.parent.mkdir()
    log.write_bytes(b"x\n" * (5 << 20))  # of earlier ones
    more = ["--allowed-host", "friend.example", "--bodies-mib", "100"]
    up = run("up", TARGET, *state, "--port", "0", "--detach", *more)
    try:
        assert up.returncode == 0, up.stderr
        url = up.stdout.strip()
        assert ask(url, "/v1/request", {"text": "hi"}, Host="friend.example")[0] == 200
        assert ask(url, "/v1/request", {"text": "hi"}, Host="rebound.example")[0] == 421
        soon(lambda: log.with_name("echo.log.1").exists() and log.stat().st_size < 10_000)
        refused(
            ["up", TARGET, *state, "--port", "0"], "echo' is up already; stop it with: kwiken down --state "
        )
        refused(
            ["up", TARGET, *state, "--port", "0", "--detach"],
            "echo' is up already; stop it with: kwiken down --state ",
        )
        (cluster,) = json.loads(run("status", *state, "--json").stdout)["clusters"]
        assert cluster["url"] == url
        assert cluster["runtime"]["requests"] == 1
        assert [each["replica"] for each in cluster["replicas"]] == [
            "first-0",
            "middle-0",
            "middle-1",
            "middle-2",
            "last-0",
            "last-1",
        ]
        assert all(each["alive"] and each["inflight"] == 0 for each in cluster["replicas"])
        shown = run("status", *state).stdout
        assert "middle-2" in shown
        assert re.search(r"requests.*failed.*\n.*\n1 +│ +0 ", shown), shown
    finally:
        down = run("down", *state)
    assert down.returncode == 0
    assert down.stderr == "echo is stopped\n"
    assert not any(Identity.of(each["pid"]) for each in [*cluster["replicas"], *cluster["gateways"]])
    again = run("down", *state)
    assert (again.returncode, again.stderr) == (0, f"no service is up in {tmp_path / 'state'}\n")
    assert run("down", "echo", *state).stderr.startswith("service 'echo' is not up")


def listening_on(url: str, host: str) -> bool:
    """Whether a server answers at this address of the machine, at the port of a URL."""
    with socket.socket() as client:
        client.settimeout(2)
        return client.connect_ex((host, int(url.rpartition(":")[2]))) == 0


def test_up_listens_where_it_is_told_with_as_many_replicas_as_it_is_told(tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state")]
    up = run("up", TARGET, *state, "--port", "0", "--detach", "--host", "0.0.0.0", *ONE_OF_EACH)
    try:
        assert up.returncode == 0, up.stderr
        assert "warning: the gateway listens on 0.0.0.0, so other machines may send" in up.stderr
        url = up.stdout.strip()
        assert url.startswith("http://127.0.0.1:")
        assert listening_on(url, "127.0.0.2"), "an address that the gateway does not name"
        assert ask(url, "/v1/request", {"text": "hi"}, Host="any.example")[0] == 200
        (cluster,) = json.loads(run("status", *state, "--json").stdout)["clusters"]
        assert [each["replica"] for each in cluster["replicas"]] == ["first-0", "middle-0", "last-0"]
        assert cluster["runtime"]["requests"] == 1
        assert not any(listening_on(each["address"], "127.0.0.2") for each in cluster["replicas"])
        named = json.loads(run("status", TARGET, *state, "--json").stdout)["clusters"]
        assert [each["service"] for each in named] == ["echo"]
    finally:
        down = run("down", TARGET, *state)  # what `up` took, whatever the service's name is
    assert (down.returncode, down.stderr) == (0, "echo is stopped\n")


def test_what_up_itself_says_is_in_the_same_log_as_its_processes(tmp_path: Path) -> None:
    words = [
        "--state",
        str(tmp_path),
        "--port",
        "0",
        "--host",
        "0.0.0.0",
        "--log-format",
        "json",
        *ONE_OF_EACH,
    ]
    with running("up", TARGET, *words) as up:
        assert up.stdout is not None
        assert up.stdout.readline().startswith("http://127.0.0.1:")
        up.send_signal(signal.SIGTERM)
        _, log = up.communicate(timeout=30)
    assert up.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert {line["process"] for line in lines} == {"supervisor"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    told = {line["event"]: (line["level"], line["message"]) for line in lines}
    assert told["cluster_up"] == (
        "info",
        f"echo is up with 3 replicas; control token in {StateFiles(tmp_path, 'echo').token}",
    )
    assert told["cluster_stopping"] == ("info", "echo is stopping")
    level, message = told["gateway_exposed"]
    assert (level, message.split(",")[0]) == ("warning", "the gateway listens on 0.0.0.0")


def test_ctrl_c_stops_everything(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running("up", TARGET, "--state", str(state), "--port", "0", *ONE_OF_EACH) as up:
        assert up.stdout is not None
        url = up.stdout.readline().strip()
        assert ask(url, "/v1/request", {"text": "hi"})[0] == 200
        noted = StateFiles(state, "echo").read()
        assert noted is not None
        up.send_signal(signal.SIGINT)
        assert up.wait(20) == 0
    assert not any(child.identity.alive for child in noted.children)


def test_a_killed_supervisor_leaves_no_process_behind(tmp_path: Path) -> None:
    """Not even a paused replica, which receives no event."""
    files = StateFiles(tmp_path, "echo")
    with running("up", TARGET, "--state", str(tmp_path), "--port", "0", *ONE_OF_EACH) as up:
        assert up.stdout is not None
        assert up.stdout.readline().startswith("http://")
        noted = files.read()
        assert noted is not None
        assert len(noted.children) == 4
        os.kill(noted.replicas[0].identity.pid, signal.SIGSTOP)
        up.kill()
        up.wait(10)
    soon(lambda: not any(child.identity.alive for child in noted.children))
    # Its state file is outdated now; that prevents neither another start nor a stop.
    with running("up", TARGET, "--state", str(tmp_path), "--port", "0", *ONE_OF_EACH) as up:
        assert up.stdout is not None
        assert up.stdout.readline().startswith("http://")
        assert run("down", "--state", str(tmp_path)).stderr == "echo is stopped\n"
        assert up.wait(10) == 0
    assert files.read() is None


def test_down_ends_children_whose_supervisor_is_stuck(tmp_path: Path) -> None:
    files = StateFiles(tmp_path, "echo")
    with running("up", TARGET, "--state", str(tmp_path), "--port", "0", *ONE_OF_EACH) as up:
        assert up.stdout is not None
        assert up.stdout.readline().startswith("http://")
        noted = files.read()
        assert noted is not None
        os.kill(up.pid, signal.SIGSTOP)
        from kwiken.runtime.cluster.state.stop import stop_cluster

        assert stop_cluster(files, stop_s=0.5)
        soon(lambda: not any(child.identity.alive for child in noted.children))
        assert up.wait(10) == -signal.SIGKILL
