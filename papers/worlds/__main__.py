"""`python -m papers.worlds`: compares managers on a simulated cluster."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import click

from kwiken.apps.console.output import note, print_json, print_table, progress
from kwiken.base.errors import InputError
from kwiken.cli.shared.engines import engine_options, spread
from kwiken.cli.shared.options import json_option, needs_extra
from papers.command import PaperCommand
from papers.worlds.crowded_comparison import compare_crowded

MAX_SEEDS: Final = 64
MAX_FIRST_SEED: Final = 1_000_000
WAIT: Final = "mean wait, s"
ONCE_STARTED: Final = "mean performance, %"
FROM_ARRIVAL: Final = "mean performance from arrival, at most 1, %"
COLUMNS: Final = (
    ("wait", WAIT, " s"),
    ("performance from arrival", FROM_ARRIVAL, "%"),
    ("once started: performance", ONCE_STARTED, "%"),
    ("QoS kept", "QoS kept, %", "%"),
    ("lost to contention", "mean loss by contention, %", "%"),
    ("cores used", "cores used, %", "%"),
    ("last end", "makespan, s", " s"),
    ("moves", "moves", ""),
)


@click.command("papers.worlds", cls=PaperCommand)
@click.argument("scenario", metavar="SCENARIO", required=False)
@click.option("--list", "list_names", is_flag=True, help="Name the scenarios and the managers, and end.")
@click.option("--manager", "managers", metavar="NAME", multiple=True, help="Manager to compare; all if none.")
@click.option("--seeds", type=click.IntRange(1, MAX_SEEDS), default=1, show_default=True, help="Draws.")
@click.option(
    "--first-seed",
    type=click.IntRange(0, MAX_FIRST_SEED),
    default=0,
    show_default=True,
    help="Seed of the first draw; the others follow.",
)
@click.option("--arrivals", metavar="FILE", help="Times of arrival in seconds, for a crowded scenario.")
@click.option("--ablations", is_flag=True, help="Change one rule at a time too, in a crowded scenario.")
@engine_options()
@json_option
@needs_extra("plan")
def command(
    *,
    scenario: str | None,
    list_names: bool,
    managers: Sequence[str],
    seeds: int,
    first_seed: int,
    arrivals: str | None,
    ablations: bool,
    engine: str,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Play SCENARIO on a simulated cluster under several managers, on the same draws.

    A manager is a scheduler with what it knows of the workloads, and with its rules after placement. Crowded
    scenarios are a world that is not the schedulers' model; they have managers of their own.
    """
    from papers.worlds.crowded.truth.rules import LOADS
    from papers.worlds.fleet.comparison import run_of
    from papers.worlds.fleet.managers import CONTESTANTS

    if list_names:
        _list(as_json=as_json)
        return
    if scenario in LOADS:
        compare_crowded(
            scenario,
            managers,
            range(first_seed, first_seed + seeds),
            arrivals=arrivals,
            ablations=ablations,
            engine=engine,
            processes=jobs,
            as_json=as_json,
        )
        return
    checked = _checked(scenario, managers, {"--arrivals": arrivals is not None, "--ablations": ablations})
    chosen = tuple(dict.fromkeys(managers)) or tuple(CONTESTANTS)
    drawn = range(first_seed, first_seed + seeds)
    runs = [(run_of, (checked, seed, name)) for name in chosen for seed in drawn]
    with progress("simulating", total=len(runs)) as bar:
        figures = list(spread(runs, engine, jobs, bar.advance))
    found = {name: figures[at * seeds : (at + 1) * seeds] for at, name in enumerate(chosen)}
    _print(checked, found, as_json=as_json)


def _print(scenario: str, found: Mapping[str, Sequence[Mapping[str, float]]], *, as_json: bool) -> None:
    """Print the figures of every manager."""
    from papers.worlds.fleet.catalogue import SCENARIOS

    if as_json:
        print_json({"scenario": scenario, "managers": found})
        return
    title = f"{scenario}: {SCENARIOS[scenario].title}"
    rows = [
        (name, *(_cell(runs, figure, unit) for _, figure, unit in COLUMNS)) for name, runs in found.items()
    ]
    print_table(title, ("manager", *(head for head, _, _ in COLUMNS)), rows)
    if told := _wait_told(found):
        note(told)


