"""`kwiken batch run`: runs planned jobs on Dask, each on the workers of its racks."""

from __future__ import annotations

import click

from kwiken.apps.console.output import note, print_json, print_table, read_text, say
from kwiken.cli.shared.options import json_option, needs_extra

NOT_ALL: int = 1  # exit code when a job failed


@click.command()
@click.argument("plan", metavar="PLAN")
@click.argument("module", metavar="MODULE")
@click.option("--dask", "address", metavar="HOST:PORT", required=True, help="Address of Dask's scheduler.")
@click.option("--no-data", is_flag=True, help="Leave it to Dask where the jobs' data is kept.")
@json_option
@needs_extra("batch")
def command(*, plan: str, module: str, address: str, no_data: bool, as_json: bool) -> int:
    """Run the jobs of PLAN, which kwiken batch plan has written, on the workers of a running Dask.

    MODULE has a mapping JOBS from the name of a job to a function that returns a collection of Dask, and may
    have DATA, functions that return the collections of the jobs' inputs. A worker states its rack as a
    resource: dask worker HOST:PORT --resources rack:NAME=1. Jobs of MODULE that PLAN lacks run where slots
    are left. Dask's own connections carry code: keep its scheduler on loopback or a network of your own.
    """
    import asyncio

    from kwiken.apps.batch_run.dask_jobs import load_jobs
    from kwiken.apps.batch_run.run import BatchRun
    from kwiken.batch.racks.document import MAX_RACK_PLAN, RackPlan

    document = RackPlan.from_json(read_text(plan, MAX_RACK_PLAN), where=plan)
    run = BatchRun(document, load_jobs(module), note, place_data=not no_data)
    outcome = asyncio.run(run.run(address))
    if as_json:
        print_json(
            {
                "makespan_s": outcome.makespan_s,
                "ended_s": outcome.ended_s,
                "failed": outcome.failed,
                "again": outcome.again,
            }
        )
    else:
        planned = {job.name: job for job in document.jobs}
        rows = [
            (
                name,
                f"{planned[name].start_s + planned[name].took_s:.1f}" if name in planned else "-",
                f"{at_s:.1f}",
            )
            for name, at_s in sorted(outcome.ended_s.items(), key=lambda item: item[1])
        ]
        print_table("", ("job", "planned end s", "end s"), rows)
        say(
            f"{len(outcome.ended_s)} jobs have ended in {outcome.makespan_s:.1f} s, "
            f"{len(outcome.failed)} failed"
        )
    return NOT_ALL if outcome.failed else 0
