"""Event log of a simulated run, as Spark writes it: one JSON event a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from papers.worlds.queries.world import QueryRun

BEGAN_MS: Final = 1_700_000_000_000
SHUFFLE_BYTES: Final = 4_000_000  # that a task after a shuffle fetches
MS: Final = 1000.0


def event_log(run: QueryRun, application: str) -> Iterator[bytes]:
    """Lines of the event log of a run."""
    yield _line(
        "ApplicationStart", {"App Name": run.query.name, "App ID": application, "Timestamp": BEGAN_MS}
    )
    events: list[tuple[float, int, str, dict[str, Any]]] = []
    for number, at in enumerate(run.arrivals_s):
        info = {"Host": f"host-{number // 2}", "Total Cores": run.slots}
        body = {"Timestamp": _ms(at), "Executor ID": str(number), "Executor Info": info}
        events.append((at, 0, "ExecutorAdded", body))
    for place, stage in enumerate(run.query.stages):
        info = {
            "Stage ID": place,
            "Stage Attempt ID": 0,
            "Stage Name": f"{'join' if stage.parents else 'scan'} {place}",
            "Number of Tasks": stage.task_s.size,
            "Parent IDs": list(stage.parents),
            "Submission Time": _ms(run.submitted_s[place]),
        }
        events.append((run.submitted_s[place], 1, "StageSubmitted", {"Stage Info": info}))
        ended = {**info, "Completion Time": _ms(run.ended_s[place])}
        events.append((run.ended_s[place], 3, "StageCompleted", {"Stage Info": ended}))
    for task in run.tasks:
        stage = run.query.stages[task.stage]
        metrics = {
            "Input Metrics": {"Bytes Read": stage.bytes_read},
            "Shuffle Read Metrics": {
                "Remote Bytes Read": SHUFFLE_BYTES if stage.parents else 0,
                "Local Bytes Read": 0,
            },
        }
        info = {
            "Launch Time": _ms(task.launched_s),
            "Finish Time": _ms(task.finished_s),
            "Executor ID": str(task.executor),
            "Host": f"host-{task.executor // 2}",
        }
        body = {"Stage ID": task.stage, "Stage Attempt ID": 0, "Task Info": info, "Task Metrics": metrics}
        events.append((task.finished_s, 2, "TaskEnd", body))
    for _, _, name, body in sorted(events, key=lambda event: event[:2]):
        yield _line(name, body)
    yield _line("ApplicationEnd", {"Timestamp": _ms(run.took_s)})


def _ms(at_s: float) -> int:
    return BEGAN_MS + round(MS * at_s)


def _line(name: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"Event": f"SparkListener{name}", **body}, separators=(",", ":")).encode() + b"\n"
