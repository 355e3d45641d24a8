"""Live comparison of replica choice: 40 replicas, a tenth of which stall, one gateway and four.

Gateways and replicas are processes of their own. Rules run in turn, so that changes of the machine's load hit
all of them. On a shared machine the spread says whether anything was decided: there is an order only where
all of three rounds or more agree.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from benchmarks.choice.bench_replica_choice import OURS
from benchmarks.harness import Row

REPLICAS, STALLING = 40, 4
# Of all gateways together: half of what the replicas serve, 25 calls a second for each. At 10, chance alone
# gives a replica of 40 more than twice its share in one of a few seconds, whatever the rule.
RATE_PER_S = 1000.0
FIRST_SEED = 800  # those from 700 on were used at 400 requests a second
MAX_SHARES = 2.0  # of one replica in any second, as a multiple of its equal share
RIVALS = ("two choices", "former rule", "sampled by guarantee")
MIN_ROUNDS = 3  # that must agree for an order
MODULE = "benchmarks.choice"


@dataclass(frozen=True)
class LiveRound:
    """What one run of one rule came to.

    Attributes:
        p99_ms: 99th percentile of the latency from the intended start, milliseconds.
        choosing_us: mean time of a choice, microseconds.
        largest: largest share of one replica in any second, as a multiple of its equal share.
    """

    p99_ms: float
    choosing_us: float
    largest: float


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds = (1, 2.0) if quick else (5, 8.0)
    rows = []
    for gateways in (1, 4):
        found: dict[str, list[LiveRound]] = {rule: [] for rule in (OURS, *RIVALS)}
        for number in range(rounds):
            for rule, runs in found.items():
                runs.append(_round(rule, gateways, FIRST_SEED + number, seconds))
        rows += _rows(gateways, found)
    return rows


def _rows(gateways: int, found: dict[str, list[LiveRound]]) -> list[Row]:
    where = f"live, {gateways} gateway{'s' if gateways > 1 else ''}, a tenth of 40 stalling"
    rows = []
    for rival in RIVALS:
        pairs = list(zip(found[OURS], found[rival], strict=True))
        ratios = [theirs.p99_ms / ours.p99_ms for ours, theirs in pairs]
        order = "ahead of" if min(ratios) > 1 else "behind" if max(ratios) < 1 else "not decided beside"
        if len(ratios) < MIN_ROUNDS:
            order = "not decided beside"
        rows.append(
            Row(
                name=f"p99, {where}",
                ours=statistics.median(ours.p99_ms for ours, _ in pairs),
                unit="ms",
                alternative=f"{order} {rival}",
                theirs=statistics.median(theirs.p99_ms for _, theirs in pairs),
                ratio=statistics.median(ratios),
                spread=(min(ratios), max(ratios)),
            )
        )
    for rule, runs in found.items():
        shares = [each.largest for each in runs]
        rows.append(
            Row(
                name=f"largest share in a second, {where}: {rule}",
                ours=statistics.median(shares),
                unit="times its share",
                target=MAX_SHARES if rule == OURS else None,
                spread=(min(shares), max(shares)),
            )
        )
        costs = [each.choosing_us for each in runs]
        rows.append(
            Row(
                name=f"time of a choice, {where}: {rule}",
                ours=statistics.median(costs),
                unit="us",
                spread=(min(costs), max(costs)),
            )
        )
    return rows


def _round(rule: str, gateways: int, seed: int, seconds: float) -> LiveRound:
    """Start replicas and gateways, wait for the end, and collect."""
    command = [sys.executable, "-m", f"{MODULE}.live_replicas", str(REPLICAS), str(STALLING), str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        try:
            ports = served.stdout.readline().split()
            senders = [
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", f"{MODULE}.live_gateway", rule, str(seed * 10 + number)),
                        *(str(RATE_PER_S / gateways), str(seconds), *ports),
                    ],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for number in range(gateways)
            ]
            told = [json.loads(sender.communicate(timeout=seconds + 120)[0]) for sender in senders]
        finally:
            served.stdin.close()
    calls = [call for each in told for call in each["calls"]]
    sent, took, replica = (np.array(column) for column in zip(*calls, strict=True))
    largest = max(
        float(np.bincount(replica[sent.astype(int) == second], minlength=REPLICAS).max())
        / max(float((sent.astype(int) == second).sum()) / REPLICAS, 1.0)
        for second in range(int(seconds))
    )
    choosing = statistics.fmean(each["choosing_us"] for each in told)
    return LiveRound(float(np.quantile(took, 0.99)) * 1e3, choosing, largest)
