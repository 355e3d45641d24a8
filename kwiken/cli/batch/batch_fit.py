"""`kwiken batch fit`: learns jobs, stages, tasks and bytes from the logs of batch engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console import note, note_written, print_json, progress, say, write_text
from kwiken.base.errors import InputError
from kwiken.cli.batch.log_files import JobLog, logs_at, read_job_log
from kwiken.cli.shared import json_option, needs_extra, refuse_shared_stdout

if TYPE_CHECKING:
    from kwiken.batch.jobs import BatchJob
    from kwiken.batch.jobs.logs import LogFindings

MAX_SKIPPED_SHOWN: Final = 5


@click.command()
@click.argument("logs", metavar="LOGS...", nargs=-1, required=True)
@click.option("-o", "--out", "out", metavar="FILE", help="File to write the jobs to; '-' is stdout.")
@click.option("--stages", is_flag=True, help="List the stages of each job as well.")
@json_option
@needs_extra("plan")
def command(*, logs: tuple[str, ...], out: str | None, stages: bool, as_json: bool) -> None:
    """Learn batch jobs from LOGS, files or folders: what ran, on what, for how long, with how many bytes.

    Spark event logs (plain, gz, zst; rolled folders), Hadoop job histories and tables of SWIM are told by
    their content. Damaged logs are read as far as they go.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    named = [log for path in logs for log in logs_at(path)]
    jobs: list[BatchJob] = []
    skipped: list[str] = []
    remarks: list[str] = []
    with progress("reading", total=len(named)) as bar:
        for log in named:
            found, problems = read_job_log(log)
            remarks += problems
            if found is None:
                skipped.append(log.where)
            else:
                jobs += found.jobs
                remarks += _damage(log, found)
            bar.advance(1)
    if not jobs:
        why = f"; {remarks[0]}" if remarks else ""
        where = logs[0] if len(named) == 1 else ", ".join(logs)
        raise InputError(
            f"no job in it: neither a log of Spark or Hadoop nor a table of SWIM{why}", where=where
        )
    note(*remarks)
    _note_skipped(skipped)
    from kwiken.batch.jobs import BatchJobs
    from kwiken.cli.batch.fit_report import note_unknown, show, summary

    if as_json:
        print_json(summary(jobs))
    elif out != "-":
        show(jobs, stages=stages)
        note_unknown(jobs)
    if out is not None:
        write_text(out, BatchJobs(jobs=jobs).to_json())
        note_written(out)
    elif not as_json:
        say("nothing is written; -o FILE keeps the jobs for kwiken batch predict")


def _damage(log: JobLog, found: LogFindings) -> list[str]:
    """What was wrong with a log, one sentence each."""
    remarks = [] if found.jobs else [f"{log.where}: a {found.kind} without a job"]
    if found.damaged:
        more = "" if found.damaged == 1 else f", and {found.damaged - 1} lines more,"
        at = f"{log.where}:{found.first_damaged}"
        what = f"this line{more} of {found.lines} cannot be read and is left out"
        remarks.append(f"{at}: {what}: {found.first_problem}")
    return remarks


def _note_skipped(skipped: list[str]) -> None:
    if skipped:
        shown = ", ".join(skipped[:MAX_SKIPPED_SHOWN])
        more = f" and {len(skipped) - MAX_SKIPPED_SHOWN} more" if len(skipped) > MAX_SKIPPED_SHOWN else ""
        note(f"no logs, left aside: {shown}{more}")
