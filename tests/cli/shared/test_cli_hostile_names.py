"""Hostile names from traces, files and the network: no verb lets one steer the terminal or forge a line."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import pytest

from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.state.documents import STATE_VERSION, ClusterState, ProcessState
from kwiken.runtime.engine.status_document import Status
from tests.support.otel.traces import many
from tests.support.peers.hostile import (
    ATTACK,
    assert_harmless,
    attacked,
    hostile_profile,
    profile_document,
)
from tests.support.project.commands import refused, run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile, a plan of it, a map and traces, the attack in every string of each."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "profile.json").write_text(json.dumps(hostile_profile(profile_document())))
    made = run(
        *("plan", str(folder / "profile.json"), "-o", str(folder / "made.json")),
        *("--utility-loss", "0.05", "--catch-up", "0.02"),
    )
    assert made.exit_code == 0, made.stderr
    assert_harmless(made.output)
    assert_harmless((folder / "made.json").read_text())
    plan = json.loads((folder / "made.json").read_text())
    for field in ("created", "profile"):
        plan[field] = attacked(plan[field])
    plan["cost"]["model"] = attacked("typical")
    (folder / "plan.json").write_text(json.dumps(plan))
    targets = {name: {"call": "shop.S/M", "host": "h", "port": 80} for name in plan["stages"]}
    (folder / "map.json").write_text(json.dumps(targets))
    traces = json.loads(many(40))
    for trace in traces["data"]:
        for span in trace["spans"]:
            span["tags"] = [{"key": attacked("tier"), "type": "string", "value": attacked("gold")}]
            span["operationName"] = attacked(span["operationName"])
        trace["processes"]["p1"]["serviceName"] = attacked("shop")
    (folder / "traces.json").write_text(json.dumps(traces))
    return folder


FIT = ["fit", "{}/traces.json", "--depth", "2", "--kind-by", attacked("tier")]
SHOWN: list[list[str]] = [
    FIT,
    [*FIT, "--json"],
    [*FIT, "--mermaid"],
    [*FIT, "-o", "-"],
    ["advise", "{}/traces.json"],
    ["advise", "{}/traces.json", "--json"],
    ["advise", "{}/traces.json", "-o", "-"],
    ["explain", "{}/profile.json", "--plan", "{}/plan.json"],
    ["explain", "{}/profile.json", "--json"],
    ["judge", "{}/plan.json", "{}/profile.json"],
    ["judge", "{}/profile.json", "--blocks", "2", "--json"],
    ["plan", "{}/profile.json", "--utility-loss", "0.05", "--catch-up", "0.02"],
    ["plan", "{}/profile.json", "-o", "-"],
    ["plan", "{}/profile.json", "--json"],
    ["simulate", "{}/profile.json", "--plan", "{}/plan.json", "--requests", "500"],
    ["simulate", "{}/profile.json", "--plan", "{}/plan.json", "--requests", "500", "--json"],
    ["export", "{}/plan.json", "--to", "grpc", "--map", "{}/map.json"],
    ["export", "{}/plan.json", "--to", "envoy", "--map", "{}/map.json"],
    ["export", "{}/plan.json", "--to", "istio", "--map", "{}/map.json"],
    ["report", "{}/profile.json", "{}/plan.json", "-o", "-"],
]


@pytest.mark.parametrize(
    "args", SHOWN, ids=lambda args: " ".join(args).replace("{}/", "").split(ATTACK[:1])[0]
)
def test_results_are_harmless(files: Path, args: list[str]) -> None:
    result = run(*(word.replace("{}", str(files)) for word in args))
    assert result.exit_code == 0, result.stderr
    assert_harmless(result.stdout)
    assert_harmless(result.stderr)
    if "--json" in args:
        assert json.loads(result.stdout)
    if args[0] == "report":
        assert "<script>" not in result.stdout


def test_what_is_written_reads_back_as_it_was(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    assert run("fit", str(files / "traces.json"), "-o", str(out)).exit_code == 0
    assert_harmless(out.read_text())
    assert json.loads(out.read_text())["service"] == attacked("shop")


REFUSED: list[list[str]] = [
    ["plan", "{}/plan.json"],
    ["simulate", "{}/profile.json", "--plan", "{}/profile.json"],
    ["simulate", "{}/profile.json", "--plan", "{}/other.json"],
    ["plan", "{}/profile.json", "--utility-loss", "0.1", "--partial", ATTACK],
    ["plan", "{}/profile.json", "--utility-loss", "0.1", "--utility-weight", f"{ATTACK}=1"],
    ["plan", "{}/profile.json", "--cost", "{}/odd.json"],
    ["plan", "{}/odd.json"],
    ["plan", "{}/odd-keys.json"],
    ["explain", "{}/odd-stage.json"],
    ["export", "{}/plan.json", "--to", "grpc"],
    ["export", "{}/plan.json", "--to", "envoy", "--map", "{}/odd.json"],
    ["fit", "{}/traces.json", "--root", ATTACK],
    ["fit", "{}/traces.json", "--once", ATTACK],
    ["fit", "{}/odd.json"],
    ["report", "{}/profile.json", "{}/other.json"],
    ["status", ATTACK],
    ["down", ATTACK],
    ["serve", f"tests.support.services.http:{ATTACK}"],
    ["stage", "tests.support.services.http:service", "--stage", ATTACK],
    ["load", f"http://127.0.0.1:1/{ATTACK}", "--rate", "1", "--duration", "1"],
    [ATTACK],
    *(
        [verb, f"/nowhere/{ATTACK[:13]}\n{ATTACK}"]
        for verb in ("fit", "plan", "simulate", "explain", "report")
    ),
]


@pytest.mark.parametrize("args", REFUSED, ids=range(len(REFUSED)))
def test_refusals_are_one_harmless_line(files: Path, args: list[str]) -> None:
    (files / "odd.json").write_text(json.dumps({ATTACK: ATTACK, "spans": ATTACK}))
    profile, plan = (json.loads((files / f"{name}.json").read_text()) for name in ("profile", "plan"))
    (files / "odd-keys.json").write_text(json.dumps(profile | {ATTACK: 1}))
    profile["stages"][1]["after"] = [ATTACK]
    (files / "odd-stage.json").write_text(json.dumps(profile))
    (files / "other.json").write_text(json.dumps(plan | {"service": attacked("other")}))
    result = run(*(word.replace("{}", str(files)) for word in args))
    refused(result, "")
    assert_harmless(result.output)


def test_files_may_be_called_anything(tmp_path: Path) -> None:
    folder = tmp_path / ATTACK.replace("\x00", "").replace("/", "")
    folder.mkdir()
    bad = folder / os.fsdecode(b"\xff\xfe.json")
    bad.write_text("{")
    for verb in ("fit", "plan", "simulate", "explain", "report"):
        result = run(verb, str(bad))
        refused(result, "json")
        assert_harmless(result.output)


class TestLogs:
    def test_an_error_that_is_logged_is_one_harmless_line(self, files: Path) -> None:
        from kwiken.base.errors import DefinitionError, InputError

        for error in (InputError(ATTACK, where=ATTACK), DefinitionError(ATTACK, stage=ATTACK)):
            assert_harmless(str(error))
            assert "\n" not in str(error)
        assert InputError(ATTACK, where=ATTACK).problem == InputError(ATTACK).problem


COUNTED = ("chosen", "failures", "copies")  # keys of the status' numbers by name that are shown


def example(kind: Any) -> Any:
    """A value of a type of the status, with the attack in every string and in every name."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        return {name: example(each) for name, each in hints.items() if get_origin(each) is not NotRequired}
    if origin is list:
        return [example(arguments[0])]
    if origin is dict:
        return {name: example(arguments[1]) for name in (attacked("lookup"), *COUNTED)}
    if arguments:  # of a union
        return example(arguments[0])
    return {str: ATTACK, int: 7, float: 0.5, bool: False}.get(kind)


