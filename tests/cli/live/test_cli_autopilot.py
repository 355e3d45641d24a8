"""`kwiken autopilot`: what it refuses, what it says while it waits, hold, resume and history, of real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kwiken.cli.live.gateway.remote import ask
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.engine.status_document import Status
from kwiken.tail.autopilot.record import AutopilotRecord, LoggedDecision
from tests.cli.live.test_cli_clusters import cluster, write
from tests.support.project.commands import refused, run
from tests.support.runtime.server_processes import KWIKEN, free_port
from tests.support.runtime.stacks import kwiken, running_cluster
from tests.support.services.http import plan_for

WITHIN_S = 60.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("shop", "--resume", "--hold"), "--resume, --hold and --history exclude one another"),
        (("shop", "--json"), "--json goes with --history"),
        (("shop", "--token-file", "t"), "--token-file goes with --url"),
        (("--history",), "name the SERVICE whose history is wanted"),
        ((), "name a SERVICE that is up, or give --url"),
        (("shop", "--state", "nowhere"), "service 'shop' is not up; start it with: kwiken up SERVICE"),
        (("shop", "--budget", "0"), "--budget"),
        (("shop", "--history", "--state", "nowhere"), "there is no history: no autopilot has steered"),
        (("--url", "http://127.0.0.1:1"), "needs a token: give --token-file, or set KWIKEN_TOKEN"),
        (("--url", "http://127.0.0.1:1", "--token-file", "gone"), "gone: holds no token"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KWIKEN_TOKEN", raising=False)
    result = run("autopilot", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_what_serve_and_up_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KWIKEN_TOKEN", raising=False)
    target = "tests.support.services.http:service"
    for verb in ("up", "serve"):
        refused(run(verb, target, "--budget", "0.1"), "--budget: goes with --autopilot")
        refused(run(verb, target, "--autopilot", "--plan", "p"), "--plan: does not go with --autopilot")
        refused(
            run(verb, target, "--autopilot", "--trace", "off"), "leaves --autopilot nothing to learn from"
        )
    refused(run("serve", target, "--local", "--autopilot"), "--autopilot: needs the control routes")
    monkeypatch.setenv("KWIKEN_TOKEN", "t")
    refused(run("serve", target, "--local", "--autopilot"), "--autopilot: needs --traces")
    refused(
        run("serve", target, "--local", "--autopilot", "--traces", "t", "--sibling", "127.0.0.1:1"),
        "--sibling: does not go with --autopilot",
    )


def test_a_history_is_printed_and_a_torn_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = AutopilotRecord(service="shop", budget=0.05, changes=3, useless=1)
    for entry in (
        LoggedDecision(at_s=1.0, action="apply", reason="so it is", plan="abc"),
        LoggedDecision(at_s=60.0, action="roll_back", reason="so it is", plan="abc"),
    ):
        record = record.with_entry(entry)
    (tmp_path / ".kwiken").mkdir()
    file = tmp_path / ".kwiken" / "shop.autopilot"
    file.write_text(record.to_json())
    result = run("autopilot", "shop", "--history")
    assert result.exit_code == 0
    for part in ("shop: watching", "1970-01-01 00:01:00", "roll back", "3 plans tried, 1 of them taken back"):
        assert part in result.stdout
    shown = json.loads(run("autopilot", "shop", "--history", "--json").stdout)
    assert shown["decided"] == {"apply": 1, "roll_back": 1}
    # What `kwiken up` was given names the service too, while it is up.
    state = cluster("shop", "http://127.0.0.1:1", Identity(1, "another start"), tmp_path / "token")
    write(tmp_path / ".kwiken", msgspec.structs.replace(state, target="module:attribute"))
    assert run("autopilot", "module:attribute", "--history").stdout == result.stdout
    file.write_text(record.to_json()[:-9])
    refused(run("autopilot", "shop", "--history"), "shop.autopilot")


@contextmanager
def steering(folder: Path, *words: str, log: str = "first.log") -> Iterator[Callable[[str], None]]:
    """An autopilot in a process of its own; yields a function that waits for a text in what it says."""
    file = folder / log
    with file.open("w") as out:
        process = subprocess.Popen([*KWIKEN, "autopilot", *words], stderr=out, stdout=out, cwd=folder)

    def said(text: str) -> None:
        until = time.monotonic() + WITHIN_S
        while text not in file.read_text():
            assert time.monotonic() < until, file.read_text()
            assert process.poll() is None or text in file.read_text(), file.read_text()
            time.sleep(0.1)

    try:
        yield said
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert process.returncode == 0
    assert "Traceback" not in file.read_text()


def statuses(folder: Path) -> list[Status]:
    """What each gateway of the echo service tells alone."""
    state = json.loads((folder / "state" / "echo.json").read_text())
    token = folder / "state" / "echo.token"
    found = []
    for gateway in state["gateways"]:
        figures = ask(gateway["url"], token.read_text().strip(), lambda client: client.status(alone=True))
        found.append(figures)
    return found


def eventually(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_gateways_are_steered_together_and_a_person_stops_the_loop(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    token = ("--token-file", str(tmp_path / "state" / "echo.token"))
    with running_cluster(tmp_path / "state", "--gateways", "2") as url:
        urls = [
            gateway["url"]
            for gateway in json.loads((tmp_path / "state" / "echo.json").read_text())["gateways"]
        ]
        every = tuple(word for one in urls for word in ("--url", one))
        (tmp_path / "traces").mkdir()
        where = ("--traces", "traces", "--state", "loop")
        # Mistakes end the command, with the reason.
        refused(run("autopilot", "other", *every, *token, *where), "serves 'echo', not 'other'")
        refused(
            run("autopilot", "--url", urls[0], *token, *where),
            "is one of 2 gateways, and each counts its own",
        )
        (tmp_path / "wrong").write_text("wrong")
        wrong = ("--token-file", str(tmp_path / "wrong"))
        refused(run("autopilot", *every, *wrong, *where), "Authorization")
        refused(run("autopilot", *every, *token), "--traces: is needed")
        with steering(tmp_path, *every, *token, *where) as said:
            said("echo: this process leads")
            said("no plan can be made, so what is in force stays: traces: holds no trace")
            with steering(tmp_path, *every, *token, *where, log="second.log") as other:
                other("leads, and this process waits for its place")
            plan = tmp_path / "plan.json"
            plan.write_text(plan_for().to_json())
            kwiken("apply", str(plan), *state)
            eventually(lambda: {one["author"] for one in statuses(tmp_path)} == {"person"}, "a person acts")
            eventually(
                lambda: {(one["autopilot"] or {}).get("phase") for one in statuses(tmp_path)} == {"held"},
                "the loop is held",
            )
            assert {one["plan"] for one in statuses(tmp_path)} == {plan_for().digest}
            kwiken("autopilot", "echo", *state, "--resume")
            eventually(
                lambda: (
                    {(one["author"], one["control_share"]) for one in statuses(tmp_path)}
                    == {("autopilot", 0.05)}
                ),
                "the loop goes on",
            )
            kwiken("autopilot", "echo", *state, "--hold")
            eventually(lambda: {one["author"] for one in statuses(tmp_path)} == {"person"}, "held by hand")
        history = run("autopilot", "echo", "--history", "--state", str(tmp_path / "loop")).stdout
        assert "a person let the loop go on" in history
        # Of several, those that answer are told, and those that do not are named.
        gone = f"http://127.0.0.1:{free_port()}"
        refused(
            run("autopilot", "--url", gone, *every, *token, "--resume"),
            f"{gone}: the gateway does not answer",
        )
        assert {one["author"] for one in statuses(tmp_path)} == {"autopilot"}
        del url
