"""`kwiken batch profile`: runs a job once on one worker, and keeps what its tasks did."""

from __future__ import annotations

from typing import Final

import click

from kwiken.apps.console.output import note, note_written, print_json, progress, say, write_text
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import json_option, needs_extra, refuse_shared_stdout

MAX_SLOTS: Final = 1024


@click.command()
@click.argument("job", metavar="MODULE:JOB")
@click.option(
    "--sample",
    metavar="PATH",
    help="File or folder to run the job on; its function, or that of its data, gets the path.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, MAX_SLOTS),
    default=1,
    show_default=True,
    help="Tasks that the worker runs at once.",
)
@click.option("-o", "--out", "out", metavar="FILE", help="File to write the job to; '-' is stdout.")
@json_option
@needs_extra("batch", "plan")
def command(*, job: str, sample: str | None, slots: int, out: str | None, as_json: bool) -> None:
    """Run a job of Dask once on one worker of this machine, and learn from it.

    MODULE has a mapping JOBS from the name of a job to a function that returns a collection of Dask, and may
    have DATA, as kwiken batch run reads it. The run is recorded as kwiken batch record does, and becomes a
    document for kwiken batch predict, which scales it by --executors and --input. The bytes of --sample count
    as the input.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    import asyncio

    from kwiken.apps.batch_run.dask_jobs import load_jobs
    from kwiken.apps.batch_run.profiling import profile_job
    from kwiken.batch.jobs.job import BatchJobs
    from kwiken.batch.jobs.logs.reading import read_log
    from kwiken.cli.batch.fit_report import note_unknown, show, summary

    module, _, name = job.rpartition(":")
    if not module or not name:
        raise InputError("write MODULE:JOB, such as my_jobs:report", where=job)
    lines: list[str] = []
    with progress("running the job on one worker"):
        asyncio.run(profile_job(load_jobs(module), name, sample, slots, lines.append))
    found = read_log((line.encode() for line in lines), name=name, where=job)
    if found is None or not found.jobs:
        raise InputError("no task has run, so there is nothing to learn", where=job)
    if as_json:
        print_json(summary(found.jobs))
    elif out != "-":
        show(found.jobs)
        note_unknown(found.jobs)
    if out is not None:
        write_text(out, BatchJobs(jobs=found.jobs).to_json())
        note_written(out)
    elif not as_json:
        say("nothing is written; -o FILE keeps the job for kwiken batch predict")
    if sample is None:
        note("without --sample the size of the input is not known: what first tasks made counts as read")
