"""Log limits of a server process: by kind of line, in total, in length, and of the file."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from kwiken.runtime.base.tracebacks import MAX_TRACE
from kwiken.runtime.process.log_file import LogFile
from kwiken.runtime.process.log_limits import (
    BURST,
    EVERY_S,
    LOOP_LOG,
    MAX_KINDS,
    MAX_MESSAGE,
    TOTAL_BURST,
    LimitFilter,
    LineLimits,
    log_loop_error,
)


class Kept(logging.Handler):
    """Handler that collects formatted lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, Kept, Clock]]:
    logger, handler, clock = logging.getLogger("kwiken.test"), Kept(), Clock()
    handler.addFilter(LimitFilter(clock))
    logger.addHandler(handler)
    try:
        yield logger, handler, clock
    finally:
        logger.removeHandler(handler)


Log = tuple[logging.Logger, Kept, Clock]


def test_of_many_lines_of_a_kind_some_are_logged_and_the_others_counted(log: Log) -> None:
    logger, kept, clock = log
    for number in range(100):
        logger.warning("a caller sent %s", number)
    logger.warning("another kind")
    assert len(kept.lines) == BURST + 1
    clock.now += EVERY_S
    logger.warning("a caller sent %s", "more")
    logger.warning("a caller sent %s", "too much")
    assert kept.lines[BURST + 1 :] == [f"a caller sent more ({100 - BURST} more like this were omitted)"]


def test_errors_of_other_types_are_other_kinds(log: Log) -> None:
    logger, kept, _ = log
    for number in range(3 * BURST):
        error = ValueError(number) if number % 3 else KeyError(number)
        logger.error("request failed", exc_info=error)
    assert len(kept.lines) == 2 * BURST


def test_lines_of_all_kinds_together_are_bounded_and_so_are_the_kinds() -> None:
    limits = LineLimits()
    passed = [limits.take((f"kind {number}",), 0.0) for number in range(10 * MAX_KINDS)]
    assert len([one for one in passed if one is not None]) == TOTAL_BURST
    # Once lines are paid for again, the oldest kinds that are known say what was omitted, and no older ones.
    oldest = 9 * MAX_KINDS
    assert limits.take((f"kind {oldest}",), 1e9) == 1
    assert limits.take((f"kind {oldest - 1}",), 1e9) == 0


def test_a_line_is_one_line_of_bounded_length_and_so_is_its_trace(log: Log) -> None:
    logger, kept, _ = log

    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ValueError("\x1b[2J" + "evil\nforged line\r" * 100_000)

    try:
        deep(200)
    except ValueError:
        logger.exception("%s", "a\nb\x00" * 10_000)
    (text,) = kept.lines
    first, _, trace = text.partition("\n")
    assert first.startswith("a\\x0ab\\x00a\\x0ab")
    assert len(first) <= MAX_MESSAGE + len("...")
    assert len(trace) <= MAX_TRACE + 2 * MAX_MESSAGE
    assert "\x1b" not in text


def test_a_services_own_lines_and_what_is_less_than_a_warning_pass_as_they_are(log: Log) -> None:
    _, kept, clock = log
    own = logging.getLogger("shop")
    for handler_log, level in ((own, logging.ERROR), (logging.getLogger("kwiken.test"), logging.INFO)):
        record = handler_log.makeRecord(handler_log.name, level, "", 0, "a\n%s", (1,), None)
        assert [kept.filter(record) for _ in range(100)] == [kept.filter(record)] * 100
        assert record.getMessage() == "a\n1"
    del clock


def test_two_handlers_ask_once(log: Log) -> None:
    logger, kept, clock = log
    second = Kept()
    second.addFilter(LimitFilter(clock))
    logger.addHandler(second)
    try:
        for _ in range(2 * BURST):
            logger.warning("twice")
    finally:
        logger.removeHandler(second)
    assert kept.lines == second.lines == ["twice"] * BURST


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_the_loop_catches_is_one_kind(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    found: list[tuple[str, object, bool]] = []

    class Kinds(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append((record.name, record.msg, record.exc_info is not None))

    def fail(number: int) -> None:
        raise RuntimeError(number)

    async def main() -> None:
        here = asyncio.get_running_loop()
        here.set_exception_handler(log_loop_error)
        for number in range(3):
            here.call_soon(fail, number)
        await asyncio.sleep(0.01)

    kinds = Kinds()
    LOOP_LOG.addHandler(kinds)
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(main())
    finally:
        LOOP_LOG.removeHandler(kinds)
    assert found == [("kwiken.loop", "%s", True)] * 3


def test_a_log_file_is_truncated_and_its_last_lines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as log:
        kept = LogFile(path, most=1000)
        assert kept.written_by(log.fileno())
        log.write(b"x" * 1000)
        assert not kept.shorten()
        log.write(b"y" * 500)
        assert kept.shorten()
        assert path.stat().st_size == 0
        assert (tmp_path / "a.log.1").read_bytes() == b"x" * 500 + b"y" * 500
        log.write(b"z")
        assert path.read_bytes() == b"z"
        log.write(b"w" * 2000)
        assert kept.shorten()
        assert (tmp_path / "a.log.1").read_bytes() == b"w" * 1000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.log", "a.log.1"]


def test_only_a_file_that_is_appended_to_is_cut(tmp_path: Path) -> None:
    path, other = tmp_path / "a.log", tmp_path / "b.log"
    kept = LogFile(path, most=10)
    assert not kept.shorten()  # not there
    with path.open("wb") as plain, other.open("ab") as elsewhere:
        assert not kept.written_by(plain.fileno())
        assert not kept.written_by(elsewhere.fileno())
    reading, writing = os.pipe()
    assert not kept.written_by(writing)
    os.close(reading)
    os.close(writing)


def test_where_the_old_lines_cannot_be_kept_the_file_is_cut_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 100)
    (tmp_path / "a.log.1.new").mkdir()
    assert LogFile(path, most=10).shorten()
    assert path.stat().st_size == 0
