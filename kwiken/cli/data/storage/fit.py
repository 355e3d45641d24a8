"""`kwiken storage fit`: learns the model of a storage workload from a trace of block I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note_written, print_json, print_table, progress, say, write_text
from kwiken.cli.data.storage.models import load_trace
from kwiken.cli.shared.options import json_option, needs_extra, out_option, refuse_shared_stdout

if TYPE_CHECKING:
    from kwiken.storage.model.document import StorageModel
    from kwiken.storage.trace.block_trace import BlockTrace

MAX_LEVELS: Final = 8
SHOWN_VOLUMES: Final = 20


@click.command(short_help="Learn a storage workload from a trace of block I/O.")
@click.argument("trace", metavar="TRACE")
@out_option(what="model")
@click.option(
    "--levels",
    type=click.IntRange(1, MAX_LEVELS),
    help="Depth of an even tree of states, as published, instead of states refined where accesses are.",
)
@json_option
@needs_extra("plan")
def command(*, trace: str, out: str | None, levels: int | None, as_json: bool) -> None:
    """Learn states, transitions, classes and gaps of I/Os from TRACE, a file of block I/O.

    The format is told from the content: text of blkparse, fio's iolog, columns of MSR, SPC, MQSim or vSCSI,
    or the CSV that kwiken storage generate writes.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    records = load_trace(trace)
    from kwiken.storage.model.training import train

    with progress("learning"):
        model = train(records, levels=levels)
    if out is not None:
        write_text(out, model.to_json())
    if as_json:
        print_json(_summary(records, model))
    elif out != "-":
        _show(records, model)
    note_written(out)


def _summary(trace: BlockTrace, model: StorageModel) -> dict[str, Any]:
    import numpy as np

    counts = np.bincount(trace.volume, minlength=len(trace.volumes))
    return {
        "ios": len(trace),
        "duration_s": trace.duration_s,
        "rate_per_s": model.rate_per_s,
        "read_share": float(trace.read.mean()),
        "sequential_share": float(trace.sequential.mean()),
        "states": model.states,
        "transitions": model.pairs,
        "classes": len(model.classes),
        "gap_mean_ms": model.gaps[0].mean_ms,
        "gap_spread": model.gaps[0].sd_ms / model.gaps[0].mean_ms if model.gaps[0].mean_ms else None,
        "gap_family": model.gaps[0].family,
        "windows": len(model.windows),
        "volumes": [
            {
                "name": name,
                "like": volume.name if name in volume.others else None,
                "ios": int(counts[trace.volumes.index(name)]),
                "states": len(volume.levels),
                "bytes": volume.high - volume.low,
            }
            for volume in model.volumes
            for name in volume.names
        ],
    }


def _show(trace: BlockTrace, model: StorageModel) -> None:
    found = _summary(trace, model)
    say(
        f"{found['ios']:,} I/Os in {found['duration_s']:.4g} s, {found['rate_per_s']:,.4g} a second; "
        f"{100 * found['read_share']:.2f}% read, {100 * found['sequential_share']:.2f}% sequential",
        f"gaps: mean {found['gap_mean_ms']:.4g} ms, coefficient of variation {found['gap_spread']:.3g}, "
        f"nearest family {found['gap_family']}",
        f"model: {found['states']:,} states, {found['transitions']:,} transitions, "
        f"{found['classes']} classes, {found['windows']} windows of {model.window_s:g} s",
    )
    volumes = sorted(found["volumes"], key=lambda volume: -volume["ios"])
    print_table(
        "",
        ("volume", "I/Os", "states", "addressed GB", ""),
        (
            (
                volume["name"],
                f"{volume['ios']:,}",
                str(volume["states"]),
                f"{volume['bytes'] / 1e9:.3f}",
                "" if volume["like"] is None else f"shares those of {volume['like']}",
            )
            for volume in volumes[:SHOWN_VOLUMES]
        ),
    )
    if len(volumes) > SHOWN_VOLUMES:
        say(f"and {len(volumes) - SHOWN_VOLUMES} more volumes")
