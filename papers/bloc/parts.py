"""Rows of BLOC's figures beside the source's values, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from kwiken.storage.consolidation.moves import MoveRules
from papers.bloc.cluster import APPS, THINK_MS, drawn_world
from papers.bloc.packings import MANY, beside_exact, many_sets
from papers.bloc.pairs import (
    SHARES,
    day_of_model,
    forecasts,
    formulas,
    mirrored_pairs,
)
from papers.bloc.schemes import SCHEMES, run_scheme
from papers.rows import (
    Findings,
    Part,
    Plot,
    PlotSeries,
    ReproducedRow,
    median_row,
    over_seeds,
    row,
    verdict_row,
)

FIRST_SEED: Final = 5300  # of the reported runs; tried out: below 10; 5000 to 5200 on ran before corrections
Values = dict[str, float]
INTERVALS_MIN: Final = (10, 30, 60, 120)
PERFORMANCE: Final = (100, 95, 90, 80)
WORLD: Final = (
    "40 nodes, 40 instances and eight days of demand are drawn; the world, its constants and the seeds were "
    "fixed before the first run on these seeds"
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of drawn clusters and days.
    """
    spread = partial(over_seeds, first_seed=FIRST_SEED)
    return (
        Part("formulas", ((formulas, ()),), _formulas),
        spread("day", day_of_model, seeds, _day),
        spread("pairs", mirrored_pairs, seeds, _pairs),
        spread("exact", beside_exact, seeds, _exact),
        spread("many", many_sets, seeds, _many),
        spread("forecasts", forecasts, seeds, _forecasts),
        spread("schemes", scheme, seeds, _schemes, [(name,) for name in SCHEMES]),
        spread("intervals", by_interval, seeds, _intervals, [(minutes,) for minutes in INTERVALS_MIN]),
        spread("performance", by_performance, seeds, _performance, [(share,) for share in PERFORMANCE]),
        spread("flash", on_flash, seeds, _flash, [("margin",), ("none",)]),
    )


def scheme(name: str, seed: int) -> Values:
    """A day under one scheme, with the use of the ten applications."""
    world = drawn_world(seed)
    found = run_scheme(world, name)
    if name == "BLOC":
        use = world.demand / 400.0
        for kind in range(len(APPS)):
            found[f"mean {kind}"] = 100 * float(use[:, world.kind == kind].mean())
            found[f"p95 {kind}"] = 100 * float(np.quantile(use[:, world.kind == kind], 0.95))
    return found


def by_interval(minutes: int, seed: int) -> Values:
    """A day under BLOC at one length of the interval."""
    return run_scheme(drawn_world(seed), "BLOC", interval_s=minutes * 60.0)


def by_performance(share: int, seed: int) -> Values:
    """A day under BLOC when applications may lose some of their performance."""
    target = 5.0 if share == 100 else (THINK_MS + 5.0) / (share / 100) - THINK_MS  # noqa: PLR2004 - percent
    return run_scheme(drawn_world(seed), "BLOC", target_ms=target)


def on_flash(margin: str, seed: int) -> Values:
    """A day under BLOC on nodes of flash, with and without draining nodes."""
    moving = MoveRules() if margin == "margin" else MoveRules(drain=False)
    return run_scheme(drawn_world(seed, nvme=True), "BLOC", moving=moving)


def _over(
    figure: str, metric: str, results: Sequence[Values], key: str, source: str = "", note: str = WORLD
) -> ReproducedRow:
    """Median of one figure over the seeds, with the lowest and the highest."""
    return median_row(figure, metric, [each[key] for each in results], source, note)


def _formulas(results: list[Any]) -> Findings:
    (found,) = results
    exact = "by the formula alone"
    expected = ("100", "101", "104", "108.41", "130", "150", "169", "200")
    rows = [
        row(
            "Section B.6",
            f"prediction at A = {share:g}",
            round(found[f"A {share:g}"], 9),
            source=source,
            note=exact,
        )
        for share, source in zip(SHARES, expected, strict=True)
    ]
    rows += [
        row(
            "Figure B.4a",
            f"limit of {name} at 5 ms, % of rated",
            round(found[name], 2),
            source=source,
            note=exact,
        )
        for name, source in (("Websearch", "30"), ("Webmail", "70"))
    ]
    for fill in (0.5, 0.9):
        note = "simulated: a disk that is full by that share seeks 40% of it further; no curve is told"
        rows.append(
            row(
                "Figure B.4b",
                f"latency at capacity {fill:g} of full, ms",
                round(found[f"capacity {fill}"], 3),
                source="rises less than with bandwidth",
                note=note,
            )
        )
        rows.append(
            row(
                "Figure B.4b",
                f"latency at bandwidth {0.9 * fill:.2f} of rated, ms",
                round(found[f"bandwidth {fill}"], 3),
                note=note,
            )
        )
    return Findings(rows=tuple(rows))


