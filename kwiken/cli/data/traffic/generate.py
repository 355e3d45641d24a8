"""`kwiken traffic generate`: single calls or counts, drawn from a traffic model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import numpy as np

from kwiken.apps.console.output import note, note_written, write_text
from kwiken.base.errors import InputError
from kwiken.cli.data.traffic.reading import load_traffic
from kwiken.cli.shared.options import POSITIVE, needs_extra, out_option, seconds_of, seed_option

if TYPE_CHECKING:
    from kwiken.traffic.document import TrafficModel

DAY_S: Final = 86_400.0
MAX_WRITTEN: Final = 20_000_000  # lines


@click.command()
@click.argument("traffic", metavar="TRAFFIC")
@click.option(
    "--duration", "duration_s", callback=seconds_of, default="1h", show_default=True, metavar="TIME",
    help="Length of the traffic, as in 90s, 30m, 1h or 2d.",
)  # fmt: skip
@click.option("--scale", type=POSITIVE, default=1.0, show_default=True, help="Factor of all rates.")
@click.option(
    "--to",
    "form",
    type=click.Choice(("events", "counts")),
    default="events",
    show_default=True,
    help="Single calls in order of time, or counts by time bin and pair.",
)
@click.option(
    "--start",
    "start_s",
    type=click.FloatRange(0, 4e9),
    help="Start, seconds since 1970, which decides on windows of the day.  [default: that of the model]",
)
@out_option("-", what="traffic, as CSV,")
@seed_option
@needs_extra("plan")
def command(
    *,
    traffic: str,
    duration_s: float,
    scale: float,
    form: str,
    start_s: float | None,
    out: str,
    seed: int,
) -> None:
    """Draw traffic of TRAFFIC, a model of kwiken traffic fit, and write it as CSV; nothing is sent."""
    model = load_traffic(traffic)
    rng = np.random.default_rng(seed)
    start = model.from_s if start_s is None else start_s
    if form == "events":
        text, number = _events(model, duration_s, scale, start, rng)
    else:
        text, number = _counts(model, duration_s, scale, start, rng)
    write_text(out, text)
    if out != "-":
        note(f"{number} {form}")
        note_written(out)


def _cells(model: TrafficModel) -> list[str]:
    """Names of the endpoints as cells of a CSV: two of one name get that of their service in front."""
    import csv
    from collections import Counter
    from io import StringIO

    known = Counter(one.name for one in model.endpoints)
    cells = []
    for one in model.endpoints:
        text = StringIO()
        name = one.name if known[one.name] == 1 else f"{one.service}/{one.name}"
        csv.writer(text, lineterminator="").writerow([name])
        cells.append(text.getvalue())
    return cells


def _events(
    model: TrafficModel, duration_s: float, scale: float, start: float, rng: np.random.Generator
) -> tuple[str, int]:
    from kwiken.traffic.flows import TrafficUnit
    from kwiken.traffic.generator import generate_events

    if model.unit is TrafficUnit.BYTES:
        raise InputError("events are single calls, and this model counts bytes; choose counts", where="--to")
    found = generate_events(model, duration_s, rng, start_s=start, scale=scale)
    if len(found.at_s) > MAX_WRITTEN:
        raise InputError(f"there would be more than {MAX_WRITTEN} lines", where="--duration")
    names = _cells(model)
    lines = [
        f"{at:.6f},{names[source]},{names[target]}"
        for at, source, target in zip(
            found.at_s.tolist(), found.source.tolist(), found.target.tolist(), strict=True
        )
    ]
    return "\n".join(("at_s,from,to", *lines, "")), len(lines)


def _counts(
    model: TrafficModel, duration_s: float, scale: float, start: float, rng: np.random.Generator
) -> tuple[str, int]:
    from kwiken.traffic.generator import generate_counts

    bins = max(1, int(np.ceil(duration_s / model.bin_s)))
    found = generate_counts(model, bins, rng, start_s=start, scale=scale)
    rows, pairs = np.nonzero(found)
    if len(rows) > MAX_WRITTEN:
        raise InputError(f"there would be more than {MAX_WRITTEN} lines", where="--duration")
    names = _cells(model)
    lines = [
        f"{row * model.bin_s:g},{names[model.source[pair]]},{names[model.target[pair]]},{found[row, pair]}"
        for row, pair in zip(rows.tolist(), pairs.tolist(), strict=True)
    ]
    return "\n".join((f"bin_s,from,to,{model.unit}", *lines, "")), len(lines)
