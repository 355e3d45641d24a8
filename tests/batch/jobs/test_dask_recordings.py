"""Recordings of Dask: lines become stages with parents, bytes and workers; bad lines are counted."""

from __future__ import annotations

import json
from typing import Any

from kwiken.batch.jobs.logs.reading import LogFindings, read_log

HEAD = {"recorded": "dask", "version": 1, "name": "sums", "began_ms": 1000}
WORKER = {"worker": "tcp://w1", "host": "10.0.0.1", "rack": "r1", "slots": 2, "from_ms": 900}
ENDED = {"ended_ms": 5000}


def task(group: str, start: int, stop: int, after: list[str], **more: Any) -> dict[str, Any]:
    return {
        "group": group,
        "ran_on": "tcp://w1",
        "start_ms": start,
        "stop_ms": stop,
        "made": 100,
        "fetched": 30 if after else 0,
        "local": 10 if after else 0,
        "after": after,
        **more,
    }


def read(*lines: Any) -> LogFindings:
    texts = [line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) for line in lines]
    found = read_log((text.encode() for text in texts), name="n", where="w")
    assert found is not None
    return found


def test_groups_become_stages_with_their_bytes() -> None:
    lines = (task("load", 1000, 2000, []), task("load", 1100, 2100, []), task("join", 2200, 3000, ["load"]))
    (job,) = read(HEAD, WORKER, *lines, ENDED).jobs
    load, join = job.stages
    assert (job.name, job.took_ms, job.ended) == ("sums", 4000, True)
    assert (load.name, load.n_tasks, load.bytes.read) == ("load", 2, 200)
    assert (join.parents, join.bytes.shuffled_remote, join.bytes.shuffled_local) == ([0], 30, 10)
    assert (job.executors[0].slots, job.executors[0].rack) == (2, "r1")


def test_failed_tasks_count_and_a_recording_may_stop_early() -> None:
    (job,) = read(HEAD, WORKER, task("load", 1000, 2000, []), task("load", 1, 2, [], failed=True)).jobs
    assert (job.stages[0].failed, len(job.stages[0].tasks), job.ended) == (1, 1, False)


def test_bad_lines_are_counted_and_left_out() -> None:
    bad = ('{"group":', {"group": "x"}, {"strange": 1}, {**WORKER, "slots": 0}, [1], task("a", -1, 2, []))
    found = read(HEAD, WORKER, *bad, task("load", 1000, 2000, []), ENDED)
    assert found.damaged == len(bad)
    assert len(found.jobs[0].stages) == 1
    assert read({**HEAD, "version": 2}, ENDED).damaged == 1


def test_a_recording_without_a_task_has_no_job() -> None:
    assert read(HEAD, WORKER, ENDED).jobs == []


def test_a_known_input_is_shared_among_the_tasks_without_inputs() -> None:
    lines = [
        {"recorded": "dask", "version": 1, "name": "n", "began_ms": 0, "input_bytes": 900},
        {"worker": "w", "host": "h", "rack": "", "slots": 1, "from_ms": 0},
        *(
            {
                "group": group,
                "ran_on": "w",
                "start_ms": at,
                "stop_ms": at + 5,
                "made": made,
                "fetched": 0,
                "local": 0,
                "after": after,
            }
            for group, at, made, after in (("a", 0, 10, []), ("b", 5, 20, []), ("c", 10, 1, ["a", "b"]))
        ),
        {"ended_ms": 20},
    ]
    found = read_log(
        (json.dumps(line, separators=(",", ":")).encode() for line in lines), name="x", where="w"
    )
    assert found is not None
    (job,) = found.jobs
    assert [stage.bytes.read for stage in job.stages] == [300, 600, 0]
    assert not any("bytes read" in one for one in job.unknown)
