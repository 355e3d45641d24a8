"""`kwiken storage pack`: places data sets on few nodes under latency limits, and says what to move."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import (
    note,
    note_written,
    print_json,
    print_table,
    progress,
    read_text,
    say,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.document_sizes import MAX_NODES_FILE
from kwiken.cli.shared.options import (
    Real,
    json_option,
    needs_extra,
    out_option,
    refuse_shared_stdout,
    removed_option,
)

if TYPE_CHECKING:
    from kwiken.base.arrays import Floats, Ints
    from kwiken.storage.consolidation.document import DataDocument
    from kwiken.storage.consolidation.moves import MovePlan
    from kwiken.storage.consolidation.packing import DiskNodes, PackObjects, PackRules

MAX_DATASETS_FILE: Final = 16 * MIB
MAX_HISTORY: Final = 256 * MIB
MAX_LAYOUT: Final = 64 * MIB
DAY_S: Final = 86_400.0
SHOWN: Final = 40  # rows of a table
SEED: Final = 0  # of the search, so that one input has one layout


@click.command(short_help="Place data sets on few nodes under latency limits.")
@click.argument("nodes", metavar="NODES")
@click.argument("datasets", metavar="DATASETS")
@click.option("--history", metavar="FILE", help="CSV of demand over time: t_s,dataset,mb_s.")
@click.option("--beside", metavar="FILE", help="Layout that is in force; what moves from it is told.")
@removed_option("--demand", "python -m papers bloc, in a checkout of kwiken's source, which plays days")
@removed_option("--fit", "no option: the search is never worse")
@click.option(
    "--interval", "interval_s", type=Real(60, 86_400), default=1800.0, show_default=True, help="Seconds."
)
@click.option(
    "--reserve",
    type=Real(0, 0.5),
    default=0.02,
    show_default=True,
    help="Share of each node's bandwidth kept for copies, catch-up and migration together.",
)
@click.option(
    "--interference", type=Real(0.001, 1), default=0.10, show_default=True, help="Largest loss by neighbours."
)
@click.option("--no-interference", is_flag=True, help="Let size and bandwidth alone bound a node.")
@click.option("--quantile", type=Real(0.5, 1), help="Share of intervals that a forecast is to cover.")
@out_option(what="layout")
@json_option
@needs_extra("plan")
def command(
    *,
    nodes: str,
    datasets: str,
    history: str | None,
    beside: str | None,
    interval_s: float,
    reserve: float,
    interference: float,
    no_interference: bool,
    quantile: float | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Place the data sets of DATASETS on the nodes of NODES, so that few nodes are awake.

    A data set's latency target bounds the bandwidth of its node, by its curve. Replicas of one datum share no
    node and no zone. Nothing is moved: the output is a layout and a list of moves.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    document, there = _inputs(nodes, datasets)
    from kwiken.storage.consolidation.document import layout_json
    from kwiken.storage.consolidation.packing import PackRules

    rules = PackRules(
        reserve_share=reserve,
        most_interference=math.inf if no_interference else interference,
        apart=_zones_suffice(document, there),
    )
    expected = None if history is None else _forecast(history, document, interval_s, quantile)
    with progress("packing"):
        found = _packed(document, there, expected, rules, beside, interval_s)
    answer = _summary(found, there)
    if as_json:
        print_json(answer)
    elif out != "-":
        _show(answer)
    if out is not None:
        write_text(out, layout_json(found[0], there, found[2]))
        note_written(out)


def _inputs(nodes: str, datasets: str) -> tuple[DataDocument, DiskNodes]:
    text, sets = read_text(nodes, MAX_NODES_FILE), read_text(datasets, MAX_DATASETS_FILE)
    from kwiken.model.nodes.document import nodes_from_toml
    from kwiken.storage.consolidation.document import datasets_from_toml, nodes_of

    cluster = nodes_from_toml(text, where=nodes)
    document = datasets_from_toml(sets, where=datasets)
    return document, nodes_of(
        document,
        [node.name for node in cluster.nodes],
        [node.node_class for node in cluster.nodes],
        cluster.zones.tolist(),
        where=datasets,
    )


def _zones_suffice(document: DataDocument, nodes: DiskNodes) -> bool:
    """Whether every replica can have a zone of its own; where not, nodes alone keep replicas apart."""
    most = max(each.replicas for each in document.datasets)
    zones = len(set(nodes.zone.tolist()))
    if most > zones:
        note(f"note: {most} replicas and {zones} zones: replicas share zones, and no node")
    return most <= zones


def _forecast(path: str, document: DataDocument, interval_s: float, quantile: float | None) -> Floats:
    """Demand of each data set in the next interval, by its history."""
    text = read_text(path, MAX_HISTORY)
    from kwiken.storage.consolidation.document import history_from_csv
    from kwiken.storage.consolidation.forecast import DemandForecaster

    names = [each.name for each in document.datasets]
    series = history_from_csv(text, names, interval_s, where=path)
    forecaster = DemandForecaster(max(1, round(86_400 / interval_s)), len(names), quantile)
    for number, seen in enumerate(series):
        if number:
            forecaster.forecast()
        forecaster.observe(seen)
    if len(series) * interval_s < DAY_S:
        note(f"note: {path} spans less than a day; the last interval's demand is taken to go on")
    return forecaster.forecast()


Found = tuple["PackObjects", "Floats", "Ints", "MovePlan | None", dict[str, Any]]


def _packed(
    document: DataDocument,
    nodes: DiskNodes,
    expected: Floats | None,
    rules: PackRules,
    beside: str | None,
    interval_s: float,
) -> Found:
    """Objects, scores, place of each object, moves from the layout in force, and facts."""
    import numpy as np

    from kwiken.storage.consolidation.bound import least_nodes
    from kwiken.storage.consolidation.document import objects_of, place_from_json
    from kwiken.storage.consolidation.moves import MoveRules, update_placement
    from kwiken.storage.consolidation.packing import consolidate, placing_order
    from kwiken.storage.consolidation.search import searched

    objects, scores = objects_of(document, expected)
    order = placing_order(objects, scores)
    facts: dict[str, Any] = {"objects": len(objects), "nodes": len(nodes)}
    plan = None
    if beside is None:
        packed = searched(objects, nodes, scores, rules, np.random.default_rng(SEED))
        place, oversized, unplaced = packed.place, packed.oversized, packed.unplaced
    else:
        before = place_from_json(read_text(beside, MAX_LAYOUT), objects, nodes, where=beside)
        added = consolidate(objects, nodes, scores, rules, order=order, start=before)
        plan = update_placement(
            objects, nodes, scores, added.place, rules, MoveRules(interval_s=interval_s), order=order
        )
        place, oversized, unplaced = plan.place, added.oversized, added.unplaced
    if len(unplaced):
        names = ", ".join(objects.names[which] for which in unplaced[:5])
        raise InputError(
            f"{len(unplaced)} parts fit on no node: {names}; add nodes, raise a target or lower --reserve",
            where="pack",
        )
    facts["nodes_used"] = len(np.unique(place))
    facts["oversized"] = [objects.names[which] for which in oversized]
    facts["fewest_nodes"] = least_nodes(objects, nodes, scores, rules)
    return objects, scores, place, plan, facts


def _summary(found: Found, nodes: DiskNodes) -> dict[str, Any]:
    import shlex

    import numpy as np

    objects, scores, place, plan, facts = found
    from kwiken.storage.consolidation.packing import NodeLoads

    loads = NodeLoads(objects, nodes, scores, place)
    rows = [
        {
            "node": nodes.names[node],
            "objects": int(loads.count[node]),
            "gb": float(loads.size[node]),
            "capacity_gb": float(nodes.capacity[node]),
            "mb_s": float(loads.bandwidth[node]),
            "limit_mb_s": float(min(loads.bandwidth_limit[node], nodes.rated[node])),
            "interference": float(loads.interference[node]),
        }
        for node in np.flatnonzero(loads.count).tolist()
    ]
    answer: dict[str, Any] = {**facts, "awake": rows}
    answer["asleep"] = [nodes.names[node] for node in np.flatnonzero(loads.count == 0).tolist()]
    if plan is not None:
        answer["moves"] = [
            {
                "object": objects.names[move.which],
                "from": nodes.names[move.source],
                "to": nodes.names[move.target],
                "mb_s": move.rate,
                "minutes": move.seconds / 60,
                "rsync": shlex.join(
                    [
                        *("rsync", "-a", f"--bwlimit={max(1, int(move.rate * 1000))}", "--"),
                        f"{nodes.names[move.source]}:/data/{objects.names[move.which]}/",
                        f"{nodes.names[move.target]}:/data/{objects.names[move.which]}/",
                    ]
                ),
            }
            for move in plan.moves
        ]
        answer["late"] = [objects.names[move.which] for move in plan.late]
    return answer


def _show(answer: dict[str, Any]) -> None:
    gap = answer["nodes_used"] - answer["fewest_nodes"]
    say(
        f"{answer['objects']} parts and replicas on {answer['nodes_used']} of {answer['nodes']} nodes; "
        f"no packing needs fewer than {answer['fewest_nodes']} (gap {gap})"
    )
    print_table(
        "",
        ("node", "parts", "GB", "of", "MB/s", "limit", "interference"),
        (
            (
                row["node"],
                str(row["objects"]),
                f"{row['gb']:,.4g}",
                f"{row['capacity_gb']:,.4g}",
                f"{row['mb_s']:.4g}",
                f"{row['limit_mb_s']:.4g}",
                f"{100 * row['interference']:.2f}%",
            )
            for row in answer["awake"][:SHOWN]
        ),
    )
    if answer["asleep"]:
        shown = ", ".join(answer["asleep"][:SHOWN])
        say(f"may sleep: {shown}{' and more' if len(answer['asleep']) > SHOWN else ''}")
    if answer["oversized"]:
        say(f"alone and above its own limit: {', '.join(answer['oversized'][:SHOWN])}")
    for move in answer.get("moves", ())[:SHOWN]:
        say(
            f"move {move['object']} from {move['from']} to {move['to']} at {move['mb_s']:.4g} MB/s, "
            f"{move['minutes']:.3g} min"
        )
    if answer.get("late"):
        say(f"does not fit the interval and stays: {', '.join(answer['late'][:SHOWN])}")
