"""Rows of the storage model's figures beside the source's values, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from papers.rows import (
    Findings,
    Part,
    Plot,
    PlotSeries,
    ReproducedRow,
    RequiredRow,
    median_row,
    over_seeds,
    row,
    unreproduced,
    verdict_row,
)
from papers.storage_model.studies import CACHES, caches_of, defragmented
from papers.storage_model.threads import planted_types
from papers.storage_model.validation import (
    INTENSITIES,
    LEVELS,
    MAX_LEVELS,
    MICRO,
    by_application,
    by_intensity,
    day_rates,
    feature_matrix,
    messenger,
    micro_tests,
    sizes_of_tree,
    thread_shares,
    total_of_exchange,
)
from papers.worlds.disks.applications import APPLICATIONS

FIRST_SEED: Final = 6200  # of the reported runs; 6000 and 6100 on ran before the generator changed
Values = dict[str, float]
WORLD: Final = (
    "traces are drawn from the published shares, devices are simulated; constants and seeds were fixed "
    "before the first run on these seeds"
)
TABLE_A8: Final = {
    "Messenger": (9.3, 35.7),
    "Email": (13.7, 33.7),
    "Search": (8.5, 24.5),
    "UserContent": (5.5, 25.0),
    "D-Process": (26.8, 54.4),
    "DisplayAds": (4.3, 19.2),
    "TPCC": (2.8, 29.9),
    "TPCE": (8.2, 22.4),
    "TPCH": (35.5, 47.2),
    "Exchange": (16.8, 31.9),
}
TABLE_A7: Final = {
    "TPCH": "92.7/6.2/1.3/0.0",
    "TPCE": "89.8/8.4/1.7/0.3",
    "D-Process": "73.3/18.8/0.0/0.0",
}
REAL: Final = RequiredRow(
    "R17",
    "Section 10",
    "real traces: mix, states, gaps and hits of the half that was not trained on",
    reason="files are read by verbs alone: kwiken storage judge prints these rows for any trace",
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of drawn traces of each application.
    """
    spread = partial(over_seeds, first_seed=FIRST_SEED)
    numbers = [(number,) for number in range(len(APPLICATIONS))]
    return (
        Part("sizes", ((sizes_of_tree, ()),), _sizes),
        spread("types", planted_types, seeds, _types),
        spread("exchange", total_of_exchange, seeds, _exchange),
        spread("messenger", messenger, seeds, _messenger),
        spread("applications", by_application, seeds, _applications, numbers),
        spread("intensity", by_intensity, seeds, _intensity),
        spread("day", day_rates, seeds, _day),
        spread("threads", thread_shares, seeds, _threads),
        spread("features", feature_matrix, seeds, _features),
        spread("micro", micro_tests, seeds, _micro),
        spread("caches", caches_of, seeds, _caches, numbers),
        spread("defragmented", defragmented, seeds, _defragmented, numbers),
        unreproduced((REAL,)),
    )


def _over(
    figure: str, metric: str, results: Sequence[Values], key: str, source: str = "", note: str = WORLD
) -> ReproducedRow:
    """Median of one figure over the seeds, with the lowest and the highest."""
    return median_row(figure, metric, [each[key] for each in results], source, note)


def _sizes(results: list[Any]) -> Findings:
    (found,) = results
    exact = "by the formula alone"
    told = {10: ("1048576", "5242876", "1099511627776, printed without a digit")}
    rows = []
    for level in LEVELS:
        sources = told.get(level, (str(4**level), str(5 * 4**level - 4), str(16**level)))
        for kind, source in zip(("states", "hierarchical", "flat"), sources, strict=True):
            rows.append(
                row(
                    "Table A.1",
                    f"{kind}, {level} levels",
                    found[f"{kind} {level}"],
                    source=source,
                    note=exact,
                )
            )
    planted = "a trace that is planted with this transition, as the model has learned it"
    rows += [
        row(
            "Figure A.1",
            "4 KB random read from state 1 to 2, %",
            round(found["probability"], 2),
            source="11.8",
            note=planted,
        ),
        row("Figure A.1", "gap of this transition, ms", round(found["gap"], 3), source="3", note=planted),
    ]
    return Findings(rows=tuple(rows))


