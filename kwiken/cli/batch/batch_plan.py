"""`kwiken batch plan`: racks, order, start and places of data of each job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, note_written, print_json, print_table, read_text, say, write_text
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import (
    POSITIVE,
    json_option,
    needs_extra,
    refuse_shared_stdout,
    removed_option,
    seed_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwiken.batch.jobs.job import BatchJob
    from kwiken.batch.rack_simulation.schedulers import JobScheduler
    from kwiken.batch.rack_simulation.simulation import RacksOutcome
    from kwiken.batch.racks.document import RackPlan
    from kwiken.batch.racks.planning import PlannedRacks
    from kwiken.batch.racks.response import RackHardware, RackJob
    from kwiken.cli.batch.racks.plan_inputs import PlannedCluster

SHOWN: Final = 10
MAX_NAME_SHOWN: Final = 44  # characters
LATE_ARRIVAL: Final = 0.5  # of the makespan: a last arrival beyond is noted
MB: Final = 1e6
NO_GAIN: Final = 0.99  # of a simple rule's time, above which planning buys nothing


@click.command()
@click.argument("jobs", metavar="JOBS")
@click.option(
    "--cluster",
    metavar="FILE",
    required=True,
    help="Nodes with racks, slots and links, in TOML; a nodes.toml with more fields.",
)
@click.option(
    "--beside",
    metavar="FILE",
    help="Placement of services by kwiken place: the slots they hold are not there.",
)
@click.option(
    "--traffic",
    metavar="FILE",
    help="Traffic of services from kwiken traffic fit, in bytes: what it takes of the uplinks is not there.",
)
@click.option(
    "--schedule",
    metavar="FILE",
    help="When jobs of JOBS run again, in TOML: these runs are planned, with the input that is forecast.",
)
@click.option("--minimise", type=click.Choice(("makespan", "mean")), default="makespan", show_default=True)
@removed_option("--racks", "--cluster FILE, which states racks, slots and links")
@removed_option("--machines", "--cluster FILE, which states racks, slots and links")
@removed_option("--slots", "--cluster FILE, which states racks, slots and links")
@removed_option("--nic-gbps", "--cluster FILE, which states racks, slots and links")
@removed_option("--oversubscription", "--cluster FILE, which states racks, slots and links")
@click.option(
    "--task-rate",
    "task_mb_per_s",
    type=POSITIVE,
    default=25.0,
    show_default=True,
    help="MB per second of a task whose time no log tells.",
)
@removed_option("--spread-data", "no option: data is spread by the plan's own places", flag=True)
@removed_option("--exchanges", "no option: as many are tried as pay")
@click.option(
    "--explain", metavar="JOB", help="Show one job: its time on each number of racks, and why it waits."
)
@removed_option("--picture", "--json, and draw what you need from the numbers")
@click.option("-o", "--out", "out", metavar="FILE", help="File to write the plan to; '-' is stdout.")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    jobs: str,
    cluster: str,
    beside: str | None,
    traffic: str | None,
    schedule: str | None,
    minimise: Any,
    task_mb_per_s: float,
    explain: str | None,
    out: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Choose how many racks each of JOBS gets, which, in which order, and where its data goes.

    JOBS is a document of kwiken batch fit, or a log or table that it reads. Each run in it is planned once,
    or with --schedule the runs that recurring jobs will have. The plan ends with what the plan and simple
    rules take in a simulation with shared slots and links; where a rule is better, the plan is that rule.
    """
    refuse_shared_stdout(out=out == "-", json=as_json, explain=explain is not None)
    from kwiken.batch.racks.document import rack_plan
    from kwiken.batch.racks.planning import plan_racks
    from kwiken.batch.racks.response import rack_jobs
    from kwiken.cli.batch.inputs.job_inputs import jobs_in
    from kwiken.cli.batch.racks.plan_inputs import read_cluster

    found = jobs_in(jobs)
    if schedule is not None:
        found = _scheduled(found, schedule)
    where = read_cluster(cluster, beside, traffic)
    note(where.told)
    if all(not stage.tasks.took_ms for job in found for stage in job.stages):
        note(
            f"no log tells how long a task takes: {task_mb_per_s:g} MB a second are assumed; see --task-rate"
        )
    planned_jobs = rack_jobs(found, task_mb_per_s * MB)
    problem = _problem(planned_jobs, len(where.names), where.rack, jobs)
    _check_explained(explain, problem.names)
    planned = plan_racks(problem, minimise, seed=seed)
    document = rack_plan(planned, minimise, where.names)
    simulated = _simulated(planned_jobs, document, where, seed)
    document = _no_worse(document, planned_jobs, simulated, minimise)
    if explain is not None:
        _explain(planned, document, explain)
    _write(document, out)
    if as_json:
        print_json(_summary(document, planned, simulated))
    elif out != "-":
        if explain is None:
            _show(document)
        _conclude(document, planned, simulated)


