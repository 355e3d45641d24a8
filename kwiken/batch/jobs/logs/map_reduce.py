"""Run of a MapReduce job from starts and ends of its task attempts, whatever the format of the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.collected import CollectedRun, CollectedStage, check_moments

MAP, REDUCE = 0, 1  # numbers of the stages
STAGE_OF: Final = {"MAP": MAP, "REDUCE": REDUCE}  # set-up and clean-up of a job are no work of it
LOCAL_FILES: Final = "FILE_BYTES_"


@dataclass(frozen=True)
class AttemptEnd:
    """End of a task attempt.

    Attributes:
        kind: MAP, REDUCE, or another kind of task, which is left out.
        outcome: SUCCEEDED, FAILED or KILLED.
        finished_ms: time of the end, milliseconds since 1970.
        counters: counters of the attempt by their name.
    """

    attempt: str
    kind: str
    outcome: str
    finished_ms: int
    host: str
    rack: str
    counters: Mapping[str, int]


class MapReduceRun:
    """Run of one job: two stages, the reduces after the maps."""

    def __init__(self) -> None:
        self.collected = CollectedRun("hadoop")
        self._started: dict[str, tuple[int, str]] = {}
        self._seen = False

    def submitted(self, job: str, name: str, at_ms: int) -> None:
        """Note the submission; `at_ms` in milliseconds since 1970, 0 or less where it is not known."""
        check_moments(max(0, at_ms))
        self._seen = True
        run = self.collected
        run.id, run.name = job or run.id, name or run.name
        if at_ms > 0:
            run.began_ms = at_ms

    def declared(self, maps: int, reduces: int) -> None:
        """Note the numbers of tasks."""
        self._seen = True
        for number, name, count in ((MAP, "map", maps), (REDUCE, "reduce", reduces)):
            if count > 0:
                self._stage(number, name).n_tasks = count

    def ended(self, at_ms: int, *, failed: bool) -> None:
        """Note the end; `at_ms` in milliseconds since 1970, 0 or less where it is not known."""
        check_moments(max(0, at_ms))
        self._seen = True
        if at_ms > 0:
            self.collected.ended_ms = at_ms
        if failed:
            self.collected.unknown.append("the whole: the job failed or was killed")

    def attempt_started(self, attempt: str, kind: str, at_ms: int, host: str) -> None:
        """Note the start of an attempt; `at_ms` in milliseconds since 1970.

        Raises:
            ValueError: the time is out of range.
        """
        number = STAGE_OF.get(kind)
        if number is None:
            return
        check_moments(at_ms)
        self._seen = True
        self.collected.started += 1
        self._started[attempt] = at_ms, host
        stage = self._stage(number, kind.lower())
        stage.submitted_ms = at_ms if stage.submitted_ms is None else min(stage.submitted_ms, at_ms)

    def attempt_ended(self, end: AttemptEnd) -> None:
        """Note the end of an attempt.

        Raises:
            ValueError: an attempt that has not started, or a time out of range.
        """
        number = STAGE_OF.get(end.kind)
        if number is None:
            return
        started = self._started.pop(end.attempt, None)
        if started is None:
            raise ValueError(f"ends the attempt {end.attempt!r}, which has not started or has ended before")
        run, stage = self.collected, self._stage(number, end.kind.lower())
        if end.outcome not in {"SUCCEEDED", "SUCCESS"}:
            if end.outcome == "KILLED":
                stage.killed += 1
            else:
                stage.failed += 1
            return
        host = end.host or started[1]
        executor = run.executor(host)
        executor.host, executor.rack = host, end.rack or executor.rack
        run.task_ran(stage, host, started[0], end.finished_ms)
        stage.ended_ms = max(stage.ended_ms or 0, end.finished_ms)
        counters = end.counters
        for name, value in counters.items():
            if name.endswith("_BYTES_READ") and not name.startswith(LOCAL_FILES):
                stage.read += value
            elif name.endswith("_BYTES_WRITTEN") and not name.startswith(LOCAL_FILES):
                stage.written += value
        if number == MAP:
            stage.shuffle_written += counters.get(
                "MAP_OUTPUT_MATERIALIZED_BYTES", counters.get("MAP_OUTPUT_BYTES", 0)
            )
        else:
            stage.shuffled_remote += counters.get("REDUCE_SHUFFLE_BYTES", 0)

    def jobs(self, name: str) -> list[BatchJob]:
        """The run that was read, or none where no event told of one."""
        if not self._seen:
            return []
        run = self.collected
        for stage in run.stages.values():
            if not stage.n_tasks and stage.took_ms:
                stage.n_tasks = len(stage.took_ms)
                run.unknown.append(f"how many {stage.name}s there are: those that ran are counted")
        run.unknown.append(
            "slots: a history lists no free one, so the most tasks at once on each host are taken"
        )
        if any(stage.shuffled_remote for stage in run.stages.values()):
            run.unknown.append("from which hosts reduces fetched: all bytes of the shuffle count as remote")
        return [run.assembled(name)]

    def _stage(self, number: int, name: str) -> CollectedStage:
        stage = self.collected.stage(number)
        stage.name = name
        if number == REDUCE and MAP in self.collected.stages:
            stage.parents = (MAP,)
        return stage
