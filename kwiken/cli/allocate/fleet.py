"""`kwiken fleet`: plays a scenario on a simulated cluster under several managers, and compares them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import click

from kwiken.apps.console import print_json, print_table, progress
from kwiken.base.errors import InputError
from kwiken.cli.shared import json_option, needs_extra

MAX_SEEDS: Final = 64
COLUMNS: Final = (
    ("QoS kept", "QoS kept, %", "%"),
    ("performance", "mean performance, %", "%"),
    ("lost to contention", "mean loss by contention, %", "%"),
    ("cores used", "cores used, %", "%"),
    ("wait", "mean wait, s", " s"),
    ("last end", "makespan, s", " s"),
    ("moves", "moves", ""),
)


@click.command()
@click.argument("scenario", metavar="SCENARIO", required=False)
@click.option("--list", "list_names", is_flag=True, help="Name the scenarios and the managers, and end.")
@click.option("--manager", "managers", metavar="NAME", multiple=True, help="Manager to compare; all if none.")
@click.option("--seeds", type=click.IntRange(1, MAX_SEEDS), default=1, show_default=True, help="Draws.")
@json_option
@needs_extra("plan")
def command(
    *, scenario: str | None, list_names: bool, managers: Sequence[str], seeds: int, as_json: bool
) -> None:
    """Play SCENARIO on a simulated cluster under several managers, on the same draws.

    A manager is a scheduler with what it knows of the workloads, and with its rules after placement.
    """
    from kwiken.lab.fleet import CONTESTANTS, SCENARIOS, simulate

    if list_names:
        titles = {name: entry.title for name, entry in SCENARIOS.items()}
        if as_json:
            print_json({"scenarios": titles, "managers": list(CONTESTANTS)})
            return
        print_table("", ("scenario", "what happens"), titles.items())
        print_table("", ("manager", "scheduler"), _managers())
        return
    if scenario is None or scenario not in SCENARIOS:
        told = "name a scenario" if scenario is None else f"no scenario {scenario!r}"
        raise InputError(f"{told}: {', '.join(SCENARIOS)}", where="SCENARIO")
    for name in managers:
        if name not in CONTESTANTS:
            raise InputError(f"no manager {name!r}; known: {'; '.join(CONTESTANTS)}", where="--manager")
    chosen = tuple(dict.fromkeys(managers)) or tuple(CONTESTANTS)
    found: dict[str, list[Mapping[str, float]]] = {name: [] for name in chosen}
    with progress("simulating", total=seeds * len(chosen)) as bar:
        for seed in range(seeds):
            world = SCENARIOS[scenario].draw(seed)
            for name in chosen:
                found[name].append(simulate(world, name).summary())
                bar.advance()
    if as_json:
        print_json({"scenario": scenario, "managers": found})
        return
    title = f"{scenario}: {SCENARIOS[scenario].title}"
    rows = [
        (name, *(_cell(runs, figure, unit) for _, figure, unit in COLUMNS)) for name, runs in found.items()
    ]
    print_table(title, ("manager", *(head for head, _, _ in COLUMNS)), rows)


def _managers() -> list[tuple[str, str]]:
    from kwiken.lab.fleet import CONTESTANTS

    return [
        (name, f"{one.scheduler}, knowledge {one.knowledge}{', follows its workloads' * one.follows}")
        for name, one in CONTESTANTS.items()
    ]


def _cell(runs: Sequence[Mapping[str, float]], figure: str, unit: str) -> str:
    """Median over the draws, with the lowest and the highest where there are several."""
    values = [run[figure] for run in runs]
    middle = f"{statistics.median(values):.4g}{unit}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.4g} to {max(values):.4g})"
