"""`kwiken pack`: fewer nodes for the same tasks, by what they use, with a dial between nodes and risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, note_written, print_json, progress, read_text, say, write_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.base.printable import printable_json
from kwiken.cli.shared.options import (
    Real,
    given,
    json_option,
    needs_extra,
    refuse_shared_stdout,
    removed_option,
)

if TYPE_CHECKING:
    from kwiken.allocator.packing.documents.kubernetes import KubernetesCluster
    from kwiken.allocator.packing.documents.usage_files import UsageTable
    from kwiken.allocator.packing.repacking import Repacking
    from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster

MAX_CLUSTER_FILE: Final = 1024 * MIB
MAX_USAGE_FILE: Final = 1024 * MIB
MAX_MOVES: Final = 1_000_000


@click.command()
@click.argument("cluster", metavar="CLUSTER")
@click.option(
    "--usage",
    metavar="FILE",
    help="Use of the tasks over time: CSV with time, replica, cores and memory, or a range result of "
    "Prometheus. Without it requests stand for use.",
)
@click.option(
    "--memory-usage", metavar="FILE", help="Range result of memory, where --usage is one of processors."
)
@click.option(
    "--dial",
    type=Real(0, 10),
    default=5.0,
    show_default=True,
    help="From 0, as few nodes as possible, to 10, no risk added.",
)
@click.option(
    "--risk",
    type=Real(0, 1),
    help="Most share of the time that a node may need more than it has, such as 0.001, instead of a dial.",
)
@removed_option("--keep-p99", "--risk SHARE", flag=True)
@click.option(
    "--moves", type=click.IntRange(0, MAX_MOVES), default=400, show_default=True, help="Most moves in all."
)
@click.option(
    "--spread",
    type=Real(0, 1, above=True),
    default=1 / 3,
    show_default="a third",
    help="Most of an owner's replicas that one node may receive, as a share; one is always allowed.",
)
@click.option("--judge", metavar="FILE", help="Later usage: how often nodes need more than they have, then.")
@removed_option("--picture", "--json, and draw what you need from its frontier")
@click.option(
    "--to", type=click.Choice(("kubernetes",)), help="Write commands of kubectl to -o instead of JSON."
)
@click.option("-o", "--out", "out", metavar="FILE", help="File to write the result to; '-' is stdout.")
@json_option
@needs_extra("plan")
def command(
    *,
    cluster: str,
    usage: str | None,
    memory_usage: str | None,
    dial: float,
    risk: float | None,
    moves: int,
    spread: float,
    judge: str | None,
    to: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Say which tasks of CLUSTER to move so that fewer nodes are needed, by what they use.

    CLUSTER is what `kubectl get nodes,pods,poddisruptionbudgets -A -o json` prints, or a placement from
    kwiken place. Nothing is moved. Memory is kept within every node; processors may run short, and how often
    is told.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    _refuse_mixed(risk, memory_usage, usage)
    if to is not None and out is None:
        raise click.UsageError("--to needs -o FILE, or -o - for stdout")
    text = read_text(cluster, MAX_CLUSTER_FILE)
    from kwiken.allocator.packing.repacking import RepackSettings, repack
    from kwiken.cli.allocate.packing.pack_report import note_findings, show, summary

    packed, listed = _cluster(text, cluster)
    if to is not None and listed is None:
        raise InputError(
            "is a placement of kwiken; --to kubernetes needs what kubectl printed", where=cluster
        )
    table = None if usage is None else _usage(usage, memory_usage, packed)
    later = None if judge is None else _usage(judge, None, packed)
    settings = RepackSettings(dial=dial, risk=risk, max_moves=moves, spread=spread)
    with progress("packing"):
        found = repack(packed, None if table is None else table.series, settings)
    judged = None if later is None else found.judged(later.series)
    if out is not None:  # before anything is printed, which may go to a pipe that is closed
        write_text(out, _written(found, judged, listed if to is not None else None))
        note_written(out)
    if as_json:
        print_json(summary(found, judged))
    elif out != "-":
        show(found, judged)
    note_findings(found, table, 0 if listed is None else listed.pending)
    if risk is not None and found.states[found.chosen].share > risk:
        note(
            f"note: no state is within --risk {risk:g}, so no move is proposed; --dial counts added risk only"
        )
    if out is None and not as_json:
        say("kwiken pack moves nothing itself; -o FILE keeps the answer, and --to kubernetes writes commands")


def _refuse_mixed(risk: float | None, memory_usage: str | None, usage: str | None) -> None:
    if given("dial") is not None and risk is not None:
        raise click.UsageError("--dial and --risk both say how far to go; choose one")
    if memory_usage is not None and usage is None:
        raise InputError("says nothing without --usage", where="--memory-usage")


def _cluster(text: str, where: str) -> tuple[PackedCluster, KubernetesCluster | None]:
    """Read a cluster of kubectl or a placement; told apart by the fields of the document."""
    from kwiken.allocator.packing.documents.kubernetes import cluster_from_kubectl
    from kwiken.allocator.packing.documents.placements import cluster_from_placement
    from kwiken.model.nodes.placement import Placement

    if '"scheduler"' in text[:4096] and '"items"' not in text[:4096]:
        return cluster_from_placement(Placement.from_json(text, where=where), where=where), None
    found = cluster_from_kubectl(text, where=where)
    return found.packed, found


def _usage(path: str, memory: str | None, packed: PackedCluster) -> UsageTable:
    text = read_text(path, MAX_USAGE_FILE)
    from kwiken.allocator.packing.documents.usage_files import usage_from_csv, usage_from_prometheus

    if text.lstrip()[:1] == "{":
        held = None if memory is None else read_text(memory, MAX_USAGE_FILE)
        return usage_from_prometheus(text, held, packed.tasks, where=path)
    if memory is not None:
        raise InputError(
            "goes with a range result of Prometheus; a CSV has a column memory", where="--memory-usage"
        )
    return usage_from_csv(text, packed.tasks, [node.name for node in packed.cluster.nodes], where=path)


def _written(found: Repacking, judged: tuple[float, float] | None, listed: KubernetesCluster | None) -> str:
    """Document to write: JSON, or commands of kubectl."""
    if listed is not None:
        from kwiken.export.placements.repacked import kubernetes_commands

        return kubernetes_commands(listed, found)
    import msgspec

    from kwiken.cli.allocate.packing.pack_report import summary

    encoded = msgspec.json.format(msgspec.json.encode(summary(found, judged)), indent=1)
    return printable_json(encoded.decode()) + "\n"
