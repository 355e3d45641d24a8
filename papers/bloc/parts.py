"""Tables of BLOC: the source's values, how ours are obtained, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from kwiken.storage.consolidation.moves import MoveRules
from papers.bloc.cluster import APPS, THINK_MS, drawn_world
from papers.bloc.packings import MANY, beside_exact, many_sets
from papers.bloc.pairs import SHARES, day_of_model, forecasts, formulas, mirrored_pairs
from papers.bloc.schemes import SCHEMES, run_scheme
from papers.figures.bounds import Bound
from papers.figures.rows import Part
from papers.figures.tables import PlotLine, PlotOf, StatedRow, exact, level, levels, once, order, study

FIRST_SEED: Final = 5300  # of the reported runs; tried out: below 10; 5000 to 5200 on ran before corrections
Values = dict[str, float]
INTERVALS_MIN: Final = (10, 30, 60, 120)
CHOSEN_MIN: Final = 30  # interval of the source
PERFORMANCE: Final = (100, 95, 90, 80)
KINDS: Final = range(len(APPS))
MAX_LOSS: Final = 3.0  # percent of an application's throughput
WORLD: Final = (
    "40 nodes, 40 instances and eight days of demand are drawn; the world, its constants and the seeds were "
    "fixed before the first run on these seeds"
)
DISK: Final = "simulated: a disk that is full by that share seeks 40% of it further; no curve is told"
PAIRS: Final = "45 pairs of ten drawn applications on a simulated array of four disks; " + WORLD
FEW: Final = (
    "8 to 12 drawn objects, six draws for a seed; set partition by SciPy's milp over all sets that fit"
)
MANY_NOTE: Final = (
    f"{MANY} drawn data sets, a fifth of them with two replicas, on 600 equal nodes in three zones"
)
FLASH: Final = "nodes of flash of today: eight times the bandwidth, idle power a third of the peak; " + WORLD


def _formulas() -> Iterator[StatedRow]:
    expected = ("100", "101", "104", "108.41", "130", "150", "169", "200")
    for share, source in zip(SHARES, expected, strict=True):
        yield exact("Section B.6", f"prediction at A = {share:g}", f"A {share:g}", source)
    for name, source in (("Websearch", "30"), ("Webmail", "70")):
        yield exact("Figure B.4a", f"limit of {name} at 5 ms, % of rated", name, source)
    for fill in (0.5, 0.9):
        metric = f"latency at capacity {fill:g} of full, ms"
        yield level(
            "Figure B.4b", metric, f"capacity {fill}", "rises less than with bandwidth", DISK, spread=False
        )
        metric = f"latency at bandwidth {0.9 * fill:.2f} of rated, ms"
        yield level("Figure B.4b", metric, f"bandwidth {fill}", note=DISK, spread=False)


DAY: Final = (
    level("Figure B.2a", "mean deviation of the hourly rate over 24 h, %", "day", "3.8"),
    *levels(
        "Figure B.2b",
        (
            ("24 h in 15 min: times shorter", "times", "96"),
            ("24 h in 15 min: mean deviation of the rate by level, %", "level", ""),
            ("24 h in 15 min: largest KS distance of gaps in a level", "gaps", "same gaps"),
        ),
    ),
)
MIRRORS: Final = levels(
    "Figure B.3",
    (
        ("pairs that survive trimming, %", "kept", "390 of 1024"),
        ("least interference of a pair, %", "least", "0"),
        ("most interference of a pair, %", "most", "85"),
        ("mean error of the mirrors, points", "mean error", "3.8"),
        ("largest error of the mirrors, points", "largest error", "11.8"),
        ("pairs that mirrors over-estimate, %", "over", "most"),
    ),
    note=PAIRS,
)
EXACT: Final = (
    *levels(
        "Packing",
        ((f"nodes, {name}", name, "") for name in ("exact", "next", "first", "best", "search")),
        note=FEW,
    ),
    order("Packing", "first fit needs no more nodes than next fit", lambda one: one["first"] <= one["next"]),
    order(
        "Packing",
        "the search needs no more nodes than first or best fit",
        lambda one: one["search"] <= min(one["first"], one["best"]),
    ),
)
MANY_ROWS: Final = (
    *levels(
        "Packing",
        (
            (f"{MANY} data sets: nodes, {words}", name, "")
            for name, words in (
                *((one, one) for one in ("first", "best", "search")),
                ("bound", "that no packing can go below"),
            )
        ),
        note=MANY_NOTE,
    ),
    order(
        "Packing",
        f"{MANY} data sets: the search needs fewer nodes than first and best fit",
        lambda one: one["search"] < min(one["first"], one["best"]),
    ),
)
FORECASTS: Final = levels(
    "Forecast",
    (
        ("intervals covered by the published rule, %", "rule", ""),
        ("intervals covered by the quantile 0.95, %", "quantile", "95"),
    ),
)
Results = Mapping[Any, Mapping[str, float]]  # of one seed: by case, figures by name


def _more(first: str, second: str, key: str) -> Callable[[Results], bool]:
    return lambda by: by[first][key] > by[second][key]


def _change(new: str, old: str) -> Callable[[Results], float]:
    """Change of a figure of BLOC from another, in percent."""
    return lambda by: 100 * (by["BLOC"][new] / by["BLOC"][old] - 1)


NIGHT: Final = _change("use night", "use night before")
BY_DAY: Final = _change("use day", "use day before")


def _by_bandwidth(by: Results) -> bool:
    found = by["BLOC"]
    means = [found[f"mean {kind}"] for kind in KINDS]
    most, least = int(np.argmax(means)), int(np.argmin(means))
    return found[f"saving {most}"] < found[f"saving {least}"]


def _schemes() -> Iterator[StatedRow]:
    for name, saving, throughput in (
        ("BLOC", "3.18 (3.09)", "98.2"),
        ("Capacity", "less than BLOC", "63.2"),
        ("B-max", "least", "near 100"),
        ("B-dyn", "more than B-max", "near 100"),
        ("B-fine", "more than B-dyn", "lower"),
        ("Oracle", "no less than BLOC", ""),
    ):
        yield level("Figure B.6a", f"energy saving, {name}, times", (name, "saving"), saving)
        yield level("Figure B.6a", f"throughput, {name}, %", (name, "throughput"), throughput)
    yield level("Figure B.7", "active time of a node, change, %", ("BLOC", "active time"), "-61")
    for kind, app in enumerate(APPS):
        lost, saved = (("BLOC", f"{key} {kind}") for key in ("loss", "saving"))
        yield level("Figure B.8", f"throughput lost, {app.name}, %", lost, "below 3")
        yield level("Figure B.8", f"energy saving, {app.name}, times", saved, "2.2 to 3.98")
    yield from levels(
        "Figure B.9",
        (
            ("use of active nodes, change, %", _change("use", "use before"), "+45.7"),
            ("use of active nodes at night, change, %", NIGHT, "rises most"),
            ("use of active nodes by day, change, %", BY_DAY, ""),
        ),
    )
    mean = "bandwidth for migration, mean, %"
    yield level("Figure B.10", mean, ("BLOC", "migration mean"), "well below 5", bound=Bound(high=5))
    yield from levels(
        "Figure B.10",
        (
            ("bandwidth for migration, most, %", ("BLOC", "migration most"), "below 5"),
            ("hour in which most is moved", ("BLOC", "peak hour"), "morning, evening"),
            ("moves that did not fit their interval", ("BLOC", "late"), ""),
        ),
    )
    for less, more, key in (
        ("B-max", "B-dyn", "saving"),
        ("B-dyn", "B-fine", "saving"),
        ("B-dyn", "BLOC", "saving"),
        ("Capacity", "BLOC", "saving"),
        ("BLOC", "Oracle", "saving"),
        ("B-fine", "BLOC", "throughput"),
    ):
        yield order("Figure B.6a", f"{key} {less} < {more}", _more(more, less, key))
    yield order(
        "Figure B.6a",
        "throughput Capacity is the lowest",
        lambda by: all(by["Capacity"]["throughput"] < by[name]["throughput"] for name in SCHEMES[1:]),
    )
    yield order(
        "Figure B.8",
        "throughput lost is below 3% for each application",
        lambda by: all(by["BLOC"][f"loss {kind}"] < MAX_LOSS for kind in KINDS),
    )
    yield order(
        "Figure B.8",
        "the application with the most bandwidth saves less than the one with the least",
        _by_bandwidth,
    )
    yield order("Figure B.9", "use rises more at night than by day", lambda by: NIGHT(by) > BY_DAY(by))


SAVINGS: Final = PlotOf(
    "Figure B.6a",
    "energy saving and throughput",
    "energy saving, times",
    "throughput, %",
    tuple(PlotLine(name, (name, "saving"), (name, "throughput"), points=True) for name in SCHEMES),
)


def _intervals() -> Iterator[StatedRow]:
    figure = "Figure B.11a"
    for minutes in INTERVALS_MIN:
        source = "best" if minutes == CHOSEN_MIN else "worse in both"
        yield level(figure, f"energy saving at {minutes} min, times", (minutes, "saving"), source)
        yield level(figure, f"throughput at {minutes} min, %", (minutes, "throughput"), source)
    for minutes in INTERVALS_MIN:
        if minutes != CHOSEN_MIN:
            words = f"{CHOSEN_MIN} min is better than {minutes} min in saving or throughput"
            yield order(figure, words, partial(_better_in_either, minutes))


def _better_in_either(minutes: int, by: Results) -> bool:
    return any(by[CHOSEN_MIN][key] > by[minutes][key] for key in ("saving", "throughput"))


PERFORMED: Final = (
    *levels(
        "Figure B.11b",
        (
            (f"energy saving at {share}% of the performance, times", (share, "saving"), "rises")
            for share in PERFORMANCE
        ),
    ),
    order(
        "Figure B.11b",
        "saving at 80% is above that at 100%",
        lambda by: by[PERFORMANCE[-1]]["saving"] > by[PERFORMANCE[0]]["saving"],
    ),
)
ON_FLASH: Final = levels(
    "Beyond HDDs",
    (
        ("energy saving, BLOC, times", ("margin", "saving"), ""),
        ("throughput, BLOC, %", ("margin", "throughput"), ""),
        ("energy saving, BLOC without draining nodes, times", ("none", "saving"), ""),
        ("bandwidth for migration, mean, %", ("margin", "migration mean"), ""),
    ),
    note=FLASH,
)


def scheme(name: str, seed: int) -> Values:
    """A day under one scheme, with the use of the ten applications."""
    world = drawn_world(seed)
    found = run_scheme(world, name)
    if name == "BLOC":
        use = world.demand / 400.0
        for kind in range(len(APPS)):
            found[f"mean {kind}"] = 100 * float(use[:, world.kind == kind].mean())
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


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of drawn clusters and days.
    """
    spread = partial(study, seeds=seeds, first_seed=FIRST_SEED, note=WORLD)
    return (
        once("formulas", formulas, _formulas(), note="by the formula alone"),
        spread("day", day_of_model, rows=DAY),
        spread("pairs", mirrored_pairs, rows=MIRRORS),
        spread("exact", beside_exact, rows=EXACT),
        spread("many", many_sets, rows=MANY_ROWS),
        spread("forecasts", forecasts, rows=FORECASTS),
        spread("schemes", scheme, rows=_schemes(), cases=SCHEMES, plots=(SAVINGS,)),
        spread("intervals", by_interval, rows=_intervals(), cases=INTERVALS_MIN),
        spread("performance", by_performance, rows=PERFORMED, cases=PERFORMANCE),
        spread("flash", on_flash, rows=ON_FLASH, cases=("margin", "none")),
    )
