"""Synthetic web search: its timeline, blame of its stages, and catch-up (Figures 2.1, 5.1, 5.7a)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.tail.diagnosis.blamed_stages import Blame, blame
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    gain,
    order_row,
    percent,
    row,
)

REQUESTS = 100_000
TIME_OUT_MS = {"lookup": 400.0, "snippets": 300.0}
START_UP_MS = 10.0
PROTECTED_MS = 6.0  # longest transfer at high priority
RECOVERED_MS = 60.0  # shortest recovery of a lost packet
ORDER_SEEDS = 8  # seeds of the order of helps; levels are of the first
AGES = (0.8, 1.0, 1.25, 1.5, 2.0)  # age from which a request is late, over the median latency


@dataclass(frozen=True)
class ExtraThreads:
    """More threads for the work of late requests (Kwiken section 5.5).

    Attributes:
        threads: number of threads, 1 or more.
        speedup: factor by which the work runs faster, from 1 to `threads`; less than `threads`, because of
            synchronisation. Three threads give about 2 in the source.

    Raises:
        InputError: for fewer than one thread, or a speed-up below 1 or above the threads.
    """

    threads: int = 3
    speedup: float = 2.0

    def __post_init__(self) -> None:
        """Refuse a slow-down, and a speed-up above the number of threads."""
        if not 1 <= self.speedup <= self.threads:
            raise InputError(f"speedup must be from 1 to threads ({self.threads}), not {self.speedup}")


def speed_up(
    start_ms: Floats, work_ms: Floats, late_after_ms: float, threads: ExtraThreads
) -> tuple[Floats, Floats]:
    """Speed up a stage for late requests by more threads, from the moment they are late (Kwiken section 5.5).

    Args:
        start_ms: (n,) age of the requests when the stage starts.
        work_ms: (n,) duration of the stage with one thread.
        late_after_ms: age from which a request is late; infinite for never.

    Returns:
        (n,) duration of the stage, and (n,) extra thread-time used; milliseconds.
    """
    on_time = np.clip(late_after_ms - start_ms, 0.0, work_ms)
    rest = work_ms - on_time
    return on_time + rest / threads.speedup, rest * (threads.threads / threads.speedup - 1.0)


def prioritise(
    start_ms: Floats, transfer_ms: Floats, late_after_ms: float, *, protected_ms: float
) -> tuple[Floats, Floats]:
    """Transfer at high priority for requests that are late when it starts (Kwiken section 5.5).

    Args:
        start_ms: (n,) age of the requests when the transfer starts.
        transfer_ms: (n,) duration at normal priority.
        late_after_ms: age from which a request is late.
        protected_ms: longest duration at high priority, where no burst loses its packets.

    Returns:
        (n,) duration, milliseconds, and (n,) 1 for a transfer at high priority, otherwise 0.
    """
    late = start_ms >= late_after_ms
    return np.where(late, np.minimum(transfer_ms, protected_ms), transfer_ms), late.astype(float)


@dataclass(frozen=True)
class WebSearch:
    """Requests through start-up, document look-up, transfer, snippets, transfer; (n,) milliseconds each."""

    lookup: Floats
    first_transfer: Floats
    snippets: Floats
    last_transfer: Floats


def draw(rng: np.random.Generator) -> WebSearch:
    """Log-normal work with a time-out; a few transfers wait until a lost packet is sent again."""

    def transfer(lost: float) -> Floats:
        recovery = np.where(rng.random(REQUESTS) < lost, rng.uniform(60, 400, REQUESTS), 0.0)
        return rng.lognormal(math.log(6), 0.5, REQUESTS) + recovery

    return WebSearch(
        lookup=np.minimum(rng.lognormal(math.log(40), 0.8, REQUESTS), TIME_OUT_MS["lookup"]),
        first_transfer=transfer(0.02),
        snippets=np.minimum(rng.lognormal(math.log(25), 0.5, REQUESTS), TIME_OUT_MS["snippets"]),
        last_transfer=transfer(0.01),
    )


def simulate_late(
    search: WebSearch, late_after_ms: float, *, threads: tuple[str, ...], priority: bool
) -> tuple[Floats, float, float]:
    """Latency of the requests, ms, extra thread-time as a share, and share of transfers at high priority."""
    age = np.full(REQUESTS, START_UP_MS)
    extra_work = high_priority = 0.0
    for work, transfer in (("lookup", "first_transfer"), ("snippets", "last_transfer")):
        elapsed_ms, extra = speed_up(
            age, getattr(search, work), late_after_ms if work in threads else math.inf, ExtraThreads()
        )
        extra_work += float(extra.mean())
        age = age + elapsed_ms
        elapsed_ms, high = prioritise(
            age, getattr(search, transfer), late_after_ms if priority else math.inf, protected_ms=PROTECTED_MS
        )
        high_priority += float(high.mean()) / 2
        age = age + elapsed_ms
    work_ms = START_UP_MS + float(search.lookup.mean() + search.snippets.mean())
    return age, extra_work / work_ms, high_priority


BOTH = "threads at both and priority"
VARIANTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "threads at look-up": (("lookup",), False),
    "threads at snippets": (("snippets",), False),
    "threads at both": (("lookup", "snippets"), False),
    "priority only": ((), True),
    BOTH: (("lookup", "snippets"), True),
}
SOURCE = {BOTH: "up to 44 with 6.3% more threads and 1.5% of traffic at high priority"}


def measure(seed: int) -> dict[str, list[tuple[float, float, float]]]:
    """By variant and age: p99 cut, extra thread-time, share of transfers at high priority."""
    search = draw(np.random.default_rng([seed, 57]))
    base, _, _ = simulate_late(search, math.inf, threads=(), priority=False)
    median, p99 = np.percentile(base, (50, 99)).tolist()
    found: dict[str, list[tuple[float, float, float]]] = {}
    for variant, (threads, priority) in VARIANTS.items():
        for factor in AGES:
            latency, extra_work, high = simulate_late(
                search, factor * median, threads=threads, priority=priority
            )
            found.setdefault(variant, []).append(
                (gain(p99, float(np.percentile(latency, 99))), extra_work, high)
            )
    return found


def conclude(results: list[dict[str, list[tuple[float, float, float]]]]) -> Findings:
    """Rows with the median as the age, and a plot over ages."""
    found = results[0]
    rows = []
    for variant, values in found.items():
        cut, extra_work, high = values[AGES.index(1.0)]
        spent = f"{percent(extra_work)}% more thread-time, {percent(high)}% of transfers at high priority"
        note = f"synthetic chain; late is later than the median latency; {spent}"
        metric = f"p99 cut, {variant}, %"
        rows.append(row("Figure 5.7a", metric, percent(cut), source=SOURCE.get(variant, ""), note=note))
    _, extra_work, high = found[BOTH][AGES.index(1.0)]
    note = f"{BOTH}; late is later than the median latency"
    for metric, share, source in (
        ("extra thread-time", extra_work, "6.3"),
        ("transfers at high priority", high, "1.5"),
    ):
        rows.append(row("Figure 5.7a", f"{metric}, {BOTH}, %", percent(share), source=source, note=note))
    rows.append(_both_row(results))
    plot = Plot(
        "Figure 5.7a",
        "p99 cut by age from which a request is late",
        "age over median latency",
        "p99 cut, %",
        tuple(
            PlotSeries(variant, AGES, [percent(cut) for cut, _, _ in values])
            for variant, values in found.items()
        ),
    )
    return Findings(tuple(rows), (plot,))


def _both_row(results: list[dict[str, list[tuple[float, float, float]]]]) -> FigureRow:
    """FigureRow of the order of both helps against the sum of each alone, at the median age."""
    cuts = [{variant: values[AGES.index(1.0)][0] for variant, values in found.items()} for found in results]
    holds = [one[BOTH] > one["threads at both"] + one["priority only"] for one in cuts]
    words = "threads and priority > sum of threads alone and priority alone, p99 cut"
    return order_row("Figure 5.7a", words, holds, "both > either")


def diagnose(seed: int) -> dict[str, Blame]:
    """Blame of the stages of the search; a transfer with a lost packet counts as timed out."""
    search = draw(np.random.default_rng([seed, 51]))
    transfers = search.first_transfer + search.last_transfer
    spent = {
        "start-up": np.full(REQUESTS, START_UP_MS),
        "document look-up": search.lookup,
        "snippets": search.snippets,
        "network transfer": transfers,
    }
    timed_out = {
        "document look-up": search.lookup >= TIME_OUT_MS["lookup"],
        "snippets": search.snippets >= TIME_OUT_MS["snippets"],
        "network transfer": np.maximum(search.first_transfer, search.last_transfer) >= RECOVERED_MS,
    }
    return blame(spent, np.asarray(sum(spent.values())), timed_out=timed_out)


def conclude_blame(results: list[dict[str, Blame]]) -> Findings:
    """Rows of Figure 5.1."""
    rows = []
    note = "synthetic chain; a stage is blamed for what is beyond its mean and two standard deviations"
    for name, found in results[0].items():
        blamed, timed_out, typical = SOURCE_BLAME.get(name, ("", "", ""))
        lines = (
            (f"slowest 5% of requests that {name} is blamed for, %", found.blamed, blamed),
            (f"slowest 5% of requests in which {name} timed out, %", found.timed_out, timed_out),
            (f"share of the mean latency, {name}, %", found.mean_share, typical),
        )
        rows += [row("Figure 5.1", what, percent(ours), source=src, note=note) for what, ours, src in lines]
    return Findings(tuple(rows))


SOURCE_BLAME = {
    "document look-up": ("50.7", "18.7", ""),
    "network transfer": ("33.5", "20.3", "12.1"),
    "start-up": ("rarely", "", "sizeable"),
}


def timeline(seed: int) -> Plot:
    """Figure 2.1: end times of the stages of the search, in typical and in slow requests."""
    search = draw(np.random.default_rng([seed, 21]))
    parts = np.stack(
        (
            np.full(REQUESTS, START_UP_MS),
            search.lookup,
            search.first_transfer,
            search.snippets,
            search.last_transfer,
        )
    )
    ends = np.cumsum(parts, axis=0)
    low, high, slow = np.percentile(ends[-1], (45, 55, 95)).tolist()
    groups = {
        "typical": (ends[-1] >= low) & (ends[-1] <= high),
        "slowest 5%": ends[-1] >= slow,
    }
    steps = list(range(len(parts) + 1))
    series = tuple(
        PlotSeries(name, [0.0, *ends[:, rows].mean(axis=1).tolist()], steps) for name, rows in groups.items()
    )
    axis = "number of steps that ended (start-up, look-up, transfer, snippets, transfer)"
    return Plot("Figure 2.1", "course of a web search", "ms", axis, series)


def late_parts(seed: int) -> tuple[Part, ...]:
    """Figures 2.1, 5.1 and 5.7a."""
    return (
        Part("course", ((timeline, (seed,)),), lambda plots: Findings(plots=tuple(plots)), ("Figure 2.1",)),
        Part("blame", ((diagnose, (seed,)),), conclude_blame, ("Figure 5.1",)),
        Part(
            "catch-up", tuple((measure, (seed + i,)) for i in range(ORDER_SEEDS)), conclude, ("Figure 5.7a",)
        ),
    )
