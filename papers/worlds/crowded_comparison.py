"""Managers compared in the crowded world, for `python -m papers.worlds`: figures, orders, ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from kwiken.apps.console.output import print_json, print_table, progress, read_text
from kwiken.base.errors import InputError
from kwiken.cli.shared.engines import spread

if TYPE_CHECKING:
    from kwiken.base.arrays import Floats
    from kwiken.base.jobs import Job

MAX_ARRIVALS: Final = 10_000
MAX_BYTES: Final = 1 << 20  # of a file of arrivals
COLUMNS: Final = (
    ("performance", "mean performance, %", "%"),
    ("QoS kept", "QoS kept, %", "%"),
    ("from arrival", "mean performance from arrival, %", "%"),
    ("cores used", "cores used, %", "%"),
    ("wait", "mean wait, s", " s"),
    ("kills", "kills", ""),
    ("given up", "given up", ""),
    ("moves", "moves", ""),
    ("looks", "looks", ""),
)
Runs = Sequence[Mapping[str, Mapping[str, float]]]  # by seed: figures by manager


def compare_crowded(
    load: str,
    managers: Sequence[str],
    seeds: range,
    *,
    arrivals: str | None,
    ablations: bool,
    engine: str,
    processes: int | None,
    as_json: bool,
) -> None:
    """Run a load of the crowded world under managers, and print figures, orders and ablations.

    Args:
        managers: names of managers; all if empty.
        seeds: seeds of the draws; orders need two or more.
        arrivals: file of times of arrival in seconds, one a line; None for a Poisson process.
        ablations: whether runs with one rule changed at a time follow.
        engine: where the runs are made, as `spread` takes it.
        processes: number of processes of this machine; None for one a core.

    Raises:
        InputError: names an unknown manager, or what is wrong with the file.
    """
    from papers.worlds.crowded.comparison import (
        ABLATED_PAIRS,
        CROWDED_PAIRS,
        ORDERED,
        ablated,
        crowded,
        paired,
    )
    from papers.worlds.crowded.managers import CROWDED_MANAGERS
    from papers.worlds.crowded.truth.rules import ABLATIONS

    for name in managers:
        if name not in CROWDED_MANAGERS:
            raise InputError(f"no manager {name!r}; known: {'; '.join(CROWDED_MANAGERS)}", where="--manager")
    chosen = tuple(dict.fromkeys(managers)) or tuple(CROWDED_MANAGERS)
    arrivals_s = None if arrivals is None else _times(arrivals)
    names = tuple(ABLATIONS) if ablations else ()
    jobs: list[Job] = []
    for seed in seeds:
        jobs += [(partial(crowded, load, seed, (name,), arrivals_s=arrivals_s), ()) for name in chosen]
        jobs += [(ablated, (load, seed, name)) for name in names]
    with progress("simulating", total=len(jobs)) as bar:
        figures = list(spread(jobs, engine, processes, bar.advance))
    each = len(chosen) + len(names)
    by_seed = [figures[at * each : (at + 1) * each] for at in range(len(seeds))]
    runs = [{name: found[at][name] for at, name in enumerate(chosen)} for found in by_seed]
    changed = {name: [found[len(chosen) + at] for found in by_seed] for at, name in enumerate(names)}
    orders = [
        paired(runs, first, second, figure)
        for figure in ORDERED
        for first, second in CROWDED_PAIRS
        if len(seeds) > 1 and first in chosen and second in chosen
    ]
    without = {
        name: [paired(each, *pair, figure) for figure in ORDERED for pair in ABLATED_PAIRS]
        for name, each in changed.items()
        if len(seeds) > 1
    }
    if as_json:
        document: dict[str, Any] = {"load": load, "seeds": list(seeds), "managers": _by_manager(runs)}
        document["orders"] = [asdict(one) | {"verdict": one.verdict} for one in orders]
        document["ablations"] = {
            name: [asdict(one) | {"verdict": one.verdict} for one in found] for name, found in without.items()
        }
        print_json(document)
        return
    title = f"{load}, seeds {seeds[0]} to {seeds[-1]}: means over the seeds"
    rows = [(name, *(_cell(runs, name, figure, unit) for _, figure, unit in COLUMNS)) for name in chosen]
    print_table(title, ("manager", *(head for head, _, _ in COLUMNS)), rows)
    head = ("order", "figure", "lead", "99% interval", "verdict")
    if orders:
        print_table("orders, by paired differences in points", head, _lines(orders))
    for name, found in without.items():
        print_table(f"one rule changed: {name}", head, _lines(found))


def _lines(orders: Sequence[Any]) -> list[tuple[str, ...]]:
    return [
        (
            f"{one.first} before {one.second}",
            one.figure.removesuffix(", %"),
            f"{one.lead:+.1f}",
            f"{one.low:+.1f} to {one.high:+.1f}",
            str(one.verdict),
        )
        for one in orders
    ]


def _by_manager(runs: Runs) -> dict[str, list[Mapping[str, float]]]:
    return {name: [run[name] for run in runs] for name in runs[0]}


def _cell(runs: Runs, manager: str, figure: str, unit: str) -> str:
    return f"{fmean(run[manager][figure] for run in runs):.4g}{unit}"


def _times(path: str) -> Floats:
    """Times of arrival in seconds, one a line; empty lines are passed by."""
    import numpy as np

    lines = read_text(path, MAX_BYTES).splitlines()
    if len(lines) > MAX_ARRIVALS:
        raise InputError(f"holds {len(lines)} lines; at most {MAX_ARRIVALS} arrivals are read", where=path)
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(float(line))
            except ValueError:
                raise InputError(
                    f"must be a time in seconds, not {line.strip()[:40]!r}", where=f"{path}, line {number}"
                ) from None
    return np.array(found)
