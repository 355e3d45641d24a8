"""Tables of the planner: makespan, bytes, completion, mixes, loads and flows (Figures 4.10 to 4.19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from papers.corral.planner_runs import (
    AD_HOC,
    BACKGROUNDS,
    MOVED,
    ONLINE_JOBS,
    RATES,
    ROUNDING,
    SIZE_ERRORS,
    WORKLOADS,
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
from papers.corral.runs import SCHEDULERS, below, change
from papers.corral.workloads import BACKGROUND_GBPS, FLOW_JOBS, FLOW_RACKS
from papers.figures.bounds import Bound
from papers.figures.rows import Part
from papers.figures.tables import StatedRow, level, order, study

Results = Mapping[Any, Any]  # of one seed: by case, figures by name
YARN: Final = "Yarn-CS"
MAX_FLAT: Final = 2.0  # percent of makespan that count as no gain
MAX_GROWTH: Final = 1.01  # factor from which a gain is larger than another
FLOWS: Final = f"{FLOW_RACKS} racks of 40 machines and {FLOW_JOBS} jobs; the source has 50 racks and 200 jobs"
BATCH: Final[tuple[tuple[str, str, Mapping[str, str]], ...]] = (
    (
        "makespan",
        "Figure 4.10",
        {"Corral": "-10 to -33", "LocalShuffle": "worse on W2, W3", "ShuffleWatcher": "worse"},
    ),
    ("bytes", "Figure 4.11a", {"Corral": "-20 to -90", "ShuffleWatcher": "below Corral on W2"}),
    ("hours", "Figure 4.11b", {"Corral": "up to -20", "ShuffleWatcher": "below Corral on W2"}),
)


def _change(new: tuple[Any, ...], old: tuple[Any, ...], by: Results) -> float:
    """Change of the figure at a path from that at another, percent."""
    return change(_at(by, new), _at(by, old))


def _gain(new: tuple[Any, ...], old: tuple[Any, ...], by: Results) -> float:
    return -_change(new, old, by)


def _ratio(new: tuple[Any, ...], old: tuple[Any, ...], by: Results) -> float:
    return _at(by, new) / _at(by, old)


def _below(new: tuple[Any, ...], old: tuple[Any, ...], by: Results) -> bool:
    return below(_at(by, new), _at(by, old))


def _at(found: Any, path: tuple[Any, ...]) -> float:
    for key in path:
        found = found[key]
    return float(found)


def _batch() -> Iterator[StatedRow]:
    for workload in WORKLOADS:
        at = partial(_scheduled, workload)
        for key, figure, sources in BATCH:
            for name in SCHEDULERS[1:]:
                metric = f"{workload}, {key} against {YARN}, %: {name}"
                yield level(
                    figure, metric, partial(_change, at(name, key), at(YARN, key)), sources.get(name, "")
                )
        for first, second in (
            ("Corral", YARN),
            ("Corral", "LocalShuffle"),
            ("Corral", "ShuffleWatcher"),
            (YARN, "ShuffleWatcher"),
        ):
            words = f"{workload}: {first} before {second} in makespan"
            yield order("Figure 4.10", words, partial(_below, at(first, "makespan"), at(second, "makespan")))
        section = "Section 4.3.5"
        yield level(
            section, f"{workload}, makespan over LP-Batch, %", (workload, "gap"), "within 3", scale=100
        )
        metric = f"{workload}, the same by the source's heuristic, %"
        yield level(section, metric, (workload, "heuristic gap"), scale=100)
        yield order(section, f"{workload}: LP below every schedule", partial(_bounded, workload))
    at = partial(_scheduled, "W1")
    for key, source in (("reduce p50", ".6"), ("reduce p90", "less")):
        value = partial(_ratio, at("Corral", key), at(YARN, key))
        yield level("Figure 4.11c", f"W1, {key}, Corral over {YARN}", value, source)
    for key, source in (("giants", "3"), ("others", "1")):
        yield level("Section 4.5.3", f"W2, racks of the {key}", ("W2", key), source)
    for key, source, shown in (("variation", ".004", "Corral"), ("variation at random", ".01", "HDFS")):
        yield level("Section 4.5.3", f"W1, variation of bytes over racks: {shown}", ("W1", key), source)


def _scheduled(workload: str, name: str, key: str) -> tuple[str, ...]:
    return (workload, "schedulers", name, key)


def _bounded(workload: str, by: Results) -> bool:
    return bool(by[workload]["gap"] >= -ROUNDING)


def _online() -> Iterator[StatedRow]:
    figure, section = "Figure 4.12", "Section 4.3.5"
    for workload in WORKLOADS:
        at = partial(_scheduled, workload)
        for key, published in (("median", "-30 to -56"), ("mean", "-26 to -36")):
            for name in SCHEDULERS[1:]:
                metric = f"{workload}, {key} completion against {YARN}, %: {name}"
                source = published if name == "Corral" else ""
                yield level(figure, metric, partial(_change, at(name, key), at(YARN, key)), source)
            words = f"{workload}: Corral before {YARN} in the {key}"
            yield order(figure, words, partial(_below, at("Corral", key), at(YARN, key)))
        for key, shown, source in (
            ("over printed", "mean completion over LP-Online as printed, %", "15"),
            ("over stronger", "mean completion over the stronger bound, %", ""),
            ("heuristic over stronger", "the same by the source's heuristic, %", ""),
        ):
            yield level(section, f"{workload}, {shown}", (workload, key), source, scale=100)
        words = f"{workload}: prices and exchanges halve the heuristic's gap"
        yield order(section, words, partial(_halved, workload))
    for each, source in (("small", "better"), ("medium", "better"), ("large", "worse")):
        for name, value in (("Corral", "-30 to -36"), ("ShuffleWatcher", source)):
            metric = f"W1, {each} jobs, mean against {YARN}, %: {name}"
            found = partial(_change, ("W1", "bins", name, each), ("W1", "bins", YARN, each))
            yield level("Figure 4.13", metric, found, value)


def _halved(workload: str, by: Results) -> bool:
    return bool(by[workload]["over stronger"] <= 0.5 * by[workload]["heuristic over stronger"])


def _against(key: str, *path: Any) -> Callable[[Results], float]:
    """Change of a figure under Corral from that under Yarn-CS."""
    return partial(_change, (*path, "Corral", key), (*path, YARN, key))


QUERIES: Final = tuple(
    level("Figure 4.14", f"queries, {key} against {YARN}, %", _against(key), source)
    for key, source in (("median", "-18.5"), ("mean", "-21"))
)


def _mixed() -> Iterator[StatedRow]:
    for figure, part, key, source in (
        ("Figure 4.15a", "recurring", "mean", "-33"),
        ("Figure 4.15a", "recurring", "median", "-27"),
        ("Figure 4.15b", "ad hoc", "mean", "-20"),
        ("Figure 4.15b", "ad hoc", "p90", "-37"),
        ("Figure 4.15b", "ad hoc", "makespan", "-28"),
    ):
        value = partial(_change, (AD_HOC[0], "Corral", part, key), (AD_HOC[0], YARN, part, key))
        yield level(figure, f"{part} jobs, {key} against {YARN}, %", value, source)
    for number in AD_HOC:
        share = 100 * number / (number + ONLINE_JOBS)
        source = "-20" if number == 150 else "below -10" if share < 75 else ""  # noqa: PLR2004
        value = partial(
            _change, (number, "Corral", "ad hoc", "makespan"), (number, YARN, "ad hoc", "makespan")
        )
        yield level("Figure 4.16", f"ad hoc share {share:.0f}%, makespan of ad hoc, %", value, source)


def _loads() -> Iterator[StatedRow]:
    figure = "Figure 4.17a"
    for rate in RATES:
        for key, at_most in (("median", "2"), ("p90", "1.5")):
            source = {50: "1", 200: at_most}.get(rate, "")
            value = partial(_ratio, (rate, YARN, key), (rate, "Corral", key))
            yield level(figure, f"{rate} jobs an hour, {key}, {YARN} over Corral", value, source)
        source = {50: "30", 200: "70"}.get(rate, "")
        yield level(figure, f"{rate} jobs an hour, greatest load, %", (rate, YARN, "load"), source, scale=100)
    yield order(figure, "Corral gains more in the mean at 200 than at 50 jobs an hour", _grows)


def _grows(by: Results) -> bool:
    less, more = (by[rate][YARN]["mean"] / by[rate]["Corral"]["mean"] for rate in (50, 200))
    return bool(more > less * MAX_GROWTH)


def _backgrounds() -> Iterator[StatedRow]:
    figure = "Figure 4.17b"
    for gbps in BACKGROUNDS:
        for part, key in (("batch", "makespan"), ("online", "mean")):
            source = "more than double" if gbps > BACKGROUND_GBPS else ""
            metric = f"gain in the {key} at {gbps:g} Gbit/s of background, %"
            yield level(figure, metric, partial(_background_gain, gbps, part, key), source)
    for part, key in (("batch", "makespan"), ("online", "mean")):
        yield order(figure, f"gain in the {key} grows with background", partial(_rises, part, key))


def _background_gain(gbps: float, part: str, key: str, by: Results) -> float:
    return _gain((gbps, part, "Corral", key), (gbps, part, YARN, key), by)


def _rises(part: str, key: str, by: Results) -> bool:
    first, second = (_background_gain(gbps, part, key, by) for gbps in BACKGROUNDS[:2])
    return second > first


_FLAT: Final = partial(_gain, ("Corral", "makespan"), (YARN, "makespan"))
FLAT: Final = (
    level("Section 4.5.3", "gain in makespan at 1:1 without background, %", _FLAT, "0"),
    order(
        "Section 4.5.3",
        "no gain above 2% at 1:1 without background",
        lambda by: _FLAT(by) <= MAX_FLAT,
    ),
)
ERRORS: Final = tuple(
    level(
        "Figure 4.18a",
        f"gain in makespan at size errors up to {100 * error:g}%, %",
        partial(_gain, (error, "Corral", "makespan"), (error, YARN, "makespan")),
        "25 to 35",
        bound=Bound(25.0, 35.0),
    )
    for error in SIZE_ERRORS
)
STARTS: Final = tuple(
    level(
        "Figure 4.18b",
        f"gain in the mean where {100 * share:g}% of the starts move, %",
        partial(_gain, (share, "Corral", "mean"), (share, YARN, "mean")),
        {0.0: "40", 0.5: "25"}.get(share, ""),
    )
    for share in MOVED
)


def _flows() -> Iterator[StatedRow]:
    figure = "Figure 4.19"
    for name in (f"{scheduler}, {flows}" for scheduler in (YARN, "Corral") for flows in ("TCP", "Varys")):
        yield level(figure, f"median completion, s: {name}", (name, "median"))
    yield level(
        figure,
        "bytes across racks under Corral, % of Yarn-CS; without any, flow schedulers have nothing to order",
        partial(_ratio, ("Corral, TCP", "bytes"), ("Yarn-CS, TCP", "bytes")),
        scale=100,
    )
    for first, second, source in (
        ("Yarn-CS, Varys", "Yarn-CS, TCP", "-46"),
        ("Corral, TCP", "Yarn-CS, Varys", "-45"),
        ("Corral, Varys", "Corral, TCP", "best"),
    ):
        medians = ((first, "median"), (second, "median"))
        yield level(figure, f"median of {first} against {second}, %", partial(_change, *medians), source)
        yield order(figure, f"{first} before {second} at the median", partial(_below, *medians))


def planner(seeds: int) -> tuple[Part, ...]:
    """Parts of the planner."""
    spread = partial(study, seeds=seeds)
    return (
        spread("batch", batch, rows=_batch(), cases=WORKLOADS),
        spread("online", online, rows=_online(), cases=WORKLOADS),
        spread("queries", dags, rows=QUERIES),
        spread("ad hoc", mixed, rows=_mixed(), cases=AD_HOC),
        spread("load", loaded, rows=_loads(), cases=RATES),
        spread("background", beside_background, rows=_backgrounds(), cases=BACKGROUNDS),
        spread("no bottleneck", without_bottleneck, rows=FLAT),
        spread("size errors", wrong_sizes, rows=ERRORS, cases=SIZE_ERRORS),
        spread("moved starts", moved_starts, rows=STARTS, cases=MOVED),
        spread("flows", flow_level, rows=_flows(), note=FLOWS),
    )
