"""A run with two gateways: load generator, status, page and metrics tell the same number of requests."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.runtime.server_processes import DIRECT
from tests.support.runtime.stacks import kwiken, running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
REQUEST = '{"text": "hi", "sleep_ms": 1}'
JSON = {"Content-Type": "application/json"}
CONNECTIONS = 24  # of a request each: the kernel draws a gateway for each, and a load may need a single one


def read(url: str, token: str) -> bytes:
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with DIRECT.open(asked, timeout=10) as answer:
        body: bytes = answer.read()
        return body


def summed(text: str, name: str, **labels: str) -> dict[str, float]:
    """Values of a metric by gateway, summed over other labels."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
            gateway = re.search(r'kw_gateway="([^"]*)"', line)
            assert gateway is not None, line
            found[gateway[1]] = found.get(gateway[1], 0.0) + float(line.rpartition(" ")[2])
    return found


def test_four_numbers_agree_within_one_percent(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "state", "--gateways", "2") as url:
        token = (tmp_path / "state" / "echo.token").read_text().strip()
        words = ("--rate", "60", "--duration", "8", "--body", REQUEST, "--json")
        told: dict[str, Any] = json.loads(kwiken("load", url, *words))
        for _ in range(CONNECTIONS):
            asked = urllib.request.Request(f"{url}/v1/request", data=REQUEST.encode(), headers=JSON)
            with DIRECT.open(asked, timeout=10) as answer:
                answer.read()
        sent = told["requests"]["intended"] + CONNECTIONS
        status = json.loads(read(f"{url}/v1/status", token))
        page = json.loads(read(f"{url}/v1/live", token))
        metrics = read(f"{url}/metrics", token).decode()
    by_gateway = summed(metrics, "kw_request_duration_seconds_count")
    numbers = {
        "load": sent,
        "status": status["requests"],
        "page": page["status"]["requests"],
        "metrics": sum(by_gateway.values()),
    }
    assert min(numbers.values()) >= 0.99 * max(numbers.values()), numbers
    # A line for each gateway, and both had requests.
    for lines in (status["gateways"], page["gateways"]):
        assert {line["gateway"] for line in lines} == {"gateway-0", "gateway-1"} == set(by_gateway)
        assert sum(line["requests"] for line in lines) == status["requests"]
        assert all(line["requests"] > 0 for line in lines)
    assert status["gateways_silent"] == page["gateways_silent"] == []