def _day(results: list[list[Values]]) -> Findings:
    (found,) = results
    return Findings(
        rows=(
            _over("Figure B.2a", "mean deviation of the hourly rate over 24 h, %", found, "day", "3.8"),
            _over("Figure B.2b", "24 h in 15 min: times shorter", found, "times", "96"),
            _over("Figure B.2b", "24 h in 15 min: mean deviation of the rate by level, %", found, "level"),
            _over(
                "Figure B.2b",
                "24 h in 15 min: largest KS distance of gaps in a level",
                found,
                "gaps",
                "same gaps",
            ),
        )
    )


def _pairs(results: list[list[Values]]) -> Findings:
    (found,) = results
    note = "45 pairs of ten drawn applications on a simulated array of four disks; " + WORLD
    return Findings(
        rows=(
            _over("Figure B.3", "pairs that survive trimming, %", found, "kept", "390 of 1024", note),
            _over("Figure B.3", "least interference of a pair, %", found, "least", "0", note),
            _over("Figure B.3", "most interference of a pair, %", found, "most", "85", note),
            _over("Figure B.3", "mean error of the mirrors, points", found, "mean error", "3.8", note),
            _over("Figure B.3", "largest error of the mirrors, points", found, "largest error", "11.8", note),
            _over("Figure B.3", "pairs that mirrors over-estimate, %", found, "over", "most", note),
        )
    )


def _exact(results: list[list[Values]]) -> Findings:
    (found,) = results
    note = "8 to 12 drawn objects, six draws for a seed; set partition by SciPy's milp over all sets that fit"
    rows = [
        _over("Packing", f"nodes, {name}", found, name, note=note)
        for name in ("exact", "next", "first", "best", "search")
    ]
    rows += [
        verdict_row(
            "Packing",
            "first fit needs no more nodes than next fit",
            [each["first"] <= each["next"] for each in found],
        ),
        verdict_row(
            "Packing",
            "the search needs no more nodes than first or best fit",
            [each["search"] <= min(each["first"], each["best"]) for each in found],
        ),
    ]
    return Findings(rows=tuple(rows))


def _many(results: list[list[Values]]) -> Findings:
    (found,) = results
    note = f"{MANY} drawn data sets, a fifth of them with two replicas, on 600 equal nodes in three zones"
    words = {"bound": "that no packing can go below"}
    return Findings(
        rows=(
            *(
                _over("Packing", f"{MANY} data sets: nodes, {words.get(name, name)}", found, name, note=note)
                for name in ("first", "best", "search", "bound")
            ),
            verdict_row(
                "Packing",
                f"{MANY} data sets: the search needs fewer nodes than first and best fit",
                [each["search"] < min(each["first"], each["best"]) for each in found],
            ),
        )
    )


def _forecasts(results: list[list[Values]]) -> Findings:
    (found,) = results
    return Findings(
        rows=(
            _over("Forecast", "intervals covered by the published rule, %", found, "rule"),
            _over("Forecast", "intervals covered by the quantile 0.95, %", found, "quantile", "95"),
        )
    )