def _scheduled(jobs: list[BatchJob], path: str) -> list[BatchJob]:
    """Runs that a schedule asks for, made of earlier runs."""
    from kwiken.batch.jobs.recurring import MAX_SCHEDULE_BYTES, RecurringSchedule, scheduled_runs

    text = read_text(path, MAX_SCHEDULE_BYTES)
    found = scheduled_runs(RecurringSchedule.from_toml(text, where=path), jobs, where=path)
    note(*found.told)
    return found.runs


def _write(plan: RackPlan, out: str | None) -> None:
    """Write the plan where it is asked for."""
    if out is not None:
        write_text(out, plan.to_json())
        note_written(out)


def _problem(jobs: Sequence[RackJob], racks: int, rack: RackHardware, where: str) -> Any:
    from kwiken.batch.racks.problem import problem_of
    from kwiken.batch.racks.response import rack_response_s

    try:
        return problem_of(
            [(job.name, job.arrival_s, job.input_bytes, rack_response_s(job, racks, rack)) for job in jobs]
        )
    except InputError as error:
        raise InputError(error.problem, where=where) from error


def _simulated(
    jobs: Sequence[RackJob], plan: RackPlan, cluster: PlannedCluster, seed: int
) -> dict[str, RacksOutcome]:
    """What the plan and simple rules take when tasks share slots and links."""
    from kwiken.batch.rack_simulation.schedulers import FairShare, Planned, ShortestFirst, YarnLike
    from kwiken.batch.rack_simulation.simulation import simulate_racks

    number = {name: place for place, name in enumerate(cluster.names)}
    corral = Planned(
        {job.name: [number[rack] for rack in job.racks] for job in plan.jobs},
        {job.name: job.priority for job in plan.jobs},
    )
    rules: dict[str, JobScheduler] = {
        "planned": corral,
        "shortest first": ShortestFirst(),
        "fair share": FairShare(),
        "by arrival": YarnLike(),
    }
    return {
        name: simulate_racks(jobs, len(cluster.names), cluster.rack, rule, seed=seed)
        for name, rule in rules.items()
    }


def _objective_s(outcome: RacksOutcome, minimise: str) -> float:
    return outcome.makespan_s if minimise == "makespan" else float(outcome.completion_s.mean())


def _no_worse(
    plan: RackPlan, jobs: Sequence[RackJob], simulated: dict[str, RacksOutcome], minimise: str
) -> RackPlan:
    """The plan, or the simple rule that is better in the simulation, which is noted."""
    from msgspec.structs import replace

    from kwiken.batch.rack_simulation.schedulers import work_s

    takes_s = {name: _objective_s(one, minimise) for name, one in simulated.items()}
    best = min(takes_s, key=lambda name: takes_s[name])  # of equals the plan, which is first
    rival = min((name for name in takes_s if name != "planned"), key=lambda name: takes_s[name])
    if takes_s["planned"] > NO_GAIN * takes_s[rival]:
        more = simulated["planned"].slot_s / max(simulated[rival].slot_s, 1e-9) - 1
        note(
            f"planning buys nothing on these {len(plan.racks)} racks: {takes_s['planned']:,.1f} s, "
            f"{rival} {takes_s[rival]:,.1f} s, with {more:+.0%} slot hours"
        )
    if best == "planned":
        return plan
    note(
        f"the plan is to run jobs {best}, on all racks; --json has what racks of their own would take"
        + ("; without a scheduler that shares slots, run the shortest first" if best == "fair share" else "")
    )
    ends = dict(zip((job.name for job in jobs), simulated[best].completion_s.tolist(), strict=True))
    work = {job.name: work_s(job) for job in jobs}
    order = sorted(
        plan.jobs, key=lambda job: (0.0 if best == "by arrival" else work[job.name], job.arrival_s, job.name)
    )
    return replace(
        plan,
        scheduling=best,
        objective_s=takes_s[best],
        jobs=[
            replace(
                job, racks=plan.racks, priority=priority, start_s=job.arrival_s, took_s=float(ends[job.name])
            )
            for priority, job in enumerate(order)
        ],
    )


