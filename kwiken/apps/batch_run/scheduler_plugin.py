"""Plugin of Dask's scheduler that sends its workers and tasks as events of a topic."""

from __future__ import annotations

import time
from typing import Any

from distributed import SchedulerPlugin

MS = 1000


class TaskRecorder(SchedulerPlugin):  # type: ignore[misc]  # Dask states no types
    """Lines of workers and tasks, sent together a few times a second.

    Args:
        topic: topic of the scheduler's events.
        flush_s: longest time that a line waits for others, seconds.
        rack_resource: start of the name of the resource that says a worker's rack.
    """

    def __init__(self, topic: str, flush_s: float, rack_resource: str) -> None:
        self.name = topic
        self._flush_s, self._rack_resource = flush_s, rack_resource
        self._lines: list[dict[str, Any]] = []
        self._places: dict[Any, set[str]] = {}  # workers that have some data, by its key
        self._waiting = False
        self._scheduler: Any = None

    async def start(self, scheduler: Any) -> None:
        """Begin with the workers that are there."""
        self._scheduler = scheduler
        for address in list(scheduler.workers):
            self.add_worker(scheduler, address)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note a worker that came."""
        state = scheduler.workers[worker]
        racks = [each for each in state.resources if each.startswith(self._rack_resource)]
        self._send(
            {
                "worker": worker,
                "host": state.host,
                "rack": racks[0].removeprefix(self._rack_resource) if racks else "",
                "slots": max(1, state.nthreads),
                "from_ms": round(MS * time.time()),
            }
        )

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:  # noqa: ARG002 - named by Dask
        """Note a worker that left; its data is gone."""
        for places in self._places.values():
            places.discard(worker)
        self._send({"left": worker, "until_ms": round(MS * time.time())})

    def transition(self, key: Any, start: str, finish: str, *_: Any, **told: Any) -> None:
        """Note a task that ended."""
        if finish in {"forgotten", "released"}:
            self._places.pop(key, None)
        if start == "processing" and finish in {"memory", "erred"}:
            task, worker = self._scheduler.tasks.get(key), told.get("worker")
            spans = [each for each in told.get("startstops") or () if each["action"] == "compute"]
            if task is not None and worker is not None and (spans or finish == "erred"):
                self._send(self._task_line(task, worker, spans, int(told.get("nbytes") or 0), finish))

    def _task_line(self, task: Any, worker: str, spans: list[Any], made: int, finish: str) -> dict[str, Any]:
        """Line of one task: data that its worker had not yet counts as fetched."""
        moved = {True: 0, False: 0}
        for data in task.dependencies:
            places = self._places.setdefault(data.key, set())
            moved[worker in places] += max(0, int(data.nbytes))
            places.add(worker)
        self._places.setdefault(task.key, set()).add(worker)
        line = {
            "group": task.group.name,
            "ran_on": worker,
            "start_ms": round(MS * min((each["start"] for each in spans), default=time.time())),
            "stop_ms": round(MS * max((each["stop"] for each in spans), default=time.time())),
            "made": max(0, made),
            "fetched": moved[False],
            "local": moved[True],
            "after": sorted({data.group.name for data in task.dependencies}),
        }
        return line if finish == "memory" else {**line, "failed": True}

    def _send(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        if not self._waiting:
            self._waiting = True
            self._scheduler.loop.call_later(self._flush_s, self._flush)

    def _flush(self) -> None:
        self._waiting = False
        lines, self._lines = self._lines, []
        if lines:
            self._scheduler.log_event(self.name, lines)
