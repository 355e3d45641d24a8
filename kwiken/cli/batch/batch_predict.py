"""`kwiken batch predict`: how long a job takes with other resources, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, print_json, progress
from kwiken.base.errors import InputError
from kwiken.cli.batch.quantities import (
    MAX_EXECUTORS,
    ExecutorRange,
    InputSize,
    InputSizeType,
    Moment,
    spread,
)
from kwiken.cli.shared.options import json_option, needs_extra, removed_option, seconds_of

if TYPE_CHECKING:
    from kwiken.batch.jobs.job import BatchJob
    from kwiken.batch.jobs.replay.replayed_run import NetworkBounds

AROUND: Final = 4  # times fewer and more executors than known, where none are named
MAX_SLOTS_EACH: Final = 1024
MS: Final = 1000.0
GBPS: Final = 1e9 / 8  # bytes per second


@click.command()
@click.argument("jobs", metavar="JOBS")
@click.option("--job", "named", metavar="NAME", help="Job to predict; needed where JOBS holds several.")
@click.option(
    "--executors", type=ExecutorRange(), metavar="N", help="Number of executors, or a range such as 10..200."
)
@click.option(
    "--slots",
    type=click.IntRange(1, MAX_SLOTS_EACH),
    metavar="N",
    help="Tasks that an executor runs at once; as in the runs without it.",
)
@click.option(
    "--cluster",
    metavar="FILE",
    help="Nodes with racks, slots and links, in TOML.",
)
@click.option(
    "--beside",
    metavar="FILE",
    help="Placement of services by kwiken place: the slots they hold are not there; with --cluster.",
)
@removed_option("--machines", "--cluster FILE, which states the links")
@removed_option("--bandwidth", "--cluster FILE, which states the links")
@removed_option("--racks", "--cluster FILE, which states the links")
@removed_option("--core", "--cluster FILE, which states the links")
@click.option(
    "--input",
    "size",
    type=InputSizeType(),
    metavar="SIZE",
    help="Bytes of input, such as 20GB, or a multiple of the last run's, such as 1.5x.",
)
@click.option(
    "--at",
    "when_s",
    type=Moment(),
    metavar="TIME",
    help="When the job is to start, UTC, such as 2026-01-30T09:00: its input is forecast from earlier runs.",
)
@click.option(
    "--deadline",
    "deadline_s",
    callback=seconds_of,
    metavar="TIME",
    help="Say the fewest executors that end by then, such as 20m.",
)
@removed_option("--picture", "--json, and draw what you need from the numbers")
@json_option
@needs_extra("plan")
def command(
    *,
    jobs: str,
    named: str | None,
    executors: tuple[int, ...] | None,
    slots: int | None,
    cluster: str | None,
    beside: str | None,
    size: InputSize | None,
    when_s: float | None,
    deadline_s: float | None,
    as_json: bool,
) -> None:
    """Predict how long a job of JOBS takes with other resources.

    JOBS is what kwiken batch fit -o wrote, or logs that it reads. All runs of one job are used: runs of two
    sizes tell how task time grows with the cluster.
    """
    if size is not None and when_s is not None:
        raise click.UsageError("--input and --at both say how much input there is; choose one")
    if beside is not None and cluster is None:
        raise click.UsageError("--beside needs --cluster, whose nodes the placement names")
    from kwiken.batch.jobs.replay.calibration import interval_width
    from kwiken.batch.jobs.replay.predictor import runs_by_job
    from kwiken.cli.batch.inputs.job_inputs import timed_jobs_in
    from kwiken.cli.batch.predict_report import PredictedCurve, show, summary

    every = timed_jobs_in(jobs)
    runs = _runs(every, named, jobs)
    network = None
    asked = executors or _around(runs)
    if cluster is not None:
        place = _on_cluster(cluster, beside, slots or _slots_of(runs))
        asked = _within(asked, place.most, named=executors is not None, where=cluster)
        network = place.network
        note(place.told)
    with progress("replaying"):
        found = PredictedCurve.of(
            runs,
            asked,
            slots_per_executor=slots,
            input_bytes=_forecast(runs, when_s) if size is None else size.of(runs[-1].bytes.read),
            network=network,
            deadline_ms=None if deadline_s is None else MS * deadline_s,
            width=interval_width(runs_by_job(every)),
        )
    if as_json:
        print_json(summary(found))
    else:
        show(found)
    if size is not None or when_s is not None:
        note("other input: stages that read have more tasks, stages after a shuffle have longer ones")


def _runs(jobs: list[BatchJob], named: str | None, where: str) -> list[BatchJob]:
    """Runs of the job that is asked for."""
    from kwiken.batch.jobs.replay.predictor import runs_by_job
    from kwiken.cli.batch.inputs.job_inputs import some_of, unknown_job

    groups = runs_by_job(jobs)
    if named is not None:
        groups = [group for group in groups if named in {group[0].name, *(job.id for job in group)}]
        if not groups:
            raise unknown_job(named, jobs)
        exact = [[job for job in group if job.id == named] for group in groups]
        groups = [group for group in exact if group] or groups
    if len(groups) > 1:
        known = some_of(group[0].name if named is None else group[0].id for group in groups)
        raise InputError(f"holds several jobs; name one by --job: {known}", where=where)
    return groups[0]


def _forecast(runs: list[BatchJob], when_s: float | None) -> float | None:
    """Bytes of input at a time, by the rule that errs less on earlier runs; None without a time.

    Raises:
        InputError: no earlier run at that hour of weekdays, or of weekends, as the day is.
    """
    if when_s is None:
        return None
    from kwiken.batch.jobs.sizes import forecast_size

    times = [run.submitted_ms / MS for run in runs]
    found = forecast_size(times, [run.bytes.read for run in runs], when_s)
    rule = "the mean of earlier runs at that hour of such days"
    if found.rule == "corrected":
        rule += ", corrected by the last runs"
    why = "too few earlier runs to compare rules"
    if found.error is not None and found.other_error is not None:
        why = (
            f"held out, {found.held_out} earlier runs: {found.error:.0%} off, {found.other_error:.0%} by the "
        )
        why += "mean alone" if found.rule == "corrected" else "corrected mean"
    note(f"input: {found.size / 1e9:.3g} GB, {rule} ({why})")
    return found.size


def _slots_of(runs: list[BatchJob]) -> int:
    """Number of tasks that an executor of the last run with executors runs at once."""
    return max(span.slots for run in runs for span in run.executors)


@dataclass(frozen=True)
class _OnCluster:
    """Links and room of a cluster.

    Attributes:
        network: links, all as slow as the slowest.
        most: number of executors that the slots hold.
        told: sentence for users that says what the cluster is.
    """

    network: NetworkBounds
    most: int
    told: str


def _on_cluster(path: str, beside: str | None, slots_each: int) -> _OnCluster:
    """Links of a cluster, and the number of executors that its slots hold.

    Raises:
        InputError: the document, or a cluster without room for one executor.
    """
    from kwiken.batch.jobs.replay.replayed_run import NetworkBounds
    from kwiken.cli.batch.racks.plan_inputs import cluster_in

    cluster, held = cluster_in(path, beside)
    most = int((cluster.slots // slots_each).sum())
    if most < 1:
        raise InputError(f"no node has {slots_each} free slots, which an executor takes{held}", where=path)
    core = float((cluster.uplink_bytes_per_s / cluster.rack_sizes).min())
    nic = float(cluster.nic_bytes_per_s.min())
    machines, racks = len(cluster.slots), len(cluster.rack_names)
    told = (
        f"{machines} nodes in {racks} racks hold {most} executors of {slots_each} slots; a node has "
        f"{nic / GBPS:g} Gbit/s, and {core / GBPS:g} to other racks{held}"
    )
    network = NetworkBounds(machines=machines, bytes_per_s=nic, racks=racks, core_bytes_per_s=core)
    return _OnCluster(network, most, told)


def _within(asked: tuple[int, ...], most: int, *, named: bool, where: str) -> tuple[int, ...]:
    """Numbers of executors that a cluster holds.

    Raises:
        InputError: none of those that are named.
    """
    fit = tuple(n for n in asked if n <= most)
    if not fit and named:
        raise InputError(f"has slots for {most} executors, not for {asked[0]}", where=where)
    if len(fit) < len(asked):
        note(f"more than {most} executors do not fit on {where}, and are left out")
    return fit if named else tuple(sorted({*fit, most})) if len(fit) < len(asked) else fit


def _around(runs: list[BatchJob]) -> tuple[int, ...]:
    sizes = [max(1, run.n_executors) for run in runs]
    ends = max(1, min(sizes) // AROUND), min(MAX_EXECUTORS, max(sizes) * AROUND)
    return tuple(sorted({*spread(*ends)[::4], *ends, *sizes}))
