"""Catch-up by threads and priority on a synthetic web search: Figure 5.7a."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kwiken._profile import Floats
from kwiken.levers._catch_up import Threads, hurry, prioritise
from kwiken.reproduction._rows import Findings, Part, Plot, Series, gain, percent, row

REQUESTS = 100_000
START_UP_MS = 10.0
PROTECTED_MS = 6.0
AGES = (0.8, 1.0, 1.25, 1.5, 2.0)  # of the median latency


@dataclass(frozen=True)
class WebSearch:
    """Requests through start-up, document look-up, transfer, snippets, transfer; (n,) milliseconds each."""

    lookup: Floats
    first_transfer: Floats
    snippets: Floats
    last_transfer: Floats


def draw(rng: np.random.Generator) -> WebSearch:
    """Log-normal work with a time-out, and transfers of which a few wait for a lost packet's time-out."""

    def transfer(lost: float) -> Floats:
        recovery = np.where(rng.random(REQUESTS) < lost, rng.uniform(60, 400, REQUESTS), 0.0)
        return rng.lognormal(math.log(6), 0.5, REQUESTS) + recovery

    return WebSearch(
        lookup=np.minimum(rng.lognormal(math.log(40), 0.8, REQUESTS), 400),
        first_transfer=transfer(0.02),
        snippets=np.minimum(rng.lognormal(math.log(25), 0.5, REQUESTS), 300),
        last_transfer=transfer(0.01),
    )


def play(
    search: WebSearch, late_after_ms: float, *, threads: tuple[str, ...], priority: bool
) -> tuple[Floats, float, float]:
    """Latency of the requests; extra thread-time and share of transfers at high priority."""
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
    """By arm, for each age: p99 cut, extra thread-time, share of transfers at high priority."""
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
    """Rows at the median as threshold, and a plot over thresholds."""
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


def part(seed: int) -> Part:
    """Figure 5.7a."""
    return Part("catch-up", ((measure, (seed,)),), conclude)
