"""Planner: makespan, completion, bytes and robustness beside three schedulers (Figures 4.10 to 4.19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from papers.corral.planner_runs import (
    AD_HOC,
    BACKGROUNDS,
    MOVED,
    ONLINE_JOBS,
    RATES,
    ROUNDING,
    SIZE_ERRORS,
    WORKLOADS,
    FiguresByName,
    batch,
    beside_background,
    dags,
    flow_level,
    loaded,
    mixed,
    moved_starts,
    online,
    without_bottleneck,
    wrong_sizes,
)
from papers.corral.runs import (
    SCHEDULERS,
    below,
    change,
    level,
    order,
)
from papers.corral.workloads import (
    BACKGROUND_GBPS,
    FLOW_JOBS,
    FLOW_RACKS,
)
from papers.figures.rows import FigureRow, Findings, Part, over_seeds


def _of(one: Mapping[str, object], name: str) -> Mapping[str, float]:
    told = one["schedulers"]
    assert isinstance(told, Mapping)
    found = told[name]
    assert isinstance(found, Mapping)
    return found


def _batch_rows(results: list[list[dict[str, FiguresByName | float]]]) -> Findings:
    rows: list[FigureRow] = []
    by_name = dict(zip(WORKLOADS, results, strict=True))
    sources = {
        "Corral": "-10 to -33, least on W2",
        "LocalShuffle": "worse on W2, W3",
        "ShuffleWatcher": "worse",
    }
    for workload, seeds in by_name.items():
        for key, figure, told in (
            ("makespan", "Figure 4.10", sources),
            ("bytes", "Figure 4.11a", {"Corral": "-20 to -90", "ShuffleWatcher": "below Corral on W2"}),
            ("hours", "Figure 4.11b", {"Corral": "up to -20", "ShuffleWatcher": "below Corral on W2"}),
        ):
            rows += [
                level(
                    figure,
                    f"{workload}, {key} against Yarn-CS, %: {name}",
                    [change(_of(one, name)[key], _of(one, "Yarn-CS")[key]) for one in seeds],
                    told.get(name, ""),
                )
                for name in SCHEDULERS[1:]
            ]
        for first, second in (
            ("Corral", "Yarn-CS"),
            ("Corral", "LocalShuffle"),
            ("Corral", "ShuffleWatcher"),
            ("Yarn-CS", "ShuffleWatcher"),
        ):
            held = [below(_of(one, first)["makespan"], _of(one, second)["makespan"]) for one in seeds]
            rows.append(order("Figure 4.10", f"{workload}: {first} before {second} in makespan", held))
        gaps = [(float(one["gap"]), float(one["heuristic gap"])) for one in seeds]  # type: ignore[arg-type]
        rows.append(
            level(
                "Section 4.3.5",
                f"{workload}, makespan over LP-Batch, %",
                [100 * g for g, _ in gaps],
                "within 3",
            )
        )
        rows.append(
            level(
                "Section 4.3.5",
                f"{workload}, the same by the source's heuristic, %",
                [100 * h for _, h in gaps],
            )
        )
        rows.append(
            order("Section 4.3.5", f"{workload}: LP below every schedule", [g >= -ROUNDING for g, _ in gaps])
        )
    source: str
    for key, source in (("reduce p50", ".6"), ("reduce p90", "less")):
        ratios = [_of(one, "Corral")[key] / _of(one, "Yarn-CS")[key] for one in by_name["W1"]]
        rows.append(level("Figure 4.11c", f"W1, {key}, Corral over Yarn-CS", ratios, source))
    for key, source in (("giants", "3"), ("others", "1")):
        values = [float(one[key]) for one in by_name["W2"]]  # type: ignore[arg-type]
        rows.append(level("Section 4.5.3", f"W2, racks of the {key}", values, source))
    for key, source, shown in (("variation", ".004", "Corral"), ("variation at random", ".01", "HDFS")):
        values = [float(one[key]) for one in by_name["W1"]]  # type: ignore[arg-type]
        rows.append(level("Section 4.5.3", f"W1, variation of bytes over racks: {shown}", values, source))
    return Findings(tuple(rows))


def _online_rows(results: list[list[dict[str, FiguresByName | float]]]) -> Findings:
    rows: list[FigureRow] = []
    by_name = dict(zip(WORKLOADS, results, strict=True))
    for workload, seeds in by_name.items():
        for key, source in (("median", "-30 to -56"), ("mean", "-26 to -36")):
            rows += [
                level(
                    "Figure 4.12",
                    f"{workload}, {key} completion against Yarn-CS, %: {name}",
                    [change(_of(one, name)[key], _of(one, "Yarn-CS")[key]) for one in seeds],
                    source if name == "Corral" else "",
                )
                for name in SCHEDULERS[1:]
            ]
            held = [below(_of(one, "Corral")[key], _of(one, "Yarn-CS")[key]) for one in seeds]
            rows.append(order("Figure 4.12", f"{workload}: Corral before Yarn-CS in the {key}", held))
        for key, shown, source in (
            ("over printed", "mean completion over LP-Online as printed, %", "15"),
            ("over stronger", "mean completion over the stronger bound, %", ""),
            ("heuristic over stronger", "the same by the source's heuristic, %", ""),
        ):
            values = [100 * float(one[key]) for one in seeds]  # type: ignore[arg-type]
            rows.append(level("Section 4.3.5", f"{workload}, {shown}", values, source))
        held = [
            float(one["over stronger"]) <= 0.5 * float(one["heuristic over stronger"])  # type: ignore[arg-type]
            for one in seeds
        ]
        rows.append(
            order("Section 4.3.5", f"{workload}: prices and exchanges halve the heuristic's gap", held)
        )
    sources = {"small": "better", "medium": "better", "large": "worse"}
    for each, source in sources.items():
        told = [one["bins"] for one in by_name["W1"]]
        for name, value in (("Corral", "-30 to -36"), ("ShuffleWatcher", source)):
            changes = [change(one[name][each], one["Yarn-CS"][each]) for one in told]  # type: ignore[index]
            rows.append(
                level("Figure 4.13", f"W1, {each} jobs, mean against Yarn-CS, %: {name}", changes, value)
            )
    return Findings(tuple(rows))


def _dag_rows(results: list[list[FiguresByName]]) -> Findings:
    seeds = results[0]
    return Findings(
        tuple(
            level(
                "Figure 4.14",
                f"queries, {key} against Yarn-CS, %",
                [change(one["Corral"][key], one["Yarn-CS"][key]) for one in seeds],
                source,
            )
            for key, source in (("median", "-18.5"), ("mean", "-21"))
        )
    )


def _mixed_rows(results: list[list[dict[str, Mapping[str, Mapping[str, float]]]]]) -> Findings:
    rows: list[FigureRow] = []
    for part, key, source in (
        ("recurring", "mean", "-33"),
        ("recurring", "median", "-27"),
        ("ad hoc", "mean", "-20"),
        ("ad hoc", "p90", "-37"),
        ("ad hoc", "makespan", "-28"),
    ):
        figure = "Figure 4.15a" if part == "recurring" else "Figure 4.15b"
        values = [change(one["Corral"][part][key], one["Yarn-CS"][part][key]) for one in results[0]]
        rows.append(level(figure, f"{part} jobs, {key} against Yarn-CS, %", values, source))
    for number, seeds in zip(AD_HOC, results, strict=True):
        share = 100 * number / (number + ONLINE_JOBS)
        values = [
            change(one["Corral"]["ad hoc"]["makespan"], one["Yarn-CS"]["ad hoc"]["makespan"]) for one in seeds
        ]
        source = "-20" if number == 150 else "below -10" if share < 75 else ""  # noqa: PLR2004
        rows.append(level("Figure 4.16", f"ad hoc share {share:.0f}%, makespan of ad hoc, %", values, source))
    return Findings(tuple(rows))


def _load_rows(results: list[list[FiguresByName]]) -> Findings:
    rows: list[FigureRow] = []
    figure = "Figure 4.17a"
    by_rate = dict(zip(RATES, results, strict=True))
    for rate, seeds in by_rate.items():
        for key in ("median", "p90"):
            ratios = [one["Yarn-CS"][key] / one["Corral"][key] for one in seeds]
            source = {50: "1", 200: "2" if key == "median" else "1.5"}.get(rate, "")
            rows.append(level(figure, f"{rate} jobs an hour, {key}, Yarn-CS over Corral", ratios, source))
        most = [100 * one["Yarn-CS"]["load"] for one in seeds]
        source = {50: "30", 200: "70"}.get(rate, "")
        rows.append(level(figure, f"{rate} jobs an hour, greatest load, %", most, source))
    ratio = [[one["Yarn-CS"]["mean"] / one["Corral"]["mean"] for one in by_rate[rate]] for rate in (50, 200)]
    held = [more > less * 1.01 for less, more in zip(*ratio, strict=True)]
    rows.append(order(figure, "Corral gains more in the mean at 200 than at 50 jobs an hour", held))
    return Findings(tuple(rows))


def _background_rows(results: list[list[dict[str, FiguresByName]]]) -> Findings:
    rows: list[FigureRow] = []
    figure = "Figure 4.17b"
    gains: dict[tuple[float, str], list[float]] = {}
    for gbps, seeds in zip(BACKGROUNDS, results, strict=True):
        for part, key in (("batch", "makespan"), ("online", "mean")):
            values = [-change(one[part]["Corral"][key], one[part]["Yarn-CS"][key]) for one in seeds]
            gains[gbps, key] = values
            source = "more than double" if gbps > BACKGROUND_GBPS else ""
            rows.append(
                level(figure, f"gain in the {key} at {gbps:g} Gbit/s of background, %", values, source)
            )
    for key in ("makespan", "mean"):
        pairs = zip(gains[BACKGROUNDS[0], key], gains[BACKGROUNDS[1], key], strict=True)
        rows.append(order(figure, f"gain in the {key} grows with background", [b > a for a, b in pairs]))
    return Findings(tuple(rows))


def _flat_rows(results: list[list[FiguresByName]]) -> Findings:
    gains = [-change(one["Corral"]["makespan"], one["Yarn-CS"]["makespan"]) for one in results[0]]
    return Findings(
        (
            level("Section 4.5.3", "gain in makespan at 1:1 without background, %", gains, "0"),
            order("Section 4.5.3", "no gain above 2% at 1:1 without background", [g <= 2 for g in gains]),  # noqa: PLR2004
        )
    )


def _error_rows(results: list[list[FiguresByName]]) -> Findings:
    return Findings(
        tuple(
            level(
                "Figure 4.18a",
                f"gain in makespan at size errors up to {100 * error:g}%, %",
                [-change(one["Corral"]["makespan"], one["Yarn-CS"]["makespan"]) for one in seeds],
                "25 to 35",
            )
            for error, seeds in zip(SIZE_ERRORS, results, strict=True)
        )
    )


def _moved_rows(results: list[list[FiguresByName]]) -> Findings:
    return Findings(
        tuple(
            level(
                "Figure 4.18b",
                f"gain in the mean where {100 * share:g}% of the starts move, %",
                [-change(one["Corral"]["mean"], one["Yarn-CS"]["mean"]) for one in seeds],
                {0.0: "40", 0.5: "25"}.get(share, ""),
            )
            for share, seeds in zip(MOVED, results, strict=True)
        )
    )


def _flow_rows(results: list[list[FiguresByName]]) -> Findings:
    figure = "Figure 4.19"
    note = f"{FLOW_RACKS} racks of 40 machines and {FLOW_JOBS} jobs; the source has 50 racks and 200 jobs"
    seeds = results[0]
    rows = [
        level(figure, f"median completion, s: {name}", [one[name]["median"] for one in seeds], "", note)
        for name in seeds[0]
    ]
    crossing = [100 * one["Corral, TCP"]["bytes"] / one["Yarn-CS, TCP"]["bytes"] for one in seeds]
    metric = (
        "bytes across racks under Corral, % of Yarn-CS; without any, flow schedulers have nothing to order"
    )
    rows.append(level(figure, metric, crossing, "", note))
    pairs = (
        ("Yarn-CS, Varys", "Yarn-CS, TCP", "-46"),
        ("Corral, TCP", "Yarn-CS, Varys", "-45"),
        ("Corral, Varys", "Corral, TCP", "best"),
    )
    for first, second, source in pairs:
        values = [change(one[first]["median"], one[second]["median"]) for one in seeds]
        rows.append(level(figure, f"median of {first} against {second}, %", values, source, note))
        held = [below(one[first]["median"], one[second]["median"]) for one in seeds]
        rows.append(order(figure, f"{first} before {second} at the median", held))
    return Findings(tuple(rows))


BATCH_FIGURES: Final = (
    "Figure 4.10",
    *(f"Figure 4.11{one}" for one in "abc"),
    "Section 4.3.5",
    "Section 4.5.3",
)


def planner(seeds: int) -> tuple[Part, ...]:
    """Parts of the planner."""
    return (
        over_seeds(
            "batch", batch, seeds, _batch_rows, [(name,) for name in WORKLOADS], figures=BATCH_FIGURES
        ),
        over_seeds(
            "online",
            online,
            seeds,
            _online_rows,
            [(name,) for name in WORKLOADS],
            figures=("Figure 4.12", "Figure 4.13", "Section 4.3.5"),
        ),
        over_seeds("queries", dags, seeds, _dag_rows, figures=("Figure 4.14",)),
        over_seeds(
            "ad hoc",
            mixed,
            seeds,
            _mixed_rows,
            [(number,) for number in AD_HOC],
            figures=("Figure 4.15a", "Figure 4.15b", "Figure 4.16"),
        ),
        over_seeds("load", loaded, seeds, _load_rows, [(rate,) for rate in RATES], figures=("Figure 4.17a",)),
        over_seeds(
            "background",
            beside_background,
            seeds,
            _background_rows,
            [(g,) for g in BACKGROUNDS],
            figures=("Figure 4.17b",),
        ),
        over_seeds("no bottleneck", without_bottleneck, seeds, _flat_rows, figures=("Section 4.5.3",)),
        over_seeds(
            "size errors",
            wrong_sizes,
            seeds,
            _error_rows,
            [(error,) for error in SIZE_ERRORS],
            figures=("Figure 4.18a",),
        ),
        over_seeds(
            "moved starts",
            moved_starts,
            seeds,
            _moved_rows,
            [(share,) for share in MOVED],
            figures=("Figure 4.18b",),
        ),
        over_seeds("flows", flow_level, seeds, _flow_rows, figures=("Figure 4.19",)),
    )
