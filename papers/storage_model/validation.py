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
    """States and transitions at each number of levels."""
    found: dict[str, float] = {}
    for level in LEVELS:
        found[f"states {level}"] = float(4**level)
        found[f"hierarchical {level}"] = float(transitions_of_tree(level))
        found[f"flat {level}"] = float(transitions_flat(level))
    return found


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
    """Rate of four steady streams that a disk reaches, and its deviation from what was asked for, percent."""
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
        found[f"reached {name}"] = served(made, ONE_DISK)[1]
        found[f"deviation {name}"] = 100 * (found[f"reached {name}"] / (1e3 / gap_ms) - 1)
    return found


def transitions_flat(levels: int) -> int:
    """Number of transitions of a diagram of all pairs of the same states."""
    return int((BRANCHES**levels) ** 2)
