"""Readers of job logs: kinds told by content, runs as the events tell, damage counted and left out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.reading import LogFindings, read_log
from tests.support.data.batch import spark_lines as spark
from tests.support.data.public_files import public_file

HADOOP = [
    b"Avro-Json",
    b'{"type":"record","name":"Event"}',
    b"",
    b'{"type":"JOB_SUBMITTED","event":{"x":{"jobid":"job_1","jobName":"sort","submitTime":1000}}}',
    b'{"type":"JOB_INITED","event":{"x":{"jobid":"job_1","totalMaps":2,"totalReduces":1}}}',
    *(
        f'{{"type":"MAP_ATTEMPT_STARTED","event":{{"x":{{"taskType":"MAP","attemptId":"m{n}","startTime":{2000 + n},'
        f'"trackerName":"a"}}}}}}'.encode()
        for n in range(2)
    ),
    *(
        f'{{"type":"MAP_ATTEMPT_FINISHED","event":{{"x":{{"taskType":"MAP","attemptId":"m{n}","finishTime":5000,'
        f'"hostname":"a","rackname":{{"string":"/r"}},"counters":{{"groups":[{{"counts":['
        f'{{"name":"HDFS_BYTES_READ","value":10}},{{"name":"FILE_BYTES_READ","value":99}},'
        f'{{"name":"MAP_OUTPUT_MATERIALIZED_BYTES","value":4}}]}}]}}}}}}}}'.encode()
        for n in range(2)
    ),
    b'{"type":"REDUCE_ATTEMPT_STARTED","event":{"x":{"taskType":"REDUCE","attemptId":"r","startTime":6000}}}',
    (
        b'{"type":"REDUCE_ATTEMPT_FINISHED","event":{"x":{"taskType":"REDUCE","attemptId":"r","finishTime":8000,'
        b'"hostname":"b","counters":{"groups":[{"counts":[{"name":"REDUCE_SHUFFLE_BYTES","value":8},'
        b'{"name":"HDFS_BYTES_WRITTEN","value":3}]}]}}}}'
    ),
    b'{"type":"JOB_FINISHED","event":{"x":{"jobid":"job_1","finishTime":9000}}}',
]


def read(lines: list[bytes]) -> LogFindings:
    found = read_log(lines, name="name", where="log")
    assert found is not None
    return found


def the_job(lines: list[bytes]) -> BatchJob:
    (job,) = read(lines).jobs
    return job


def test_a_small_event_log() -> None:
    job = the_job(spark.small_log())
    assert (job.name, job.id, job.engine, job.took_ms, job.ended) == ("job", "app-1", "spark", 4600, True)
    assert [stage.parents for stage in job.stages] == [[], [0]]
    assert [stage.wait_ms for stage in job.stages] == [600, 10]
    assert job.stages[1].tasks.took_ms == [900, 900]
    assert job.stages[1].tasks.launched_ms == [2610, 3510]
    assert (job.n_tasks, job.n_attempts, job.task_ms, job.slots, job.n_executors) == (4, 4, 3800, 1, 1)
    moved = job.bytes
    assert (moved.read, moved.shuffled_remote, moved.shuffled, moved.shuffle_written, moved.written) == (
        *(400, 28, 40, 20, 8),
    )
    assert job.unknown == []


def test_failed_killed_and_speculative_attempts_count_apart() -> None:
    lines = spark.small_log()
    lines[4:4] = [
        spark.task(0, 700, 10, Failed=True),
        spark.task(0, 700, 10, Killed=True, Speculative=True),
        spark.task(0, 700, 10, metrics=None),
    ]
    stage = the_job(lines).stages[0]
    assert (stage.failed, stage.killed, stage.speculative, len(stage.tasks)) == (1, 1, 1, 3)
    assert "metrics" in the_job(lines).unknown[0]


def test_slots_are_cores_over_the_cores_of_a_task() -> None:
    lines = spark.small_log()
    lines[1] = spark.executor("1", cores=8)
    lines.insert(1, spark.event("EnvironmentUpdate", Spark_Properties={"spark.task.cpus": "4"}))
    assert the_job(lines).slots == 2
    gpus = {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "0.25"}
    lines[1] = spark.event("EnvironmentUpdate", Spark_Properties=gpus)
    assert the_job(lines).slots == 4


def test_a_log_that_never_ended_tells_what_it_holds() -> None:
    job = the_job([*spark.small_log()[:4], spark.event("TaskStart"), spark.event("TaskStart")])
    assert not job.ended
    assert job.took_ms == 1600
    assert job.unfinished == 1
    assert any("the end" in fact for fact in job.unknown)


def test_a_lost_executor_and_a_stage_tried_again() -> None:
    lines = spark.small_log()
    lines.insert(6, spark.event("ExecutorRemoved", Timestamp=spark.BEGAN + 2600, Executor_ID="1"))
    lines.insert(7, spark.executor("2", at=2605))
    lines.insert(8, spark.submitted(0, 1, 2606, Stage_Attempt_ID=1))
    job = the_job(lines)
    assert job.executors[0].until_ms == 2600
    assert job.stages[0].repeats == 1
    assert job.stages[0].n_tasks == 2
    assert job.n_executors == 1


def test_two_applications_in_one_log_are_two_jobs() -> None:
    jobs = read([*spark.small_log(), spark.start("other", "app-2", 9000), *spark.small_log()[1:]]).jobs
    assert [job.id for job in jobs] == ["app-1", "app-2"]


def test_a_skipped_parent_stands_for_the_stage_that_made_its_data() -> None:
    lines = spark.small_log()
    lines[2] = spark.submitted(0, 2, 600, RDD_Info=[{"RDD ID": 5}])
    skipped = {"Stage ID": 7, "RDD Info": [{"RDD ID": 5}]}
    lines.insert(6, spark.event("JobStart", Stage_Infos=[skipped]))
    lines[7] = spark.submitted(1, 2, 2610, (7,))
    assert the_job(lines).stages[1].parents == [0]


def test_stages_wait_for_the_driver() -> None:
    lines = spark.small_log()
    lines[6:10] = [
        spark.submitted(1, 1, 4000),
        spark.task(1, 4000, 100),
        spark.completed(1, 1, 4000, 4100),
    ]
    stage = the_job(lines).stages[1]
    assert (stage.parents, stage.after, stage.wait_ms) == ([], [0], 1400)


@pytest.mark.parametrize(
    "bad", [b"", b"{", b"[]", b'{"Event":"SparkListenerTaskEnd"', b"\xff\xfe", b'{"a":1}']
)
def test_a_damaged_line_is_counted_and_left_out(bad: bytes) -> None:
    lines = spark.small_log()
    found = read([*lines[:5], bad, *lines[5:]])
    assert found.damaged == 1
    assert found.first_damaged == 6
    assert found.jobs == read(lines).jobs


def test_clocks_that_run_backwards_stand_still() -> None:
    lines = spark.small_log()
    lines[4] = spark.task(0, 1600, -500)
    job = the_job(lines)
    assert job.stages[0].tasks.took_ms == [1000, 0]
    assert any("backwards" in fact for fact in job.unknown)


def test_events_of_an_unknown_version_are_skipped() -> None:
    lines = spark.small_log()
    lines.insert(3, b'{"Event":"org.apache.spark.Future","Stage ID":{"is":"another"}}')
    assert read(lines).damaged == 0


@settings(max_examples=60)
@given(cut=st.integers(0, 2000), at=st.integers(0, 2000), byte=st.integers(0, 255))
def test_any_cut_and_any_byte_is_read_as_far_as_it_goes(cut: int, at: int, byte: int) -> None:
    text = bytearray(b"\n".join(spark.small_log()))
    text = text[: len(text) - cut % len(text)]
    if text:
        text[at % len(text)] = byte
    found = read_log(bytes(text).split(b"\n"), name="n", where="log")
    if found is not None:
        for job in found.jobs:
            assert job.took_ms >= 0
            assert all(parent < place for place, stage in enumerate(job.stages) for parent in stage.after)


def test_a_hadoop_history() -> None:
    job = the_job(HADOOP)
    assert (job.name, job.id, job.engine, job.took_ms) == ("sort", "job_1", "hadoop", 8000)
    maps, reduces = job.stages
    assert (maps.n_tasks, len(maps.tasks), reduces.n_tasks, reduces.parents) == (2, 2, 1, [0])
    assert (maps.bytes.read, maps.bytes.shuffle_written) == (20, 8)
    assert (reduces.bytes.shuffled_remote, reduces.bytes.written) == (8, 3)
    assert [(one.host, one.rack, one.slots) for one in job.executors] == [("a", "/r", 2), ("b", "", 1)]


def test_a_history_without_its_schema_says_so() -> None:
    assert any("schema" in fact for fact in the_job([HADOOP[0], *HADOOP[3:]]).unknown)
    assert len(the_job(HADOOP[3:]).stages) == 2


def test_an_attempt_that_ends_twice_is_damage() -> None:
    assert read([*HADOOP[:9], HADOOP[8], *HADOOP[9:]]).damaged == 1


def test_a_table_of_sizes() -> None:
    jobs = read(
        [b"job0\t9\t9\t300000000\t0\t14", b"job1\t18\t9\t970\t609\t697", b"job2\t1\t1\t-5\t1\t1"]
    ).jobs
    assert [len(job.stages) for job in jobs] == [1, 2]
    assert (jobs[0].n_tasks, jobs[0].bytes.written, jobs[1].bytes.shuffled_remote) == (3, 14, 609)


@pytest.mark.parametrize("lines", [[], [b""], [b"hello"] * 50, [b"\x00" * 100]])
def test_what_is_no_log_is_none(lines: list[bytes]) -> None:
    assert read_log(lines, name="n", where="w") is None


def test_the_real_logs_hold_what_their_page_says() -> None:
    from kwiken.cli.batch.inputs.log_files import logs_at, read_job_log

    (log,) = logs_at(str(public_file("spark-event-logs/nds-q72-dataproc.zst")))
    found, problems = read_job_log(log)
    assert found is not None
    assert not problems
    (job,) = found.jobs
    assert (len(job.stages), job.n_attempts, job.slots, job.n_executors) == (49, 13_504, 128, 8)
    assert round(job.task_ms / 1000) == 8597
    assert job.took_ms == 116_729
    moved = job.bytes
    assert [round(one / 1e8) / 10 for one in (moved.read, moved.shuffled, moved.shuffled_remote)] == [
        *(18.4, 20.6, 15.4),
    ]


@pytest.mark.parametrize(
    ("launched", "took"), [(-(1 << 62), 1 << 63), (1 << 62, 1), (10**25, 1), (-1, 5), (0, 1 << 54)]
)
def test_times_that_no_clock_shows_are_damage_and_columns_stay_equal(launched: int, took: int) -> None:
    lines = spark.small_log()
    info = f'"Launch Time":{launched},"Finish Time":{launched + took},"Executor ID":"1"'
    bad = f'{{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task Info":{{{info}}}}}'.encode()
    found = read([*lines[:5], bad, *lines[5:]])
    assert found.damaged == 1
    (job,) = found.jobs
    assert all(len(one.tasks.launched_ms) == len(one.tasks.executor) == len(one.tasks) for one in job.stages)


def test_a_start_in_a_far_age_and_a_stage_below_zero_are_damage() -> None:
    lines = spark.small_log()
    lines[0] = lines[0].replace(str(spark.BEGAN).encode(), b"9" * 30)
    assert read(lines).damaged == 1
    assert read([*spark.small_log(), spark.task(-1, 1600, 10)]).damaged == 1
    far = HADOOP[3].replace(b"1000", b"9" * 30)
    assert read([*HADOOP[:3], far, *HADOOP[4:]]).damaged == 1


def test_a_table_with_numbers_that_are_too_large_or_without_names_is_damage() -> None:
    lines = [b"a\t1\t1\t5\t5\t5", b"b\t1\t1\t" + b"9" * 30 + b"\t1\t1", b" \t1\t1\t5\t5\t5"]
    found = read([*lines, b"c\t" + b"9" * 15 + b"\t1\t5\t5\t5"])
    assert (found.damaged, [job.name for job in found.jobs]) == (3, ["a"])


def test_stages_in_a_row_take_time_by_their_number_alone() -> None:
    lines = spark.small_log()[:2]
    for stage in range(20_000):  # sets of all stages before each would take gigabytes
        at = 1000 + 200 * stage
        lines += [
            spark.submitted(stage, 1, at),
            spark.task(stage, at, 90),
            spark.completed(stage, 1, at, at + 95),
        ]
    job = the_job(lines)
    assert [stage.after for stage in job.stages[1:4]] == [[0], [1], [2]]
    assert job.stages[-1].after == [19_998]


def test_a_stage_waits_for_all_that_nothing_else_waited_for() -> None:
    lines = spark.small_log()[:2]
    for stage, (at, end) in enumerate(((1000, 2000), (1000, 1500), (3000, 4000))):
        lines += [
            spark.submitted(stage, 1, at),
            spark.task(stage, at, 90),
            spark.completed(stage, 1, at, end),
        ]
    assert [(stage.after, stage.wait_ms) for stage in the_job(lines).stages][2] == ([0, 1], 1000)


def test_empty_lines_before_the_first_event_are_bounded() -> None:
    from itertools import repeat

    assert read_log(repeat(b"\n"), name="n", where="w") is None


def test_events_that_are_missing_or_without_names() -> None:
    """A log whose stages were never submitted, or whose hosts and names are null, tells its tasks all the same."""
    whole = spark.small_log()
    kept = [line for line in whole if b"StageSubmitted" not in line]
    nulls = [
        line.replace(b'"Host":"h"', b'"Host":null').replace(b'"App Name":"job"', b'"App Name":null')
        for line in whole
    ]
    bare = [line for line in kept if b"StageCompleted" not in line]
    for lines, name in ((kept, "job"), (nulls, "log"), (bare, "job")):
        found = read_log(iter(lines), name="log", where="log")
        assert found is not None
        (job,) = found.jobs
        assert (job.name, job.n_tasks, found.damaged) == (name, 4, 0)
        assert [len(stage.tasks) for stage in job.stages] == [2, 2]
        assert any("how many tasks 2 stages have" in one for one in job.unknown) == (lines is bare)


def test_a_history_with_other_spaces_or_null_hosts_is_the_same() -> None:
    def spaced(line: bytes) -> bytes:
        return json.dumps(json.loads(line)).encode() if line.startswith(b"{") else line

    assert the_job([spaced(line) for line in HADOOP]) == the_job(HADOOP)
    nulls = [line.replace(b'"hostname":"a"', b'"hostname":null') for line in HADOOP]
    assert read(nulls).damaged == 0


def test_a_history_that_states_no_numbers_counts_what_ran() -> None:
    job = the_job([line for line in HADOOP if b"JOB_INITED" not in line])
    assert [stage.n_tasks for stage in job.stages] == [2, 1]
    assert any("how many maps there are" in one for one in job.unknown)