def figures() -> dict[str, Any]:
    """A gateway's status, the attack in every string and in names of stages."""
    made: dict[str, Any] = example(Status)
    return made | {"autopilot": None}


class Impostor(http.server.BaseHTTPRequestHandler):
    """Answers whatever the server was told to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.wfile.write(self.server.answer)  # type: ignore[attr-defined]
        self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def impostor() -> Iterator[http.server.ThreadingHTTPServer]:
    """A server that answers with any bytes; `answer` holds them."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Impostor)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def noted(folder: Path, server: http.server.ThreadingHTTPServer, *, suffix: str = "") -> list[str]:
    """Note a cluster whose gateway is the server; the words that name its folder."""
    own = Identity.of(os.getpid())
    assert own is not None
    gateway = ProcessState(identity=own, url=f"http://127.0.0.1:{server.server_address[1]}", restarts=0)
    replica = ProcessState(
        identity=Identity(1, "x"), url=attacked("http://a"), restarts=0, stage=ATTACK, replica=ATTACK
    )
    state = ClusterState(
        STATE_VERSION, attacked("shop"), ATTACK, own, True, ATTACK, gateway.url, [gateway], [replica]
    )
    (folder / "shop.json").write_bytes(msgspec.json.encode(state))
    (folder / "shop.token").write_text("token\n")
    return ["--state", str(folder)]


