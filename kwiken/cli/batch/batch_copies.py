"""`kwiken batch copies`: apportions copies of tasks over the stages of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, note_written, print_json, print_table, progress, say, write_text
from kwiken.base.printable import printable
from kwiken.cli.shared.options import Real, json_option, needs_extra, refuse_shared_stdout, seed_option

if TYPE_CHECKING:
    from kwiken.batch.jobs.copies.comparison import CopyComparison
    from kwiken.batch.jobs.job import BatchJob

MAX_STAGES_SHOWN: Final = 30
MAX_NAME_SHOWN: Final = 30  # characters
MS: Final = 1000.0
RULES: Final = {
    "shared": "apportioned",
    "equal": "equal shares",
    "speculation": "speculation",
    "hindsight": "hindsight",
    "doubled": "all doubled",
}


@click.command()
@click.argument("jobs", metavar="JOBS")
@click.option("--job", "named", metavar="NAME", help="Only the jobs of this name, or the run of this id.")
@click.option(
    "--budget",
    type=Real(0, 1),
    default=0.05,
    show_default=True,
    help="Time of copies, as a share of the time of all tasks.",
)
@click.option("--each", is_flag=True, help="Give each job a budget of its own, in place of one for all.")
@click.option("--to", type=click.Choice(("spark",)), help="Write settings of Spark to -o instead of JSON.")
@click.option("-o", "--out", "out", metavar="FILE", help="File to write the thresholds to; '-' is stdout.")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    jobs: str,
    named: str | None,
    budget: float,
    each: bool,
    to: str | None,
    out: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Say which tasks of JOBS to copy, and when, so that the jobs end sooner for a budget of task time.

    JOBS is what kwiken batch fit -o wrote, or logs that it reads. One budget is shared by all jobs, unless
    --each is given. A copy takes an independent time from the stage's own tasks: tasks that are long for
    their data gain nothing from a copy. Hindsight knows before each run how long tasks and copies take; no
    rule does.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    if to is not None and out is None:
        raise click.UsageError("--to needs -o FILE, or -o - for stdout")
    from kwiken.batch.jobs.copies.comparison import compare_copies
    from kwiken.batch.jobs.replay.replayed_run import run_model
    from kwiken.cli.batch.inputs.job_inputs import timed_jobs_in

    chosen = _chosen(timed_jobs_in(jobs), named)
    with progress("drawing and replaying"):
        found = compare_copies([run_model(job) for job in chosen], budget, seed, each=each)
    if as_json:
        print_json(_summary(chosen, found, budget, each=each))
    elif out != "-":
        _show(chosen, found, budget, each=each)
    if out is not None:
        write_text(
            out, _spark(chosen, found) if to == "spark" else _written(chosen, found, budget, each=each)
        )
        note_written(out)
    if to == "spark":
        note("Spark has one threshold for all stages of an application: these settings come closest")


def _chosen(jobs: list[BatchJob], named: str | None) -> list[BatchJob]:
    if named is None:
        return jobs
    chosen = [job for job in jobs if named in {job.name, job.id}]
    if not chosen:
        from kwiken.cli.batch.inputs.job_inputs import unknown_job

        raise unknown_job(named, jobs)
    return chosen


def _show(jobs: list[BatchJob], found: CopyComparison, budget: float, *, each: bool) -> None:
    rows = [
        (
            job.name[:MAX_NAME_SHOWN],
            f"{found.results['none'][at].total_ms / MS:,.1f} s",
            *(f"{found.taken_off(rule, at):.1%}" for rule in RULES),
            f"{found.results['shared'][at].cost:.1%}",
        )
        for at, job in enumerate(jobs)
    ]
    head = ("job", "without", *RULES.values(), "cost")
    whose = "each job's" if each else "the"
    title = f"completion time that copies take off, for {budget:.1%} of {whose} task time"
    print_table(title, head, rows)
    say("")
    stages = _stages(jobs, found)
    print_table(
        "copies, the stages with most task time first",
        ("job", "stage", "tasks", "when ended", "and after"),
        [
            (job[:MAX_NAME_SHOWN], stage[:MAX_NAME_SHOWN], f"{n:,}", f"{ended:.0%}", f"{after / MS:.2f} s")
            for job, stage, n, ended, after in stages[:MAX_STAGES_SHOWN]
        ],
    )
    if len(stages) > MAX_STAGES_SHOWN:
        say(f"and {len(stages) - MAX_STAGES_SHOWN} stages more; --json has all")
    told = ", ".join(f"{words} {found.share_of_doubling(rule):.0%}" for rule, words in RULES.items())
    say("", f"of what doubling every task takes off: {told}")
    least, most = min(found.multiples), max(found.multiples)
    multiple = f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    say(f"speculation copies tasks of {multiple} times their stage's median, once 75% have ended")


def _stages(jobs: list[BatchJob], found: CopyComparison) -> list[tuple[str, str, int, float, float]]:
    """Stages whose tasks are copied: job, stage, tasks, share that has to end before, time to run."""
    rows = [
        (stage.task_ms, job.name, f"{place} {stage.name}", len(stage.tasks), float(ended), float(after))
        for job, policy in zip(jobs, found.policies, strict=True)
        for place, (stage, after, ended) in enumerate(
            zip(job.stages, policy.after_ms, policy.ended, strict=True)
        )
        if after != float("inf")
    ]
    return [row[1:] for row in sorted(rows, key=lambda row: -row[0])]


def _summary(jobs: list[BatchJob], found: CopyComparison, budget: float, *, each: bool) -> dict[str, Any]:
    return {
        "budget": budget,
        "budget_of": "each job" if each else "all jobs",
        "share_of_doubling": {rule: found.share_of_doubling(rule) for rule in RULES},
        "jobs": [
            {
                "name": job.name,
                "id": job.id,
                "speculation_multiplier": found.multiples[at],
                "results": {
                    rule: {
                        "completion_s": results[at].total_ms / MS,
                        "taken_off": found.taken_off(rule, at),
                        "cost": results[at].cost,
                        "copied_tasks": results[at].copied,
                    }
                    for rule, results in found.results.items()
                },
                "stages": [
                    {"stage": place, "copy_after_s": float(after) / MS, "when_ended": float(ended)}
                    for place, (after, ended) in enumerate(
                        zip(found.policies[at].after_ms, found.policies[at].ended, strict=True)
                    )
                    if after != float("inf")
                ],
            }
            for at, job in enumerate(jobs)
        ],
    }


def _written(jobs: list[BatchJob], found: CopyComparison, budget: float, *, each: bool) -> str:
    import msgspec

    encoded = msgspec.json.encode({"version": 1, **_summary(jobs, found, budget, each=each)})
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


def _spark(jobs: list[BatchJob], found: CopyComparison) -> str:
    """Settings of Spark that come closest: the largest stage's share and multiple of the median, per job."""
    import numpy as np

    lines = [
        "# One threshold serves all stages of an application; these are of the stage with most task time."
    ]
    for job, policy in zip(jobs, found.policies, strict=True):
        copied = [
            place
            for place, after in enumerate(policy.after_ms)
            if after != float("inf") and len(job.stages[place].tasks)
        ]
        lines.append(printable(f"# {job.name} {job.id}".rstrip()))  # a line end would forge a setting
        if not copied:
            lines.append("spark.speculation false")
            continue
        place = max(copied, key=lambda one: job.stages[one].task_ms)
        median = float(np.median(job.stages[place].tasks.took_ms)) or 1.0
        multiple = max(1.0, float(policy.after_ms[place]) / median)
        lines += [
            "spark.speculation true",
            f"spark.speculation.quantile {min(0.99, float(policy.ended[place])):.2f}",
            f"spark.speculation.multiplier {multiple:.2f}",
        ]
    return "\n".join(lines) + "\n"
