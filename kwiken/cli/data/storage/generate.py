"""`kwiken storage generate`: writes I/Os drawn from a model, as CSV, as an iolog or as a job of fio."""

from __future__ import annotations

from typing import Final

import click

from kwiken.apps.console.output import note, note_written, progress, write_text
from kwiken.cli.data.storage.models import FACTOR, load_model
from kwiken.cli.shared.options import needs_extra, removed_option, seed_option

MAX_IOS: Final = 50_000_000
FORMS: Final = ("csv", "iolog", "fio")


@click.command(short_help="Write I/Os drawn from a model, or a job of fio.")
@click.argument("model", metavar="MODEL")
@click.option("--to", type=click.Choice(FORMS), default="csv", show_default=True, help="Form of the output.")
@click.option(
    "--scale", type=FACTOR, default=1.0, show_default=True, help="Factor of every gap; below 1 is heavier."
)
@click.option(
    "--compress",
    type=FACTOR,
    default=1.0,
    show_default=True,
    help="Factor by which the time in each window of the day is shorter; gaps stay as they are.",
)
@click.option(
    "--ios", type=click.IntRange(1, MAX_IOS), help="I/Os to draw.  [default: as many as were trained on]"
)
@removed_option("--mode", "no option: I/Os are drawn as a walk over states")
@seed_option
@click.option("-o", "--out", "out", default="-", metavar="FILE", help="File to write; '-' is stdout.")
@needs_extra("plan")
def command(
    *, model: str, to: str, scale: float, compress: float, ios: int | None, seed: int, out: str
) -> None:
    """Draw I/Os from MODEL, which kwiken storage fit wrote."""
    learned = load_model(model)
    import numpy as np

    from kwiken.export.block_io.fio import fio_job
    from kwiken.export.block_io.trace_text import csv_text, iolog_text
    from kwiken.storage.model.generator import IODrawing, generate, thin_windows

    thin = thin_windows(learned, compress) if compress > 1 else 0
    if thin:
        note(f"note: {thin} of {len(learned.windows)} windows hold fewer than 200 I/Os once compressed")
    if to == "fio":
        asked = learned.trained.ios if ios is None else ios
        text = fio_job(learned, ios=max(1, round(asked / compress)), scale=scale)
    else:
        drawing = IODrawing(ios=ios, scale=scale, compress=compress)
        with progress("generating"):
            trace = generate(learned, np.random.default_rng(seed), drawing)
            text = csv_text(trace) if to == "csv" else iolog_text(trace)
    write_text(out, text)
    note_written(out)
