"""The live page in a real browser: token, figures that change without a reload, slow requests, a plan."""

from __future__ import annotations

import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runtime.stacks import ask, kwiken, running_cluster

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

pytestmark = pytest.mark.stack


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """URL and token of a cluster."""
    state = tmp_path / "state"
    with running_cluster(state) as url:
        _, _, token = kwiken("status", "--page", "--state", str(state)).strip().partition("#token=")
        yield url, token


def ask_many(url: str, times: int) -> None:
    """Send requests one after the other, some of them slow."""
    for number in range(times):
        ask(url, sleep_ms=60.0 if number % 30 == 29 else 0.0)


def test_the_page_is_alive(cluster: tuple[str, str]) -> None:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: make test-stack"
    )
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        pytest.skip(f"no browser is installed: {', '.join(BROWSERS)}")
    url, token = cluster
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=browser_path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page()
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        elsewhere: list[str] = []
        page.on(
            "request",
            lambda request: elsewhere.append(request.url) if not request.url.startswith(url) else None,
        )

        # 1. Without a token, and with a wrong one, the page asks.
        page.goto(url + "/kwiken")
        page.get_by_text("a token is needed").wait_for()
        page.fill("#token", "wrong")
        page.click("#token-form button")
        page.get_by_text("this token is wrong").wait_for()

        # 2. With the right one it draws every stage.
        page.fill("#token", token)
        page.click("#token-form button")
        page.get_by_text("Plan in force").wait_for()
        names = page.locator("#dag text").all_text_contents()
        status = json.loads(
            urllib.request.urlopen(
                urllib.request.Request(url + "/v1/status", headers={"Authorization": f"Bearer {token}"}),
                timeout=30,
            ).read()
        )
        assert all(any(name.startswith(stage) for name in names) for stage in status["stages"])

        # 3. Figures change without a reload, and slow requests appear.
        sender = threading.Thread(target=ask_many, args=(url, 120))
        sender.start()
        page.get_by_text("120 so far").wait_for()
        sender.join()
        page.locator("#slow details").first.wait_for()
        last = page.locator("#slow details").last
        if last.get_attribute("open") is None:  # the newest is open already
            last.locator("summary").click()
        page.locator("#slow details[open] svg rect").first.wait_for()

        # 4. A link to Jaeger appears for an address, and for nothing else.
        page.fill("#jaeger", "javascript:alert(1)")
        page.click("#jaeger-form button")
        assert page.locator("#slow a").count() == 0
        page.fill("#jaeger", "http://127.0.0.1:16686/")
        page.click("#jaeger-form button")
        address = page.locator("#slow a").first.get_attribute("href")
        assert address is not None
        assert address.startswith("http://127.0.0.1:16686/trace/")

        # 5. On a narrow screen the names of the stages stay legible: the drawing scrolls.
        page.set_viewport_size({"width": 400, "height": 800})
        box = page.locator("#dag text").first.bounding_box()
        assert box is not None
        assert box["height"] > 8
        browser.close()
    assert troubles == []
    assert elsewhere == []
