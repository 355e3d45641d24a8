"""Replays of runs: task times by wave, list scheduling on shared slots, predictions with an interval."""

from __future__ import annotations

from kwiken.batch.jobs.replay.baselines import by_ernest as by_ernest, by_waves as by_waves
from kwiken.batch.jobs.replay.calibration import (
    IntervalWidth as IntervalWidth,
    interval_width as interval_width,
)
from kwiken.batch.jobs.replay.choice import (
    ModelChoice as ModelChoice,
    baselines_at as baselines_at,
    choose_model as choose_model,
    smallest_in_time as smallest_in_time,
)
from kwiken.batch.jobs.replay.predictor import (
    JobPrediction as JobPrediction,
    Predictor as Predictor,
    runs_by_job as runs_by_job,
)
from kwiken.batch.jobs.replay.replayed_run import (
    MAX_SLOTS as MAX_SLOTS,
    NetworkBounds as NetworkBounds,
    RunModel as RunModel,
    run_model as run_model,
)
from kwiken.batch.jobs.replay.scheduling import (
    Replayed as Replayed,
    ReplayedStage as ReplayedStage,
    Slots as Slots,
    SlotSchedule as SlotSchedule,
    replay as replay,
)
from kwiken.batch.jobs.replay.task_times import StageTaskTimes as StageTaskTimes
