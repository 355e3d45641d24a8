"""Levels of log lines: a stage's own, those of libraries, and answers of the wrong type."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.runtime.base.errors import UnfitError
from kwiken.runtime.base.log_events import EVENT, TRACE
from kwiken.testing.client import running
from kwiken.testing.fake_replica import FakeReplica
from kwiken.testing.virtual_loop import virtual_time
from tests.support.runtime.server_processes import KWIKEN, ask

LOGGERS = ("shop", "kwiken.replica", "asyncio")
PROGRAM = """
import logging, sys, warnings
from kwiken.runtime.process.log_limits import set_up_logs
set_up_logs(sys.argv[1], "first-0", level=sys.argv[2])
for name in sys.argv[3:]:
    for level in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger(name), level)("%s %s", name, level)
warnings.warn("old news")
"""
SERVICE = """
import logging
from kwiken import Service
says = Service("says")

@says.stage()
async def only(request: str) -> int:
    logging.getLogger(__name__).info("asked for %s", request)
    return request if request == "bad" else len(request)
"""


def logged(log_format: str, level: str) -> list[str]:
    """Lines of a process that logs once at each level by each logger, and warns."""
    command = [sys.executable, "-c", PROGRAM, log_format, level, *LOGGERS]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert not done.stdout
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("level", "own", "library"),
    [
        ("debug", ["debug", "info", "warning", "error"], ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"], ["warning", "error"]),
        ("warning", ["warning", "error"], ["warning", "error"]),
        ("error", ["error"], ["error"]),
    ],
)
def test_lines_below_the_level_are_left_out(level: str, own: list[str], library: list[str]) -> None:
    lines = [json.loads(line) for line in logged("json", level)]
    wanted = [f"shop {each}" for each in own] + [f"kwiken.replica {each}" for each in own]
    wanted += [f"asyncio {each}" for each in library]
    *ours, warning = lines if level != "error" else [*lines, {"message": "UserWarning: old news"}]
    assert [line["message"] for line in ours] == wanted
    assert "UserWarning: old news" in warning["message"]


def test_a_log_of_text_keeps_the_level_too() -> None:
    lines = logged("text", "info")
    assert [line.split(": ")[1] for line in lines if " first-0 " in line][:3] == [
        "shop info",
        "shop warning",
        "shop error",
    ]


def test_a_stages_own_line_is_written_and_no_line_is_plain(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SERVICE)
    words = ["serve", "says:says", "--local", "--port", "0", "--log-format", "json"]
    server = subprocess.Popen([*KWIKEN, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        first = json.loads(server.stderr.readline())
        assert (first["event"], first["level"]) == ("serving", "info")
        url = first["message"].removeprefix("says at ")
        assert ask(url, "/v1/request", "tea")[0] == 200
        assert ask(url, "/v1/request", "bad")[0] == 500
        server.terminate()
        _, rest = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    lines = [json.loads(line) for line in rest.splitlines()]
    assert ("info", "asked for tea") in {(line["level"], line["message"]) for line in lines}
    (wrong,) = [line for line in lines if line["event"] == "handler_failed"]
    assert "TypeError: its answer does not fit: Expected `int`, got `str`" in wrong["stacktrace"]


def test_an_answer_of_the_wrong_type_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("typed")

    @service.stage()
    async def only(request: str) -> str:
        return request

    @virtual_time
    async def main() -> int:
        fake = FakeReplica(failures=UnfitError("stage 'only': replica only-0: its answer does not fit"))
        async with running(service, replicas={"only": [fake]}) as client:
            with pytest.raises(KwikenError, match="does not fit"):
                await client.ask("tea")
            return client.requests[0].trace_id

    with caplog.at_level(logging.WARNING):
        trace_id = main()
    (record,) = caplog.records
    assert record.getMessage() == "stage 'only': replica only-0: its answer does not fit"
    assert (record.__dict__[EVENT], record.__dict__[TRACE]) == ("answer_unfit", f"{trace_id:032x}")
