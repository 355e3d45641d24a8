"""Rows of ECHO's figures and tables beside the source's values, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from papers.echo.chains import transitions
from papers.echo.deviations import PERCENTS
from papers.echo.studies import (
    Figures,
    Tables,
    averages,
    cloud,
    december,
    levels,
    locality,
    one_rack,
    pair,
    server_over_time,
    subsets,
)
from papers.echo.systems import COMBINE, DAY_BINS, WEBSEARCH, window_of_bins
from papers.rows import (
    Findings,
    Part,
    ReproducedRow,
    UnreproducedRow,
    of_seeds,
    over_seeds,
    row,
)

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
SAME_WEEK: Final = (
    "what is generated is compared with the traffic that trained the chain, so only chance is left, which "
    "is small for so many requests; the source does not say what its deviations are made of"
)
ORDERS: Final = "seeds in which the order holds; a tie is no order"
LOADS_C1: Final[Mapping[str, tuple[float, ...]]] = {
    "A": (3.8, 4.2, 4.5, 5.5, 5.8),
    "B": (4.3, 5.6, 6.2, 6.3, 6.3),
    "C": (2.3, 2.5, 2.7, 3.1, 3.0),
    "D": (2.9, 3.4, 3.5, 4.2, 4.1),
}
TABLE_C2: Final[Mapping[str, tuple[float, ...]]] = {
    "Websearch": (7.2, 5.9, 4.2, 3.9, 3.8),
    "Combine": (8.5, 6.9, 5.3, 4.4, 4.4),
}
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
_SPANS: Final = (("Figure C.5", "months"), ("Figure C.7", "weeks"), ("Figure C.8", "days"))
SYSTEMS: Final = (WEBSEARCH, COMBINE)
# Traces are read by commands, not by reproductions, which draw all that they need.
REAL_TRAFFIC: Final = (
    UnreproducedRow(
        figure="Real traffic",
        metric="error of the map, the services' rates and the busiest pairs in the next hour",
        source="",
        reason="reproductions read no files: kwiken traffic fit and kwiken traffic judge say it of any "
        "traces, and docs/allocate/traffic.md has their figures for two real days",
    ),
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of drawn systems of each kind.
    """
    spread = partial(over_seeds, first_seed=FIRST_SEED)
    return (
        Part("counts", ((counts, ()),), _counts),
        spread("server", server_over_time, seeds, _server),
        spread("december", december, seeds, _december),
        spread("locality", locality, seeds, _locality, [(system,) for system in SYSTEMS]),
        spread("one rack", one_rack, seeds, _one_rack),
        spread("averages", averages, seeds, _averages, [(system,) for system in SYSTEMS]),
        spread("subsets", subsets, seeds, _subsets, [(system,) for system in SYSTEMS]),
        spread("pair", pair, seeds, _pair),
        spread("cloud", cloud, seeds, _cloud),
        spread("levels", levels, seeds, _levels),
        Part("real traffic", (), lambda _: Findings(missing=REAL_TRAFFIC)),
    )


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


def _counts(results: list[Any]) -> Findings:
    (found,) = results
    section = "Section C.5.2"
    return Findings(
        (
            row(section, "transitions at 100 racks, ten groups", found["racks"], source="1090"),
            row(section, "transitions at 100 racks, flat", found["flat"], source="10000"),
            row(section, "fewer transitions, %", round(found["fewer"], 1), source="90"),
            row(section, "fewer transitions with 20 groups, %", round(found["fewer with 20 groups"], 1)),
            row(section, "transitions between 4800 servers, ten groups", found["servers"]),
            row(section, "fewer transitions between servers, %", round(found["fewer servers"], 1)),
            row(
                section,
                "bins that the longest of ten chains reads, % of those that one chain reads",
                round(found["longest"], 1),
                source="less time",
                note="the source says that ten chains train in less time in parallel; time is that of the "
                "bins to be read, so the longest chain decides, and no clock is needed",
            ),
        )
    )


def _server(results: list[list[Figures]]) -> Findings:
    (runs,) = results
    return Findings(
        (
            _median(
                "Figure C.1", "mean deviation of the temporal model, %", _of(runs, "deviation", 100), "< 4.9"
            ),
            *(
                _median("Figure C.1", f"curves found, {family}", _of(runs, family), source)
                for family, source in (("gaussian", "3"), ("exponential", "1"), ("constant", "1"))
            ),
        )
    )


