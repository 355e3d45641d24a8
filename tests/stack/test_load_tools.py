"""`kwiken load` beside vegeta, an open-loop load generator of others, on a server with a known stall."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.load.generator_accuracy import fake_server
from tests.support.loadtest.load_commands import lines
from tests.support.runtime.server_processes import KWIKEN

MODULE = "github.com/tsenart/vegeta/v12"
RATE, SECONDS, STALL_MS = 200, 3, 500
STALL = ("--delay-ms", "5", "--stall-at", "1", "--stall-ms", str(STALL_MS))
TRIES = 3  # of both, since other work on this machine delays either
# Requests come every 5 ms, and each due in the stall waits 5 ms less than the one before: a percentile that is
# four requests off differs by 20 ms.
NEAR_MS = 30.0
MAX_LATE = (
    0.01  # share of requests sent late, above which kwiken load says that its figures are not to be trusted
)

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Figures:
    """What a tool reports: percentiles in milliseconds by their number, and requests above three latencies."""

    percentiles: dict[int, float]
    above: dict[int, int]

    @classmethod
    def of(cls, latency_ms: list[float]) -> Figures:
        ordered = sorted(latency_ms)
        ranks = {at: ordered[min(len(ordered) - 1, at * len(ordered) // 100)] for at in (50, 90, 95, 99)}
        return cls(ranks, {ms: sum(each > ms for each in ordered) for ms in (100, 250, 400)})

    def near(self, other: Figures) -> bool:
        """Whether percentiles and counts agree."""
        return all(
            abs(mine - other.percentiles[at]) <= NEAR_MS for at, mine in self.percentiles.items()
        ) and all(abs(mine - other.above[ms]) <= NEAR_MS / 5 for ms, mine in self.above.items())


def of_kwiken(records: Path) -> tuple[Figures, float]:
    """Figures, and the share of the requests that were sent late, as the tool itself says."""
    with fake_server(*STALL) as url:
        words = [url, "--rate", str(RATE), "--duration", str(SECONDS), "--arrivals", "constant"]
        words += ["--records", str(records), "--json"]
        done = subprocess.run([*KWIKEN, "load", *words], check=True, capture_output=True)
    requests = json.loads(done.stdout)["requests"]
    found = Figures.of([row["latency_ms"] for row in lines(records)])
    return found, requests["late"] / requests["intended"]


def of_vegeta(program: str) -> Figures:
    with fake_server(*STALL) as url:
        # As many requests at once as are due in the stall: fewer, and the tool waits for answers as a closed loop.
        words = ("-rate", f"{RATE}/s", "-duration", f"{SECONDS}s", "-max-workers", "1000", "-workers", "200")
        sent = subprocess.run(
            [program, "attack", *words],
            input=f"POST {url}/v1/request\n".encode(),
            capture_output=True,
            check=True,
        )
    told = subprocess.run(
        [program, "encode", "--to", "json"], input=sent.stdout, capture_output=True, check=True
    )
    results = [json.loads(line) for line in told.stdout.splitlines()]
    assert {each["code"] for each in results} == {200}
    return Figures.of([each["latency"] / 1e6 for each in results])


def test_percentiles_agree_with_vegeta(tmp_path: Path) -> None:
    program = os.environ.get("VEGETA") or shutil.which("vegeta")
    if program is None:
        pytest.skip(f"vegeta is not installed: go install {MODULE}@latest, or its path into $VEGETA")
    tried = []
    for number in range(TRIES):
        (ours, late), theirs = of_kwiken(tmp_path / f"{number}.jsonl"), of_vegeta(program)
        tried.append((late, ours, theirs))
        if ours.near(theirs):
            # Both saw the stall: of the 100 requests due in it, the 80 that had more than 100 ms of it left.
            assert ours.above[100] >= 0.7 * STALL_MS * RATE / 1e3
            return
    if all(late > MAX_LATE for late, _, _ in tried):
        pytest.skip(
            f"this machine is too busy for {RATE} requests a second, as kwiken load says too: {tried}"
        )
    pytest.fail(f"kwiken load and vegeta differ: {tried}")
