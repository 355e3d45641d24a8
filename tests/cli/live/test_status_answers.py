"""`kwiken status` with a gateway whose answer has no end, and with a failing replica."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kwiken.cli.live.gateway import client as gateway_client
from kwiken.cli.live.gateway.client import _whole_body
from kwiken.cli.live.status import _show
from tests.cli.live.test_status_levers import figures


class Endless:
    def __init__(self) -> None:
        self.read = 0

    def read1(self, size: int) -> bytes:
        self.read += size
        return b"x" * size


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Endless()
    with pytest.raises(ValueError, match="too long"):
        _whole_body(cast("Any", answer))
    assert answer.read <= gateway_client.MAX_ANSWER + gateway_client.CHUNK
    monkeypatch.setattr(gateway_client, "WHOLE_ANSWER_S", -1.0)
    slow = Endless()
    with pytest.raises(ValueError, match="too long"):
        _whole_body(cast("Any", slow))
    assert slow.read == gateway_client.CHUNK


@pytest.mark.parametrize("trouble", [None, "LostError: stage 'rank': not a replica's answer\x1b[2J"])
def test_a_replicas_errors_are_shown(trouble: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    replica = {
        "replica": "rank-0",
        "pid": 1,
        "alive": True,
        "inflight": 0,
        "latency_ms": None,
        "ejected": True,
        "trouble": trouble,
        "restarts": 0,
        "address": "http://h:a",
    }
    _show(
        {
            "service": "shop",
            "url": "http://127.0.0.1:1",
            "gateways": [],
            "actions": [],
            "replicas": [replica],
            "runtime": figures(stages={}),
        }
    )
    said = capsys.readouterr()
    assert "avoided" in said.out
    told = "shop: rank-0: its last call failed: LostError: stage 'rank': not a replica's answer"
    assert (told in said.err) is (trouble is not None)
    assert "\x1b" not in said.err
