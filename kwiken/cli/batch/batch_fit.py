"""`kwiken batch fit`: learns jobs, stages, tasks and bytes from the logs of batch engines."""

from __future__ import annotations

from typing import Final

import click

from kwiken.apps.console.output import note, note_written, print_json, progress, say, write_text
from kwiken.cli.batch.inputs.job_inputs import jobs_of_logs, opened_logs
from kwiken.cli.shared.options import json_option, needs_extra, refuse_shared_stdout, removed_option

MAX_SKIPPED_SHOWN: Final = 5


@click.command()
@click.argument("logs", metavar="LOGS...", nargs=-1, required=True)
@click.option("-o", "--out", "out", metavar="FILE", help="File to write the jobs to; '-' is stdout.")
@removed_option("--stages", "-o FILE, which holds the stages of each job", flag=True)
@json_option
@needs_extra("plan")
def command(*, logs: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Learn batch jobs from LOGS, files or folders: what ran, on what, for how long, with how many bytes.

    Spark event logs (plain, gz, zst; rolled folders), Hadoop job histories, recordings of Dask and tables of
    SWIM are told by their content. Damaged logs are read as far as they go. spark://HOST:PORT/APP is an
    application of a running Spark History Server, and spark://HOST:PORT all that it lists.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    with opened_logs(logs) as named, progress("reading", total=len(named)) as bar:
        found = jobs_of_logs(named, each=lambda: bar.advance(1))
    if not found.jobs:
        raise found.without_jobs(", ".join(logs))
    jobs = found.jobs
    note(*found.remarks)
    _note_skipped(found.skipped)
    from kwiken.batch.jobs.job import BatchJobs
    from kwiken.cli.batch.fit_report import note_unknown, show, summary

    if as_json:
        print_json(summary(jobs))
    elif out != "-":
        show(jobs)
        note_unknown(jobs)
    if out is not None:
        write_text(out, BatchJobs(jobs=jobs).to_json())
        note_written(out)
    elif not as_json:
        say("nothing is written; -o FILE keeps the jobs for kwiken batch predict")


def _note_skipped(skipped: list[str]) -> None:
    if skipped:
        shown = ", ".join(skipped[:MAX_SKIPPED_SHOWN])
        more = f" and {len(skipped) - MAX_SKIPPED_SHOWN} more" if len(skipped) > MAX_SKIPPED_SHOWN else ""
        note(f"no logs, left aside: {shown}{more}")