def _wait_told(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """What the wait does to the order of managers; empty where the same one leads with it and without."""
    started, arrived, wait_s = (
        {name: statistics.median(run[figure] for run in runs) for name, runs in found.items()}
        for figure in (ONCE_STARTED, FROM_ARRIVAL, WAIT)
    )
    first, leader = max(started, key=started.__getitem__), max(arrived, key=arrived.__getitem__)
    if first == leader:
        return ""
    return (
        f"{first} leads by performance once started, which leaves out a mean wait of {wait_s[first]:,.0f} s. "
        f"With the wait, {leader} leads: {arrived[leader]:.1f}% from arrival, after a mean wait of "
        f"{wait_s[leader]:,.0f} s; {first} has {arrived[first]:.1f}%."
    )


def _checked(scenario: str | None, managers: Sequence[str], crowded_only: Mapping[str, bool]) -> str:
    """Name of a scenario, once the scenario and the managers exist and no option is for another world."""
    from papers.worlds.crowded.truth.rules import LOADS
    from papers.worlds.fleet.catalogue import SCENARIOS
    from papers.worlds.fleet.managers import CONTESTANTS

    for name, given in crowded_only.items():
        if given:
            raise InputError(f"is for crowded scenarios only: {', '.join(LOADS)}", where=name)
    if scenario is None or scenario not in SCENARIOS:
        told = "name a scenario" if scenario is None else f"no scenario {scenario!r}"
        raise InputError(f"{told}: {', '.join((*SCENARIOS, *LOADS))}", where="SCENARIO")
    for name in managers:
        if name not in CONTESTANTS:
            raise InputError(f"no manager {name!r}; known: {'; '.join(CONTESTANTS)}", where="--manager")
    return scenario


def _list(*, as_json: bool) -> None:
    """Print the names of scenarios and managers."""
    from papers.worlds.crowded.managers import CROWDED_MANAGERS
    from papers.worlds.crowded.truth.rules import LOADS
    from papers.worlds.fleet.catalogue import SCENARIOS
    from papers.worlds.fleet.managers import CONTESTANTS

    titles = {name: entry.title for name, entry in SCENARIOS.items()} | {
        name: f"600 jobs on 80 nodes that reserve {load:.0%} of the cores; not the schedulers' model"
        for name, load in LOADS.items()
    }
    if as_json:
        print_json(
            {
                "scenarios": titles,
                "managers": list(CONTESTANTS),
                "managers of crowded scenarios": list(CROWDED_MANAGERS),
            }
        )
        return
    print_table("", ("scenario", "what happens"), titles.items())
    print_table("", ("manager", "scheduler"), _managers())
    print_table("", ("manager of crowded scenarios", "scheduler"), _crowded_managers())


def _managers() -> list[tuple[str, str]]:
    from papers.worlds.fleet.managers import CONTESTANTS

    return [
        (name, f"{one.scheduler}, knowledge {one.knowledge}{', follows its workloads' * one.follows}")
        for name, one in CONTESTANTS.items()
    ]


def _crowded_managers() -> list[tuple[str, str]]:
    from papers.worlds.crowded.managers import CROWDED_MANAGERS

    return [
        (name, f"{one.scheduler}, entries {one.insight or 'none'}{', follows its jobs' * one.follows}")
        for name, one in CROWDED_MANAGERS.items()
    ]


def _cell(runs: Sequence[Mapping[str, float]], figure: str, unit: str) -> str:
    """Median over the draws, with the lowest and the highest where there are several."""
    values = [run[figure] for run in runs]
    middle = f"{statistics.median(values):.4g}{unit}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.4g} to {max(values):.4g})"


if __name__ == "__main__":
    command.main()
