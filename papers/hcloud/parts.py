"""Tables of HCloud: the source's values, how ours are obtained, and the orders that are to hold."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kwiken.allocator.provisioning.strategies import CHOSEN
from papers.figures.rows import Part
from papers.figures.tables import (
    PlotLine,
    PlotOf,
    StatedRow,
    Value,
    above,
    level,
    obtained,
    order as stated_order,
    ratio,
    study,
)
from papers.hcloud.better import beyond, out_of_sample
from papers.hcloud.costs import cost_plots, cost_rows
from papers.hcloud.runs import (
    LOADS,
    NAMES,
    RETENTIONS,
    SHARES,
    SPIN_UPS_S,
    Figures,
    mapped,
    played,
    swept,
)
from papers.hcloud.variability import FAILING, INSTANCES, spread_by_size
from papers.worlds.cloud.mapping import POLICIES
from papers.worlds.cloud.scenarios import CLOUD_SCENARIOS
from papers.worlds.cloud.weather import SIZES

SIMULATED: Final = (
    "simulated cloud with fixed laws (docs/allocate/provision.md); median over the seeds, with the lowest "
    "and the highest"
)
DRAWN: Final = "drawn only"
HYBRIDS: Final = {"HF": "Figure 6", "HM": "Figure 7"}
PERCENTILES: Final = (5, 25, 75, 95)
SWEEPS: Final = {
    "spin-up": ("Figure 14a", "spin-up, s", SPIN_UPS_S),
    "load": ("Figure 14b", "load by others, share", LOADS),
    "retention": ("Figure 15", "idle time, spin-ups", RETENTIONS),
    "share": ("Figure 16", "share of latency-critical jobs", SHARES),
}
FLAT: Final = 0.02  # change of a loss that counts as none
STEADY: Final = 0.03  # coefficient of variation that counts as none
RATIOS: Final = (1.6, 2.74)
RULES: Final = (
    "reserved, peak + 15%",
    "on demand only",
    "quantile reserved",
    "quantile reserved, last 7 days",
    CHOSEN,
)
# Goals beyond the source, as shares.
NEAR_BEST, SPOT_SAVED, SAME = 0.03, 0.2, 0.99

order = partial(stated_order, note="")


def _metric(words: str, *keys: Any) -> Callable[[list[Any]], str]:
    """A metric that ends with the mean demand of the first seed, which costs depend on."""
    return lambda seeds: f"{words}; M {obtained(keys, seeds[0]):.0f} cores"


def _strategies() -> Iterator[StatedRow]:
    for scenario in CLOUD_SCENARIOS:
        yield from _performance(scenario)
        yield from _gains(scenario)
    for better, worse in itertools.pairwise(("SR", "HF", "HM", "OdF", "OdM")):
        words = f"high: performance, {better} before {worse}"
        holds = above(*((("high", True), name, "performance") for name in (better, worse)))
        yield order("Figure 10", words, holds, "SR >= HF >= HM > OdF > OdM")
    yield level("Figure 10", "high: hybrids behind SR, share", _behind, "within 0.08")


def _behind(by: Mapping[Any, Mapping[str, Figures]]) -> float:
    high = by["high", True]
    return 1 - min(high["HF"]["performance"], high["HM"]["performance"]) / high["SR"]["performance"]


def _performance(scenario: str) -> Iterator[StatedRow]:
    for label, known in (("with profiles", True), ("without", False)):
        for name in NAMES:
            figure = "Figure 10" if name in HYBRIDS else "Figure 4"
            for kind in ("batch", "latency"):
                head, run = f"{scenario}: {name} {label}, {kind} performance", ((scenario, known), name)
                yield level(figure, f"{head}, mean", (*run, kind), DRAWN)
                for percent in PERCENTILES:
                    value = (*run, f"{kind} {percent}%")
                    yield level(figure, f"{head}, {percent}th percentile", value, DRAWN)
    source = {"low": "24", "high": "42"}.get(scenario, "")
    value = ((scenario, True), "OdM", "latency loss")
    yield level("Figure 4", f"{scenario}: OdM, p99 as a factor of that alone", value, source)


def _gains(scenario: str) -> Iterator[StatedRow]:
    known, unknown = (scenario, True), (scenario, False)
    for name, source in (("SR", "2.4"), ("OdF", ""), ("OdM", ""), ("HF", "2.4"), ("HM", "2.77")):
        gain = ratio((known, name, "performance"), (unknown, name, "performance"))
        figure = "Figure 10" if name in HYBRIDS else "Figure 4"
        yield level(figure, f"{scenario}: {name}, gain by profiles, factor", gain, source)
        words = f"{scenario}: {name}, hourly cost without profiles over that with them"
        cost = ratio((unknown, name, "hourly"), (known, name, "hourly"))
        metric = _metric(words, known, name, "mean demand")
        yield level("Figure 8.21", metric, cost, "much higher for SR and on demand")
    yield order(
        "Figure 4",
        f"{scenario}: profiles help every strategy",
        lambda by: all(by[known][name]["performance"] > by[unknown][name]["performance"] for name in NAMES),
    )
    value = ratio((known, "SR", "performance"), (known, "OdM", "performance"))
    yield level("Figure 4", f"{scenario}: SR over OdM, performance, factor", value, "2.2")


def _high() -> Iterator[StatedRow]:
    for name, source in (("SR", "120"), ("OdF", "132"), ("OdM", "178"), ("HF", "123"), ("HM", "123")):
        yield level("Figure 18", f"high: end, min, {name}", (name, "end"), source)
    for name, *sources in (
        ("OdF", "about 89", "", "", "rare"),
        ("OdM", "", "", "0.43", "0.061"),
        ("HF", "72", "34", "", "rare"),
        ("HM", "", "", "0.11", "rare"),
    ):
        metrics = {
            "nodes obtained": "obtained",
            "nodes active, mean": "active",
            "share given back at once": "at once",
            "time lost by moving, share": "moved",
        }
        for (metric, key), source in zip(metrics.items(), sources, strict=True):
            yield level("Figure 19", f"high: {name}, {metric}", (name, key), source)
    for name in HYBRIDS:
        for when in ("before", "after"):
            metric = f"high: {name}, share of reserved cores for latency-critical jobs, {when} limit"
            yield level("Figure 21", metric, (name, f"latency {when}"), "rises")
        metric = f"high: {name}, reserved cores allocated, share"
        yield level("Section 5.2", metric, (name, "utilisation"), "0.80")


def _policies() -> Iterator[StatedRow]:
    for hybrid, figure in HYBRIDS.items():
        for policy in POLICIES:
            head = f"high: {hybrid} {policy}"
            for metric, key, source in (
                ("performance on reserved", "reserved performance", DRAWN),
                ("performance on demand", "on-demand performance", DRAWN),
                ("reserved cores allocated, share", "utilisation", "0.80" if policy == "P8" else ""),
            ):
                yield level(figure, f"{head}, {metric}", (hybrid, policy, key), source)
            cost = _metric(f"{head}, hourly cost, on-demand cores", hybrid, "P8", "mean demand")
            yield level(figure, cost, (hybrid, policy, "hourly"), DRAWN)
        words = f"high: {hybrid}, P8 is not dominated by P1 to P7"
        yield order(figure, words, partial(_not_dominated, hybrid), "P8 has the best of both sides")
        for first, second, key, words in (
            ("P4", "P2", "on-demand performance", "on-demand jobs are better under P4 than under P2"),
            ("P2", "P4", "reserved performance", "reserved jobs are better under P2 than under P4"),
            ("P7", "P5", "utilisation", "P7 fills the reserved nodes more than P5"),
            ("P7", "P8", "utilisation", "P7 fills the reserved nodes more than P8"),
        ):
            holds = above((hybrid, first, key), (hybrid, second, key))
            yield order(figure, f"high: {hybrid}, {words}", holds)
        for metric, key, source in (
            ("least soft limit", "soft low", "starts at 0.60 to 0.65"),
            ("largest soft limit", "soft high", ""),
            ("longest queue, jobs", "queue", ""),
        ):
            yield level("Figure 9a", f"high: {hybrid}, {metric}", (hybrid, "P8", key), source)
        for size in (4, 8, 16):
            metric = f"high: {hybrid}, mean error of the wait, {size} cores, s"
            yield level("Figure 9b", metric, (hybrid, "P8", f"wait error {size}"), "minimal")


def _not_dominated(hybrid: str, by: Mapping[str, Mapping[str, Figures]]) -> bool:
    """Whether no other policy is at least as good as P8 in all three figures, and better in one."""
    best = by[hybrid]["P8"]

    def signs(one: Figures) -> list[float]:
        return [
            one["reserved performance"] - best["reserved performance"],
            one["on-demand performance"] - best["on-demand performance"],
            best["hourly"] - one["hourly"],
        ]

    others = [signs(by[hybrid][name]) for name in POLICIES if name != "P8"]
    return not any(min(each) >= 0 and max(each) > 0 for each in others)


def _sweep(kind: str) -> Iterator[StatedRow]:
    figure, label, points = SWEEPS[kind]
    for name in NAMES:
        for step, point in enumerate(points):
            head, run = f"high: {name}, {label} {point:g}", ((kind, name), step)
            yield level(figure, f"{head}, 95th percentile of the loss", (*run, "p95 loss"), DRAWN)
            if kind in {"retention", "share"}:
                metric = _metric(f"{head}, hourly cost", *run, "mean demand")
                yield level(figure, metric, (*run, "hourly"), DRAWN)
    yield from ORDERS[kind]


def _loss(kind: str, name: str, step: int) -> Value:
    return ((kind, name), step, "p95 loss")


def _rise(kind: str, name: str, by: Any, key: str = "p95 loss") -> float:
    return float(by[kind, name][-1][key] - by[kind, name][0][key])


def _flat(kind: str, changed: str) -> StatedRow:
    words = f"high: SR does not change with {changed}"
    return order(SWEEPS[kind][0], words, lambda by: abs(_rise(kind, "SR", by)) <= FLAT, "flat")


def _most(kind: str, words: str, first: tuple[str, ...], others: tuple[str, ...]) -> StatedRow:
    """Each of the first strategies loses more than each of the others."""
    return order(
        SWEEPS[kind][0],
        words,
        lambda by: min(_rise(kind, one, by) for one in first) > max(_rise(kind, one, by) for one in others),
    )


def _bends(kind: str, words: str, source: str) -> StatedRow:
    """HM loses more over the last step than over those before."""
    last, middle, first = (_loss(kind, "HM", step) for step in (-1, -2, 0))
    return order(
        SWEEPS[kind][0],
        words,
        lambda by: obtained(last, by) - obtained(middle, by) > obtained(middle, by) - obtained(first, by),
        source,
    )


ORDERS: Final = {
    "spin-up": (_most("spin-up", "high: OdF and OdM lose most by spin-up", ("OdF", "OdM"), ("HF", "HM")),),
    "load": (
        _most("load", "high: OdM loses most by load of others", ("OdM",), ("OdF", "HF", "HM")),
        _bends("load", "high: HM loses more from half load on than up to it", "bends near 50%"),
    ),
    "retention": (
        order(
            "Figure 15",
            "high: no idle time costs OdM performance",
            above(_loss("retention", "OdM", 0), _loss("retention", "OdM", 1)),
        ),
        order(
            "Figure 15",
            "high: long idle times cost OdM more than HM",
            above(*(partial(_rise, "retention", name, key="hourly") for name in ("OdM", "HM"))),
        ),
    ),
    "share": (
        _flat("share", "the share"),
        _bends("share", "high: hybrids lose more from 80% on than up to it", "bends at 80%"),
    ),
}


def _swept_plot(kind: str) -> PlotOf:
    figure, label, points = SWEEPS[kind]
    lines = [
        PlotLine(name, points, [_loss(kind, name, step) for step in range(len(points))]) for name in NAMES
    ]
    return PlotOf(figure, f"loss by {label}", label, "95th percentile of the loss", lines)


def _variability() -> Iterator[StatedRow]:
    for figure, kind in (("Figure 1", "batch"), ("Figure 2", "latency")):
        for size in SIZES:
            source = "large" if size < 8 else "small"  # noqa: PLR2004 - cores, as in the source
            metric = f"{kind}: coefficient of variation, {size} cores"
            yield level(figure, metric, f"{kind} {size}", source)
        metric = f"{kind}: runs of {INSTANCES} that lost a factor of {FAILING:g} or more, 1 core"
        yield level(figure, metric, f"{kind} 1 failed", "some micro instances fail")
        yield order(figure, f"{kind}: 16 cores vary least, by at most 3%", partial(_steady, kind))


def _steady(kind: str, one: Figures) -> bool:
    return one[f"{kind} 16"] <= min(STEADY, *(one[f"{kind} {size}"] for size in (1, 2, 4)))


def _out_of_sample(cases: list[tuple[str, float]]) -> Iterator[StatedRow]:
    note = "decided on 17 drawn days, paid on the next 17"
    for shape, price in cases:
        case, head = (shape, price), f"{shape}, ratio {price:g}"
        for name in RULES:
            metric = partial(_with_mean_demand, f"{head}: {name}, hourly cost above hindsight, share", case)
            yield level("Better (d)", metric, (case, name), note=note)
        words = f"{head}: decided within 3% of hindsight"
        yield order("Better (d)", words, partial(_near_best, case))


def _with_mean_demand(words: str, case: tuple[str, float], seeds: list[Any]) -> str:
    return f"{words}; M {statistics.median(by[case]['mean'] for by in seeds):.0f} cores"


def _near_best(case: tuple[str, float], by: Mapping[tuple[str, float], Figures]) -> bool:
    return by[case][CHOSEN] <= NEAR_BEST


def _beyond() -> Iterator[StatedRow]:
    for one in CLOUD_SCENARIOS:
        demand = (one, "minimum", "mean demand")
        for metric, key in (
            ("hourly cost", "hourly"),
            ("performance", "performance"),
            ("reserved cores", "reserved cores"),
        ):
            for name in ("minimum", "decided"):
                words = f"{one}: HM, {name}, {metric}"
                yield level("Better (a)", _metric(words, *demand), (one, name, key))
        metric = f"{one}: HM, hourly cost x p95 loss, learned over ten spin-ups"
        yield level("Better (b)", metric, partial(_product, one))
        words = f"{one}: learned idle times are no worse than ten spin-ups"
        yield order("Better (b)", words, partial(_no_worse, one))
        words, saved = f"{one}: HM, hourly saving by spot, share", partial(_saved, one)
        yield level("Better (c)", _metric(words, *demand), saved)
        kept = ratio((one, "spot", "latency"), (one, "minimum", "latency"))
        yield level("Better (c)", f"{one}: performance of sensitive jobs with spot over without", kept)
        words = f"{one}: spot saves 20% or more at the same performance of sensitive jobs"
        yield order("Better (c)", words, partial(_worth_it, saved, kept))


Changed = Mapping[str, Mapping[str, Figures]]  # of one seed: by scenario and what is changed


def _product(scenario: str, by: Changed) -> float:
    learned, minimum = by[scenario]["learned"], by[scenario]["minimum"]
    return learned["hourly"] * learned["p95 loss"] / (minimum["hourly"] * minimum["p95 loss"])


def _no_worse(scenario: str, by: Changed) -> bool:
    return _product(scenario, by) <= 1


def _saved(scenario: str, by: Changed) -> float:
    return 1 - by[scenario]["spot"]["hourly"] / by[scenario]["minimum"]["hourly"]


def _worth_it(saved: Callable[[Any], float], kept: Callable[[Any], float], by: Changed) -> bool:
    return saved(by) >= SPOT_SAVED and kept(by) >= SAME


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of draws of the scenarios to take medians over.
    """
    spread = partial(study, seeds=seeds, note=SIMULATED)
    scenarios = tuple(CLOUD_SCENARIOS)
    known = [(one, True) for one in scenarios]
    every = [(one, known) for one in scenarios for known in (True, False)]
    loads = [(shape, price) for shape in ("shop", "batch") for price in RATIOS]
    return (
        spread("strategies", played, rows=_strategies(), cases=every),
        # The two parts that follow share their runs with the comparison of strategies.
        spread("high variability", played, rows=_high(), arguments=("high", True)),
        spread("costs", played, rows=cost_rows(), cases=known, plots=cost_plots()),
        spread("policies", mapped, rows=_policies(), cases=HYBRIDS),
        *(
            spread(
                f"sweep of {kind}",
                swept,
                rows=_sweep(kind),
                cases=[(kind, name) for name in NAMES],
                plots=(_swept_plot(kind),),
            )
            for kind in SWEEPS
        ),
        spread("variability", spread_by_size, rows=_variability()),
        spread("out of sample", out_of_sample, rows=_out_of_sample(loads), cases=loads),
        spread("beyond", beyond, rows=_beyond(), cases=scenarios),
    )
