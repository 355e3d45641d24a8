"""Schedule of recurring jobs as a document, and the runs of a schedule, made from earlier runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import StrictStruct
from kwiken.base.parsing.strict_json import convert
from kwiken.base.parsing.strict_toml import parse_toml
from kwiken.batch.jobs.job import MAX_MS, MAX_TASKS, BatchJob, BatchStage, StageBytes
from kwiken.batch.jobs.sizes import DAY_S, forecast_size, is_weekend

SCHEDULE_VERSION: Final = 1
MAX_SCHEDULE_BYTES: Final = 16 << 20  # of a document
MAX_HOURS: Final = 24.0 * 366
MAX_RUNS: Final = 10_000  # that a schedule asks for
MAX_JOBS: Final = 10_000  # of a schedule
MAX_NAMES_SHOWN: Final = 10  # in an error
MAX_TIMES: Final = 1_440  # of a day
HOUR_S: Final = 3600.0
MINUTE_S: Final = 60.0
MS: Final = 1000.0
GB: Final = 1e9

CLOCK: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)  # a time of day
BEGIN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d", re.ASCII)


class RecurringJob(StrictStruct, frozen=True, kw_only=True):
    """Job that runs again and again.

    Attributes:
        name: name of the job, as its earlier runs have it.
        at: times of day at which it may start, UTC, such as `02:00`; empty where `every_minutes` is given.
        every_minutes: time from one run to the next, minutes; None where `at` is given.
        input_gb: bytes of its input, in 10^9; None for a forecast.
        input_times: its input as a multiple of the last run's; None for a forecast.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    at: Annotated[list[str], msgspec.Meta(max_length=MAX_TIMES)] = msgspec.field(default_factory=list)
    every_minutes: Annotated[float, msgspec.Meta(ge=1, le=MAX_HOURS * 60)] | None = None
    days: Literal["all", "weekdays", "weekends"] = "all"
    input_gb: Annotated[float, msgspec.Meta(gt=0, le=MAX_MS / GB)] | None = None
    input_times: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None


