"""`kwiken probe machine`: calibrates contention kernels on this machine, and measures their crosstalk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note_written, print_json, print_table, progress, say, write_text
from kwiken.base.errors import InputError
from kwiken.cli.allocate.probing.run_probe import run_probe
from kwiken.cli.shared.options import (
    POSITIVE,
    json_option,
    needs_extra,
    out_option,
    refuse_shared_stdout,
    removed_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwiken.allocator.contention.crosstalk import Crosstalk
    from kwiken.allocator.contention.machine_probe import MachineProbe

MAX_PAIRS_SHOWN: Final = 12


@click.command(short_help="Calibrate tunable contention for each shared resource of this machine.")
@out_option(what="calibration")
@click.option(
    "--source", "wanted", multiple=True, metavar="NAME", help="Calibrate this source only; repeatable."
)
@click.option("--crosstalk/--no-crosstalk", default=True, show_default=True, help="Measure pairs of sources.")
@removed_option("--picture", "--json, and draw what you need from the numbers")
@click.option(
    "--memory-gb",
    type=POSITIVE,
    help="Memory to hold at full level.  [default: half of what is available]",
)
@click.option(
    "--folder", metavar="DIR", help="Folder on the disk to probe.  [default: that of temporary files]"
)
@json_option
@needs_extra("plan")
def command(
    *,
    out: str | None,
    wanted: tuple[str, ...],
    crosstalk: bool,
    memory_gb: float | None,
    folder: str | None,
    as_json: bool,
) -> None:
    """Press on each shared resource by levels, and measure how near the pressure follows the level.

    Then each source presses on each other one. Pairs that this machine cannot keep apart are named.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    sources = chosen_sources(wanted)
    with progress("probing") as bar:

        async def probe() -> MachineProbe:
            from pathlib import Path

            from kwiken.probes.build import build_kernels
            from kwiken.probes.facts import machine_facts
            from kwiken.probes.machine import MachineProber, ProbeSettings

            settings = ProbeSettings(memory_gb=memory_gb, folder=None if folder is None else Path(folder))
            program = await build_kernels()
            prober = MachineProber(program, machine_facts(), settings, bar.advance)
            bar.update(0, total=prober.steps(sources, crosstalk=crosstalk))
            return await prober.run(sources, crosstalk=crosstalk)

        found = run_probe(probe())
    from kwiken.allocator.contention.machine_probe import probe_to_json

    if out is not None:
        write_text(out, probe_to_json(found))
    if as_json:
        print_json(_as_json(found))
        return
    if out != "-":
        _show(found)
    note_written(out)


def chosen_sources(wanted: Sequence[str]) -> tuple[str, ...]:
    """Sources of contention to probe: those that are named, or all.

    Raises:
        InputError: an unknown name.
    """
    from kwiken.allocator.workloads.sources import SOURCES

    for name in wanted:
        if name not in SOURCES:
            raise InputError(f"no source {name!r}; known: {', '.join(SOURCES)}", where="--source")
    return tuple(source for source in SOURCES if not wanted or source in wanted)


def _show(found: MachineProbe) -> None:
    from kwiken.allocator.contention.sources import operations_of

    rows = [
        (
            name,
            f"{each.peak:.3g}",
            operations_of(name) + ("" if name == "memory-capacity" else "/s"),
            f"{each.residual:.1%}",
            f"{each.r_squared:.3f}",
            "" if each.linear else "not near a line",
        )
        for name, each in found.calibrations.items()
    ]
    columns = ("source", "at full level", "unit", "residual", "R²", "")
    print_table("", columns, rows)
    if found.assumed:
        say(f"not told by the system, so that usual sizes were taken: {', '.join(found.assumed)}")
    if found.crosstalk is not None:
        _show_crosstalk(found.crosstalk, found.processors)


def _show_crosstalk(cross: Crosstalk, processors: int) -> None:
    say("", f"crosstalk at level {cross.level:g}: mean loss {cross.mean_off_diagonal:.1%} between sources")
    pairs = cross.inseparable()
    if not pairs:
        say("every source was kept apart from every other")
        return
    count = "1 processor" if processors == 1 else f"{processors} processors"
    say(f"not kept apart on {count}, by the loss of the second while the first presses:")
    for presser, pressed, lost in pairs[:MAX_PAIRS_SHOWN]:
        say(f"  {presser} on {pressed}: {lost:.0%}")
    if len(pairs) > MAX_PAIRS_SHOWN:
        say(f"  and {len(pairs) - MAX_PAIRS_SHOWN} pairs with less")


def _as_json(found: MachineProbe) -> dict[str, Any]:
    cross = found.crosstalk
    return {
        "processors": found.processors,
        "assumed": found.assumed,
        "sources": {
            name: {
                "size_bytes": found.sizes[name],
                "peak": each.peak,
                "levels": each.levels,
                "drives": each.drives,
                "reached": each.reached,
                "residual": each.residual,
                "r_squared": each.r_squared,
                "linear": each.linear,
            }
            for name, each in found.calibrations.items()
        },
        "crosstalk": None
        if cross is None
        else {
            "level": cross.level,
            "sources": cross.sources,
            "losses": cross.losses.tolist(),
            "mean_off_diagonal": cross.mean_off_diagonal,
            "inseparable": cross.inseparable(),
        },
    }
