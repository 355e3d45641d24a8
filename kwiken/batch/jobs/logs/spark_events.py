"""Fields of Spark's events that are read; all others are skipped, and each may be missing in some version."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kwiken.batch.jobs.job import MAX_MS

_Moment = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]  # milliseconds since 1970


class _Event(msgspec.Struct, gc=False):
    pass


class _ShuffleRead(_Event, gc=False):
    remote: int = msgspec.field(default=0, name="Remote Bytes Read")
    local: int = msgspec.field(default=0, name="Local Bytes Read")


class _ShuffleWrite(_Event, gc=False):
    written: int = msgspec.field(default=0, name="Shuffle Bytes Written")


class _Input(_Event, gc=False):
    read: int = msgspec.field(default=0, name="Bytes Read")


class _Output(_Event, gc=False):
    written: int = msgspec.field(default=0, name="Bytes Written")


class TaskMetrics(_Event, gc=False):
    """Bytes that a task moved."""

    spilled: int = msgspec.field(default=0, name="Disk Bytes Spilled")
    shuffle_read: _ShuffleRead | None = msgspec.field(default=None, name="Shuffle Read Metrics")
    shuffle_write: _ShuffleWrite | None = msgspec.field(default=None, name="Shuffle Write Metrics")
    input: _Input | None = msgspec.field(default=None, name="Input Metrics")
    output: _Output | None = msgspec.field(default=None, name="Output Metrics")


class _TaskInfo(_Event, gc=False):
    launched: int = msgspec.field(name="Launch Time")
    finished: int = msgspec.field(default=0, name="Finish Time")
    executor: str = msgspec.field(default="", name="Executor ID")
    host: str | None = msgspec.field(default="", name="Host")
    speculative: bool = msgspec.field(default=False, name="Speculative")
    failed: bool = msgspec.field(default=False, name="Failed")
    killed: bool = msgspec.field(default=False, name="Killed")


class TaskEnd(_Event, gc=False):
    """End of a task attempt."""

    stage: int = msgspec.field(name="Stage ID")
    info: _TaskInfo = msgspec.field(name="Task Info")
    metrics: TaskMetrics | None = msgspec.field(default=None, name="Task Metrics")


class _Rdd(_Event, gc=False):
    number: int = msgspec.field(default=-1, name="RDD ID")


class StageInfo(_Event, gc=False):
    """Facts on a stage in the events of the start of a job, of a submission and of an end."""

    number: int = msgspec.field(name="Stage ID")
    attempt: int = msgspec.field(default=0, name="Stage Attempt ID")
    name: str = msgspec.field(default="", name="Stage Name")
    n_tasks: int = msgspec.field(default=0, name="Number of Tasks")
    parents: list[int] = msgspec.field(default_factory=list, name="Parent IDs")
    rdds: list[_Rdd] = msgspec.field(default_factory=list, name="RDD Info")
    submitted: _Moment | None = msgspec.field(default=None, name="Submission Time")
    ended: _Moment | None = msgspec.field(default=None, name="Completion Time")
    failure: str | None = msgspec.field(default=None, name="Failure Reason")


class StageEvent(_Event, gc=False):
    """Submission or completion of a stage attempt."""

    info: StageInfo = msgspec.field(name="Stage Info")


class JobStart(_Event, gc=False):
    """Start of one action of the driver."""

    number: int = msgspec.field(default=0, name="Job ID")
    stages: list[StageInfo] = msgspec.field(default_factory=list, name="Stage Infos")


class ApplicationStart(_Event, gc=False):
    """Start of the application."""

    time: _Moment = msgspec.field(name="Timestamp")
    name: str | None = msgspec.field(default="", name="App Name")
    id: str | None = msgspec.field(default=None, name="App ID")


class ApplicationEnd(_Event, gc=False):
    """End of the application."""

    time: _Moment = msgspec.field(name="Timestamp")


class _ExecutorInfo(_Event, gc=False):
    host: str | None = msgspec.field(default="", name="Host")
    cores: int = msgspec.field(default=1, name="Total Cores")


class ExecutorAdded(_Event, gc=False):
    """Arrival of an executor."""

    time: _Moment = msgspec.field(name="Timestamp")
    name: str = msgspec.field(name="Executor ID")
    info: _ExecutorInfo = msgspec.field(default_factory=_ExecutorInfo, name="Executor Info")


class ExecutorRemoved(_Event, gc=False):
    """Loss of an executor, or its release."""

    time: _Moment = msgspec.field(name="Timestamp")
    name: str = msgspec.field(name="Executor ID")


class Environment(_Event, gc=False):
    """Settings of the application."""

    settings: dict[str, str] = msgspec.field(default_factory=dict, name="Spark Properties")
