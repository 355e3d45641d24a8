"""Drawn applications beside what their models generate: features, throughput, latency, levels, windows."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.model.baselines import baseline
from kwiken.storage.model.gap_laws import ks_distance
from kwiken.storage.model.generator import IODrawing, generate
from kwiken.storage.model.reuse import place_in_group
from kwiken.storage.model.states import BRANCHES, transitions_of_tree
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace, trace_of
from kwiken.storage.trace.stack_distance import block_accesses, hit_ratios
from papers.worlds.disks.applications import APPLICATIONS, Application, drawn_trace
from papers.worlds.disks.devices import DiskModel, served

LEVELS: Final = (1, 2, 3, 4, 5, 10)
MAX_LEVELS: Final = 5
IOS: Final = 12_000  # of an application
CHANGE: Final = 0.02  # of the throughput, below which more levels are not worth having
INTENSITIES: Final = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1)  # scales of the gaps
DISK_RATE: Final = 120.0  # I/Os a second at which a disk is well used
ONE_DISK: Final = DiskModel()
THREADS: Final = 40
MICRO: Final = (
    ("4K read sequential, 10 ms", 4096, True, True, 10.0),
    ("16K read sequential, 1 ms", 16384, True, True, 1.0),
    ("64K write sequential, 10 ms", 65536, False, True, 10.0),
    ("64K read random, 10 ms", 65536, True, False, 10.0),
)


def sizes_of_tree() -> dict[str, float]:
    """States and transitions at each number of levels, and the example transition of a planted trace."""
    found: dict[str, float] = {}
    for level in LEVELS:
        found[f"states {level}"] = float(4**level)
        found[f"hierarchical {level}"] = float(transitions_of_tree(level))
        found[f"flat {level}"] = float(transitions_flat(level))
    return {**found, **_example()}


def _example() -> dict[str, float]:
    """A trace in which 118 of 1,000 I/Os after state 1 are 4 KB random reads of state 2, 3 ms later."""
    second = np.zeros(1000, dtype=bool)
    second[np.linspace(5, 995, 118).astype(int)] = True
    state: list[int] = []
    for each in second.tolist():
        state += [0, 1] if each else [0]
    states = np.array([*state, 0])
    ends = np.array([0, 4 << 20])  # the ends of the space are addressed once each
    place = np.arange(len(states)) * 7919 % 100
    start = np.where(states == 1, (1 << 20) + place * 8192, place * 8192)
    reads = states == 1
    gaps = np.where(reads, 3e-3, 5e-3)
    trace = trace_of(
        np.cumsum(gaps),
        np.zeros(len(states), dtype=np.int64),
        np.where(np.arange(len(states)) == 0, ends[0], start),
        np.where(reads, 4096, 8192),
        reads,
        where="example",
    )
    # The tree spans the whole space of four states, which the last I/O of a longer trace would address.
    wide = train(_widened(trace, 4 << 20), levels=1)
    rows = [row for row in wide.streams[0].transitions if row[1] == 0]
    wanted = [
        row[4] for row in rows
        if row[2] == 1 and wide.classes[row[3]].size == 4096 and wide.classes[row[3]].read  # noqa: PLR2004
    ]  # fmt: skip
    law = next(law for law in wide.gaps[1:] if law.read)
    return {
        "probability": 100 * sum(wanted) / sum(row[4] for row in rows if row[2] < 2),  # noqa: PLR2004
        "gap": law.mean_ms,
    }


def _widened(trace: BlockTrace, high: int) -> BlockTrace:
    """The trace with one more I/O at the end of the space, after a state that is not the first."""
    return trace_of(
        np.append(trace.t_s, trace.t_s[-1] + 5e-3),
        np.append(trace.volume, 0),
        np.append(trace.start, high - 8192),
        np.append(trace.size, 8192),
        np.append(trace.read, False),
        where="example",
    )


def scaled(app: Application) -> Application:
    """The application at a rate that one disk can serve."""
    return Application(app.name, app.states, app.read, app.sequential, app.contiguous, DISK_RATE, app.told)


def by_application(number: int, seed: int) -> dict[str, float]:
    """Throughput and latency of an application and of its model, by levels."""
    rng = np.random.default_rng([seed, 22, number])
    trace = drawn_trace(scaled(APPLICATIONS[number]), IOS, rng)
    found: dict[str, float] = {}
    rates = []
    for level in range(1, MAX_LEVELS + 1):
        made = generate(train(trace, levels=level), rng)
        rates.append(_busy_rate(made))
        found[f"rate {level}"] = rates[-1]
        if level <= 3:  # noqa: PLR2004 - levels that the source compares
            flat = generate(train(trace, levels=level, flat=True), rng)
            found[f"flat {level}"] = 100 * abs(_busy_rate(flat) / rates[-1] - 1)
    changes = [abs(rates[at + 1] / rates[at] - 1) for at in range(MAX_LEVELS - 1)]
    chosen = next((at for at, change in enumerate(changes) if change < CHANGE), MAX_LEVELS - 1)
    model = train(trace, levels=chosen + 1)
    made = generate(model, rng)
    latency, rate = served(trace, ONE_DISK)
    latency_made, rate_made = served(made, ONE_DISK)
    found |= {
        "levels": float(chosen + 1),
        "change": 100 * changes[min(chosen, len(changes) - 1)],
        "throughput": 100 * abs(rate_made / rate - 1),
        "latency": 100 * abs(float(latency_made.mean()) / float(latency.mean()) - 1),
        "again": 100 * abs(served(generate(model, rng), ONE_DISK)[1] / rate_made - 1),
    }
    return found


def _busy_rate(trace: BlockTrace) -> float:
    """Rate at which a disk that never idles serves a trace."""
    return 1e3 * len(trace) / float(ONE_DISK.service_ms(trace).sum())


def messenger(seed: int) -> dict[str, float]:
    """Lines of the published table of Messenger: original, synthetic and deviation."""
    rng = np.random.default_rng([seed, 23])
    trace = drawn_trace(scaled(APPLICATIONS[0]), IOS, rng)
    made = generate(train(trace, levels=2), rng)
    found: dict[str, float] = {}
    for name, value in (
        ("read:write", lambda each: each.read.mean() / (1 - each.read.mean())),
        ("random I/Os, %", lambda each: 100 * (1 - each.sequential.mean())),
        ("blocks of 8 KB, %", lambda each: 100 * (each.size == 8192).mean()),  # noqa: PLR2004
        ("blocks of 64 KB, %", lambda each: 100 * (each.size == 65536).mean()),  # noqa: PLR2004
        ("mean gap, ms", lambda each: 1e3 * np.diff(each.t_s).mean()),
        ("throughput, I/Os a second", lambda each: served(each, ONE_DISK)[1]),
        ("mean latency, ms", lambda each: served(each, ONE_DISK)[0].mean()),
    ):
        original, synthetic = float(value(trace)), float(value(made))
        found |= {
            f"original {name}": original,
            f"synthetic {name}": synthetic,
            f"deviation {name}": 100 * (synthetic / original - 1),
        }
    heavy = [np.sort(np.bincount(each.thread) / len(each))[::-1] for each in (trace, made)]
    found["weights"] = 100 * float(np.abs(heavy[0] - heavy[1]).max())
    return found


def total_of_exchange(seed: int) -> dict[str, float]:
    """What is found in a trace that is drawn with the published total of Exchange."""
    rng = np.random.default_rng([seed, 24])
    app = Application("Exchange", (0.423, 0.558, 0.019, 0.001), 1 / 3.6, 0.137, 0.319, 134.0, True)
    trace = drawn_trace(app, IOS, rng)
    model = train(trace, levels=1)
    counts = np.array(model.streams[0].occupancy, dtype=np.float64)
    for stream in model.streams[1:]:
        counts += stream.occupancy
    share = 100 * counts / counts.sum()
    return {
        "read": float((1 - trace.read.mean()) / trace.read.mean()),
        "sequential": 100 * float(trace.sequential.mean()),
        "rate": model.rate_per_s,
        **{f"state {number}": float(share[number]) for number in range(4)},
    }


def by_intensity(seed: int) -> dict[str, float]:
    """Rate that a disk serves at each intensity."""
    rng = np.random.default_rng([seed, 25])
    model = train(drawn_trace(scaled(APPLICATIONS[0]), IOS, rng))
    return {
        f"{1 / scale:g}": served(generate(model, rng, IODrawing(scale=scale)), ONE_DISK)[1]
        for scale in INTENSITIES
    }


def day_rates(seed: int) -> dict[str, float]:
    """Correlation of the rate over a day, and whether peaks coincide."""
    rng = np.random.default_rng([seed, 26])
    trace = drawn_trace(APPLICATIONS[0], 120_000, rng, swing=3.0)
    made = generate(train(trace), rng)
    rates = [
        np.bincount(np.minimum((each.t_s // 300).astype(int), 287), minlength=288) for each in (trace, made)
    ]
    smooth = [np.convolve(each, np.ones(12) / 12, "same")[6:-6] for each in rates]
    return {
        "correlation": float(np.corrcoef(rates[0], rates[1])[0, 1]),
        "peak": abs(float(np.argmax(smooth[0]) - np.argmax(smooth[1]))) * 5,
        "trough": abs(float(np.argmin(smooth[0]) - np.argmin(smooth[1]))) * 5,
    }


def stride_order(thread: Ints, weight: Floats) -> Ints:
    """(n,) order of I/Os of threads by stride scheduling in virtual time (Webster's rule).

    The j-th I/O of a thread of weight `w` comes at `(j + 1/2) / w`, so that every share is within a few I/Os
    of its quota at any point.

    Args:
        thread: (n,) thread of each I/O.
        weight: (t,) weight of each thread, above 0.
    """
    return np.argsort((place_in_group(thread) + 0.5) / weight[thread], kind="stable")


def thread_shares(seed: int) -> dict[str, float]:
    """Largest deviation of a thread's share from its weight, over a run and over each tenth of it."""
    weight = 1.0 / np.random.default_rng([seed, 27]).permutation(np.arange(1, THREADS + 1))
    weight /= weight.sum()
    thread = np.repeat(np.arange(THREADS), np.round(weight * 100_000).astype(int))
    laid = thread[stride_order(thread, weight)]
    true = np.bincount(thread) / len(thread)
    tenths = [
        np.abs(np.bincount(part, minlength=THREADS) / len(part) - true).max()
        for part in np.array_split(laid, 10)
    ]
    return {
        "weights": 100 * float(np.abs(np.bincount(laid, minlength=THREADS) / len(laid) - weight).max()),
        "tenths": 100 * float(max(tenths)),
    }


def feature_matrix(seed: int) -> dict[str, float]:
    """Features that a generator reproduces: those of the published matrix, each measured on a drawn trace."""
    rng = np.random.default_rng([seed, 28])
    trace = drawn_trace(scaled(APPLICATIONS[9]), IOS, rng)
    model = train(trace)
    found: dict[str, float] = {}
    for name, made, twice in (
        ("model", generate(model, rng), generate(model, rng, IODrawing(scale=0.5))),
        (
            "fio random",
            baseline("fio random", 0.0, trace, IOS, rng),
            baseline("fio random", 0.0, trace, IOS, rng),
        ),
    ):
        found |= {f"{name}: {key}": value for key, value in _features(trace, made, twice).items()}
    return found


def _features(trace: BlockTrace, made: BlockTrace, twice: BlockTrace) -> dict[str, float]:
    gaps = [np.diff(each.t_s) for each in (trace, made)]
    high = int(trace.end.max())
    quarters = [
        np.bincount(np.minimum(4 * each.start // high, 3), minlength=4) / len(each) for each in (trace, made)
    ]
    hits = [hit_ratios(block_accesses(each)[0], np.array([0.2])) for each in (trace, made)]
    mixes = [_mix(each) for each in (trace, made)]
    runs = [_run_lengths(each) for each in (trace, made)]
    threads = [np.sort(np.bincount(each.thread) / len(each))[::-1] for each in (trace, made)]
    return {
        "inter-arrival times": float(ks_distance(gaps[0], gaps[1]) < 0.05),  # noqa: PLR2004 - bounds below
        "intensity": float(abs(made.duration_s / max(twice.duration_s, 1e-9) / 2 - 1) < 0.05),  # noqa: PLR2004
        "spatial locality": float(np.abs(quarters[0] - quarters[1]).max() < 0.02),  # noqa: PLR2004
        "temporal locality": float(abs(float(hits[0][0] - hits[1][0])) < 0.02),  # noqa: PLR2004
        "sequential runs": float(abs(runs[0] / runs[1] - 1) < 0.1),  # noqa: PLR2004
        "granular mix": float(np.abs(mixes[0] - mixes[1]).max() < 0.02),  # noqa: PLR2004
        "threads": float(len(threads[0]) == len(threads[1])),
    }


def _mix(trace: BlockTrace) -> Floats:
    key = np.searchsorted([4096, 32768], trace.size) * 4 + trace.read * 2 + trace.sequential
    return np.bincount(key, minlength=12) / len(trace)


def _run_lengths(trace: BlockTrace) -> float:
    return 1.0 / max(1e-9, 1.0 - float(trace.sequential.mean()))


def micro_tests(seed: int) -> dict[str, float]:
    """Rate of four steady streams that is asked for, and that a disk reaches."""
    rng = np.random.default_rng([seed, 29])
    found = {}
    for name, size, read, sequential, gap_ms in MICRO:
        ios = 3000
        where = np.arange(ios) * size if sequential else rng.integers(0, 1 << 16, ios) * size
        trace = trace_of(
            np.arange(ios, dtype=np.float64) * gap_ms * 1e-3,
            np.zeros(ios, dtype=np.int64),
            where,
            np.full(ios, size),
            np.full(ios, read),
            where=name,
        )
        made = generate(train(trace), rng)
        found[f"asked {name}"] = 1e3 / gap_ms
        found[f"reached {name}"] = served(made, ONE_DISK)[1]
        found[f"deviation {name}"] = 100 * (found[f"reached {name}"] / (1e3 / gap_ms) - 1)
    return found


def transitions_flat(levels: int) -> int:
    """Number of transitions of a diagram of all pairs of the same states."""
    return int((BRANCHES**levels) ** 2)