def _december(results: list[list[Figures]]) -> Findings:
    (runs,) = results
    rows = []
    for name in ("Websearch", "Combine", "Render"):
        for key, metric, figure, source in (
            ("weekend", "weekend over weekday, %", "Figure C.2a", "15 to 18"),
            ("late", "last two weeks of December over the others, %", "Figure C.2a", "10 to 15"),
        ):
            rows.append(_median(figure, f"{name}: {metric}", _of(runs, f"{name} {key}", 100), source))
        rows.append(_median("Figure C.4", f"{name}: peaks of a day", _of(runs, f"{name} peaks"), "2"))
        rows.append(_median("Figure C.2a", f"{name}: bands in a month", _of(runs, f"{name} bands"), "31"))
        rows.append(
            _median("Figure C.3", f"{name}: load of a server, MB/s", _of(runs, f"{name} load"), "", digits=4)
        )
    held = sum(one["Combine load"] > one["Render load"] > one["Websearch load"] for one in runs)
    rows.append(_held("Figure C.3", "busiest: Combine, Render, Websearch", held, len(runs)))
    return Findings(tuple(rows))


def _locality(results: list[list[Figures]]) -> Findings:
    rows = []
    for system, runs in zip(SYSTEMS, results, strict=True):
        name = system.name
        rows += [
            _median("Figure C.2b", f"{name}: share in the same rack, %", _of(runs, "rack", 100), "diagonal"),
            _median(
                "Figure C.2b",
                f"{name}: share in the same or next racks, %",
                _of(runs, "near", 100),
                "diagonal",
            ),
            _median(
                "Figure C.3", f"{name}: servers that send most far away, %", _of(runs, "talkers", 100), "few"
            ),
            *(
                _median(figure, f"{name}: distance of two {unit}, %", _of(runs, unit, 100), "")
                for figure, unit in (
                    ("Figure C.5", "months"),
                    ("Figure C.7", "weeks"),
                    ("Figure C.8", "days"),
                )
            ),
        ]
    web, combine = results
    rows += [
        _held(
            "Figure C.5",
            "Websearch: months are more alike than days",
            sum(one["months"] < one["days"] for one in web),
            len(web),
        ),
        _held(
            "Figure C.6",
            "Combine's months differ more than Websearch's",
            sum(a["months"] > b["months"] for a, b in zip(combine, web, strict=True)),
            len(web),
        ),
    ]
    return Findings(tuple(rows))


def _one_rack(results: list[list[Tables]]) -> Findings:
    (runs,) = results
    rows: list[ReproducedRow] = []
    for name, told in LOADS_C1.items():
        rows += _table("Table C.1", f"load {name}", runs, name, told, SAME_WEEK)
    most = [max(100 * max(one[name]) for name in LOADS_C1) for one in runs]
    rows.append(_median("Figure C.10", "largest deviation of any load, %", most, "< 7"))
    return Findings(tuple(rows))


def _averages(results: list[list[Tables]]) -> Findings:
    rows: list[ReproducedRow] = []
    for system, runs in zip(SYSTEMS, results, strict=True):
        rows += _table("Table C.2", system.name, runs, "averages", TABLE_C2[system.name], SAME_WEEK)
        for key, sources, note in (
            ("time", ("< 4", "< 7.3"), WORLD),
            ("space", ("< 5.2", "< 9.8"), PAIRS_LOST),
        ):
            for place, (name, source) in enumerate(zip(("p50", "p90"), sources, strict=True)):
                values = [100 * one[key][place] for one in runs]
                metric = f"{system.name}: error of servers, {key}, {name}, %"
                rows.append(_median("Figure C.16", metric, values, source, note))
        for place, key in enumerate(("time", "space")):
            values = [100 * one["above"][place] for one in runs]
            rows.append(_median("Figure C.16", f"{system.name}: servers above 10%, {key}, %", values, "few"))
    web, combine = results
    rows += [
        _held(
            "Table C.2",
            "the busiest servers deviate less than the quietest quarter: both systems",
            sum(
                a["averages"][-1] < a["averages"][0] and b["averages"][-1] < b["averages"][0]
                for a, b in zip(web, combine, strict=True)
            ),
            len(web),
        ),
        _held(
            "Table C.2",
            "the larger system, Websearch, deviates less",
            sum(a["averages"][-1] < b["averages"][-1] for a, b in zip(web, combine, strict=True)),
            len(web),
        ),
        _held(
            "Figure C.16",
            "space above time above averages, Combine",
            sum(one["space"][0] > one["time"][0] > one["averages"][-1] for one in combine),
            len(combine),
        ),
    ]
    return Findings(tuple(rows))


