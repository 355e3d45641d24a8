"""Format of log lines, and the table of their events in the documentation."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.gateway.settings import LogFormat
from kwiken.runtime.process.log_format import formatter_of
from kwiken.runtime.process.log_limits import LimitFilter
from tests.support.project.site_tables import generated

ROOT = Path(__file__).resolve().parents[3]
AT = 1_700_000_000.1234


def line(
    log_format: LogFormat,
    message: str,
    *,
    event: Event | None = None,
    trace_id: int = 0,
    name: str = "kwiken.x",
) -> str:
    logger = logging.getLogger(name)
    extra = about(event, trace_id=trace_id) if event is not None else None
    record = logger.makeRecord(name, logging.WARNING, "f", 1, "%s", (message,), None, extra=extra)
    record.created, record.msecs = AT, 123.4
    return formatter_of(log_format, "gateway").format(record)


def test_a_line_of_text_has_time_level_process_event_and_trace() -> None:
    assert line("text", "a request got 503", event=Event.REQUEST_TURNED_AWAY, trace_id=0xABC) == (
        "2023-11-14T22:13:20.123Z WARNING gateway request_turned_away: a request got 503 "
        "(trace 00000000000000000000000000000abc)"
    )
    assert line("text", "hm") == "2023-11-14T22:13:20.123Z WARNING gateway other: hm"


def test_a_line_of_json_has_the_same() -> None:
    assert json.loads(line("json", "a request got 503", event=Event.REQUEST_TURNED_AWAY, trace_id=0xABC)) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "process": "gateway",
        "event": "request_turned_away",
        "message": "a request got 503",
        "trace_id": f"{0xABC:032x}",
    }
    assert json.loads(line("json", "hm", name="asyncio"))["logger"] == "asyncio"


@given(st.text())
def test_any_message_is_one_line_of_json(message: str) -> None:
    text = line("json", message.encode("utf-8", "replace").decode())
    assert "\n" not in text
    assert json.loads(text)["event"] == "other"


@pytest.mark.parametrize("limited", [False, True])
def test_a_traceback_is_in_the_line_of_json_and_below_that_of_text(*, limited: bool) -> None:
    try:
        int("boom")
    except ValueError:
        record = logging.makeLogRecord(
            {"name": "kwiken.x", "levelno": logging.ERROR, "levelname": "ERROR", "msg": "it failed"}
        )
        record.exc_info = sys.exc_info()
    if limited:
        assert LimitFilter(lambda: 0.0).filter(record)
    found = json.loads(formatter_of("json", "lookup-0").format(record))
    assert found["stacktrace"].startswith("Traceback")
    assert found["stacktrace"].endswith("base 10: 'boom'")
    first, *rest = formatter_of("text", "lookup-0").format(record).splitlines()
    assert first.endswith("ERROR lookup-0 other: it failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in rest)


def fail(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_no_text_of_an_error_looks_like_a_line(end: str, *, limited: bool) -> None:
    forged = "2026-01-01T00:00:00.000Z INFO gateway cluster_up: all is well"
    try:
        fail(f"x{end}{forged}{end}\x1b[2J")
    except ValueError:
        record = logging.makeLogRecord(
            {"name": "kwiken.x", "levelno": logging.ERROR, "levelname": "ERROR", "msg": "it failed"}
        )
        record.exc_info = sys.exc_info()
    if limited:
        assert LimitFilter(lambda: 0.0).filter(record)
    text = formatter_of("text", "lookup-0").format(record)
    assert "all is well" in text
    assert not any(line.startswith("2026-01") for line in text.splitlines())
    assert text.replace("\n", "").isprintable()


def test_the_documentation_lists_every_event_once_with_its_meaning() -> None:
    page = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text(encoding="utf-8")
    assert "```{generated} events\n" in page
    listed = re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", generated("events"), re.MULTILINE)
    assert [name for name, _ in listed] == [event.value for event in Event]
    assert all(meaning.endswith(".") and len(meaning) > 15 for _, meaning in listed)


@pytest.mark.parametrize("event", list(Event))
def test_every_event_is_logged_somewhere(event: Event) -> None:
    places = (f"Event.{event.name}", f'{{"kw_event": "{event.value}"}}')
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "kwiken").rglob("*.py"))
    assert any(place in source for source in sources for place in places)