def _types(results: list[list[Values]]) -> Findings:
    (found,) = results
    return Findings(
        rows=(
            _over("Table A.2", "planted threads whose type is found, %", found, "types", "100"),
            _over("Table A.2", "types found", found, "kinds", "6"),
        )
    )


def _exchange(results: list[list[Values]]) -> Findings:
    (found,) = results
    rows = [
        _over("Table A.3", "Exchange, writes for one read", found, "read", "2.6"),
        _over("Table A.3", "Exchange, sequential, %", found, "sequential", "13.7"),
        _over("Table A.3", "Exchange, I/Os a second", found, "rate", "134.0"),
    ]
    rows += [
        _over("Table A.3", f"Exchange, state {state + 1}, %", found, f"state {state}", source)
        for state, source in enumerate(("42.3", "55.8", "1.9", "0.1"))
    ]
    return Findings(rows=tuple(rows))


def _messenger(results: list[list[Values]]) -> Findings:
    (found,) = results
    told = {
        "read:write": ("2.8", "2.8", "0"),
        "random I/Os, %": ("90.7", "89.4", "-1.38"),
        "blocks of 8 KB, %": ("87", "88", "0.1 to 1"),
        "blocks of 64 KB, %": ("7.4", "7.8", "0.1 to 1"),
        "mean gap, ms": ("4.63", "4.78", "1.1 (3.24 recomputed)"),
        "throughput, I/Os a second": ("255.14", "263.27", "3.1"),
        "mean latency, ms": ("8.09", "8.48", "4.8"),
    }
    rows = []
    for name, sources in told.items():
        for kind, source in zip(("original", "synthetic", "deviation"), sources, strict=True):
            unit = f"{name}, {kind}" if kind != "deviation" else f"{name.partition(',')[0]}, deviation, %"
            rows.append(_over("Table A.4", unit, found, f"{kind} {name}", source))
    rows.append(
        _over("Table A.4", "weights of threads, largest deviation, points", found, "weights", "0 to 0.05")
    )
    return Findings(rows=tuple(rows))


def _applications(results: list[list[Values]]) -> Findings:
    rows = []
    for level in (1, 2, 3):
        worst = [
            {"flat": max(found[seed][f"flat {level}"] for found in results)}
            for seed in range(len(results[0]))
        ]
        rows.append(
            _over(
                "Section A.3.2",
                f"throughput of hierarchical and flat, {level} levels, largest difference, %",
                worst,
                "flat",
                "within 5",
            )
        )
    for app, found in zip(APPLICATIONS, results, strict=True):
        rows.append(
            _over("Figure A.4", f"throughput deviation, {app.name}, %", found, "throughput", "below 5")
        )
        rows.append(_over("Figure A.4", f"levels chosen, {app.name}", found, "levels", "1 to 3 mostly"))
    seeds = range(len(results[0]))
    both = [
        {
            "most": max(max(found[seed]["throughput"], found[seed]["latency"]) for found in results),
            "mean": float(
                np.mean([(found[seed]["throughput"], found[seed]["latency"]) for found in results])
            ),
            "again": max(found[seed]["again"] for found in results),
        }
        for seed in seeds
    ]
    rows += [
        _over("Figure A.4", "performance deviation, largest of ten, %", both, "most", "6.7"),
        _over("Figure A.4", "performance deviation, mean of ten, %", both, "mean", "3.38"),
        _over("Section A.4.4", "difference of a second run, largest of ten, %", both, "again", "below 1"),
    ]
    for level in range(1, MAX_LEVELS + 1):
        rates = [
            {"rate": float(np.mean([found[seed][f"rate {level}"] for found in results]))} for seed in seeds
        ]
        rows.append(
            _over("Figure A.5", f"I/Os a second of a busy disk, mean of ten, {level} levels", rates, "rate")
        )
    change = [{"change": max(found[seed]["change"] for found in results)} for seed in seeds]
    rows.append(
        _over("Figure A.5", "change at the chosen level, largest of ten, %", change, "change", "below 2")
    )
    return Findings(rows=tuple(rows))


