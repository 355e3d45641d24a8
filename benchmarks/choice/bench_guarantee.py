"""Guarantee of sampled placement, measured through the stream: 800 nodes, loads from 10% to 90%.

`kwiken place --stream` answers arrivals until the load is reached, then departures and arrivals in turn, and
compares each choice with a full scan. A choice misses where it is not better than the promised share of the
nodes with room. Misses have to stay below the 99.9th percentile of the binomial distribution of the promise.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy.stats import binom

from benchmarks.harness import Row

NODES = {"large": (16, 64, 1.0), "medium": (8, 32, 0.8), "small": (4, 16, 0.6)}  # cores, GB, speed
EACH = {"large": 200, "medium": 200, "small": 400}  # nodes of each class
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)  # share of the jobs that the nodes hold together
GUARANTEES = ("0.8:0.17", "0.8:0.001")
DECISIONS = 1000
SURE = 0.999  # of the binomial distribution
SEED = 391
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "allocator"
WORKLOADS = ("look-up", "snippets")


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    decisions = DECISIONS // 10 if quick else DECISIONS
    with tempfile.TemporaryDirectory() as folder:
        files = _files(Path(folder))
        most = _held(files)
        return [
            _row(files, guarantee, load, round(load * most), decisions)
            for guarantee in GUARANTEES
            for load in LOADS
        ]


def _files(folder: Path) -> list[str]:
    """Nodes, workloads and their profiles."""
    lines = []
    for name, (cores, memory_gb, speed) in NODES.items():
        lines += ["[[classes]]", f'name = "{name}"', f"cores = {cores}", f"memory_gb = {memory_gb}"]
        lines += [f"cost_per_hour = {cores / 20}", f"speed = {speed}"]
    for name, count in EACH.items():
        lines += ["[[nodes]]", f'name = "{name}"', f'class = "{name}"', f"count = {count}"]
    (folder / "nodes.toml").write_text("\n".join(lines))
    profiles = folder / "profiles.json"
    kwiken = [sys.executable, "-m", "kwiken"]
    measurements = str(EXAMPLES / "measurements.toml")
    subprocess.run([*kwiken, "classify", measurements, "-o", str(profiles)], check=True, capture_output=True)
    return [str(folder / "nodes.toml"), str(EXAMPLES / "workloads.toml"), "--profiles", str(profiles)]


def _stream(
    files: list[str], guarantee: str, lines: list[dict[str, str]], every: int
) -> list[dict[str, object]]:
    """Answers of the stream to some lines."""
    command = [sys.executable, "-m", "kwiken", "place", *files, "--scheduler", "sampled", "--stream"]
    command += ["--guarantee", guarantee, "--scan-every", str(every), "--seed", str(SEED)]
    told = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _arrivals(count: int, first: int = 0) -> list[dict[str, str]]:
    return [
        {"arrive": f"job-{number}", "workload": WORKLOADS[number % len(WORKLOADS)]}
        for number in range(first, first + count)
    ]


def _held(files: list[str]) -> int:
    """Number of jobs that all nodes hold together."""
    answers = _stream(files, GUARANTEES[0], _arrivals(5 * sum(EACH.values())), 0)
    return sum(answer["node"] is not None for answer in answers)


def _row(files: list[str], guarantee: str, load: float, jobs: int, decisions: int) -> Row:
    rng = random.Random(f"{SEED} {load}")
    lines, standing = _arrivals(jobs), [f"job-{number}" for number in range(jobs)]
    for number in range(jobs, jobs + decisions):
        gone = standing.pop(rng.randrange(len(standing)))
        lines += [{"depart": gone}, *_arrivals(1, number)]
        standing.append(f"job-{number}")
    answers = [answer for answer in _stream(files, guarantee, lines, 1) if "rank" in answer][-decisions:]
    quality, failure = map(float, guarantee.split(":"))
    missed = sum(float(str(answer["rank"])) <= quality for answer in answers)
    most = int(binom.ppf(SURE, len(answers), failure))
    return Row(
        name=f"choices of {len(answers)} that miss {guarantee} on 800 nodes at {load:.0%} load",
        ours=float(missed),
        unit="choices",
        target=float(most),
        met=missed <= most,
    )