class RecurringSchedule(StrictStruct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Schedule of recurring jobs.

    Attributes:
        version: version of the format; must be 1.
        from_: begin of the time that is planned, UTC, such as `2026-01-30T00:00`.
        hours: length of that time, hours.
        jobs: the jobs; one may be given several times.
    """

    version: int = SCHEDULE_VERSION
    from_: str
    hours: Annotated[float, msgspec.Meta(gt=0, le=MAX_HOURS)] = 24.0
    jobs: Annotated[list[RecurringJob], msgspec.Meta(min_length=1, max_length=MAX_JOBS)]

    @classmethod
    def from_toml(cls, text: str | bytes, *, where: str) -> RecurringSchedule:
        """Read a schedule.

        Args:
            where: source to name in errors, such as a file's path.

        Raises:
            InputError: names the field that is missing, unknown or out of range, or a job with two rules for
                its times or its input, or none for its times.
        """
        raw: Any = parse_toml(text, where=where, max_bytes=MAX_SCHEDULE_BYTES)
        version = raw.get("version", SCHEDULE_VERSION)
        if version != SCHEDULE_VERSION or isinstance(version, bool | float):
            raise InputError(f"version: must be {SCHEDULE_VERSION}, not {version!r}", where=where)
        if isinstance(raw.get("from"), date | datetime):
            raise InputError('from: write it in quotes, such as "2026-01-30T00:00", UTC', where=where)
        found = convert(raw, cls, where=where)
        if not BEGIN.fullmatch(found.from_):
            raise InputError(
                f"from: must be a time such as 2026-01-30T00:00, UTC, not {found.from_!r}", where=where
            )
        try:
            begin_s = found.from_s
        except ValueError as error:
            raise InputError(f"from: {found.from_!r} is no time of the calendar", where=where) from error
        if begin_s < 0:
            raise InputError(f"from: must be 1970 or later, not {found.from_!r}", where=where)
        for place, job in enumerate(found.jobs):
            at = f"{where}: jobs[{place}]"
            strange = next((one for one in job.at if not CLOCK.fullmatch(one)), None)
            if strange is not None:
                raise InputError(f"at: must be times of day such as 02:00, UTC, not {strange!r}", where=at)
            if bool(job.at) == (job.every_minutes is not None):
                raise InputError("needs either at or every_minutes", where=at)
            if job.input_gb is not None and job.input_times is not None:
                raise InputError("input_gb and input_times both say the input; give one", where=at)
        return found

    @property
    def from_s(self) -> float:
        """Begin of the time that is planned, seconds since 1970."""
        return float(np.datetime64(self.from_, "s").astype(np.int64))


@dataclass(frozen=True)
class ScheduledRuns:
    """Runs that a schedule asks for.

    Attributes:
        told: by job, one sentence that says where its input comes from.
    """

    runs: list[BatchJob]
    told: list[str]


def scheduled_runs(schedule: RecurringSchedule, known: Sequence[BatchJob], *, where: str) -> ScheduledRuns:
    """Make the runs that a schedule asks for, each the last earlier run of its job with other input.

    Stages that read have more tasks for more input, and stages after a shuffle have longer ones.

    Args:
        known: earlier runs of jobs, by which theirs are made; in any order.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: a job without earlier runs, or whose runs read nothing though its input is given; no run
            at all, or too many.
    """
    by_name: dict[str, list[BatchJob]] = {}
    for run in sorted(known, key=lambda one: one.submitted_ms):
        by_name.setdefault(run.name, []).append(run)
    found: list[BatchJob] = []
    told: list[str] = []
    for place, job in enumerate(schedule.jobs):
        at = f"{where}: jobs[{place}]"
        runs = by_name.get(job.name)
        if runs is None:
            raise InputError(f"no earlier run of a job named {job.name!r}; known: {_some(by_name)}", where=at)
        times = list(_times(job, schedule))
        if len(found) + len(times) > MAX_RUNS:
            raise InputError(f"asks for more than {MAX_RUNS} runs", where=where)
        scales, why = _scales(job, runs, times, where=at)
        told.append(f"{job.name}: {_runs(len(times))}, {why}")
        found += [_with_input(runs[-1], scale, when_s) for scale, when_s in zip(scales, times, strict=True)]
    if not found:
        raise InputError("asks for no run in the time that is planned", where=where)
    return ScheduledRuns(sorted(found, key=lambda run: (run.submitted_ms, run.name)), told)


def _times(job: RecurringJob, schedule: RecurringSchedule) -> Iterator[float]:
    """Times of the runs of a job, seconds since 1970, at most one more than may be."""
    begin, end = schedule.from_s, schedule.from_s + HOUR_S * schedule.hours
    if job.every_minutes is not None:
        count = min(MAX_RUNS + 1, int(np.ceil((end - begin) / (MINUTE_S * job.every_minutes))))
        every: Floats = begin + MINUTE_S * job.every_minutes * np.arange(count, dtype=np.float64)
    else:
        clock = np.array([HOUR_S * int(at[:2]) + MINUTE_S * int(at[3:]) for at in sorted(set(job.at))])
        first_day = np.floor(begin / DAY_S)
        days = DAY_S * (first_day + np.arange(int(np.floor(end / DAY_S) - first_day) + 1))
        every = np.asarray(days[:, None] + clock, dtype=np.float64).ravel()
    kept = (every >= begin) & (every < end)
    if job.days != "all":
        kept &= is_weekend(every) == (job.days == "weekends")
    yield from every[kept][: MAX_RUNS + 1].tolist()


def _scales(
    job: RecurringJob, runs: Sequence[BatchJob], times: Sequence[float], *, where: str
) -> tuple[list[float], str]:
    """Input of each run over that of the last earlier run, and where it comes from."""
    last = runs[-1].bytes.read
    if job.input_times is not None:
        return [job.input_times] * len(times), f"input {job.input_times:g} times the last run's"
    if job.input_gb is not None:
        if not last:
            raise InputError("its earlier runs read nothing, so input_gb cannot be met", where=where)
        return [job.input_gb * GB / last] * len(times), f"input {job.input_gb:g} GB as given"
    earlier, sizes = [run.submitted_ms / MS for run in runs], [float(run.bytes.read) for run in runs]
    scales, forecast = [], 0
    for when_s in times:
        try:
            size = forecast_size(earlier, sizes, when_s).size
        except InputError:
            size = float(last)
        else:
            forecast += 1
        scales.append(size / last if last and size > 0 else 1.0)
    if forecast in {0, len(times)}:
        return scales, f"input {'forecast from earlier runs' if forecast else 'as in the last run'}"
    rest = len(times) - forecast
    return scales, f"input of {forecast} forecast from earlier runs, and of {rest} as in the last run"


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"


def _some(names: Iterable[str]) -> str:
    """The first names of several, sorted, and how many more there are."""
    known = sorted(names)
    more = len(known) - MAX_NAMES_SHOWN
    return ", ".join(map(repr, known[:MAX_NAMES_SHOWN])) + (f" and {more} more" if more > 0 else "")


def _with_input(run: BatchJob, scale: float, when_s: float) -> BatchJob:
    """A run with a multiple of its input, submitted at another time."""
    stages = run.stages if scale == 1.0 else [_scaled(stage, scale) for stage in run.stages]
    return msgspec.structs.replace(run, id="", submitted_ms=round(MS * when_s), stages=stages)


def _scaled(stage: BatchStage, scale: float) -> BatchStage:
    moved = {name: _times_scale(getattr(stage.bytes, name), scale) for name in StageBytes.__struct_fields__}
    tasks, n_tasks = stage.tasks, stage.n_tasks
    if stage.bytes.read > 0:
        n_tasks = min(MAX_TASKS, max(1, round(scale * n_tasks))) if n_tasks else 0
    elif stage.bytes.shuffled > 0:
        took = [_times_scale(one, scale) for one in tasks.took_ms]
        tasks = msgspec.structs.replace(tasks, took_ms=took)
    return msgspec.structs.replace(stage, bytes=StageBytes(**moved), n_tasks=n_tasks, tasks=tasks)


def _times_scale(value: int, scale: float) -> int:
    return int(min(MAX_MS, round(value * scale)))
