"""Reader of Hadoop job histories (`.jhist`): one JSON event a line after two lines of head.

A job of MapReduce has two stages, the reduces after the maps.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.collected import CollectedRun, CollectedStage, check_moments

JSON_HEAD: Final = b"Avro-Json"
MAP, REDUCE = 0, 1  # numbers of the stages
STAGE_OF: Final = {"MAP": MAP, "REDUCE": REDUCE}  # set-up and clean-up of a job are no work of it
LOCAL_FILES: Final = "FILE_BYTES_"


class _Count(msgspec.Struct, gc=False):
    name: str
    value: int


class _Group(msgspec.Struct, gc=False):
    counts: list[_Count] = []


class _Counters(msgspec.Struct, gc=False):
    groups: list[_Group] = []


class _Body(msgspec.Struct, gc=False, rename="camel"):
    """Fields of all events that are read; an event has some of them."""

    jobid: str = ""
    job_name: str = ""
    submit_time: int = 0
    total_maps: int = 0
    total_reduces: int = 0
    task_type: str = ""
    attempt_id: str = ""
    start_time: int = 0
    finish_time: int = 0
    hostname: str | None = ""
    tracker_name: str | None = ""
    rackname: Any = ""
    task_status: str = ""
    status: str = ""
    counters: _Counters | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    event: dict[str, _Body] = {}


_EVENT: Final = msgspec.json.Decoder(_Event)
_TYPE: Final = b'"type":"'
_SCHEMA: Final = (b'{"type":"record"', b'{"type": "record"')
_READ: Final = frozenset(
    {
        *(b"JOB_SUBMITTED", b"JOB_INITED", b"JOB_FINISHED", b"JOB_FAILED", b"JOB_KILLED", b"JOB_ERROR"),
        *(b"MAP_ATTEMPT_STARTED", b"MAP_ATTEMPT_FINISHED", b"MAP_ATTEMPT_FAILED", b"MAP_ATTEMPT_KILLED"),
        *(b"REDUCE_ATTEMPT_STARTED", b"REDUCE_ATTEMPT_FINISHED"),
        *(b"REDUCE_ATTEMPT_FAILED", b"REDUCE_ATTEMPT_KILLED"),
    }
)
LONGEST_TYPE: Final = 64


class HadoopReader:
    """Reader of the events of one job.

    Args:
        name: name of a job whose history gives none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._run = CollectedRun("hadoop")
        self._started: dict[str, tuple[int, str]] = {}
        self._seen = False
        self._schema_due = False
        self._without_schema = False
        self._began = False

    def feed(self, line: bytes) -> None:
        """Take one line.

        Raises:
            ValueError: the line is no JSON or lacks what its event must have, an attempt ends that has not
                started, or a time is out of range.
        """
        line = line.strip()
        if line == JSON_HEAD:
            self._schema_due = True
        elif line.startswith(_SCHEMA):
            self._schema_due = False
        elif line:
            if self._schema_due or not self._began:
                self._without_schema = self._without_schema or self._schema_due
                self._schema_due, self._began = False, True
            self._event(line)

    def _event(self, line: bytes) -> None:
        at = line.find(_TYPE, 0, LONGEST_TYPE)
        end = line.find(b'"', at + len(_TYPE), at + len(_TYPE) + LONGEST_TYPE)
        if at >= 0 and end > 0 and line[at + len(_TYPE) : end] not in _READ:
            if not line.endswith(b"}"):
                raise ValueError("is cut")
            return
        event = _EVENT.decode(line)
        if event.type.encode() not in _READ:  # written with other spaces
            return
        for body in event.event.values():
            if event.type.startswith("JOB_"):
                self._job(event.type, body)
                self._seen = True
            elif body.task_type in STAGE_OF and event.type.endswith("_STARTED"):
                self._attempt_started(body)
                self._seen = True
            elif body.task_type in STAGE_OF:
                self._attempt_ended(event.type.rpartition("_")[2], body)

    def _job(self, kind: str, body: _Body) -> None:
        """Take an event of the job; times are milliseconds since 1970, 0 or less for none."""
        run = self._run
        if kind == "JOB_SUBMITTED":
            check_moments(max(0, body.submit_time))
            run.id, run.name = body.jobid or run.id, body.job_name or run.name
            if body.submit_time > 0:
                run.began_ms = body.submit_time
        elif kind == "JOB_INITED":
            for number, count in ((MAP, body.total_maps), (REDUCE, body.total_reduces)):
                if count > 0:
                    self._stage(number).n_tasks = count
        else:
            check_moments(max(0, body.finish_time))
            if body.finish_time > 0:
                run.ended_ms = body.finish_time
            if kind != "JOB_FINISHED":
                run.unknown.append("the whole: the job failed or was killed")

    def _attempt_started(self, body: _Body) -> None:
        check_moments(body.start_time)
        self._run.started += 1
        self._started[body.attempt_id] = body.start_time, body.tracker_name or ""
        stage = self._stage(STAGE_OF[body.task_type])
        earlier = stage.submitted_ms
        stage.submitted_ms = body.start_time if earlier is None else min(earlier, body.start_time)

    def _attempt_ended(self, status: str, body: _Body) -> None:
        started = self._started.pop(body.attempt_id, None)
        if started is None:
            raise ValueError(
                f"ends the attempt {body.attempt_id!r}, which has not started or has ended before"
            )
        number = STAGE_OF[body.task_type]
        run, stage = self._run, self._stage(number)
        if status != "FINISHED" and (outcome := body.status or body.task_status or status) != "SUCCEEDED":
            if outcome == "KILLED":
                stage.killed += 1
            else:
                stage.failed += 1
            return
        host = body.hostname or started[1]
        executor = run.executor(host)
        executor.host, executor.rack = host, _text(body.rackname) or executor.rack
        run.task_ran(stage, host, started[0], body.finish_time)
        stage.ended_ms = max(stage.ended_ms or 0, body.finish_time)
        groups = () if body.counters is None else body.counters.groups
        counters = {one.name: one.value for group in groups for one in group.counts}
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

    def jobs(self) -> list[BatchJob]:
        """The run that was read, or none where the history has no event."""
        run = self._run
        if not self._seen:
            return []
        if self._without_schema:
            run.unknown.append("the schema: the history is without one, and the usual is taken")
        for stage in run.stages.values():
            if not stage.n_tasks and stage.took_ms:
                stage.n_tasks = len(stage.took_ms)
                run.unknown.append(f"how many {stage.name}s there are: those that ran are counted")
        run.unknown.append(
            "slots: a history lists no free one, so the most tasks at once on each host are taken"
        )
        if any(stage.shuffled_remote for stage in run.stages.values()):
            run.unknown.append("from which hosts reduces fetched: all bytes of the shuffle count as remote")
        return [run.assembled(self._name)]

    def _stage(self, number: int) -> CollectedStage:
        stage = self._run.stage(number)
        stage.name = "reduce" if number == REDUCE else "map"
        if number == REDUCE and MAP in self._run.stages:
            stage.parents = (MAP,)
        return stage


def _text(value: Any) -> str:
    """Text of a field that a newer schema wraps as {"string": text}."""
    if isinstance(value, dict):
        value = value.get("string", "")
    return value if isinstance(value, str) else ""
