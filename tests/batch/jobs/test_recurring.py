"""Schedules of recurring jobs, and forecasts of their input."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob, BatchStage, StageBytes, TaskTimes
from kwiken.batch.jobs.recurring import RecurringSchedule, scheduled_runs
from kwiken.batch.jobs.sizes import forecast_size, predict_size

DAY_S = 86_400.0
MONDAY = datetime(2026, 1, 26, tzinfo=UTC).timestamp()


def run_at(when_s: float, read: int, name: str = "report") -> BatchJob:
    stages = [
        BatchStage(
            name="read",
            n_tasks=4,
            tasks=TaskTimes(launched_ms=[0] * 4, took_ms=[1000] * 4, executor=[0] * 4),
            bytes=StageBytes(read=read, shuffle_written=read // 2),
        ),
        BatchStage(
            name="sum",
            n_tasks=2,
            parents=[0],
            after=[0],
            tasks=TaskTimes(launched_ms=[1000] * 2, took_ms=[500] * 2, executor=[0] * 2),
            bytes=StageBytes(shuffled_remote=read // 2),
        ),
    ]
    return BatchJob(name=name, engine="spark", submitted_ms=round(1000 * when_s), took_ms=1500, stages=stages)


def schedule(text: str) -> RecurringSchedule:
    return RecurringSchedule.from_toml(text, where="s.toml")


def test_the_mean_is_kept_where_sizes_only_scatter() -> None:
    rng = np.random.default_rng(1)
    times = MONDAY + DAY_S * np.arange(60)
    sizes = 100 * np.exp(0.3 * rng.standard_normal(60))
    found = forecast_size(times.tolist(), sizes.tolist(), MONDAY + 60 * DAY_S)
    assert found.rule == "mean"
    assert found.size == predict_size(times.tolist(), sizes.tolist(), MONDAY + 60 * DAY_S)
    assert found.error is not None
    assert found.other_error is not None
    assert found.error <= found.other_error


def test_growing_input_is_followed() -> None:
    """Input that grows by 3% a day: the mean of a month is far below, the corrected one is near."""
    times = MONDAY + DAY_S * np.arange(30)
    sizes = 100 * 1.03 ** np.arange(30)
    found = forecast_size(times.tolist(), sizes.tolist(), MONDAY + 30 * DAY_S)
    mean, actual = predict_size(times.tolist(), sizes.tolist(), MONDAY + 30 * DAY_S), 100 * 1.03**30
    assert found.rule == "corrected"
    assert abs(found.size - actual) < 0.5 * abs(mean - actual)


def test_few_runs_tell_nothing_of_the_rules() -> None:
    found = forecast_size([MONDAY, MONDAY + DAY_S], [1.0, 3.0], MONDAY + 2 * DAY_S)
    assert (found.size, found.rule, found.error, found.held_out) == (2.0, "mean", None, 1)
    with pytest.raises(InputError, match="no earlier run"):
        forecast_size([MONDAY], [1.0], MONDAY + DAY_S + 7200)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1e12)), min_size=1, max_size=30),
    st.integers(0, 500),
)
@example([(0, 1e12), (24, 5e-324), (48, 5e-324), (72, 1e12), (73, 1e12)], 96)
@example([(0, 5e-324), (24, 1e12), (48, 1e12), (72, 1e12), (73, 5e-324)], 96)
def test_forecasts_are_finite(runs: list[tuple[int, float]], hour: int) -> None:
    times = [MONDAY + 3600.0 * at for at, _ in runs]
    try:
        found = forecast_size(times, [size for _, size in runs], MONDAY + 3600.0 * hour)
    except InputError:
        return
    assert np.isfinite(found.size)
    assert found.size >= 0


def test_runs_of_a_day_with_the_input_of_their_hour() -> None:
    known = [run_at(MONDAY - day * DAY_S + 7200, 1000) for day in (3, 4, 5)]
    known += [run_at(MONDAY - DAY_S + 50_000, 2000)]
    found = scheduled_runs(
        schedule('from = "2026-01-26T00:00"\n[[jobs]]\nname = "report"\nat = ["02:00", "20:00"]'),
        known,
        where="s.toml",
    )
    early, late = found.runs
    assert [run.submitted_ms / 1000 - MONDAY for run in found.runs] == [7200, 72_000]
    assert early.bytes.read == 1000
    assert [stage.n_tasks for stage in early.stages] == [2, 2]
    assert early.stages[1].tasks.took_ms == [250, 250]
    assert late.bytes.read == 2000
    assert "2 runs, input of 1 forecast from earlier runs, and of 1 as in the last run" in found.told[0]


def test_days_intervals_and_given_input() -> None:
    known = [run_at(MONDAY, 1000), run_at(MONDAY, 0, "other")]
    found = scheduled_runs(
        schedule(
            'from = "2026-01-29T23:00"\nhours = 72\n'
            '[[jobs]]\nname = "report"\nat = ["23:30"]\ndays = "weekends"\ninput_times = 3\n'
            '[[jobs]]\nname = "other"\nevery_minutes = 720\ndays = "weekdays"'
        ),
        known,
        where="s.toml",
    )
    report = [run for run in found.runs if run.name == "report"]
    start = datetime(2026, 1, 29, 23, tzinfo=UTC).timestamp()
    assert [(run.submitted_ms / 1000 - start) / 3600 for run in report] == [48.5]
    assert report[0].stages[0].n_tasks == 12
    # Thursday 23:00 and Friday 11:00 and 23:00, UTC: Saturday and Sunday are left out.
    assert sum(run.name == "other" for run in found.runs) == 3
    given_gb = schedule('from = "2026-01-30T00:00"\n[[jobs]]\nname = "other"\nat = ["01:00"]\ninput_gb = 1')
    with pytest.raises(InputError, match="read nothing"):
        scheduled_runs(given_gb, known, where="s.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[jobs]]\nname = "report"\nat = ["02:00"]', "from"),
        ('from = "2026-01-30T00:00"\n[[jobs]]\nname = "report"', "either at or every_minutes"),
        ('from = "2026-01-30T00:00"\n[[jobs]]\nname = "report"\nat = ["24:00"]', "02:00, UTC, not"),
        (
            'from = "2026-01-30 00:00"\n[[jobs]]\nname = "r"\nat = ["02:00"]',
            "a time such as 2026-01-30T00:00",
        ),
        ('from = "2026-01-30T00:00"\n[[jobs]]\nname = "report"\nat = ["02:00"]\nsize = 1', "size"),
        (
            'from = "2026-01-30T00:00"\n[[jobs]]\nname = "r"\nat = ["02:00"]\ninput_gb = 1\ninput_times = 1',
            "give one",
        ),
        ('from = "2026-01-30T00:00"\nhours = nan\njobs = []', "hours|jobs"),
        ('version = 2\nfrom = "2026-01-30T00:00"\n[[jobs]]\nname = "r"\nat = ["02:00"]', "version"),
        ("from = 2026-01-30\njobs = 3", "from|jobs"),
        ("from = ", "TOML"),
        ('from = "2026-02-30T00:00"\n[[jobs]]\nname = "r"\nat = ["02:00"]', "no time of the calendar"),
        ('from = "1969-02-20T00:00"\n[[jobs]]\nname = "r"\nat = ["02:00"]', "1970 or later"),
        ('from = 2026-02-20T00:00:00\n[[jobs]]\nname = "r"\nat = ["02:00"]', "from: write it in quotes"),
    ],
)
def test_schedules_that_are_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        schedule(text)


def test_runs_that_are_not_there() -> None:
    known = [run_at(MONDAY, 1000)]
    weekend = 'from = "2026-01-26T00:00"\n[[jobs]]\nname = "report"\nat = ["02:00"]\ndays = "weekends"'
    with pytest.raises(InputError, match="no run in the time"):
        scheduled_runs(schedule(weekend), known, where="s.toml")
    other = 'from = "2026-01-26T00:00"\n[[jobs]]\nname = "other"\nat = ["02:00"]'
    with pytest.raises(InputError, match="no earlier run of a job named 'other'; known: 'report'"):
        scheduled_runs(schedule(other), known, where="s.toml")
    many = 'from = "2026-01-26T00:00"\nhours = 8000\n[[jobs]]\nname = "report"\nevery_minutes = 1'
    with pytest.raises(InputError, match="more than 10000 runs"):
        scheduled_runs(schedule(many), known, where="s.toml")
