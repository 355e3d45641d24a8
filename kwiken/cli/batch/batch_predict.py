"""`kwiken batch predict`: how long a job takes with other resources, with an interval."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, progress
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import json_option, needs_extra, removed_option, seconds_of

if TYPE_CHECKING:
    from kwiken.batch.jobs.job import BatchJob
    from kwiken.batch.jobs.replay.replayed_run import NetworkBounds


MAX_EXECUTORS: Final = 100_000
MAX_POINTS: Final = 40  # of a range that is predicted
_RANGE: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?", re.ASCII)
_NUMBER: Final = r"(\d{1,12}(?:\.\d{1,9})?)"
_SIZE: Final = re.compile(_NUMBER + r"(k|M|G|T|P)?B", re.ASCII)
_TIMES: Final = re.compile(_NUMBER + "x", re.ASCII)
_UNITS: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class ExecutorRange(click.ParamType[Any]):
    """Numbers of executors: one, or a range such as 10..200, thinned by equal ratios."""

    name = "range"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parse one number or a range."""
        if isinstance(value, tuple):
            return value
        found = _RANGE.fullmatch(str(value))
        low = int(found[1]) if found else 0
        high = int(found[2] or found[1]) if found else 0
        if not 1 <= low <= high <= MAX_EXECUTORS:
            self.fail(f"{value!r} is no number of executors; write 20, or 10..200 as a range", param, ctx)
        return spread(low, high)


def spread(low: int, high: int) -> tuple[int, ...]:
    """Whole numbers from `low` to `high` in about equal ratios, both ends included."""
    count = min(MAX_POINTS, high - low + 1)
    if count == 1:
        return (low,)
    ratio = (high / low) ** (1 / (count - 1))
    return tuple(sorted({low, high, *(round(low * ratio**step) for step in range(count))}))


@dataclass(frozen=True)
class InputSize:
    """Size of the input that a prediction is for.

    Attributes:
        bytes: bytes of input; None where only the ratio is given.
        times: ratio to the input of the last run; None where bytes are given.
    """

    bytes: float | None
    times: float | None

    def of(self, read: int) -> float:
        """Bytes of input, where the last run read `read`."""
        return self.bytes if self.bytes is not None else (self.times or 1.0) * read


class Moment(click.ParamType[Any]):
    """Moment such as 2026-01-30T09:00, UTC unless it says otherwise, as seconds since 1970."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse a moment."""
        if isinstance(value, float):
            return value
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            return self.fail(f"{value!r} is no time; write 2026-01-30T09:00", param, ctx)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


class InputSizeType(click.ParamType[Any]):
    """Size of input: bytes such as 20GB, or a multiple such as 1.5x."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> InputSize:
        """Parse a size or a multiple."""
        if isinstance(value, InputSize):
            return value
        times, size = _TIMES.fullmatch(str(value)), _SIZE.fullmatch(str(value))
        if times and float(times[1]) > 0:
            return InputSize(None, float(times[1]))
        if size and float(size[1]) > 0:
            return InputSize(float(size[1]) * _UNITS[size[2] or ""], None)
        return self.fail(
            f"{value!r} is no size; write 20GB, or 1.5x for a multiple of the last run's", param, ctx
        )


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