def _summary(plan: RackPlan, planned: PlannedRacks, simulated: dict[str, RacksOutcome]) -> dict[str, object]:
    from msgspec import to_builtins

    return {
        "minimise": plan.minimise,
        "scheduling": plan.scheduling,
        "jobs": len(plan.jobs),
        "racks": len(plan.racks),
        "objective_s": plan.objective_s,
        "schedules": planned.looks,
        "simulated": {
            name: {
                "makespan_s": one.makespan_s,
                "mean_s": float(one.completion_s.mean()),
                "crossing_bytes": one.crossing_bytes,
                "slot_hours": one.slot_s / 3600,
            }
            for name, one in simulated.items()
        },
        "planned": to_builtins(plan.jobs),
    }


def _show(plan: RackPlan) -> None:
    longest = sorted(plan.jobs, key=lambda job: (-job.took_s * len(job.racks), job.name))[:SHOWN]
    rows = [
        (
            job.name[:MAX_NAME_SHOWN],
            str(len(job.racks)),
            _few(job.racks),
            f"{job.priority}",
            f"{job.start_s - job.arrival_s:,.0f}",
            f"{job.took_s:,.0f}",
        )
        for job in longest
    ]
    title = f"jobs with the most rack time, {len(longest)} of {len(plan.jobs)}:"
    print_table(title, ("job", "racks", "which", "priority", "waits s", "takes s"), rows)
    widths = sorted({len(job.racks) for job in plan.jobs})
    counts = ", ".join(
        f"{sum(len(job.racks) == width for job in plan.jobs)} on {width}" for width in widths[:SHOWN]
    )
    say(f"jobs by number of racks: {counts}{' and more' if len(widths) > SHOWN else ''}")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004


def _conclude(plan: RackPlan, planned: PlannedRacks, simulated: dict[str, RacksOutcome]) -> None:
    what = "makespan" if plan.minimise == "makespan" else "mean time"
    say(f"{what} on racks of their own, each job alone there: {planned.objective_s:,.1f} s")
    last_s = max(job.arrival_s for job in plan.jobs)
    if plan.minimise == "makespan" and last_s > LATE_ARRIVAL * plan.objective_s:
        note(
            f"jobs arrive over {last_s:,.0f} s, which sets most of the makespan; "
            "--minimise mean judges what jobs wait"
        )
    rows = [
        (
            name,
            f"{one.makespan_s:,.0f}",
            f"{one.completion_s.mean():,.1f}",
            f"{one.crossing_bytes / 1e12:.3f}",
            f"{one.slot_s / 3600:.0f}",
        )
        for name, one in simulated.items()
    ]
    print_table(
        "simulated, with shared slots and links:",
        ("scheduling", "makespan s", "mean s", "TB across racks", "slot hours"),
        rows,
    )


def _check_explained(name: str | None, known: Sequence[str]) -> None:
    """Refuse a job that is not there before the plan is made, which may take minutes."""
    if name is not None and name not in known:
        from kwiken.cli.batch.inputs.job_inputs import some_of

        raise InputError(f"no job of this name; known: {some_of(known)}", where=f"--explain {name}")


def _explain(planned: PlannedRacks, plan: RackPlan, name: str) -> None:
    problem = planned.problem
    number = problem.names.index(name)
    job = next(each for each in plan.jobs if each.name == name)
    times = problem.response_s[number]
    best = int(times.argmin()) + 1
    shown = sorted({1, 2, 3, len(job.racks) - 1, len(job.racks), len(job.racks) + 1, best, problem.racks})
    rows = [
        (
            str(width) + (" *" if width == len(job.racks) else ""),
            f"{times[width - 1]:.1f}",
            f"{times[width - 1] * width:.0f}",
        )
        for width in shown
        if 1 <= width <= problem.racks
    ]
    print_table(
        f"{name}: alone on each number of racks; * is the plan's", ("racks", "takes s", "rack time s"), rows
    )
    say(
        f"runs on {_few(job.racks)}; its input is there, and twice more on {job.further_rack}",
        f"may start at {job.arrival_s:.0f} s, starts at {job.start_s:.0f} s, takes {job.took_s:.1f} s",
    )
    before = [
        each.name
        for each in plan.jobs
        if each.priority < job.priority
        and set(each.racks) & set(job.racks)
        and abs(each.start_s + each.took_s - job.start_s) < 1e-6 * max(1.0, job.start_s)
    ]
    if job.start_s > job.arrival_s and before:
        say(f"waits for {_few(before)}, which has its racks before")
    if best != len(job.racks):
        say(f"{best} racks would be quickest for it alone; the others would wait longer than it gains")
