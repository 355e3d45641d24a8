"""Reports of lost spans, in few log lines."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kwiken.runtime.process import span_export
from kwiken.runtime.process.span_export import LossReporter


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "kwiken.spans"]


def test_a_full_disk_is_logged_at_every_tenfold_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = SimpleNamespace(dropped=0, lost_lines=0, last_error=None)
    losses = LossReporter("tidy-0", lambda: counts)
    losses.look()
    assert told(caplog) == []
    counts.last_error = "[Errno 28] No space left on device"
    for counts.lost_lines in range(1, 1001):
        losses.look()
    assert len(told(caplog)) == 4
    assert told(caplog)[-1].startswith(
        "tidy-0: traces are incomplete, 1000 records are lost: [Errno 28] No space"
    )


def test_records_dropped_for_speed_are_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    LossReporter("tidy-0", lambda: SimpleNamespace(dropped=3, lost_lines=0, last_error=None)).look()
    assert told(caplog)[0].endswith("lost: more of them than can be written")


async def test_losses_are_checked_during_the_run_and_at_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_export, "CHECK_S", 0.01)
    counts: Any = SimpleNamespace(dropped=0, lost_lines=1, last_error="full")
    with caplog.at_level(logging.WARNING), LossReporter("tidy-0", lambda: counts).told():
        for _ in range(500):
            if told(caplog):
                break
            await asyncio.sleep(0.01)
        assert len(told(caplog)) == 1
        counts.lost_lines = 10
    assert len(told(caplog)) == 2
    await asyncio.sleep(0.05)
    assert len(told(caplog)) == 2, "nothing looks on"
