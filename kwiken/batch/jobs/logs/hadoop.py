"""Reader of Hadoop job histories (`.jhist`): one JSON event a line after two lines of head."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.map_reduce import AttemptEnd, MapReduceRun

JSON_HEAD: Final = b"Avro-Json"


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
    job_status: str = ""
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
        self._run = MapReduceRun()
        self._schema_due = False
        self._without_schema = False
        self._began = False

    def feed(self, line: bytes) -> None:
        """Take one line.

        Raises:
            ValueError: the line is no JSON or lacks what its event must have.
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
            self._take_event(event.type, body)

    def _take_event(self, kind: str, body: _Body) -> None:
        run = self._run
        if kind == "JOB_SUBMITTED":
            run.submitted(body.jobid, body.job_name, body.submit_time)
        elif kind == "JOB_INITED":
            run.declared(body.total_maps, body.total_reduces)
        elif kind.startswith("JOB_"):
            run.ended(body.finish_time, failed=kind != "JOB_FINISHED")
        elif kind.endswith("_STARTED"):
            run.attempt_started(body.attempt_id, body.task_type, body.start_time, body.tracker_name or "")
        else:
            counters = {}
            if body.counters is not None:
                counters = {
                    one.name: one.value
                    for group in body.counters.groups
                    for one in group.counts
                    if "BYTES" in one.name
                }
            status = kind.rpartition("_")[2]
            run.attempt_ended(
                AttemptEnd(
                    attempt=body.attempt_id,
                    kind=body.task_type,
                    outcome="SUCCEEDED"
                    if status == "FINISHED"
                    else (body.status or body.task_status or status),
                    finished_ms=body.finish_time,
                    host=body.hostname or "",
                    rack=_text(body.rackname),
                    counters=counters,
                )
            )

    def jobs(self) -> list[BatchJob]:
        """The run that was read, or none where the history has no event."""
        if self._without_schema:
            self._run.collected.unknown.append(
                "the schema: the history is without one, and the usual is taken"
            )
        return self._run.jobs(self._name)


def _text(value: Any) -> str:
    """Text of a field that a newer schema wraps as {"string": text}."""
    if isinstance(value, dict):
        value = value.get("string", "")
    return value if isinstance(value, str) else ""
