"""Locustfile inside Locust's own command, with and without its web page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.loadtest.load_commands import Serve
from tests.support.loadtest.locust_commands import Locust, Page, finish
from tests.support.runtime.server_processes import free_port


def test_headless_runs_the_schedule_and_ends(serve: Serve, locust: Locust, tmp_path: Path) -> None:
    queries, records, log = tmp_path / "queries.txt", tmp_path / "records", tmp_path / "seen"
    queries.write_text("one\ntwo\n")
    code, out, err = finish(
        locust(
            *("--headless", "--host", serve("--delay-ms", "5", "--log", str(log)), "--json", "--rate", "100"),
            *(
                "--duration",
                "1",
                "--arrivals",
                "constant",
                "--queries",
                str(queries),
                "--records",
                str(records),
            ),
        )
    )
    assert code == 0, err
    (row,) = json.loads(out)
    assert (row["method"], row["name"]) == ("POST", "/v1/request")
    assert row["num_requests"] == 100
    assert row["num_failures"] == 0
    assert row["min_response_time"] > 4
    assert "open loop: ok 100, failed 0, dropped 0" in err
    asked = [json.loads(json.loads(line)["body"])["query"] for line in log.read_text().splitlines()]
    assert set(asked) == {"one", "two"}
    assert len(records.read_text().splitlines()) == len(asked) == 100


def test_drops_and_failures_stand_in_its_tables(serve: Serve, locust: Locust) -> None:
    options = ("--rate", "100", "--duration", "0.5", "--arrivals", "constant", "--max-in-flight", "2")
    url = serve("--delay-ms", "100", "--statuses", "503")
    code, out, err = finish(locust("--headless", "--host", url, *options))
    assert code == 1
    assert "RequestFailedError('HTTP 503')" in out + err
    assert "RequestFailedError('dropped')" in out + err
    counts = re.search(r"open loop: ok 0, failed (\d+), dropped (\d+), late", err)
    assert counts is not None
    assert int(counts[1]) + int(counts[2]) == 50
    assert int(counts[1]) > 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "http://h", "--rate", "-1"], "kwiken: rate: must lie above 0"),
        ([], "URL '': must start with http"),
        (["--host", "http://127.0.0.1:1", "--duration", "1"], "127.0.0.1:1: cannot be reached"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(locust: Locust, arguments: list[str], message: str) -> None:
    code, out, err = finish(locust("--headless", *arguments))
    assert code == 2, (out, err)
    assert message in err
    assert "Traceback" not in err


def test_a_locustfile_of_ones_own(serve: Serve, locust: Locust, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import gc, gevent\n"
        "from kwiken.loadtest import DagUser, LoadSettings\n"
        "class Mine(DagUser):\n"
        "    seen = 0\n"
        f"    settings = LoadSettings(url={serve()!r}, rate=100, duration_s=1, arrivals='constant', path='/mine')\n"
        "    def on_ready(self):\n"
        "        print('kept out of collections', gc.get_freeze_count() > 10_000)\n"
        "    def on_outcome(self, outcome, epoch_s):\n"
        "        print('outcome', outcome.status, outcome.error)\n"
        "        self.seen += 1\n"
        "        if self.seen == 100:\n"
        "            gevent.spawn_later(0.1, self.environment.runner.quit)\n"
    )
    code, out, err = finish(locust("--headless", "-u", "1", "--run-time", "50s", file=file))
    assert code == 0, err
    assert out.count("outcome 200 None") == 100
    assert "/mine" in out + err
    assert "kept out of collections True" in out


@pytest.mark.slow
def test_the_page_starts_stops_and_counts(serve: Serve, locust: Locust, tmp_path: Path) -> None:
    log, queries, secret = tmp_path / "seen", tmp_path / "queries", tmp_path / "secret"
    queries.write_text("public\n")
    secret.write_text("secret\n")
    port = free_port()
    url = serve("--log", str(log))
    process = locust("--web-host", "127.0.0.1", "--web-port", str(port), "--queries", str(queries))
    page = Page(port)
    assert page.until("/open-loop", lambda counts: counts == {}) == {}
    # The page may change numbers; a file that it names is not read.
    form = {
        "host": url,
        "user_count": "1",
        "spawn_rate": "1",
        "rate": "200",
        "queries": str(secret),
        "records": str(tmp_path / "made"),
    }
    assert page.get("/swarm", form)["success"]
    page.until("/open-loop", lambda counts: counts.get("ok", 0) > 300)
    # Another rate while it runs, and one that is none, which changes nothing.
    assert page.get("/swarm", form | {"rate": "2000"})["success"]
    before = page.get("/open-loop")["ok"]
    page.until("/open-loop", lambda counts: counts["ok"] > before + 2000)
    stats = page.until("/stats/requests", lambda stats: stats["stats"][0]["num_requests"] > 200)
    assert stats["stats"][0]["name"] == "/v1/request"
    page.get("/stop", {})
    stopped = page.until("/stats/requests", lambda stats: stats["state"] == "stopped")
    assert stopped["user_count"] == 0
    # A second start, this time with an end of its own.
    assert page.get("/swarm", form | {"rate": "100", "duration": "0.4"})["success"]
    # Locust keeps an answer for some seconds, so the first run's may come once more.
    page.until(
        "/stats/requests",
        lambda stats: stats["state"] == "stopped" and 15 < stats["stats"][0]["num_requests"] < 75,
    )
    process.terminate()
    process.communicate(timeout=30)
    asked = {json.loads(line)["body"] for line in log.read_text().splitlines()}
    assert asked == {'{"query":"public"}'}
    assert not (tmp_path / "made").exists()
