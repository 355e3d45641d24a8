"""Generated jobs of the planner's evaluation: W1, W2, W3 and queries of several stages.

All constants were written down before the first comparison. Rates are assumptions: a task handles 10 MB a
second, and a task's start and end take a second.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.batch.racks.response import RackHardware, RackJob, RackStage

BLOCK: Final = 128e6  # bytes of a map's input
RATE: Final = 10e6  # bytes per second of a task
START_S: Final = 1.0  # of a task
GBPS: Final = 1e9 / 8
RACKS: Final = 7
MACHINES: Final = 30
CORES: Final = 32
UPLINK_GBPS: Final = 60.0
BACKGROUND_GBPS: Final = 30.0
TESTBED: Final = RackHardware(MACHINES * CORES, MACHINES, 10 * GBPS, (UPLINK_GBPS - BACKGROUND_GBPS) * GBPS)
FLOW_RACKS: Final = 20
FLOW_RACK: Final = RackHardware(40 * 20, 40, 1 * GBPS, 40 * GBPS / 5)
FLOW_JOBS: Final = 100
FLOW_S: Final = 900.0
FLOW_GRAIN_S: Final = 2.0
SIZES: Final = ((0.5, 5, 50), (0.3, 51, 500), (0.2, 1000, 6000))  # share of the jobs, fewest and most maps
LOG2_SELECTIVITY: Final = 2.0  # input over output of a stage lies between 1:4 and 4:1
MAPS_A_REDUCE: Final = 4
ONLINE_S: Final = 3600.0
ONLINE_BYTES: Final = 5.0  # times as much data in each task, so that jobs take 20 minutes in the mean online
GIANT: Final = (5.5e12, 1.8)  # input of each giant of W2, and bytes shuffled over input
GIANTS: Final = 2
W2_JOBS: Final = 400
TINY_BYTES: Final = (200e6, 75e6)  # most input and shuffle of nine tenths of W2
W3_TASKS: Final = (180.0, 2060.0)  # median and 95th percentile
W3_INPUT: Final = (7.1e9, 162.3e9)
W3_SHUFFLE: Final = (6.0e9, 71.5e9)
Z95: Final = 1.645


def rack_of_testbed(uplink_gbps: float = UPLINK_GBPS - BACKGROUND_GBPS) -> RackHardware:
    """A rack of the testbed.

    Args:
        uplink_gbps: what background traffic leaves of the uplink, Gbit per second.
    """
    return RackHardware(MACHINES * CORES, MACHINES, 10 * GBPS, uplink_gbps * GBPS)


def map_reduce(
    name: str,
    arrival_s: float,
    maps: int,
    block: float,
    shuffled: float,
    written: float,
    rate: float = RATE,
) -> RackJob:
    """Job of maps and reduces.

    Args:
        arrival_s: arrival, seconds.
        maps: number of its maps, 1 or more.
        block: input of a map, bytes.
        shuffled: bytes of the shuffle.
        written: bytes that the reduces write.
        rate: bytes per second of a task.
    """
    reduces = max(1, maps // MAPS_A_REDUCE)
    stages = (
        RackStage(maps, START_S + block / rate),
        RackStage(reduces, START_S + written / reduces / rate, shuffled, (0,)),
    )
    return RackJob(name, arrival_s, maps * block, stages)


def w1(
    jobs: int,
    seed: int,
    *,
    span_s: float = 0.0,
    block: float = BLOCK,
    prefix: str = "w1",
    rate: float = RATE,
) -> list[RackJob]:
    """W1: small, medium and large jobs, selectivities from 1:4 to 4:1.

    Args:
        span_s: time over which arrivals are uniform, seconds; 0 for a batch.
        block: input of a map, bytes.
        rate: bytes per second of a task.
    """
    chance = np.random.default_rng([seed, 1])
    found = []
    for number in range(jobs):
        draw, place = float(chance.random()), 0
        while draw > SIZES[place][0] and place < len(SIZES) - 1:
            draw -= SIZES[place][0]
            place += 1
        _, fewest, most = SIZES[place]
        maps = int(np.exp(chance.uniform(np.log(fewest), np.log(most))))
        shuffled = maps * block / 2 ** chance.uniform(-LOG2_SELECTIVITY, LOG2_SELECTIVITY)
        written = shuffled / 2 ** chance.uniform(-LOG2_SELECTIVITY, LOG2_SELECTIVITY)
        at_s = float(chance.uniform(0, span_s)) if span_s else 0.0
        found.append(map_reduce(f"{prefix}-{number:04}", at_s, maps, block, shuffled, written, rate))
    return found


def size_bin(job: RackJob) -> str:
    """Size of a job of W1: small, medium or large."""
    maps = job.stages[0].tasks
    return "small" if maps <= SIZES[0][2] else "medium" if maps <= SIZES[1][2] else "large"


def w2(seed: int, *, span_s: float = 0.0, rate: float = RATE) -> list[RackJob]:
    """W2: two giants, nine tenths tiny jobs, and few between."""
    chance = np.random.default_rng([seed, 2])
    found = []
    for number in range(W2_JOBS):
        at_s = float(chance.uniform(0, span_s)) if span_s else 0.0
        if number < GIANTS:
            size = GIANT[0]
            shuffled = size * GIANT[1]
            found.append(
                map_reduce(f"giant-{number}", at_s, int(size / BLOCK), BLOCK, shuffled, shuffled / 4, rate)
            )
            continue
        tiny = number < GIANTS + 0.9 * W2_JOBS
        most = TINY_BYTES[0] if tiny else 50 * TINY_BYTES[0]
        size = float(chance.uniform(0.05, 1.0)) * most
        shuffled = size * TINY_BYTES[1] / TINY_BYTES[0] * float(chance.random())
        maps = max(1, int(size / BLOCK))
        found.append(map_reduce(f"w2-{number:04}", at_s, maps, size / maps, shuffled, shuffled, rate))
    return found


def w3(seed: int, *, jobs: int = 200, span_s: float = 0.0) -> list[RackJob]:
    """W3: log-normal tasks, input and shuffle, which rise together, at the stated percentiles."""
    chance = np.random.default_rng([seed, 3])
    found = []
    for number in range(jobs):
        common = float(chance.standard_normal())
        values = []
        for median, high in (W3_TASKS, W3_INPUT, W3_SHUFFLE):
            own = 0.9 * common + np.sqrt(1 - 0.81) * float(chance.standard_normal())
            values.append(median * float(np.exp(np.log(high / median) / Z95 * own)))
        maps = max(1, int(values[0] * MAPS_A_REDUCE / (MAPS_A_REDUCE + 1)))
        at_s = float(chance.uniform(0, span_s)) if span_s else 0.0
        found.append(map_reduce(f"w3-{number:04}", at_s, maps, values[1] / maps, values[2], values[2] / 2))
    return found


def queries(seed: int, *, number: int = 15, span_s: float = 1500.0) -> list[RackJob]:
    """Queries over 200 GB: chains of two to five stages, of which a fifth of the time is shuffle at most."""
    chance = np.random.default_rng([seed, 4])
    found = []
    for query in range(number):
        size = float(chance.uniform(20e9, 200e9))
        maps = max(1, int(size / BLOCK))
        stages = [RackStage(maps, START_S + BLOCK / RATE)]
        moved = size / float(chance.uniform(2, 8))
        for place in range(int(chance.integers(1, 5))):
            tasks = max(1, int(moved / BLOCK))
            stages.append(RackStage(tasks, START_S + BLOCK / RATE, moved, (place,)))
            moved /= float(chance.uniform(1, 4))
        at_s = float(chance.uniform(0, span_s))
        found.append(RackJob(f"query-{query:02}", at_s, size, tuple(stages)))
    return found
