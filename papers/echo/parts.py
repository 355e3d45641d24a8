"""Tables of ECHO: the source's values, how ours are obtained, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from papers.echo.chains import transitions
from papers.echo.deviations import PERCENTS
from papers.echo.studies import Figures, averages, cloud, levels, server_over_time, subsets
from papers.echo.systems import COMBINE, DAY_BINS, WEBSEARCH, window_of_bins
from papers.figures.rows import Part, RequiredRow, unreproduced
from papers.figures.tables import StatedRow, Value, exact, level, levels as rows_of, once, order, study

# Of the reported runs. Those from 7000 and 7100 showed peaks and bands that were counted wrongly.
FIRST_SEED: Final = 7200
WORLD: Final = (
    "synthetic systems with the source's features, fixed before the first run on these seeds "
    "(docs/allocate/traffic.md); medians over the seeds, with the lowest and the highest"
)
PAIRS_LOST: Final = (
    "over all pairs of servers: the weights of pairs in different racks vary by half of their mean here, and "
    "the chain keeps none of them"
)
TABLE_C3: Final[Mapping[str, tuple[tuple[float, ...], ...]]] = {
    "Websearch": (
        (1.2, 2.4, 5.7, 6.8, 6.6),
        (3.9, 3.8, 4.7, 5.3, 5.2),
        (3.2, 3.6, 3.7, 4.1, 4.0),
        (7.2, 6.7, 6.8, 7.1, 7.0),
    ),
    "Combine": (
        (2.3, 3.5, 3.6, 4.4, 4.2),
        (4.2, 3.8, 3.6, 3.7, 3.8),
        (5.1, 4.8, 4.9, 4.6, 4.5),
        (7.6, 7.9, 8.1, 8.0, 8.0),
    ),
}
TABLE_C4: Final[Mapping[str, tuple[tuple[float, ...], ...]]] = {
    "Websearch": (
        (9.5, 5.2, 3.4, 3.2, 2.7),
        (6.2, 5.4, 4.9, 4.6, 4.6),
        (4.6, 4.2, 4.1, 4.3, 4.4),
        (10.8, 9.9, 7.6, 8.1, 8.2),
    ),
    "Combine": (
        (6.5, 4.9, 4.3, 2.4, 2.4),
        (3.4, 3.5, 4.7, 4.6, 4.5),
        (5.8, 6.7, 7.3, 6.3, 6.4),
        (11.2, 10.8, 8.2, 5.6, 5.4),
    ),
}
BORDERS: Final = "the source's row has one number too many, so the borders of its last subsets are uncertain"
SYSTEMS: Final = (WEBSEARCH, COMBINE)
# Traces are read by commands, not by reproductions, which draw all that they need.
REAL_TRAFFIC: Final = RequiredRow(
    "real traffic",
    "Real traffic",
    "error of the map, the services' rates and the busiest pairs in the next hour",
    reason="reproductions read no files: kwiken traffic fit and kwiken traffic judge say it of any traces, "
    "and docs/allocate/traffic.md has their figures for two real days",
)
Results = Mapping[Any, Mapping[str, Any]]  # of one seed: by system, figures by name


def counts() -> Figures:
    """Numbers of transitions at 100 racks, and of bins that the chains of the ten windows read in a week."""
    flat, racks = 100.0**2, float(transitions(100, 10, 48, 2))
    servers = float(transitions(100, 10, 48, 3))
    window = np.bincount(window_of_bins(14))
    return {
        "racks": racks,
        "flat": flat,
        "fewer": 100 * (1 - racks / flat),
        "fewer with 20 groups": 100 * (1 - transitions(100, 20, 48, 2) / flat),
        "servers": servers,
        "fewer servers": 100 * (1 - servers / 4800**2),
        "longest": 100 * float(window.max()) / (14 * DAY_BINS),
    }


_SECTION: Final = "Section C.5.2"
COUNTS: Final = (
    exact(_SECTION, "transitions at 100 racks, ten groups", "racks", "1090"),
    exact(_SECTION, "transitions at 100 racks, flat", "flat", "10000"),
    exact(_SECTION, "fewer transitions, %", "fewer", "about 90"),
    exact(_SECTION, "fewer transitions with 20 groups, %", "fewer with 20 groups"),
    exact(_SECTION, "transitions between 4800 servers, ten groups", "servers"),
    exact(_SECTION, "fewer transitions between servers, %", "fewer servers"),
    exact(
        _SECTION,
        "bins that the longest of ten chains reads, % of those that one chain reads",
        "longest",
        "less time",
        "the source says that ten chains train in less time in parallel; time is that of the bins to be "
        "read, so the longest chain decides, and no clock is needed",
    ),
)
SERVER: Final = (
    level("Figure C.1", "mean deviation of the temporal model, %", "deviation", "< 4.9", scale=100),
    *rows_of(
        "Figure C.1",
        (
            (f"curves found, {family}", family, source)
            for family, source in (("gaussian", "3"), ("exponential", "1"), ("constant", "1"))
        ),
    ),
)


def _table(
    figure: str, name: str, value: tuple[Any, ...], sources: Sequence[float], note: str = WORLD
) -> Iterator[StatedRow]:
    """Rows of a table over the least loaded 25 to 100% of the servers."""
    for number, (percent, source) in enumerate(zip(PERCENTS, sources, strict=True)):
        metric = f"{name}: deviation, {percent}% of the servers, %"
        yield level(figure, metric, (*value, number), f"{source:g}", note, scale=100)


def _averages() -> Iterator[StatedRow]:
    for system in SYSTEMS:
        name = system.name
        for key, sources, note in (
            ("time", ("< 4", "< 7.3"), WORLD),
            ("space", ("< 5.2", "< 9.8"), PAIRS_LOST),
        ):
            for number, (quantile, source) in enumerate(zip(("p50", "p90"), sources, strict=True)):
                metric = f"{name}: error of servers, {key}, {quantile}, %"
                yield level("Figure C.16", metric, (system, key, number), source, note, scale=100)
        for number, key in enumerate(("time", "space")):
            metric = f"{name}: servers above 10%, {key}, %"
            yield level("Figure C.16", metric, (system, "above", number), "few", scale=100)
    yield order(
        "Figure C.16",
        "space above time above averages, Combine",
        lambda by: by[COMBINE]["space"][0] > by[COMBINE]["time"][0] > by[COMBINE]["averages"],
    )


def _subsets() -> Iterator[StatedRow]:
    for system in SYSTEMS:
        name, web = system.name, system is WEBSEARCH
        for figure, key, table in (("Table C.3", "time", TABLE_C3), ("Table C.4", "space", TABLE_C4)):
            for number, sources in enumerate(table[name], 1):
                note = BORDERS if key == "space" and number > 2 else WORLD  # noqa: PLR2004 - of four subsets
                yield from _table(figure, f"{name} S{number}", (system, f"{key} S{number}"), sources, note)
        for figure, key, source in (
            ("Figure C.11", "time", "< 7" if web else "< 8"),
            ("Figure C.12", "space", "< 10" if web else "< 11"),
        ):
            metric = f"{name}: largest deviation of a whole subset, %"
            yield level(figure, metric, partial(_worst, system, key), source, scale=100)


def _worst(system: object, key: str, by: Results) -> float:
    return max(float(by[system][f"{key} S{number}"][-1]) for number in range(1, 5))


CLOUD_ENTRIES: Final[tuple[tuple[str, Value, str], ...]] = (
    ("totals with the cloud node, % of the system's", "with", "kept"),
    ("the same, of the worst server, %", "with worst", "kept"),
    ("totals without the cloud node, %", "without", "too low"),
)
LEVEL_ENTRIES: Final[tuple[tuple[str, Value, str], ...]] = (
    ("deviation with one level, %", "1", "28"),
    ("deviation with two levels, %", "2", "9.1"),
    ("deviation with three levels, %", "3", "4.4"),
    ("deviation with three levels, uniform landing, %", "3 uniform", ""),
)
CLOUD: Final = rows_of("Figure C.14", CLOUD_ENTRIES, scale=100)
LEVELS: Final = (
    *rows_of("Figure C.15", LEVEL_ENTRIES, scale=100),
    order("Figure C.15", "each further level deviates less", lambda one: one["1"] > one["2"] > one["3"]),
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of drawn systems of each kind.
    """
    spread = partial(study, seeds=seeds, first_seed=FIRST_SEED, note=WORLD)
    return (
        once("counts", counts, COUNTS),
        spread("server", server_over_time, rows=SERVER),
        spread("averages", averages, rows=_averages(), cases=SYSTEMS),
        spread("subsets", subsets, rows=_subsets(), cases=SYSTEMS),
        spread("cloud", cloud, rows=CLOUD),
        spread("levels", levels, rows=LEVELS),
        unreproduced((REAL_TRAFFIC,)),
    )