def _intensity(results: list[list[Values]]) -> Findings:
    (found,) = results
    names = [f"{1 / scale:g}" for scale in INTENSITIES]
    rows = [
        _over("Figure A.3", f"I/Os a second served at intensity {name}", found, name, "levels off")
        for name in names
    ]
    rows.append(
        verdict_row(
            "Figure A.3",
            "the last doubling of the intensity adds less than a tenth of the first one",
            [each[names[-1]] - each[names[-2]] < 0.1 * (each[names[1]] - each[names[0]]) for each in found],
        )
    )
    plot = Plot(
        "Figure A.3",
        "rate that a disk serves",
        "intensity",
        "I/Os a second",
        (
            PlotSeries(
                "served",
                [1 / scale for scale in INTENSITIES],
                [float(np.median([each[name] for each in found])) for name in names],
            ),
        ),
        log_x=True,
    )
    return Findings(rows=tuple(rows), plots=(plot,))


def _day(results: list[list[Values]]) -> Findings:
    (found,) = results
    return Findings(
        rows=(
            _over("Figure A.6", "correlation of the rate over 24 h", found, "correlation", "peaks coincide"),
            _over("Figure A.6", "minutes between the peaks", found, "peak", "0"),
            _over("Figure A.6", "minutes between the troughs", found, "trough", "0"),
        )
    )


def _threads(results: list[list[Values]]) -> Findings:
    (found,) = results
    return Findings(
        rows=(
            _over(
                "Section A.4.4",
                "deviation of a thread's weight, largest of 40, points",
                found,
                "weights",
                "0.05",
            ),
            _over("Section A.4.4", "the same in each tenth of the run, points", found, "tenths"),
        )
    )


def _features(results: list[list[Values]]) -> Findings:
    (found,) = results
    rows = []
    for name, source in (("model", "yes"), ("fio random", "no")):
        rows += [
            _over(
                "Table A.5",
                f"{key}, 1 for yes",
                found,
                key,
                source,
                "measured on a drawn trace with a bound for each; fio random knows the mix and the mean rate",
            )
            for key in found[0]
            if key.startswith(name)
        ]
    return Findings(rows=tuple(rows))


def _micro(results: list[list[Values]]) -> Findings:
    (found,) = results
    sources = (
        ("97.99", "101.33", "3.41"),
        ("949.34", "933.69", "-1.65"),
        ("96.59", "95.41", "-1.22"),
        ("86.99", "84.32", "-3.07"),
    )
    rows = []
    note = "on a simulated disk; kwiken storage replay does the same on a file"
    for (name, *_), told in zip(MICRO, sources, strict=True):
        rows += [
            _over("Table A.6", f"{name}, I/Os a second asked for", found, f"asked {name}", told[0], note),
            _over("Table A.6", f"{name}, reached", found, f"reached {name}", told[1], note),
            _over("Table A.6", f"{name}, deviation, %", found, f"deviation {name}", "3.4 at most", note),
        ]
    return Findings(rows=tuple(rows))