ANSWERS: list[tuple[str, bytes, bool]] = [
    ("sound", whole(json.dumps(figures()).encode()), True),
    ("null", whole(b"null"), False),
    ("a list", whole(b"[]"), False),
    ("nothing", whole(b""), False),
    ("no figures", whole(b'{"plan": 5}'), False),
    ("stages that are none", whole(json.dumps(figures() | {"stages": [ATTACK]}).encode()), False),
    ("words for numbers", whole(json.dumps(figures() | {"failed": ATTACK}).encode()), False),
    ("deep", whole(b"[" * 100_000), False),
    ("not HTTP", ATTACK.encode() + b"\r\n\r\n", False),
    ("cut off", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", False),
    ("an endless length", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{", False),
    ("bad chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", False),
    ("an odd reason", whole(b"", b"500 \x1b[31m"), False),
    ("another place", b"HTTP/1.1 302 F\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", False),
]


class TestGateways:
    @pytest.mark.parametrize(("answer", "sound"), [case[1:] for case in ANSWERS], ids=[c[0] for c in ANSWERS])
    def test_status_of_what_is_no_gateway(
        self, tmp_path: Path, impostor: http.server.ThreadingHTTPServer, answer: bytes, sound: bool
    ) -> None:
        impostor.answer = answer  # type: ignore[attr-defined]
        place = noted(tmp_path, impostor)
        shown, data = run("status", *place), run("status", *place, "--json")
        assert (shown.exit_code, data.exit_code) == (0 if sound else 1,) * 2
        for text in (shown.stdout, shown.stderr, data.stdout, data.stderr):
            assert_harmless(text)
        (cluster,) = json.loads(data.stdout)["clusters"]
        assert (cluster["runtime"] is not None) == sound

    def test_an_answer_without_end_is_left(
        self,
        tmp_path: Path,
        impostor: http.server.ThreadingHTTPServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("kwiken.runtime.gateway.control.client.MAX_ANSWER", 1000)
        impostor.answer = whole(b'"' + b"x" * 5000 + b'"')  # type: ignore[attr-defined]
        result = run("status", *noted(tmp_path, impostor))
        assert result.exit_code == 1
        assert "at most 1000 are taken" in result.stderr

    def test_load_on_what_is_no_gateway(self, impostor: http.server.ThreadingHTTPServer) -> None:
        impostor.answer = whole(ATTACK.encode(), b"500 \x1b[31m" + "\u202e".encode())  # type: ignore[attr-defined]
        url = f"http://127.0.0.1:{impostor.server_address[1]}"
        command = [sys.executable, "-m", "kwiken", "load", url, "--rate", "20", "--duration", "0.5"]
        done = subprocess.run(command, capture_output=True, timeout=100, check=False)
        assert b"HTTP 500" in done.stdout
        for text in (done.stdout, done.stderr):
            assert_harmless(text.decode())

    def test_down_of_a_hostile_state(self, tmp_path: Path, impostor: http.server.ThreadingHTTPServer) -> None:
        place = noted(tmp_path, impostor)
        path = tmp_path / "shop.json"
        path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', '"pid":1'))
        result = run("down", *place)
        assert result.exit_code == 0
        assert_harmless(result.output)

    @pytest.mark.parametrize("verb", ["status", "down"])
    def test_a_damaged_state_says_what_to_do(self, tmp_path: Path, verb: str) -> None:
        path = tmp_path / "shop.json"
        path.write_text(json.dumps({ATTACK: ATTACK}))
        result = run(verb, "--state", str(tmp_path))
        refused(
            result,
            f"{path}: is not a cluster's state: .*; end the processes of shop .*, then remove this file",
        )
        assert_harmless(result.output)
