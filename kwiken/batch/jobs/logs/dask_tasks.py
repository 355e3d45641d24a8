"""Reader of what `kwiken batch record` writes: workers and tasks of a Dask scheduler, one JSON object a line.

The groups of tasks of one name are the stages of the job.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from kwiken.batch.jobs.job import MAX_MS, BatchJob
from kwiken.batch.jobs.logs.collected import CollectedRun

HEAD: Final = b'{"recorded":"dask"'  # start of the first line
VERSION: Final = 1
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Ms = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]


class _Line(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pass


class _Began(_Line, frozen=True):
    recorded: str
    version: int
    name: _Text
    began_ms: _Ms
    input_bytes: _Bytes | None = None


class _Worker(_Line, frozen=True):
    worker: _Text
    host: _Text
    rack: _Text
    slots: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    from_ms: _Ms


class _Left(_Line, frozen=True):
    left: _Text
    until_ms: _Ms


class _Task(_Line, frozen=True):
    group: _Text
    ran_on: _Text
    start_ms: _Ms
    stop_ms: _Ms
    made: _Bytes
    fetched: _Bytes
    local: _Bytes
    after: Annotated[list[_Text], msgspec.Meta(max_length=100_000)]
    failed: bool = False


class _Ended(_Line, frozen=True):
    ended_ms: _Ms


_KINDS: Final[dict[str, type[_Line]]] = {
    "recorded": _Began,
    "worker": _Worker,
    "left": _Left,
    "group": _Task,
    "ended_ms": _Ended,
}


class DaskReader:
    """Job of the lines of one recording.

    Args:
        name: name of a job whose recording gives none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._run = CollectedRun("dask")
        self._numbers: dict[str, int] = {}
        self._input_bytes: int | None = None

    def feed(self, line: bytes) -> None:
        """Take one line.

        Raises:
            ValueError: the line is no object of a recording, or of another version.
        """
        if not line.strip():
            return
        raw = msgspec.json.decode(line)
        kind = next((_KINDS[key] for key in _KINDS if isinstance(raw, dict) and key in raw), None)
        if kind is None:
            raise ValueError("is no line of a recording")
        self._take(msgspec.convert(raw, kind))

    def _take(self, line: Any) -> None:
        run = self._run
        match line:
            case _Began():
                if line.version != VERSION:
                    raise ValueError(f"has the version {line.version}, not {VERSION}")
                run.name, run.began_ms = line.name, line.began_ms
                self._input_bytes = line.input_bytes
            case _Worker():
                found = run.executor(line.worker)
                found.host, found.rack, found.slots, found.from_ms = (
                    line.host,
                    line.rack,
                    line.slots,
                    line.from_ms,
                )
            case _Left():
                run.executor(line.left).until_ms = line.until_ms
            case _Ended():
                run.ended_ms = line.ended_ms
            case _Task():
                self._task(line)

    def _task(self, task: _Task) -> None:
        stage = self._run.stage(self._number(task.group))
        stage.name = task.group
        self._run.started += 1
        parents = {self._number(group) for group in task.after if group != task.group}
        stage.parents = tuple(sorted({*stage.parents, *parents}))
        if task.failed:
            stage.failed += 1
            return
        stage.n_tasks += 1
        stage.submitted_ms = min(stage.submitted_ms or task.start_ms, task.start_ms)
        stage.ended_ms = max(stage.ended_ms or 0, task.stop_ms)
        self._run.task_ran(stage, task.ran_on, task.start_ms, task.stop_ms)
        stage.shuffled_remote += task.fetched
        stage.shuffled_local += task.local
        if parents:
            stage.shuffle_written += task.made
        else:
            stage.read += task.made

    def _number(self, group: str) -> int:
        return self._numbers.setdefault(group, len(self._numbers))

    def _share_input(self, input_bytes: int) -> None:
        """Count the input as read by the stages without parents, in the ratio of what they made."""
        first = [stage for stage in self._run.stages.values() if not stage.parents]
        made = sum(stage.read for stage in first)
        weights = [stage.read if made else stage.n_tasks for stage in first]
        for stage, weight in zip(first, weights, strict=True):
            stage.read = input_bytes * weight // max(1, sum(weights))

    def jobs(self) -> list[BatchJob]:
        """The job that was recorded; none without a task."""
        if not self._run.stages:
            return []
        if self._input_bytes is None:
            self._run.unknown.append("bytes read from storage: a task without inputs counts what it made")
        else:
            self._share_input(self._input_bytes)
        return [self._run.assembled(self._name)]
