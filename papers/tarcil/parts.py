"""Tables of Tarcil: the source's values, how ours are obtained, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from papers.figures.rows import Part, RequiredRow, unreproduced
from papers.figures.tables import StatedRow, exact, level, levels, once, order, study
from papers.tarcil.large_clusters import large, motivation
from papers.tarcil.short_tasks import (
    AGENTS,
    DURATIONS_S,
    LOADS,
    SIZES,
    beside_a_cache,
    by_agents,
    by_duration,
    by_size,
    queries,
    waits,
)
from papers.tarcil.states import adequate_shares, early_stops, formulas, guarantee_by_load, uniformity

FIRST_SEED: Final = 3000  # of the reported runs; what was tried out used seeds below 10
Values = dict[str, float]
WORLD: Final = (
    "tasks on units of one core, slowed by the product of what neighbours cost on ten resources; world, "
    "kinds and seeds were fixed before the first run on these seeds"
)
BLIND: Final = f"sampling here does not see platforms; {WORLD}"
FIGURES: Final = {"alone": "Figure 7.12a", "background": "Figure 7.12b", "unequal": "Figure 7.12c"}
POLICIES: Final = ("tarcil", "sampling", "centralised", "ideal")
GAINS: Final = (
    "time under sampling over that under Tarcil, for stages of 100 ms; sampling does not see platforms"
)
STANDARD_ERRORS: Final = 3.0
MAX_DRAWS, MIN_RANK = 12, 0.889
CACHE_US: Final = 200  # target of the source
MISSING: Final = (
    RequiredRow(
        "Figure 7.15, end",
        "Figure 7.15",
        "state at 16,000 s",
        "70, 18 below 0.9",
        "jobs here are over by then, as they arrive for 7,200 s; the state at 8,000 s is shown instead",
    ),
)
Results = Mapping[Any, Mapping[str, float]]  # of one seed: by case, figures by name


def states(seed: int) -> Values:
    """All figures on drawn states of one seed."""
    return {
        **uniformity(seed),
        **guarantee_by_load(seed),
        **adequate_shares(seed),
        **early_stops(seed),
    }


def _formulas() -> Iterator[StatedRow]:
    for size, source in ((8, ""), (16, ""), (32, "0.001"), (64, "1e-06")):
        yield exact("Figure 7.3", f"Pr[q < 0.8], R = {size}", f"failure {size}", source)
    section = "Section 7.3.3"
    yield exact(section, "draws for the best fifth, unloaded", "unloaded", "32")
    yield exact(section, "draws with 8 of the top 20 free of 100", "busy", "82")
    yield exact(section, "chance that 32 draws hit one of those 8", "hit 32")


def _states() -> Iterator[StatedRow]:
    for near, source in ((0.3, "many"), (0.8, "few")):
        yield level(
            "Figure 7.2", f"units with Q > T for T near {near}, %", f"adequate {near}", source, scale=100
        )
    for size in (8, 16, 32, 64):
        metric = f"largest distance from x^R at 70 to 75% load, R = {size}"
        yield level("Figure 7.4", metric, f"distance {size}", "minimal")
    for size in (8, 16):
        metric = f"largest distance from x^R over orders drawn anew, R = {size}"
        yield level("Figure 7.16", metric, f"distance {size}", "close")
    section = "Section 7.3.2"
    yield level(section, "excess of misses over x^R, loads 10 to 90%, standard errors", "excess")
    yield order(section, "guarantee within three standard errors", lambda f: f["excess"] <= STANDARD_ERRORS)
    better = "Better than 7.3.3"
    yield level(better, "mean draws with an early stop, 60% load", "draws", "31 or 83")
    yield level(better, "mean rank with an early stop", "rank", "0.889 at R = 8")
    yield level(better, "Pr[q < 0.8] with an early stop", "missed", "0.001")
    yield order(
        better,
        "at most 12 draws with a mean rank of 0.889",
        lambda f: f["draws"] <= MAX_DRAWS and f["rank"] >= MIN_RANK,
    )


def _sizes() -> Iterator[StatedRow]:
    for size in SIZES:
        for load in LOADS:
            at = f"R = {size}, {load:.0%} load"
            yield level("Figure 7.9", f"scheduling delay, {at}, ms", (size, f"delay {load}"))
            yield level("Figure 7.9", f"mean response, {at}, ms", (size, f"response {load}"))
            for quantile in (5, 25, 75, 95):
                yield level("Figure 7.9", f"p{quantile} of response, {at}, ms", (size, f"p{quantile} {load}"))
    for load in LOADS:
        metric = f"mean response, {load:.0%} load, ms"
        yield level("Figure 7.11a", metric, (8, f"response {load}"), "flat to 85%")
        yield level("Figure 7.11a", f"p95, {load:.0%} load, ms", (8, f"p95 {load}"), "> 250 from 80%")
        metric = f"tasks held for a unit, {load:.0%} load, %"
        yield level("Section 7.3.4", metric, (8, f"held {load}"), "only above 80 to 85%", scale=100)
    yield order(
        "Figure 7.9",
        "conflicts rise from R = 2 to 32 at 80% load",
        partial(_rise, SIZES[0], 32, "conflicts 0.8"),
    )


def _rise(first: int, last: int, key: str, by: Results) -> bool:
    return by[first][key] < by[last][key]


def _agents() -> Iterator[StatedRow]:
    for agents in AGENTS:
        for load in (0.5, 0.75, 0.9):
            at = f"{agents} agents, {load:.0%} load"
            metric = f"scheduling delay, {at}, ms"
            yield level("Figure 7.10", metric, (agents, f"delay {load}"), "least near 12")
            metric = f"tasks within 1.5 times their time, {at}, %"
            yield level("Figure 7.10", metric, (agents, f"met {load}"), "bad below 3", scale=100)
    yield order(
        "Figure 7.10",
        "conflicts rise from 1 to 12 agents at 75% load",
        partial(_rise, 1, 12, "conflicts 0.75"),
    )


DURATIONS: Final = levels(
    "Figure 7.11b",
    (
        (
            f"{what} over target, tasks of {work:g} s, 80% load",
            f"{what} {work}",
            "near 1" if work >= 1 else "",
        )
        for work in DURATIONS_S
        for what in ("mean", "p95")
    ),
)
WAITS: Final = level(
    "Figure 7.6",
    "mean error of the estimated wait, %",
    "error",
    "< 8",
    "renewal process of three buckets; estimated from the first half, measured on the second",
    scale=100,
)


def _queries() -> Iterator[StatedRow]:
    for variant, figure in FIGURES.items():
        for policy in POLICIES:
            note = BLIND if policy == "sampling" else None
            for word, key in (("mean", "mean"), ("p95", "p95")):
                metric = f"{variant}: {word} over own time, {policy}"
                yield level(figure, metric, (variant, f"{key} {policy}"), note=note)
            if policy != "centralised":  # whose delay is a constant
                yield level(figure, f"{variant}: mean delay, {policy}, ms", (variant, f"delay {policy}"))
        if variant != "alone":
            yield order(figure, f"{variant}: p95 Tarcil below sampling", partial(_below, variant), note=BLIND)
        yield order(figure, f"{variant}: delay sampling <= Tarcil", partial(_quicker, variant))
    section, case = "Section 7.1", "unequal"
    yield level(
        section,
        "mean gain over sampling, 100 ms, unequal and loaded, %",
        lambda by: by[case]["short sampling"] / by[case]["short tarcil"] - 1,
        "41",
        GAINS,
        scale=100,
    )
    yield level(
        section,
        "largest gain over sampling, times",
        lambda by: by[case]["best sampling"] / by[case]["short tarcil"],
        "2 to 3",
        GAINS,
    )


def _below(variant: str, by: Results) -> bool:
    return by[variant]["p95 tarcil"] < by[variant]["p95 sampling"]


def _quicker(variant: str, by: Results) -> bool:
    return by[variant]["delay sampling"] <= by[variant]["delay tarcil"]


def _cache() -> Iterator[StatedRow]:
    figure = "Figure 7.13"
    for policy in POLICIES[:3]:
        source = "above 200" if policy == "sampling" else "200 or less"
        yield level(figure, f"p99 of the cache, {policy}, us", f"p99 {policy}", source)
        for quantile in (50, 80, 95):
            yield level(figure, f"p{quantile} of response, {policy}, ms", f"p{quantile} {policy}")
    yield order(
        figure,
        "p99 of the cache: Tarcil <= 200 us < sampling",
        lambda f: f["p99 tarcil"] <= CACHE_US < f["p99 sampling"],
    )


MOTIVATION: Final = tuple(
    level(
        "Figure 7.1",
        f"{name}: {word} of performance, {manager}, %",
        f"{key} {name} {manager}",
        {"sampling": "80 to 95 short, 50 to 30 others", "tarcil": "near 100"}.get(manager, ""),
        scale=100,
    )
    for name in ("100 ms", "1 to 10 s", "10 s to 10 min")
    for manager in ("sampling", "centralised", "tarcil")
    for word, key in (("median", "median"), ("5th percentile", "p5"))
)
# Figure, metric, key, factor, and the source's values by manager.
LARGE: Final[tuple[tuple[str, str, str, float, Mapping[str, str]], ...]] = (
    ("Figure 7.14a", "mean performance, {}, %", "mean", 100, {"tarcil": "97", "centralised": "82"}),
    ("Figure 7.14a", "worst performance, {}, %", "worst", 100, {"tarcil": "92"}),
    (
        "Figure 7.14a",
        "jobs at 90% or more, {}, %",
        "near",
        100,
        {"tarcil": "92", "centralised": "48", "sampling": "22"},
    ),
    ("Figure 7.14b", "end of the last job, {}, s", "end", 1, {"sampling": "35000"}),
    ("Figure 7.14c", "busy units with Q >= 0.9 at 8,000 s, {}, %", "high", 100, {"tarcil": "most"}),
    ("Figure 7.14d", "jobs with a delay below 150 ms, {}, %", "quick", 100, {"tarcil": "> 80"}),
    ("Figure 7.14d", "median delay, {}, s", "delay", 1, {}),
    ("Figure 7.15", "busy units with Q < 0.4, {}, %", "low", 100, {"sampling": "70"}),
)
ORDERS: Final = (
    ("Figure 7.14a", "mean performance, Tarcil before centralised", "tarcil", "centralised"),
    ("Figure 7.14a", "mean performance, centralised before sampling", "centralised", "sampling"),
    ("Figure 7.14a", "mean performance, Tarcil before sampling", "tarcil", "sampling"),
    (
        "Better than 7.14a",
        "by prediction before the published code, equal R",
        "tarcil by prediction",
        "tarcil",
    ),
)


def _large() -> Iterator[StatedRow]:
    for manager in ("tarcil", "tarcil by prediction", "centralised", "sampling"):
        for figure, metric, key, scale, sources in LARGE:
            if (manager, key) != ("centralised", "delay"):  # a constant of the world
                source = sources.get(manager, "")
                yield level(figure, metric.format(manager), f"{key} {manager}", source, scale=scale)
    for figure, words, first, second in ORDERS:
        yield order(figure, words, partial(_higher_mean, first, second))


def _higher_mean(first: str, second: str, found: Mapping[str, float]) -> bool:
    return found[f"mean {first}"] > found[f"mean {second}"]


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of runs of each part.
    """
    spread = partial(study, seeds=seeds, first_seed=FIRST_SEED, note=WORLD)
    return (
        once("formulas", formulas, _formulas(), note="by the formula alone"),
        spread("states", states, rows=_states()),
        spread("sizes", by_size, rows=_sizes(), cases=SIZES),
        spread("agents", by_agents, rows=_agents(), cases=AGENTS),
        spread("durations", by_duration, rows=DURATIONS),
        spread("waits", waits, rows=(WAITS,)),
        spread("queries", queries, rows=_queries(), cases=FIGURES),
        spread("cache", beside_a_cache, rows=_cache()),
        spread("motivation", motivation, rows=MOTIVATION),
        spread("large", large, rows=_large()),
        unreproduced(MISSING),
    )
