"""Tracebacks of handlers' exceptions: in the log of the process and on the span, never in an answer."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.runtime.base.errors import HandlerError
from kwiken.runtime.base.tracebacks import (
    BURST as SPANS_AT_ONCE,
    MAX_MESSAGE,
    MAX_TRACE,
    ExceptionRecorder,
    brief_trace,
)
from kwiken.runtime.process.log_limits import BURST
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica
from tests.support.runtime.server_processes import address_of, ask, running
from tests.support.services.http import Ask, service

TARGET = "tests.support.services.http:service"
TRACE_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736
FAILING = 40  # calls: far more than are logged at once


def events_in(folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Spans with an exception, and the attributes of the exception."""
    for path in sorted(folder.iterdir()):
        for line in path.read_text().splitlines():
            for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                for event in span.get("events", ()):
                    if event["name"] == "exception":
                        yield span, {a["key"]: a["value"]["stringValue"] for a in event["attributes"]}


def check_log(process: subprocess.Popen[str]) -> None:
    """The log of an ended process names stage and trace, with the place, and is bounded."""
    assert process.stderr is not None
    log = process.stderr.read()
    assert f"stage 'middle': its handler raised (trace {TRACE_ID:032x})\n    Traceback" in log
    assert "in _work\n" in log
    assert "ValueError: told to fail\n" in log
    assert BURST <= log.count("its handler raised") <= BURST + 5


def check_spans(folder: Path, kind: str) -> None:
    found = list(events_in(folder))
    assert len(found) == FAILING
    assert {span["traceId"] for span, _ in found} == {f"{TRACE_ID:032x}"}
    assert {span["name"] for span, _ in found} == {kind}
    assert {said["exception.type"] for _, said in found} == {"ValueError"}
    assert {said["exception.message"] for _, said in found} == {"told to fail"}
    traces = [said["exception.stacktrace"] for _, said in found if "exception.stacktrace" in said]
    assert SPANS_AT_ONCE <= len(traces) < FAILING
    assert all("in _work" in trace and len(trace) <= MAX_TRACE for trace in traces)


async def test_a_replica_logs_and_traces_what_its_handler_raises_and_answers_without_it(
    tmp_path: Path,
) -> None:
    with running("stage", TARGET, "--stage", "middle", "--traces", str(tmp_path)) as process:
        replica = Replica("middle-0", "local", address_of(process))
        async with FrameTransport(service) as transport:
            for number in range(FAILING):
                asked = (Ask(text="hi", fail=True),)
                context = wire.format_traceparent(TRACE_ID, number + 1)
                with pytest.raises(HandlerError) as caught:
                    await transport.call(
                        replica, Call("middle", asked, 0, 0, time.monotonic() + 10, 0, TRACE_ID, context)
                    )
                assert str(caught.value) == "stage 'middle': ValueError: told to fail"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        check_log(process)
    check_spans(tmp_path, "middle")


def test_a_gateway_that_runs_the_stages_itself_does_the_same(tmp_path: Path) -> None:
    with running("serve", TARGET, "--local", "--port", "0", "--traces", str(tmp_path)) as process:
        url = address_of(process)
        parent = f"00-{TRACE_ID:032x}-00f067aa0ba902b7-01"
        for _ in range(FAILING // service["middle"].fanout):
            status, body = ask(url, "/v1/request", {"text": "hi", "fail": True}, traceparent=parent)
            assert status == 500
            assert json.loads(body) == {"error": "stage 'middle': ValueError: told to fail"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        check_log(process)
    check_spans(tmp_path, "middle")


class HostileError(Exception):
    """Exception whose text would forge lines and steer a terminal."""

    def __str__(self) -> str:
        return "\x1b[2J\nforged: all is well\n" * 10_000


def test_what_an_exception_says_is_escaped_and_bounded() -> None:
    error = HostileError()
    trace, record = brief_trace(error), ExceptionRecorder(lambda: 0.0).record(error)
    assert len(trace) < 2 * MAX_TRACE
    assert "\x1b" not in trace
    assert record.kind.endswith(".HostileError")
    assert record.message.startswith("\\x1b[2J\\x0aforged")
    assert len(record.message) <= MAX_MESSAGE + 3


def test_tracebacks_on_spans_are_bounded_in_rate_and_types_and_messages_are_not() -> None:
    now = 0.0
    recorder = ExceptionRecorder(lambda: now)
    error = ValueError("no index")
    records = [recorder.record(error) for _ in range(100)]
    assert sum(record.stacktrace is not None for record in records) == SPANS_AT_ONCE
    assert {(record.kind, record.message) for record in records} == {("ValueError", "no index")}
    now = 1e6
    assert recorder.record(error).stacktrace == "ValueError: no index"