def _subsets(results: list[list[Tables]]) -> Findings:
    rows: list[ReproducedRow] = []
    for system, runs in zip(SYSTEMS, results, strict=True):
        for figure, key, told in (("Table C.3", "time", TABLE_C3), ("Table C.4", "space", TABLE_C4)):
            for number, values in enumerate(told[system.name], 1):
                note = BORDERS if figure == "Table C.4" and number > 2 else WORLD  # noqa: PLR2004
                rows += _table(figure, f"{system.name} S{number}", runs, f"{key} S{number}", values, note)
        for figure, key, source in (
            ("Figure C.11", "time", "< 7" if system is WEBSEARCH else "< 8"),
            ("Figure C.12", "space", "< 10" if system is WEBSEARCH else "< 11"),
        ):
            worst = [max(100 * one[f"{key} S{number}"][-1] for number in range(1, 5)) for one in runs]
            metric = f"{system.name}: largest deviation of a whole subset, %"
            rows.append(_median(figure, metric, worst, source))
    return Findings(tuple(rows))


def _pair(results: list[list[Figures]]) -> Findings:
    (runs,) = results
    rows = [
        _median("Figure C.13", f"pair of servers, both directions, {day}, %", _of(runs, day, 100), source)
        for day, source in (("weekday", "12.2"), ("weekend", "8.9"))
    ]
    held = sum(one[day] > one[f"{day} averages"] for one in runs for day in ("weekday", "weekend"))
    order = "a pair deviates more than the servers' averages, windows"
    rows.append(row("Figure C.13", f"{order} of {2 * len(runs)}", float(held), note=ORDERS))
    return Findings(tuple(rows))


def _cloud(results: list[list[Figures]]) -> Findings:
    (runs,) = results
    return Findings(
        (
            *(
                _median("Figure C.14", metric, _of(runs, key, 100), source)
                for metric, key, source in (
                    ("totals with the cloud node, % of the system's", "with", "kept"),
                    ("the same, of the worst server, %", "with worst", "kept"),
                    ("totals without the cloud node, %", "without", "too low"),
                )
            ),
        )
    )


def _levels(results: list[list[Figures]]) -> Findings:
    (runs,) = results
    rows = [
        _median("Figure C.15", f"deviation with {name}, %", _of(runs, key, 100), source)
        for key, name, source in (
            ("1", "one level", "28"),
            ("2", "two levels", "9.1"),
            ("3", "three levels", "4.4"),
            ("3 uniform", "three levels, uniform landing", ""),
        )
    ]
    held = sum(one["1"] > one["2"] > one["3"] for one in runs)
    return Findings((*rows, _held("Figure C.15", "each further level deviates less", held, len(runs))))


def _table(
    figure: str, name: str, runs: Sequence[Tables], key: str, told: Sequence[float], note: str = WORLD
) -> Iterator[ReproducedRow]:
    """Rows of a table over the least loaded 25 to 100% of the servers."""
    for place, (percent, source) in enumerate(zip(PERCENTS, told, strict=True)):
        values = [100 * one[key][place] for one in runs]
        yield _median(figure, f"{name}: deviation, {percent}% of the servers, %", values, f"{source:g}", note)


def _of(runs: Sequence[Figures], key: str, factor: float = 1.0) -> list[float]:
    return [factor * one[key] for one in runs]


def _median(
    figure: str, metric: str, values: Sequence[float], source: str, note: str = WORLD, *, digits: int = 2
) -> ReproducedRow:
    return ReproducedRow(
        figure=figure,
        metric=metric,
        source=source,
        ours=round(float(np.median(values)), digits),
        note=note,
        low=round(min(values), digits),
        high=round(max(values), digits),
    )


def _held(figure: str, order: str, held: int, seeds: int) -> ReproducedRow:
    """Row of an order: the number of seeds in which it holds; one that mostly fails says so."""
    return row(figure, f"{order}, {of_seeds(held, seeds)}", float(held), source=str(seeds), note=ORDERS)
