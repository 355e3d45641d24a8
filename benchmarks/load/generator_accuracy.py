"""Accuracy check of the load generator on this machine: `python -m benchmarks.load.generator_accuracy`.

Measured against a server with known behaviour on loopback: the lowest latency that the generator can see, the
latencies it reports for a stall, the highest rate that it sustains, and its CPU time per request beside that
of Locust's own client.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kwiken.loadtest.inputs.settings import LoadSettings
from kwiken.loadtest.patching import without_patching
from kwiken.loadtest.run import run_load

CHECKED_RATES_PER_S = (1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 16_000, 20_000)
MAX_LATE_SHARE = 0.01
_STALL_AT_S, _STALL_MS, _STALL_DELAY_MS = 1.0, 500.0, 5.0


@contextmanager
def fake_server(*options: str) -> Iterator[str]:
    """Start `benchmarks.load.fake_server` in a process of its own; yields its URL, and ends it afterwards."""
    command = [sys.executable, "-m", "benchmarks.load.fake_server", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.stdin.close()
            server.wait(timeout=10)


def floor(seconds: float) -> dict[str, Any]:
    """Latency and start lag at 200 requests per second against a server that answers at once."""
    with fake_server() as url:
        report = run_load(LoadSettings(url=url, rate=200, duration_s=seconds, warmup_s=seconds / 10)).report
    return {"latency": report.latency, "start_lag": report.start_lag}


def stall() -> dict[str, Any]:
    """Number of slow requests seen in one stall of 500 ms, against the exact number.

    Requests that are due evenly during the stall wait from 500 ms down to 0, so rate x (500 ms - x) of them
    wait longer than x. A closed loop of one user would show a single slow request.
    """
    options = (
        "--delay-ms",
        f"{_STALL_DELAY_MS}",
        "--stall-at",
        f"{_STALL_AT_S}",
        "--stall-ms",
        f"{_STALL_MS}",
    )
    rate, seen = 200.0, {}
    with fake_server(*options) as url, tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        run_load(LoadSettings(url=url, rate=rate, duration_s=2.0, arrivals="constant", records=str(records)))
        latencies = [json.loads(line)["latency_ms"] for line in records.read_text("utf-8").splitlines()]
    for above in (100.0, 250.0, 400.0):
        ideal = rate * (_STALL_MS + _STALL_DELAY_MS - above) / 1e3
        seen[f"over_{above:g}_ms"] = {
            "seen": sum(value > above for value in latencies),
            "ideal": round(ideal, 1),
        }
    return seen


def highest_rate(seconds: float, *, tell: Callable[[str], None]) -> dict[str, Any]:
    """Highest of `CHECKED_RATES_PER_S` with at most 1% of the starts late and no request dropped."""
    steps: list[dict[str, Any]] = []
    with fake_server() as url:
        for rate in CHECKED_RATES_PER_S:
            before = time.process_time()
            requests = run_load(LoadSettings(url=url, rate=rate, duration_s=seconds)).report.requests
            micros = (time.process_time() - before) / requests["intended"] * 1e6
            steps.append({"rate": rate, "cpu_us_per_request": round(micros, 1), **requests})
            held = not requests["dropped"] and requests["late"] <= MAX_LATE_SHARE * requests["intended"]
            tell(f"{rate}/s: {requests['late']} late, {requests['dropped']} dropped, {micros:.0f} us each")
            if not held:
                return {"held": steps[-2]["rate"] if len(steps) > 1 else None, "steps": steps}
    return {"held": CHECKED_RATES_PER_S[-1], "steps": steps}


def client_cost(count: int) -> dict[str, float]:
    """CPU time per request in microseconds, sent one by one: our client and Locust's FastHttpUser."""
    with without_patching():
        from locust.contrib.fasthttp import FastHttpSession
        from locust.event import EventHook

        from kwiken.loadtest.generator.client import Client
    from kwiken.loadtest.inputs.queries import Queries
    from kwiken.loadtest.inputs.settings import parse_target

    body, parent = '{"query": "asyncio gather"}', f"00-{1:032x}-{1:016x}-01"
    with fake_server() as url:
        ours = Client(
            parse_target(url, "/v1/request"), Queries((body.encode(),)), method="POST", timeout_s=10
        )
        theirs = FastHttpSession(url, EventHook(), None)  # type: ignore[no-untyped-call]  # Locust's
        headers = {"traceparent": parent, "Content-Type": "application/json"}
        costs = {
            "ours_us": _cost(lambda: ours.send(0, parent), count),
            "locust_us": _cost(lambda: theirs.post("/v1/request", data=body, headers=headers), count),
        }
        ours.close()
        theirs.client.close()
    return costs


def _cost(send: Callable[[], object], count: int) -> float:
    send()
    before = time.process_time()
    for _ in range(count):
        send()
    return round((time.process_time() - before) / count * 1e6, 1)


def main() -> None:
    """Run the checks and print them as JSON; progress goes to stderr."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load.generator_accuracy", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measured run")
    seconds = parser.parse_args().seconds

    def tell(text: str) -> None:
        print(text, file=sys.stderr)

    tell("latency floor")
    result: dict[str, Any] = {"floor": floor(seconds)}
    tell("stall")
    result["stall"] = stall()
    tell("cost of the client")
    result["client_cost"] = client_cost(3_000)
    result["highest_rate"] = highest_rate(seconds, tell=tell)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
