"""The document of jobs: what is written is read again, and what is wrong is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwiken.base.errors import InputError
from kwiken.batch.jobs.facts import facts_of
from kwiken.batch.jobs.job import BatchJob, BatchJobs, BatchStage, StageBytes
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.sizes import predict_size
from tests.support.data.batch.spark_lines import small_log


def document() -> BatchJobs:
    found = read_log(small_log(), name="n", where="w")
    assert found is not None
    sizes = BatchStage(name="map", n_tasks=1, bytes=StageBytes(read=5, shuffle_written=6, written=7))
    return BatchJobs(jobs=[*found.jobs, BatchJob(name="s", engine="hadoop", submitted_ms=1, stages=[sizes])])


def test_what_is_written_is_read_again() -> None:
    assert BatchJobs.from_json(document().to_json(), where="w") == document()


def change(path: list[Any], value: Any) -> str:
    raw = json.loads(document().to_json())
    at = raw
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return json.dumps(raw)


FIRST = ["jobs", 0, "stages", 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "kwiken batch fit"),
        ("{}", "kwiken batch fit"),
        ("", "empty"),
        (change(["version"], 2), "version"),
        (change(["version"], True), "version"),
        (change(["jobs", 0, "engine"], "flink"), "engine"),
        (change(["jobs", 0, "more"], 1), "more"),
        (change([*FIRST, "parents"], [1]), r"stages\[1\].*parents"),
        (change([*FIRST, "after"], [9]), "after"),
        (change([*FIRST, "parents"], [-1]), "parents"),
        (change([*FIRST, "wait_ms"], -1), "wait_ms"),
        (change([*FIRST, "tasks", "took_ms"], [1]), "differ in length"),
        (change([*FIRST, "tasks", "took_ms"], [1, 1.5]), "took_ms"),
        (change([*FIRST, "tasks", "executor"], [0, 5]), "no executor 5"),
        (change(["jobs", 0, "executors", 0, "slots"], 0), "slots"),
        (change([*FIRST, "bytes", "read"], 1 << 60), "read"),
    ],
)
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        BatchJobs.from_json(text, where="jobs.json")


def test_facts_of_a_run() -> None:
    facts = facts_of(document().jobs[0])
    assert (facts.first_mean_ms, facts.later_mean_ms, facts.waves) == (950, 950, 2)
    assert facts.idle_ms == 600 + 10 + 190
    assert (facts.first_executor_ms, facts.skew) == (500, 0)
    assert facts_of(document().jobs[1]).first_executor_ms is None


def test_sizes_come_from_the_same_hour_of_the_same_kind_of_day() -> None:
    day, monday = 86_400.0, 4 * 86_400.0
    at = [monday + day * n + 3600 for n in range(7)] + [monday + 7200]
    size = [10.0, 12, 14, 16, 18, 1, 3, 99]
    assert predict_size(at, size, monday + 7 * day + 3600) == 14
    assert predict_size(at, size, monday + 12 * day + 3600) == 2
    with pytest.raises(InputError, match="no earlier run"):
        predict_size(at, size, monday + 7 * day + 40_000)