def _schemes(results: list[list[Values]]) -> Findings:
    by = dict(zip(SCHEMES, results, strict=True))
    told = {
        "BLOC": ("3.18 (3.09)", "98.2"),
        "Capacity": ("less than BLOC", "63.2"),
        "B-max": ("least", "near 100"),
        "B-dyn": ("more than B-max", "near 100"),
        "B-fine": ("more than B-dyn", "lower"),
        "Oracle": ("no less than BLOC", ""),
    }
    rows = []
    for name in SCHEMES:
        rows.append(_over("Figure B.6a", f"energy saving, {name}, times", by[name], "saving", told[name][0]))
        rows.append(_over("Figure B.6a", f"throughput, {name}, %", by[name], "throughput", told[name][1]))
    for name, source in (("Capacity", "about 2"), ("B-max", ""), ("BLOC", "about 1"), ("Oracle", "")):
        rows.append(
            _over("Figure B.6b", f"mean latency over isolation, {name}", by[name], "latency mean", source)
        )
        rows.append(_over("Figure B.6d", f"p99 of latency over isolation, {name}", by[name], "latency p99"))
    bloc = by["BLOC"]
    rows.append(_over("Figure B.7", "active time of a node, change, %", bloc, "active time", "-61"))
    for kind, app in enumerate(APPS):
        rows += [
            _over(
                "Figure B.5", f"bandwidth used, mean, {app.name}, %", bloc, f"mean {kind}", "single digits"
            ),
            _over("Figure B.5", f"bandwidth used, p95, {app.name}, %", bloc, f"p95 {kind}", "much higher"),
            _over("Figure B.8", f"throughput lost, {app.name}, %", bloc, f"loss {kind}", "below 3"),
            _over("Figure B.8", f"energy saving, {app.name}, times", bloc, f"saving {kind}", "2.2 to 3.98"),
        ]
    rise = [{"use": 100 * (each["use"] / each["use before"] - 1)} for each in bloc]
    night = [
        {
            "night": 100 * (each["use night"] / each["use night before"] - 1),
            "day": 100 * (each["use day"] / each["use day before"] - 1),
        }
        for each in bloc
    ]
    rows += [
        _over("Figure B.9", "use of active nodes, change, %", rise, "use", "+45.7"),
        _over("Figure B.9", "use of active nodes at night, change, %", night, "night", "rises most"),
        _over("Figure B.9", "use of active nodes by day, change, %", night, "day"),
        _over("Figure B.10", "bandwidth for migration, mean, %", bloc, "migration mean", "well below 5"),
        _over("Figure B.10", "bandwidth for migration, most, %", bloc, "migration most", "below 5"),
        _over("Figure B.10", "hour in which most is moved", bloc, "peak hour", "morning, evening"),
        _over("Figure B.10", "moves that did not fit their interval", bloc, "late"),
    ]
    count = len(bloc)

    def more(first: str, second: str, key: str) -> list[bool]:
        return [by[first][seed][key] > by[second][seed][key] for seed in range(count)]

    rows += [
        verdict_row("Figure B.6a", "saving B-max < B-dyn", more("B-dyn", "B-max", "saving")),
        verdict_row("Figure B.6a", "saving B-dyn < B-fine", more("B-fine", "B-dyn", "saving")),
        verdict_row("Figure B.6a", "saving B-dyn < BLOC", more("BLOC", "B-dyn", "saving")),
        verdict_row("Figure B.6a", "saving Capacity < BLOC", more("BLOC", "Capacity", "saving")),
        verdict_row("Figure B.6a", "saving BLOC < Oracle", more("Oracle", "BLOC", "saving")),
        verdict_row(
            "Figure B.6a",
            "throughput Capacity is the lowest",
            [
                all(by["Capacity"][seed]["throughput"] < by[name][seed]["throughput"] for name in SCHEMES[1:])
                for seed in range(count)
            ],
        ),
        verdict_row("Figure B.6a", "throughput B-fine < BLOC", more("BLOC", "B-fine", "throughput")),
        verdict_row(
            "Figure B.8",
            "throughput lost is below 3% for each application",
            [all(each[f"loss {kind}"] < 3 for kind in range(len(APPS))) for each in bloc],  # noqa: PLR2004
        ),
        verdict_row(
            "Figure B.8",
            "the application with the most bandwidth saves less than the one with the least",
            [_by_bandwidth(each) for each in bloc],
        ),
        verdict_row(
            "Figure B.9",
            "use rises more at night than by day",
            [each["night"] > each["day"] for each in night],
        ),
    ]
    plot = Plot(
        "Figure B.6a",
        "energy saving and throughput",
        "energy saving, times",
        "throughput, %",
        tuple(
            PlotSeries(
                name,
                [each["saving"] for each in by[name]],
                [each["throughput"] for each in by[name]],
                points=True,
            )
            for name in SCHEMES
        ),
    )
    return Findings(rows=tuple(rows), plots=(plot,))


def _by_bandwidth(found: Values) -> bool:
    means = [found[f"mean {kind}"] for kind in range(len(APPS))]
    most, least = int(np.argmax(means)), int(np.argmin(means))
    return found[f"saving {most}"] < found[f"saving {least}"]


def _intervals(results: list[list[Values]]) -> Findings:
    rows = []
    for minutes, found in zip(INTERVALS_MIN, results, strict=True):
        source = "best" if minutes == 30 else "worse in both"  # noqa: PLR2004 - the published choice
        rows.append(_over("Figure B.11a", f"energy saving at {minutes} min, times", found, "saving", source))
        rows.append(_over("Figure B.11a", f"throughput at {minutes} min, %", found, "throughput", source))
    half = results[INTERVALS_MIN.index(30)]
    for minutes, found in zip(INTERVALS_MIN, results, strict=True):
        if found is half:
            continue
        rows.append(
            verdict_row(
                "Figure B.11a",
                f"30 min is better than {minutes} min in saving or throughput",
                [
                    one["saving"] > two["saving"] or one["throughput"] > two["throughput"]
                    for one, two in zip(half, found, strict=True)
                ],
            )
        )
    return Findings(rows=tuple(rows))


def _performance(results: list[list[Values]]) -> Findings:
    rows = [
        _over(
            "Figure B.11b", f"energy saving at {share}% of the performance, times", found, "saving", "rises"
        )
        for share, found in zip(PERFORMANCE, results, strict=True)
    ]
    rows.append(
        verdict_row(
            "Figure B.11b",
            "saving at 80% is above that at 100%",
            [low["saving"] > full["saving"] for low, full in zip(results[-1], results[0], strict=True)],
        )
    )
    return Findings(rows=tuple(rows))


def _flash(results: list[list[Values]]) -> Findings:
    note = "nodes of flash of today: eight times the bandwidth, idle power a third of the peak; " + WORLD
    drained, kept = results
    return Findings(
        rows=(
            _over("Beyond HDDs", "energy saving, BLOC, times", drained, "saving", note=note),
            _over("Beyond HDDs", "throughput, BLOC, %", drained, "throughput", note=note),
            _over(
                "Beyond HDDs", "energy saving, BLOC without draining nodes, times", kept, "saving", note=note
            ),
            _over("Beyond HDDs", "bandwidth for migration, mean, %", drained, "migration mean", note=note),
        )
    )
