"""Report of `kwiken batch fit`: jobs and stages as tables and as JSON, and what logs cannot tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kwiken.apps.console.output import note, print_table, say
from kwiken.batch.jobs.facts import facts_of
from kwiken.batch.jobs.job import BatchJob

MS: Final = 1000.0
UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
THOUSAND: Final = 1000.0
MAX_ROWS: Final = 60
MAX_NAME_SHOWN: Final = 24  # characters
HEAD: Final = (
    *("job", "stages", "tasks", "task time", "took", "no task ran"),
    *("read", "shuffled", "remote", "written", "slots"),
)
BEHAVIOUR: Final = (
    *("job", "waves", "first wave", "later", "skew", "failed", "killed", "repeated", "speculative"),
    *("executors", "arrived"),
)


def show(jobs: Sequence[BatchJob]) -> None:
    """Print the tables of the jobs."""
    shown = jobs[:MAX_ROWS]
    names = _short_names(shown)
    print_table("jobs", HEAD, [(name, *_sizes(job)) for name, job in zip(names, shown, strict=True)])
    rows = [(name, *_behaviour(job)) for name, job in zip(names, shown, strict=True) if job.executors]
    if rows:
        say("")
        print_table("tasks and executors", BEHAVIOUR, rows)
    if len(jobs) > MAX_ROWS:
        say(f"and {len(jobs) - MAX_ROWS} jobs more; --json has all")
    total = _total(jobs)
    say(
        "",
        f"{_count(len(jobs), 'job')}, {_count(total['stages'], 'stage')}, {_count(total['tasks'], 'task')}, "
        f"{_bytes(total['bytes_read'])} read",
    )


def note_unknown(jobs: Sequence[BatchJob]) -> None:
    """Note what the logs cannot tell, once for all jobs of which it is true."""
    by_fact: dict[str, list[str]] = {}
    for job in jobs:
        for fact in job.unknown:
            by_fact.setdefault(fact, []).append(_name(job))
        if job.unfinished:
            by_fact.setdefault(f"the end of {job.unfinished} tasks", []).append(_name(job))
    for fact, names in by_fact.items():
        whose = names[0] if len(names) == 1 else f"{len(names)} jobs"
        note(f"{whose}: the log does not tell {fact}")


def summary(jobs: Sequence[BatchJob]) -> dict[str, Any]:
    """Jobs and their sums, for `--json`."""
    return {"jobs": [_one(job) for job in jobs], "total": _total(jobs)}


def _total(jobs: Sequence[BatchJob]) -> dict[str, int]:
    return {
        "jobs": len(jobs),
        "stages": sum(len(job.stages) for job in jobs),
        "tasks": sum(_tasks(job) for job in jobs),
        "bytes_read": sum(job.bytes.read for job in jobs),
        "bytes_shuffled": sum(job.bytes.shuffled for job in jobs),
        "bytes_shuffled_remote": sum(job.bytes.shuffled_remote for job in jobs),
        "bytes_written": sum(job.bytes.written for job in jobs),
    }


def _one(job: BatchJob) -> dict[str, Any]:
    facts, moved = facts_of(job), job.bytes
    return {
        "name": job.name,
        "id": job.id,
        "engine": job.engine,
        "ended": job.ended,
        "stages": len(job.stages),
        "tasks": _tasks(job),
        "task_s": job.task_ms / MS,
        "took_s": job.took_ms / MS,
        "no_task_s": facts.idle_ms / MS,
        "bytes_read": moved.read,
        "bytes_shuffled": moved.shuffled,
        "bytes_shuffled_remote": moved.shuffled_remote,
        "bytes_written": moved.written,
        "bytes_spilled": moved.spilled,
        "slots": job.slots,
        "executors": len(job.executors),
        "most_executors": job.n_executors,
        "hosts": len({one.host for one in job.executors}),
        "waves": facts.waves,
        "first_wave_mean_ms": facts.first_mean_ms,
        "later_mean_ms": facts.later_mean_ms,
        "skew": facts.skew,
        "failed": sum(stage.failed for stage in job.stages),
        "killed": sum(stage.killed for stage in job.stages),
        "repeated_stages": sum(stage.repeats for stage in job.stages),
        "speculative": sum(stage.speculative for stage in job.stages),
        "unfinished": job.unfinished,
        "unknown": job.unknown,
    }


def _tasks(job: BatchJob) -> int:
    """Task attempts of a run; tasks that its sizes imply where it did not run."""
    return job.n_attempts if job.executors else job.n_tasks


def _name(job: BatchJob) -> str:
    return f"{job.name} ({job.id})" if job.id else job.name


def _short_names(jobs: Sequence[BatchJob]) -> list[str]:
    """Names that fit a table, with a number for runs of one name."""
    seen: dict[str, int] = {}
    found = []
    several = {name for name, count in Counter(job.name for job in jobs).items() if count > 1}
    for job in jobs:
        seen[job.name] = seen.get(job.name, 0) + 1
        number = f" #{seen[job.name]}" if job.name in several else ""
        found.append(job.name[: MAX_NAME_SHOWN - len(number)] + number)
    return found


def _sizes(job: BatchJob) -> tuple[str, ...]:
    moved = job.bytes
    idle = facts_of(job).idle_ms
    return (
        str(len(job.stages)),
        f"{_tasks(job):,}",
        _seconds(job.task_ms) if job.executors else "-",
        f"{_seconds(job.took_ms)}{'' if job.ended else '+'}" if job.took_ms else "-",
        f"{idle / job.took_ms:.0%}" if job.took_ms else "-",
        *(_bytes(each) for each in (moved.read, moved.shuffled, moved.shuffled_remote, moved.written)),
        str(job.slots) if job.executors else "-",
    )


def _behaviour(job: BatchJob) -> tuple[str, ...]:
    facts = facts_of(job)
    first, last = facts.first_executor_ms, facts.last_executor_ms
    left = sum(one.until_ms is not None for one in job.executors)
    return (
        f"{facts.waves:.1f}",
        _seconds(facts.first_mean_ms),
        _seconds(facts.later_mean_ms),
        f"{facts.skew:.2f}",
        *(
            str(sum(getattr(stage, name) for stage in job.stages))
            for name in ("failed", "killed", "repeats", "speculative")
        ),
        f"{len(job.executors)}" + (f", {left} left" if left else ""),
        "-" if first is None or last is None else f"{_seconds(first)} to {_seconds(last)}",
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _seconds(ms: float) -> str:
    return f"{ms / MS:,.1f} s" if ms >= MS else f"{ms:.0f} ms"


def _bytes(value: float) -> str:
    unit = 0
    while value >= THOUSAND and unit < len(UNITS) - 1:
        value /= THOUSAND
        unit += 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 else f"{value:.1f} {UNITS[unit]}"