def _caches(results: list[list[Values]]) -> Findings:
    rows = []
    seeds = range(len(results[0]))
    for app, found in zip(APPLICATIONS, results, strict=True):
        rows += [
            _over(
                "Figure A.7",
                f"speedup with {count} caches, {app.name}, model",
                found,
                f"model {count}",
                "grows",
            )
            for count in range(1, CACHES + 1)
        ]
        rows.append(
            _over(
                "Figure A.7",
                f"speedup with {CACHES} caches, {app.name}, no locality",
                found,
                f"none {CACHES}",
                "flat",
            )
        )
    gains = [[100 * (found[seed][f"model {CACHES}"] - 1) for found in results] for seed in seeds]
    summary = [{"mean": float(np.mean(each)), "most": max(each)} for each in gains]
    beaten = [
        {APPLICATIONS[at].name for at, each in enumerate(results) if each[seed]["defragmented"] > gain[at]}
        for seed, gain in enumerate(gains)
    ]
    rows += [
        _over(
            "Figure A.9",
            "applications in which defragmentation beats four caches",
            [{"count": float(len(each))} for each in beaten],
            "count",
            "Email, Display Ads",
        ),
        verdict_row(
            "Figure A.9",
            "defragmentation beats four caches for Email and Display Ads",
            [{"Email", "DisplayAds"} <= each for each in beaten],
        ),
    ]
    best = [{APPLICATIONS[number].name for number in np.argsort(each)[-3:]} for each in gains]
    rows += [
        _over("Section A.5.1", "speedup with four caches, mean, %", summary, "mean", "31"),
        _over("Section A.5.1", "speedup with four caches, largest, %", summary, "most", "79"),
        verdict_row(
            "Section A.5.1",
            "the best three are TPCH, TPCE and D-Process",
            [each == set(TABLE_A7) for each in best],
        ),
    ]
    names = [app.name for app in APPLICATIONS]
    for name, told in TABLE_A7.items():
        for state, source in enumerate(told.split("/")):
            rows.append(
                _over(
                    "Table A.7",
                    f"{name}, state {state + 1}, %",
                    results[names.index(name)],
                    f"state {state}",
                    source,
                )
            )
    rows += [
        verdict_row(
            "Figure A.7",
            "each cache adds with the model",
            [
                all(
                    found[seed][f"model {count + 1}"] > found[seed][f"model {count}"]
                    for found in results
                    for count in range(CACHES)
                )
                for seed in seeds
            ],
        ),
        verdict_row(
            "Figure A.7",
            "caches bring less without locality than with the model",
            [
                all(found[seed][f"none {CACHES}"] < found[seed][f"model {CACHES}"] for found in results)
                for seed in seeds
            ],
        ),
        verdict_row(
            "Figure A.7",
            "more levels, more gain from caching",
            [
                all(
                    found[seed][f"one level {CACHES}"]
                    < found[seed][f"two levels {CACHES}"]
                    < found[seed][f"three levels {CACHES}"]
                    for found in results
                )
                for seed in seeds
            ],
        ),
        verdict_row(
            "Figure A.7",
            "the most concentrated first level gains most",
            [_concentrated(results, seed) for seed in seeds],
        ),
    ]
    return Findings(rows=tuple(rows))


def _concentrated(results: list[list[Values]], seed: int) -> bool:
    gains = [found[seed][f"model {CACHES}"] for found in results]
    heat = [max(found[seed][f"state {state}"] for state in range(4)) for found in results]
    return int(np.argmax(gains)) == int(np.argmax(heat))


def _defragmented(results: list[list[Values]]) -> Findings:
    rows = []
    seeds = range(len(results[0]))
    for app, found in zip(APPLICATIONS, results, strict=True):
        before, after = TABLE_A8[app.name]
        rows += [
            _over("Table A.8", f"sequential before, {app.name}, %", found, "before", f"{before}"),
            _over("Table A.8", f"sequential after, {app.name}, %", found, "after", f"{after}"),
            _over("Figure A.9", f"speedup by defragmentation, {app.name}, %", found, "speedup", "8 to 45"),
        ]
    gains = [{"mean": float(np.mean([found[seed]["speedup"] for found in results]))} for seed in seeds]
    points = [
        {"points": float(np.mean([found[seed]["after"] - found[seed]["before"] for found in results]))}
        for seed in seeds
    ]
    rows += [
        _over("Figure A.9", "speedup by defragmentation, mean, %", gains, "mean", "18"),
        _over("Table A.8", "sequential share, rise, points", points, "points", "20"),
        verdict_row(
            "Table A.8",
            "sequential share rises for every application",
            [all(found[seed]["after"] > found[seed]["before"] for found in results) for seed in seeds],
        ),
    ]
    return Findings(rows=tuple(rows))
