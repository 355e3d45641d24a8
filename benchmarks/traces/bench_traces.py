"""Benchmark of tracing: processor time of the gateway a request, without spans, with sampled ones, with all.

Gateways that differ only in `--trace` stand in one process and take load in turn, in short blocks. What a
user pays is the processor time of that process, read from the kernel, with the thread that writes the spans;
at the end of a block all its spans are written.

Where the time goes is told by single requests to each of them in turn. A request costs more then than under
load, because other processes have used the caches before each; and what tracing adds costs more likewise.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.gateway.chain import STAGES
from benchmarks.harness import Row, median_interval, paired
from benchmarks.traces.traced_gateways import MODES, Counts, TracedGateways, traced_gateways
from kwiken.runtime.gateway.settings import TraceMode

CALLERS: Final = 4  # few, so that no request is turned away on a busy machine
MIN_SHARE: Final = 0.95  # of the gateway's processor time that is to be left to requests
WARM_UP_S: Final = 0.5
DROPPED_BEFORE: Final = 100  # requests
OFF: Final = "--trace off"
CHAIN: Final = f"chain of {len(STAGES)} stages over HTTP"


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds, seconds, turns = (2, 0.3, 40) if quick else (80, 0.3, 2000)
    with tempfile.TemporaryDirectory() as folder:
        rows: list[Row] = uvloop.run(_compare(Path(folder), rounds, seconds, turns))
    return rows


async def _compare(folder: Path, rounds: int, seconds: float, turns: int) -> list[Row]:
    async with traced_gateways(folder) as gateways:
        rows, kept_share = await _under_load(gateways, rounds, seconds)
        return rows + await _parts(gateways, turns, kept_share)


async def _under_load(gateways: TracedGateways, rounds: int, seconds: float) -> tuple[list[Row], float]:
    """Whole cost under load; and the share of the requests that was kept."""
    before = Counts(0, 0, 0)
    # A sampler keeps every request until it knows what is slow.
    while before.dropped < DROPPED_BEFORE:
        for mode in MODES:
            await gateways.us_a_request(mode, WARM_UP_S, CALLERS)
        before = await gateways.counts("sampled")
    figures: dict[TraceMode, list[float]] = {mode: [] for mode in MODES}
    for turn in range(rounds):
        # Each is first, second and last in turn: what runs before leaves its traces in the caches.
        modes = MODES[:: -1 if turn % 2 else 1]
        first = turn // 2 % len(modes)
        for mode in modes[first:] + modes[:first]:
            figures[mode].append(await gateways.us_a_request(mode, seconds, CALLERS))
    after = await gateways.counts("sampled")
    kept, dropped = after.kept - before.kept, after.dropped - before.dropped
    name = f"{CHAIN}, {CALLERS} at once: gateway's processor time a request"
    rows = []
    floors: tuple[tuple[TraceMode, float | None], ...] = (("sampled", MIN_SHARE), ("all", None))
    for mode, least in floors:
        pairs = list(zip(figures[mode], figures["off"], strict=True))
        rows.append(paired(f"{name}, --trace {mode}", OFF, pairs, unit="us", least=least))
        ratios = [off / traced for traced, off in pairs]
        rows.append(
            Row(
                name=f"the same ratio, --trace {mode}: median, and its 95% interval",
                ours=statistics.median(ratios),
                unit="",
                spread=median_interval(ratios),
            )
        )
    rows.append(Row(name="requests kept by --trace sampled", ours=100 * kept / (kept + dropped), unit="%"))
    return rows, kept / (kept + dropped)


async def _parts(gateways: TracedGateways, turns: int, kept_share: float) -> list[Row]:
    """What a dropped and a kept request cost beyond one without traces, and the sum at the kept share."""
    before = await gateways.counts("sampled")
    found = await gateways.one_by_one(turns)
    after = await gateways.counts("sampled")
    writing_us = (after.writing_ns - before.writing_ns) / (after.kept - before.kept) / 1e3
    name = f"{CHAIN}, one at a time, beyond {OFF}"
    beyond = {
        drawn: [turn.us["sampled"] - turn.us["off"] for turn in found if turn.drawn is drawn]
        for drawn in (False, True)
    }
    dropped_us, kept_us = (statistics.median(beyond[drawn]) for drawn in (False, True))
    off_us = statistics.median(turn.us["off"] for turn in found)
    whole_us = dropped_us + kept_share * (kept_us - dropped_us + writing_us)
    return [
        Row(
            name=f"{name}: a request that is dropped; median, and its 95% interval",
            ours=dropped_us,
            unit="us",
            spread=median_interval(beyond[False]),
        ),
        Row(
            name=f"{name}: a request that is kept, without writing; median, and its 95% interval",
            ours=kept_us,
            unit="us",
            spread=median_interval(beyond[True]),
        ),
        Row(name=f"{name}: writing the spans of a kept request, in a thread", ours=writing_us, unit="us"),
        paired(
            f"{CHAIN}, one at a time: processor time a request, --trace sampled, summed of these",
            OFF,
            [(off_us + whole_us, off_us)],
            unit="us",
            least=MIN_SHARE,
        ),
    ]
