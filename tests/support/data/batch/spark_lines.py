"""Lines of small event logs, written by hand event by event."""

from __future__ import annotations

import json
from typing import Any

BEGAN = 1_700_000_000_000


def event(name: str, **body: Any) -> bytes:
    """One event; keywords stand for the event's fields, with `_` for a space."""
    fields = {key.replace("_", " "): value for key, value in body.items()}
    return json.dumps({"Event": f"SparkListener{name}", **fields}, separators=(",", ":")).encode()


def start(name: str = "job", app: str = "app-1", at: int = 0) -> bytes:
    return event("ApplicationStart", App_Name=name, App_ID=app, Timestamp=BEGAN + at)


def end(at: int) -> bytes:
    return event("ApplicationEnd", Timestamp=BEGAN + at)


def executor(name: str, at: int = 0, cores: int = 1, host: str = "h") -> bytes:
    info = {"Host": host, "Total Cores": cores}
    return event("ExecutorAdded", Timestamp=BEGAN + at, Executor_ID=name, Executor_Info=info)


def submitted(stage: int, tasks: int, at: int, parents: tuple[int, ...] = (), **more: Any) -> bytes:
    return event("StageSubmitted", Stage_Info=_info(stage, tasks, at, parents, more))


def completed(
    stage: int, tasks: int, at: int, done: int, parents: tuple[int, ...] = (), **more: Any
) -> bytes:
    return event(
        "StageCompleted",
        Stage_Info={**_info(stage, tasks, at, parents, more), "Completion Time": BEGAN + done},
    )


def _info(stage: int, tasks: int, at: int, parents: tuple[int, ...], more: dict[str, Any]) -> dict[str, Any]:
    return {
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Stage Name": f"stage {stage}",
        "Number of Tasks": tasks,
        "Parent IDs": list(parents),
        "Submission Time": BEGAN + at,
        **{key.replace("_", " "): value for key, value in more.items()},
    }


def task(stage: int, launched: int, took: int, name: str = "1", metrics: Any = ..., **more: Any) -> bytes:
    info = {
        "Launch Time": BEGAN + launched,
        "Finish Time": BEGAN + launched + took,
        "Executor ID": name,
        "Host": "h",
        **{key.replace("_", " "): value for key, value in more.items()},
    }
    moved = {
        "Input Metrics": {"Bytes Read": 100},
        "Shuffle Read Metrics": {"Remote Bytes Read": 7, "Local Bytes Read": 3},
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 5},
        "Output Metrics": {"Bytes Written": 2},
    }
    return event("TaskEnd", Stage_ID=stage, Task_Info=info, Task_Metrics=moved if metrics is ... else metrics)


def small_log() -> list[bytes]:
    """Two stages of two tasks on one executor of one core, of 4.6 s in all."""
    return [
        start(),
        executor("1", at=500),
        submitted(0, 2, 600),
        task(0, 600, 1000),
        task(0, 1600, 1000),
        completed(0, 2, 600, 2600),
        submitted(1, 2, 2610, (0,)),
        task(1, 2610, 900),
        task(1, 3510, 900),
        completed(1, 2, 2610, 4410, (0,)),
        end(4600),
    ]
