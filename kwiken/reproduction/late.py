"""Synthetic web search: its course, blame of its stages, and catch-up (Figures 2.1, 5.1, 5.7a)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kwiken.arrays import Floats
from kwiken.diagnosis import Blame, blame
from kwiken.reproduction.catch_up_rates import Threads, hurry, prioritise
from kwiken.reproduction.rows import Findings, Part, Plot, Series, gain, percent, row

REQUESTS = 100_000
TIME_OUT_MS = {"lookup": 400.0, "snippets": 300.0}
START_UP_MS = 10.0
PROTECTED_MS = 6.0  # longest transfer at high priority
RECOVERED_MS = 60.0  # shortest recovery of a lost packet
AGES = (0.8, 1.0, 1.25, 1.5, 2.0)  # age from which a request is late, over the median latency


@dataclass(frozen=True)
class WebSearch:
    """Requests through start-up, document look-up, transfer, snippets, transfer; (n,) milliseconds each."""

    lookup: Floats
    first_transfer: Floats
    snippets: Floats
    last_transfer: Floats


def draw(rng: np.random.Generator) -> WebSearch:
    """Log-normal work with a time-out, and transfers a few of which wait for a lost packet's time-out."""

    def transfer(lost: float) -> Floats:
        recovery = np.where(rng.random(REQUESTS) < lost, rng.uniform(60, 400, REQUESTS), 0.0)
        return rng.lognormal(math.log(6), 0.5, REQUESTS) + recovery

    return WebSearch(
        lookup=np.minimum(rng.lognormal(math.log(40), 0.8, REQUESTS), TIME_OUT_MS["lookup"]),
        first_transfer=transfer(0.02),
        snippets=np.minimum(rng.lognormal(math.log(25), 0.5, REQUESTS), TIME_OUT_MS["snippets"]),
        last_transfer=transfer(0.01),
    )


def play(
    search: WebSearch, late_after_ms: float, *, threads: tuple[str, ...], priority: bool
) -> tuple[Floats, float, float]:
    """Latency of the requests, ms, extra thread-time as a share, and share of transfers at high priority."""
    age = np.full(REQUESTS, START_UP_MS)
    burnt = hurried = 0.0
    for work, moved in (("lookup", "first_transfer"), ("snippets", "last_transfer")):
        took, extra = hurry(
            age, getattr(search, work), late_after_ms if work in threads else math.inf, Threads()
        )
        burnt += float(extra.mean())
        age = age + took
        took, high = prioritise(
            age, getattr(search, moved), late_after_ms if priority else math.inf, protected_ms=PROTECTED_MS
        )
        hurried += float(high.mean()) / 2
        age = age + took
    work_ms = START_UP_MS + float(search.lookup.mean() + search.snippets.mean())
    return age, burnt / work_ms, hurried


ARMS: dict[str, tuple[tuple[str, ...], bool]] = {
    "threads at look-up": (("lookup",), False),
    "threads at snippets": (("snippets",), False),
    "threads at both": (("lookup", "snippets"), False),
    "priority only": ((), True),
    "threads at both and priority": (("lookup", "snippets"), True),
}


SOURCE = {
    "threads at both and priority": "up to 44 with 6.3% more threads and 1.5% of traffic at high priority"
}


def measure(seed: int) -> dict[str, list[tuple[float, float, float]]]:
    """By arm and age: p99 cut, extra thread-time, share of transfers at high priority."""
    search = draw(np.random.default_rng([seed, 57]))
    base, _, _ = play(search, math.inf, threads=(), priority=False)
    median, p99 = np.percentile(base, (50, 99)).tolist()
    found: dict[str, list[tuple[float, float, float]]] = {}
    for arm, (threads, priority) in ARMS.items():
        for factor in AGES:
            latency, burnt, high = play(search, factor * median, threads=threads, priority=priority)
            found.setdefault(arm, []).append((gain(p99, float(np.percentile(latency, 99))), burnt, high))
    return found


def conclude(results: list[dict[str, list[tuple[float, float, float]]]]) -> Findings:
    """Rows with the median as the age, and a plot over ages."""
    found = results[0]
    rows = []
    for arm, values in found.items():
        cut, burnt, high = values[AGES.index(1.0)]
        spent = f"{percent(burnt)}% more thread-time, {percent(high)}% of transfers at high priority"
        note = f"synthetic chain; late is later than the median latency; {spent}"
        metric = f"p99 cut, {arm}, %"
        rows.append(row("Figure 5.7a", metric, percent(cut), source=SOURCE.get(arm, ""), note=note))
    plot = Plot(
        "Figure 5.7a",
        "p99 cut by age from which a request is late",
        "age over median latency",
        "p99 cut, %",
        tuple(Series(arm, AGES, [percent(cut) for cut, _, _ in values]) for arm, values in found.items()),
    )
    return Findings(tuple(rows), (plot,))


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
    out = {
        "document look-up": search.lookup >= TIME_OUT_MS["lookup"],
        "snippets": search.snippets >= TIME_OUT_MS["snippets"],
        "network transfer": np.maximum(search.first_transfer, search.last_transfer) >= RECOVERED_MS,
    }
    return blame(spent, np.asarray(sum(spent.values())), timed_out=out)


def conclude_blame(results: list[dict[str, Blame]]) -> Findings:
    """Rows of Figure 5.1."""
    rows = []
    note = "synthetic chain; a stage is blamed for what is beyond its mean and two standard deviations"
    for name, found in results[0].items():
        blamed, out, typical = BLAMED.get(name, ("", "", ""))
        lines = (
            (f"slowest 5% of requests that {name} is blamed for, %", found.blamed, blamed),
            (f"slowest 5% of requests in which {name} timed out, %", found.timed_out, out),
            (f"share of the mean latency, {name}, %", found.mean_share, typical),
        )
        rows += [row("Figure 5.1", what, percent(ours), source=src, note=note) for what, ours, src in lines]
    return Findings(tuple(rows))


BLAMED = {
    "document look-up": ("50.7", "18.7", ""),
    "network transfer": ("33.5", "20.3", "12.1"),
    "start-up": ("rarely", "", "sizeable"),
}


def course(seed: int) -> Plot:
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
        Series(name, [0.0, *ends[:, rows].mean(axis=1).tolist()], steps) for name, rows in groups.items()
    )
    parts_told = "start-up, look-up, transfer, snippets, transfer: how many ended"
    return Plot("Figure 2.1", "course of a web search", "ms", parts_told, series)


def parts(seed: int) -> tuple[Part, ...]:
    """Figures 2.1, 5.1 and 5.7a."""
    return (
        Part("course", ((course, (seed,)),), lambda plots: Findings(plots=tuple(plots))),
        Part("blame", ((diagnose, (seed,)),), conclude_blame),
        Part("catch-up", ((measure, (seed,)),), conclude),
    )
