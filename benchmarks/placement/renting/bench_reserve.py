"""Benchmark of what is reserved: decided on 17 days, paid on the next 17, beside hindsight, by windows.

The horizon is 17 days too, so that demand is looked ahead for; the default for a term of a year is other.
Loads are the cores asked for by the pods of a public trace of 149 days, and drawn curves. The rule was
chosen on drawn curves of `SHAPES` and `CHOICE` with seeds below 100, by the mean over these kinds of the
mean cost above hindsight. It is checked on fresh seeds, and on the shapes of `KEPT`, which were written down
before the rule and drawn when it stood. Reserved cores cost 1/1.6 of those on demand. The windows of the
trace and the shapes of `UNSEEN` have been looked at with earlier rules; no constant was chosen on them.

The cost above hindsight is taken apart. `too many` and `too few` are what it is where more, or fewer, cores
are reserved than in hindsight; `rent` is what is paid for rented nodes beyond their use, less the same in
hindsight. `unknowable on day 17` is the cost above hindsight of one that knows the kind of the load,
has seen 2,000 others to their end, and sees this one up to day 17 (`known_kind.py`).

What is not to be foreseen on the trace, of which there is no second, is shown by rules chosen in hindsight:
of all fixed weights of the past and shares of its growth, the one that costs least over all windows of a
kind, for each figure anew. `decided again` buys more after each week of the time that is paid for, and keeps
all that it has.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import Row
from benchmarks.placement.renting.drawn_demands import SHAPES, UNSEEN, Curve
from benchmarks.placement.renting.kept_demands import CHOICE, KEPT, drawn
from benchmarks.placement.renting.known_kind import daily, known_kind
from kwiken.allocator.provisioning.document import StrategyCost, study_provision
from kwiken.allocator.provisioning.interruptions import recording_from_json
from kwiken.allocator.provisioning.load_curve import curve_of
from kwiken.allocator.provisioning.offers import prices_from_toml
from kwiken.allocator.provisioning.strategies import (
    HINDSIGHT,
    HINDSIGHT_SPOT,
    Market,
    ProvisioningSettings,
    market,
)

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "fleet"
PODS = "openb_pod_list_default.csv.gz"
SPOT = ("1b", "1c", "1d")  # zones of the recordings
SPOT_PRICE = 0.35
TOLERANT = 0.3  # share of the work that may be interrupted, with spot
RATIO = 1.6
HOUR_S = 3600.0
DAYS = 17
TRACE_DAYS = 149
CHOSEN_DAYS = 75  # windows that end before are those of the choice
STEP_DAYS = 5
CHECKED_ON = range(7000, 7030)  # from 5000 and 6000 on, earlier rules were checked
OTHERS = range(100_000, 102_000)  # seeds of other loads of a kind, which are known to their end
GOAL = 0.03
DECIDED = "decided"
WEEK_DAYS = 7
HALF_LIVES_DAYS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, np.inf)
GROWTHS = (0.0, 0.25, 0.5, 1.0)
PRICES = f"""
currency = "unit"
date = 2026-11-01
source = "a core on demand costs 1, and a reserved one 1/{RATIO}"
[[offers]]
name = "hour"
class = "core"
terms = "on-demand"
cores = 1
price_per_hour = 1.0
[[offers]]
name = "year"
class = "core"
terms = "reserved"
cores = 1
price_per_hour = {1 / RATIO}
term_days = 365
held = HELD
"""
ZONE = """
[[offers]]
name = "NAME"
class = "core"
terms = "spot"
cores = 1
price_per_hour = PRICE
interruptions = "NAME"
"""


def offers(held: int = 0, *, spot: bool = False) -> Market:
    """Market of the benchmark."""
    text = PRICES.replace("HELD", str(held))
    recordings = {}
    if spot:
        for zone in SPOT:
            name = f"aws-2023-04-19-us-east-{zone}-intel-64.json.gz"
            text += ZONE.replace("NAME", name).replace("PRICE", str(SPOT_PRICE))
            with gzip.open(DATA / name) as file:
                recordings[name] = recording_from_json(file.read(), where=name)
    return market(
        prices_from_toml(text, where="prices"), recordings, ProvisioningSettings(horizon_s=DAYS * 86_400.0)
    )


def pods() -> Curve:
    """Cores asked for by the pods of the trace, hour by hour."""
    with gzip.open(DATA / PODS, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["scheduled_time"]]
    count = 24 * TRACE_DAYS
    total = np.zeros(count + 2)
    for row in rows:
        begin, end = (min(float(row[name]) / HOUR_S, count) for name in ("scheduled_time", "deletion_time"))
        cores, first, last = float(row["cpu_milli"]) / 1000, int(begin), int(end)
        total[first : last + 1] += cores
        total[first] -= cores * (begin - first)
        total[last] -= cores * (last + 1 - end)
    return total[:count]


def windows(cores: Curve, *, check: bool) -> list[Curve]:
    """Windows of 34 days of the trace."""
    first = range(CHOSEN_DAYS, TRACE_DAYS - 2 * DAYS + 1, STEP_DAYS)
    last = range(0, CHOSEN_DAYS - 2 * DAYS + 1, STEP_DAYS)
    return [cores[24 * day : 24 * (day + 2 * DAYS)] for day in (first if check else last)]


def judged(load: Curve, of: Market, tolerant: float = 0.0) -> dict[str, StrategyCost]:
    """Cost of each strategy on the second half of a load."""
    half = 24 * DAYS
    study = study_provision(
        curve_of(0.0, HOUR_S, load[:half], tolerant),
        of,
        later=curve_of(half * HOUR_S, HOUR_S, load[half:], tolerant),
    )
    return {one.name: one for one in study.provision.judged}


def again(load: Curve) -> float:
    """Hourly cost if the decision is taken again after each week of the time that is paid for."""
    half, held, total = 24 * DAYS, 0, 0.0
    for first in range(half, len(load), 24 * WEEK_DAYS):
        part = load[first : first + 24 * WEEK_DAYS]
        study = study_provision(curve_of(0.0, HOUR_S, load[:first]), offers(held))
        held = sum(study.provision.offers[place].nodes for place in range(len(study.provision.offers)))
        total += cost(held, part) * len(part)
    return total / (len(load) - half)


def cost(reserved: float, load: Curve) -> float:
    """Hourly cost of a number of reserved cores on a load."""
    return reserved / RATIO + float(np.maximum(0.0, load - reserved).mean())


def fixed_rule(half_life_days: float, growth: float) -> Callable[[Curve], float]:
    """Quantile of the past with weights that halve, and a share of the growth to the middle of what comes."""

    def reserved(history: Curve) -> float:
        daily = history.reshape(-1, 24).mean(axis=1)
        first, later = np.triu_indices(len(daily), 1)
        slope = float(np.median((daily[later] - daily[first]) / (later - first)))
        weights = 0.5 ** ((np.arange(len(history))[::-1] // 24) / half_life_days)
        order = np.argsort(history)
        place = np.searchsorted(np.cumsum(weights[order]), (1 - 1 / RATIO) * weights.sum())
        return max(0.0, float(history[order][place]) + growth * slope * DAYS / 2)

    return reserved


def best_fixed(loads: list[Curve], best: list[float], of: Callable[[list[float]], float]) -> float:
    """Least figure over the windows, by costs above hindsight, of all fixed rules."""
    half = 24 * DAYS
    return min(
        of(
            [
                cost(rule(load[:half]), load[half:]) / least - 1
                for load, least in zip(loads, best, strict=True)
            ]
        )
        for rule in itertools.starmap(fixed_rule, itertools.product(HALF_LIVES_DAYS, GROWTHS))
    )


def parts(load: Curve, decided: StrategyCost, best: StrategyCost) -> tuple[float, float, float]:
    """Cost above hindsight by too many, by too few reserved cores, and by rent for what is not used."""
    off = cost(decided.nodes, load) - cost(best.nodes, load)
    rent = decided.hourly - best.hourly - off  # nodes are whole, and boots are paid for
    many = off if decided.nodes > best.nodes else 0.0
    return many / best.hourly, (off - many) / best.hourly, rent / best.hourly


def unknowable(shape: str, loads: list[Curve], others: range) -> list[float]:
    """Cost above hindsight of one that knows the kind of each load and sees it up to day 17."""
    half, share = 24 * DAYS, 1 - 1 / RATIO
    known = known_kind(np.array([drawn(shape, seed) for seed in others]), share, cost)
    counts = known.reserved(daily(np.array([load[:half] for load in loads])))
    return [
        cost(count, load[half:]) / cost(float(np.quantile(load[half:], share)), load[half:]) - 1
        for count, load in zip(counts.tolist(), loads, strict=True)
    ]


def _median(values: list[float]) -> float:
    return float(np.median(values))


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _kind(name: str, loads: list[Curve], *, each: bool, open_costs: list[float] | None = None) -> list[Row]:
    """Rows of one kind of load, and a table of its windows.

    Args:
        open_costs: cost above hindsight that is unknowable on day 17, window by window; None for not known.
    """
    of = offers()
    found = [judged(load, of) for load in loads]
    best = [one[HINDSIGHT].hourly for one in found]
    over = {
        strategy: [one[strategy].hourly / least - 1 for one, least in zip(found, best, strict=True)]
        for strategy in found[0]
        if strategy != HINDSIGHT
    }
    over["decided again each week"] = [
        again(load) / least - 1 for load, least in zip(loads, best, strict=True)
    ]
    if open_costs is not None:
        over["unknowable on day 17"] = open_costs
    print(f"{name}: cost above hindsight in % over {len(loads)} windows: median, mean, most")
    for strategy, values in over.items():
        figures = (np.median(values), np.mean(values), np.max(values))
        print(f"  {strategy:28}" + "".join(f"{100 * one:8.1f}" for one in figures))
    fixed = {
        "median": best_fixed(loads, best, _median),
        "mean": best_fixed(loads, best, _mean),
        "most": best_fixed(loads, best, max),
    }
    print(f"  {'fixed rule, best in hindsight':28}" + "".join(f"{100 * one:8.1f}" for one in fixed.values()))
    apart = [
        parts(load[24 * DAYS :], one[DECIDED], one[HINDSIGHT]) for load, one in zip(loads, found, strict=True)
    ]
    shown = [100 * float(np.mean(part)) for part in zip(*apart, strict=True)]
    print("  mean of the decision, apart: too many {:.1f}, too few {:.1f}, rent {:.2f}".format(*shown))
    if each:
        for load, one, least in zip(loads, found, best, strict=True):
            print(
                f"  {load[: 24 * DAYS].mean():6.0f} cores, then {load[24 * DAYS :].mean():6.0f}: "
                f"hindsight {least:6.1f}, "
                + ", ".join(f"{key} {paid.hourly:.1f}" for key, paid in one.items() if key != HINDSIGHT)
            )
    label = f"{name}, {len(loads)} windows"
    rows = []
    for figure, of_values in (("median", _median), ("mean", _mean)):
        theirs = fixed[figure] if open_costs is None else of_values(open_costs)
        values = over[DECIDED]
        rows.append(
            Row(
                name=f"cost above hindsight, {figure}: {label}",
                ours=100 * of_values(values),
                unit="%",
                target=100 * GOAL if figure == "median" else None,
                alternative="best fixed rule in hindsight" if open_costs is None else "unknowable on day 17",
                theirs=100 * theirs,
                spread=(100 * min(values), 100 * max(values)),
            )
        )
    return rows


def _spot_row(load: Curve) -> Row:
    found = judged(load, offers(spot=True), TOLERANT)
    print(
        "last window of the trace with spot: "
        + ", ".join(f"{key} {one.hourly:.1f}" for key, one in found.items())
    )
    ours = found["decided, with spot"].hourly / found[HINDSIGHT_SPOT].hourly - 1
    return Row(
        name=f"cost above hindsight with three spot recordings, {TOLERANT:.0%} may be interrupted",
        ours=100 * ours,
        unit="%",
        target=100 * GOAL,
    )


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    seeds = range(CHECKED_ON.start, CHECKED_ON.start + 3) if quick else CHECKED_ON
    rows = []
    if DATA.is_dir():
        cores = pods()
        rows += _kind("trace, days of the choice", windows(cores, check=False), each=True)
        rows += _kind("trace, days of the check", windows(cores, check=True), each=True)
        rows.append(_spot_row(cores[-24 * 2 * DAYS :]))
    else:
        print(f"skipped: {DATA} is not there", file=sys.stderr)
    others = OTHERS[:300] if quick else OTHERS
    for shape in SHAPES | CHOICE | UNSEEN | KEPT:
        loads = [drawn(shape, seed) for seed in seeds]
        rows += _kind(shape, loads, each=False, open_costs=unknowable(shape, loads, others))
    return rows
