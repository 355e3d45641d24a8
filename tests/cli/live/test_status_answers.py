"""`kwiken status` with a failing replica."""

from __future__ import annotations

import pytest

from kwiken.cli.live.status import _show
from tests.cli.live.test_status_levers import figures


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
