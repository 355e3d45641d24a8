"""Open-loop load over several processes of Locust's own command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.loadtest.load_commands import Serve, lines
from tests.support.loadtest.locust_commands import Locust, Page, finish
from tests.support.runtime.server_processes import free_port


def of_workers(err: str) -> list[int]:
    """Requests of each worker, by its log."""
    return [int(count) for count in re.findall(r"open loop: ok (\d+), failed 0, dropped 0", err)]


def test_two_processes_divide_the_rate(serve: Serve, locust: Locust, tmp_path: Path) -> None:
    records, port = tmp_path / "records", str(free_port())
    code, out, err = finish(
        locust(
            *("--headless", "--host", serve(), "--json", "--rate", "200", "--duration", "2"),
            *("--arrivals", "constant", "--records", str(records), "--processes", "2"),
            *("--master-port", port, "--master-bind-port", port),
        )
    )
    assert code == 0, err
    own = of_workers(err)
    assert len(own) == 2
    assert sum(own) == pytest.approx(400, rel=0.02)
    assert own == pytest.approx([200, 200], rel=0.2)
    assert sorted(len(lines(tmp_path / f"records.{index}")) for index in (0, 1)) == sorted(own)
    assert '"num_requests": 400' in out


@pytest.mark.slow
def test_workers_follow_a_load_shape_of_three_steps(serve: Serve, locust: Locust, tmp_path: Path) -> None:
    records, file, port = tmp_path / "records", tmp_path / "mine.py", free_port()
    file.write_text(
        "from locust import LoadTestShape\n"
        "from kwiken.loadtest import DagUser, LoadSettings\n"
        "class Mine(DagUser):\n"
        f"    settings = LoadSettings(url={serve()!r}, rate=1, arrivals='constant', records={str(records)!r})\n"
        "class Steps(LoadTestShape):\n"
        "    def tick(self):\n"
        "        step = int(self.get_run_time() // 4)\n"
        "        return ((40, 400, 20)[step], 1000) if step < 3 else None\n"
    )
    common = ("--headless", "--master-port", str(port))
    workers = [locust(*common, "--worker", file=file) for _ in range(2)]
    code, _, err = finish(
        locust("--headless", "--master", "--master-bind-port", str(port), "--expect-workers", "2", file=file)
    )
    assert code == 0, err
    own = [count for worker in workers for count in of_workers(finish(worker)[2])]
    assert len(own) == 2
    assert own == pytest.approx([sum(own) / 2] * 2, rel=0.2)
    rows = [row["intended_s"] for index in (0, 1) for row in lines(tmp_path / f"records.{index}")]
    first = min(rows)
    halves = [sum(first + half / 2 <= row < first + half / 2 + 0.5 for row in rows) for half in range(24)]
    # When a step begins depends on the machine: half a second of each, in this order.
    reached = iter(halves)
    for rate in (40, 400, 20):
        assert any(count == pytest.approx(rate / 2, abs=2) for count in reached), halves


def test_users_multiply_the_rate(serve: Serve, locust: Locust) -> None:
    options = ("--rate", "10", "--arrivals", "constant", "--duration", "2", "-u", "10", "-r", "100")
    code, out, err = finish(locust("--headless", "--json", "--host", serve(), *options))
    assert code == 0, err
    assert json.loads(out)[0]["num_requests"] == 200


def test_a_wrong_setting_of_a_worker_ends_the_test_with_its_reason(locust: Locust) -> None:
    port = str(free_port())
    code, _, err = finish(
        locust(
            *("--headless", "--host", "http://127.0.0.1:1", "--duration", "1", "--processes", "2"),
            *("--master-port", port, "--master-bind-port", port),
        )
    )
    assert code == 2, err
    assert "127.0.0.1:1: cannot be reached: connection refused" in err


@pytest.mark.slow
def test_the_page_of_a_master_changes_the_rate_of_all_workers(serve: Serve, locust: Locust) -> None:
    page, port = Page(free_port()), str(free_port())
    process = locust(
        *("--web-host", "127.0.0.1", "--web-port", page.url.rpartition(":")[2], "--processes", "2"),
        *("--master-port", port, "--master-bind-port", port),
    )
    page.until("/worker-count", lambda answer: answer["worker_count"] == 2)
    form = {"host": serve(), "user_count": "1", "spawn_rate": "1", "arrivals": "constant"}
    assert page.get("/swarm", form | {"rate": "20"})["success"]
    page.until("/open-loop", lambda counts: len(counts.get("workers", {})) == 2)
    assert page.get("/swarm", form | {"rate": "1000"})["success"]
    counts = page.until("/open-loop", lambda counts: counts["ok"] > 2_000)
    each = [worker["ok"] for worker in counts["workers"].values()]
    assert each == pytest.approx([counts["ok"] / 2] * 2, rel=0.2)
    process.terminate()
    process.communicate(timeout=30)
