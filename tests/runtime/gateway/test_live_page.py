"""Routes of the live page: the page is open, its data need the token, and slow requests are recorded while watched."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re

import pytest

from kwiken.runtime.gateway.live_page.page import LivePage
from kwiken.services.search import search
from tests.runtime.gateway.test_gateway import AUTH, local
from tests.support.runtime.waiting import PATIENCE_S
from tests.support.services.http import service


async def test_the_page_holds_no_data_and_needs_no_token() -> None:
    async with local() as front:
        status, headers, page = await front.say("GET", "/kwiken")
        assert status == 200
        assert headers["Content-Type"].startswith("text/html")
        assert "http://" not in page.replace("http://www.w3.org/2000/svg", "").replace(
            "http://127.0.0.1:16686", ""
        )
        assert (await front.say("GET", "/v1/live"))[0] == 401


@pytest.mark.parametrize("page", [LivePage.html(), search.page], ids=["live", "search"])
def test_a_page_runs_its_own_script_alone(page: str) -> None:
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page, f"the script's digest is now {digest}"
    assert not re.search(r"<[^>]* on[a-z]+=", page.replace(script, "")), "such scripts would not run"


async def test_data_of_the_page() -> None:
    async with local() as front:
        before = await front.say("GET", "/v1/live", headers=AUTH)
        for _ in range(40):
            await front.ask({"text": "hi"})
        async with asyncio.timeout(PATIENCE_S):
            while True:  # a sample is taken every second
                status, _, data = await front.say(
                    "GET", "/v1/live?samples_after=0&slow_after=0", headers=AUTH
                )
                if data["samples"] and data["samples"][-1]["counts"]["requests"] == 40:
                    break
                await asyncio.sleep(0.05)
    assert before[0] == status == 200
    assert [stage["name"] for stage in data["dag"]] == list(data["status"]["stages"])
    assert data["samples"][-1]["counts"]["requests"] == 40
    assert data["samples"][-1]["rate_per_s"] > 0
    assert data["status"]["recent"]["answered"] == 40
    assert data["plans"] == [{"digest": None, "since_s": data["plans"][0]["since_s"]}]
    assert data["plan"] is None
    for request in data["slow"]:
        assert request["spans"]


class SetClock:
    """Clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return round(self.now_s * 1e9)


@pytest.mark.parametrize(
    "query", ["samples_after=x", "slow_after=-1", "slow_after=" + "9" * 99, "samples_after=%D9%A3"]
)
async def test_a_query_that_is_no_number_is_refused_by_name(query: str) -> None:
    async with local() as front:
        status, _, answer = await front.say("GET", f"/v1/live?{query}", headers=AUTH)
    assert status == 400
    assert query.partition("=")[0] in answer["error"]


async def test_requests_are_recorded_only_while_somebody_looks() -> None:
    async with local() as front:
        clock = SetClock()
        page = LivePage(service, front.executor, clock)
        await front.ask({"text": "before anybody looked"})
        page.view(samples_after=0, slow_after=0)
        assert front.executor.watcher is not None
        clock.now_s += 29.0
        page.sample()
        assert front.executor.watcher is not None
        clock.now_s += 2.0
        page.sample()
        assert front.executor.watcher is None
