"""Batch jobs as DAGs of stages with tasks: what one run of a job did, and the versioned JSON of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument

JOBS_VERSION: Final = 1
MAX_JOBS_BYTES: Final = 1 << 30  # of a document
MAX_JOBS: Final = 100_000
MAX_STAGES: Final = 100_000  # of one job
MAX_NAME: Final = 1000  # characters
MAX_TASKS: Final = 1 << 40  # of one stage
MAX_MS: Final = 1 << 53  # times and bytes that a double holds exactly
MS_PER_S: Final = 1000.0

Engine = Literal["spark", "hadoop", "dask", "swim"]

_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Ms = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TASKS)]
_Index = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class TaskTimes(_Struct, frozen=True, kw_only=True):
    """Times of the tasks that succeeded, one entry a task in each column, in order of launch.

    Attributes:
        launched_ms: time of launch since the job's start, milliseconds.
        took_ms: time from launch to finish, milliseconds.
        executor: index of the executor in the list of the job's executors.
    """

    launched_ms: list[_Ms] = []
    took_ms: list[_Ms] = []
    executor: list[_Index] = []

    def __len__(self) -> int:
        return len(self.took_ms)


class StageBytes(_Struct, frozen=True, kw_only=True):
    """Bytes that the tasks of a stage moved.

    Attributes:
        read: bytes of input from storage.
        shuffled_local: bytes of shuffle fetched from the task's own host or executor.
        shuffled_remote: bytes of shuffle fetched from other executors or hosts.
        shuffle_written: bytes written for later stages to fetch.
        written: bytes of output to storage.
        spilled: bytes written to disk for lack of memory.
    """

    read: _Bytes = 0
    shuffled_local: _Bytes = 0
    shuffled_remote: _Bytes = 0
    shuffle_written: _Bytes = 0
    written: _Bytes = 0
    spilled: _Bytes = 0

    @property
    def shuffled(self) -> int:
        """Bytes of shuffle that were fetched, local and remote."""
        return self.shuffled_local + self.shuffled_remote


class BatchStage(_Struct, frozen=True, kw_only=True):
    """Stage of a job: tasks that run the same code on parts of the data.

    Attributes:
        name: what the engine calls the stage.
        n_tasks: number of tasks that have to succeed.
        parents: indices of the stages whose output this one reads; each is below the stage's own index.
        after: indices of the stages whose end releases this one: parents, and stages that the job's driver
            waited for; each is below the stage's own index.
        wait_ms: time from the end of the last of `after`, or from the job's start, to the stage's submission,
            milliseconds: the driver's own work, which no executor shortens.
        submitted_ms: time of submission since the job's start, milliseconds; None where it is not known.
        ended_ms: time of completion since the job's start, milliseconds; None where it is not known.
        rank: order in which the engine serves stages that wait for slots; the smallest goes first.
        tasks: times of the tasks; empty where only the sizes of the job are known.
        bytes: bytes that all its tasks moved.
        repeats: number of times that the stage was tried again after its output was lost.
        failed: number of task attempts that failed.
        killed: number of task attempts that were killed, speculative ones that lost included.
        speculative: number of speculative task attempts.
    """

    name: _Name
    n_tasks: _Count
    parents: list[_Index] = []
    after: list[_Index] = []
    wait_ms: _Ms = 0
    submitted_ms: _Ms | None = None
    ended_ms: _Ms | None = None
    rank: _Index = 0
    tasks: TaskTimes = TaskTimes()
    bytes: StageBytes = StageBytes()
    repeats: _Count = 0
    failed: _Count = 0
    killed: _Count = 0
    speculative: _Count = 0

    @property
    def task_ms(self) -> int:
        """Time of all its tasks that succeeded, milliseconds."""
        return sum(self.tasks.took_ms)


class ExecutorSpan(_Struct, frozen=True, kw_only=True):
    """Process that ran tasks, and when the job had it.

    Attributes:
        host: name of its machine; empty where it is not known.
        rack: name of its rack; empty where it is not known.
        slots: number of tasks that it runs at once.
        from_ms: time from which the job had it, since the job's start, milliseconds.
        until_ms: time at which the job lost it or gave it back; None if it had it to the end.
    """

    host: _Name = ""
    rack: _Name = ""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1
    from_ms: _Ms = 0
    until_ms: _Ms | None = None


class BatchJob(_Struct, frozen=True, kw_only=True):
    """One run of a batch job.

    Attributes:
        name: name of the job, equal for all runs of a recurring job.
        id: name of this run, such as the engine's application id; empty where there is none.
        engine: program that ran it; `swim` for a job of which only the sizes are known.
        submitted_ms: time of submission, milliseconds since 1970; 0 where it is not known.
        took_ms: time from submission to end, milliseconds; that of the last event where `ended` is false.
        ended: whether the run came to its end and the log says so.
        stages: stages, each after the stages that it waits for.
        executors: processes that ran its tasks, in order of their arrival.
        unfinished: number of task attempts that had started and not ended where the log ends.
        unknown: what the log cannot tell, one sentence an entry.
    """

    name: _Name
    id: _Name = ""
    engine: Engine
    submitted_ms: _Ms = 0
    took_ms: _Ms = 0
    ended: bool = True
    stages: list[BatchStage]
    executors: list[ExecutorSpan] = []
    unfinished: _Count = 0
    unknown: list[str] = []

    @property
    def n_tasks(self) -> int:
        """Number of tasks of all stages."""
        return sum(stage.n_tasks for stage in self.stages)

    @property
    def n_attempts(self) -> int:
        """Number of task attempts, those included that failed, were killed or had not ended."""
        ended = sum(len(stage.tasks) + stage.failed + stage.killed for stage in self.stages)
        return ended + self.unfinished

    @property
    def task_ms(self) -> int:
        """Time of all tasks that succeeded, milliseconds."""
        return sum(stage.task_ms for stage in self.stages)

    @property
    def bytes(self) -> StageBytes:
        """Bytes that all stages moved."""
        every = [stage.bytes for stage in self.stages]
        fields = StageBytes.__struct_fields__
        return StageBytes(**{name: sum(getattr(one, name) for one in every) for name in fields})

    @property
    def slots(self) -> int:
        """Most tasks that its executors could run at once; 0 where it is not known."""
        return _peak(self.executors, [each.slots for each in self.executors])

    @property
    def n_executors(self) -> int:
        """Most executors that it had at once; 0 where it is not known."""
        return _peak(self.executors, [1] * len(self.executors))


class BatchJobs(JsonDocument, frozen=True, kw_only=True):
    """Runs of batch jobs, as `kwiken batch fit` writes them.

    Attributes:
        version: version of the format; must be 1.
    """

    FORMAT: ClassVar = DocumentFormat(
        JOBS_VERSION, MAX_JOBS_BYTES, ("jobs",), "is no document of jobs; kwiken batch fit -o writes one"
    )

    version: int = JOBS_VERSION
    jobs: list[BatchJob]

    def to_json(self) -> str:
        """The runs as JSON, one run a line, readable by `from_json`."""
        lines = ",\n".join(msgspec.json.encode(job).decode() for job in self.jobs)
        return f'{{"version":{self.version},"jobs":[\n{lines}\n]}}\n'

    def check(self, where: str) -> None:
        """Check the number of runs, and what the fields of each say of each other."""
        if len(self.jobs) > MAX_JOBS:
            raise InputError(f"holds {len(self.jobs)} jobs; {MAX_JOBS} is the most", where=where)
        for place, job in enumerate(self.jobs):
            check_job(job, where=f"{where}: jobs[{place}]")


def check_job(job: BatchJob, *, where: str) -> None:
    """Check what the fields of a run say of each other.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: too many stages, a stage that waits for one that does not stand before it, columns of
            unequal length, a task on an executor that is not listed.
    """
    if len(job.stages) > MAX_STAGES:
        raise InputError(f"has {len(job.stages)} stages; {MAX_STAGES} is the most", where=where)
    for place, stage in enumerate(job.stages):
        at = f"{where}.stages[{place}]"
        for name in ("parents", "after"):
            late = [index for index in getattr(stage, name) if index >= place]
            if late:
                raise InputError(f"{name}: stage {late[0]} does not stand before this one", where=at)
        tasks = stage.tasks
        lengths = {len(tasks.launched_ms), len(tasks.took_ms), len(tasks.executor)}
        if len(lengths) > 1:
            raise InputError("tasks: the columns differ in length", where=at)
        if tasks.executor and max(tasks.executor) >= len(job.executors):
            raise InputError(f"tasks.executor: no executor {max(tasks.executor)} in the list", where=at)


def _peak(spans: Sequence[ExecutorSpan], amounts: Sequence[int]) -> int:
    """Largest sum of the amounts of the executors that were there at once."""
    events = [(span.from_ms, amount) for span, amount in zip(spans, amounts, strict=True)]
    events += [
        (span.until_ms, -amount)
        for span, amount in zip(spans, amounts, strict=True)
        if span.until_ms is not None
    ]
    present = most = 0
    for _, change in sorted(events):  # at equal times executors that leave come first
        present += change
        most = max(most, present)
    return most
