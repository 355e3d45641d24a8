"""Reader of Spark's event logs: one JSON event a line; events that no run needs are skipped undecoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import MAX_MS, BatchJob
from kwiken.batch.jobs.logs.collected import CollectedRun, CollectedStage

LEAD: Final = b'{"Event":"'
PREFIX: Final = b"SparkListener"
LONGEST_EVENT_NAME: Final = 200
MAX_DESCRIBED: Final = 1_000_000  # stages, skipped ones included
GPU: Final = ("spark.executor.resource.gpu.amount", "spark.task.resource.gpu.amount")
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


class SparkReader:
    """Reader of the events of one or several applications, in the order of the log.

    Args:
        name: name of a job whose log gives none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._run = CollectedRun("spark")
        self._done: list[BatchJob] = []
        self._cpus = 1
        self._without_metrics = 0
        self._slots_of_gpus: int | None = None
        self._cores: dict[str, int] = {}
        self._made_by: dict[int, int] = {}  # stage that was submitted for an RDD, by the RDD's number
        self._rdd_of: dict[int, int] = {}
        self._action_of: dict[int, int] = {}
        self._handlers: dict[bytes, tuple[msgspec.json.Decoder[Any], Callable[[Any], None]]] = {
            PREFIX + name: (msgspec.json.Decoder(kind), handle)
            for name, kind, handle in (
                (b"TaskEnd", TaskEnd, self._task_ended),
                (b"StageSubmitted", StageEvent, self._stage_submitted),
                (b"StageCompleted", StageEvent, self._stage_ended),
                (b"JobStart", JobStart, self._job_started),
                (b"ApplicationStart", ApplicationStart, self._application_started),
                (b"ApplicationEnd", ApplicationEnd, self._application_ended),
                (b"ExecutorAdded", ExecutorAdded, self._executor_added),
                (b"ExecutorRemoved", ExecutorRemoved, self._executor_removed),
                (b"EnvironmentUpdate", Environment, self._environment),
            )
        }

    def feed(self, line: bytes) -> None:
        """Take one line.

        Raises:
            ValueError: the line is no JSON or lacks what its event must have.
        """
        name = _event_name(line)
        handler = self._handlers.get(name)
        if handler is not None:
            decoder, handle = handler
            handle(decoder.decode(line))
        elif name == b"SparkListenerTaskStart":
            self._run.started += 1
        elif not line.rstrip().endswith(b"}"):
            raise ValueError("is cut")

    def jobs(self) -> list[BatchJob]:
        """Runs of the applications that were read."""
        self._finish()
        return self._done

    def _finish(self) -> None:
        run = self._run
        if run.stages or run.began_ms is not None:
            slots = self._slots_of_gpus
            for name, cores in self._cores.items():
                there = max(1, cores // self._cpus)
                run.executor(name).slots = there if slots is None else min(there, slots)
            if run.began_ms is None:
                run.unknown.append("the start: the log has no event of it")
            if self._without_metrics:
                run.unknown.append(f"the bytes of {self._without_metrics} tasks, which have no metrics")
            uncounted = [stage for stage in run.stages.values() if not stage.n_tasks and stage.took_ms]
            for stage in uncounted:
                stage.n_tasks = len(stage.took_ms)
            if uncounted:
                run.unknown.append(f"how many tasks {len(uncounted)} stages have: those that ran are counted")
            if not run.executors:
                run.unknown.append("the executors: the log has no event of one")
            self._done.append(run.assembled(self._name))
        self._run = CollectedRun("spark")
        self._cores, self._made_by, self._rdd_of, self._action_of = {}, {}, {}, {}
        self._without_metrics = 0

    def _application_started(self, event: ApplicationStart) -> None:
        if self._run.began_ms is not None:
            self._finish()
        self._run.began_ms, self._run.name = event.time, event.name or ""
        self._run.id = event.id or ""

    def _application_ended(self, event: ApplicationEnd) -> None:
        self._run.ended_ms = event.time

    def _environment(self, event: Environment) -> None:
        settings = event.settings
        cpus = settings.get("spark.task.cpus", "1")
        self._cpus = max(1, int(cpus)) if cpus.isascii() and cpus.isdigit() else 1
        try:
            of_executor, of_task = (float(settings[key]) for key in GPU)
        except (KeyError, ValueError):
            return
        if of_task > 0:
            self._slots_of_gpus = max(1, int(of_executor / of_task + 1e-9))

    def _executor_added(self, event: ExecutorAdded) -> None:
        executor = self._run.executor(event.name)
        executor.host, executor.from_ms = event.info.host or "", event.time
        self._cores[event.name] = event.info.cores

    def _executor_removed(self, event: ExecutorRemoved) -> None:
        self._run.executor(event.name).until_ms = event.time

    def _job_started(self, event: JobStart) -> None:
        for info in event.stages:
            self._describe(info)
            self._action_of.setdefault(info.number, event.number)

    def _describe(self, info: StageInfo) -> None:
        """Keep the data that a stage makes: a skipped stage stands for the one that made the same data."""
        if len(self._rdd_of) > MAX_DESCRIBED:
            raise InputError(f"describes more than {MAX_DESCRIBED} stages, the most that is read")
        if info.rdds:
            self._rdd_of[info.number] = info.rdds[0].number

    def _stage_submitted(self, event: StageEvent) -> None:
        info = event.info
        self._describe(info)
        stage = self._run.stage(info.number)
        stage.repeats = max(stage.repeats, info.attempt)
        if info.attempt == 0 or not stage.n_tasks:
            stage.name, stage.n_tasks = info.name, info.n_tasks
            stage.action = self._action_of.get(info.number, 0)
            stage.parents = tuple(self._maker(parent) for parent in info.parents)
        if stage.submitted_ms is None or (info.submitted or stage.submitted_ms) < stage.submitted_ms:
            stage.submitted_ms = info.submitted
        if info.rdds:
            self._made_by.setdefault(info.rdds[0].number, info.number)

    def _maker(self, stage: int) -> int:
        if stage in self._run.stages:
            return stage
        rdd = self._rdd_of.get(stage)
        return stage if rdd is None else self._made_by.get(rdd, stage)

    def _stage_ended(self, event: StageEvent) -> None:
        info = event.info
        known = self._run.stages.get(info.number)
        if known is None or not known.n_tasks:
            self._stage_submitted(event)
        stage = self._run.stage(info.number)
        if stage.submitted_ms is None:
            stage.submitted_ms = info.submitted
        if info.ended is not None:
            stage.ended_ms = max(stage.ended_ms or 0, info.ended)

    def _task_ended(self, event: TaskEnd) -> None:
        run, info = self._run, event.info
        stage = run.stage(event.stage)
        stage.speculative += info.speculative
        if info.failed:
            stage.failed += 1
        elif info.killed:
            stage.killed += 1
        else:
            run.task_ran(stage, info.executor, info.launched, info.finished)
            executor = run.executors[info.executor]
            if not executor.host:
                executor.host = info.host or ""
        if event.metrics is not None:
            _add_bytes(stage, event.metrics)
        elif not info.failed:
            self._without_metrics += 1


def _add_bytes(stage: CollectedStage, metrics: TaskMetrics) -> None:
    stage.spilled += metrics.spilled
    if metrics.shuffle_read is not None:
        stage.shuffled_remote += metrics.shuffle_read.remote
        stage.shuffled_local += metrics.shuffle_read.local
    if metrics.shuffle_write is not None:
        stage.shuffle_written += metrics.shuffle_write.written
    if metrics.input is not None:
        stage.read += metrics.input.read
    if metrics.output is not None:
        stage.written += metrics.output.written


class _Named(msgspec.Struct):
    event: str = msgspec.field(name="Event")


_NAMED: Final = msgspec.json.Decoder(_Named)


def _event_name(line: bytes) -> bytes:
    """Name of a line's event; Spark writes it first, others may not."""
    if line.startswith(LEAD):
        end = line.find(b'"', len(LEAD), len(LEAD) + LONGEST_EVENT_NAME)
        if end > 0:
            return line[len(LEAD) : end]
    return _NAMED.decode(line).event.encode()
