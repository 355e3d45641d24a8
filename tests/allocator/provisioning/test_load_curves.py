"""Load curves: CSV and Prometheus, and one clear line for each kind of bad input."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.provisioning.load_curve import load_from_text
from kwiken.base.errors import InputError


def test_hours_of_cores_are_read() -> None:
    load = load_from_text("time,cores\n0,3\n3600,4.5\n7200,0\n", where="load.csv")
    assert load.step_s == 3600
    assert load.cores.tolist() == [3, 4.5, 0]
    assert load.mean == 2.5
    assert load.tolerant.tolist() == [0, 0, 0]


def test_requests_cost_what_they_are_said_to() -> None:
    load = load_from_text(
        "requests_per_s,time\n100,0\n200,60\n", where="load.csv", cores_per_request_rate=0.02, tolerant=0.5
    )
    assert load.cores.tolist() == [2, 4]
    assert load.tolerant.tolist() == [1, 2]


def test_series_of_prometheus_are_added_up() -> None:
    series = [
        {"metric": {}, "values": [[0, "1"], [60, "2"]]},
        {"metric": {}, "values": [[60, "3"], [120, "4"]]},
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})
    load = load_from_text(text, where="load.json")
    assert load.cores.tolist() == [1, 5, 4]


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001 - made aware below
def test_days_are_seconds_since_1970(at: datetime) -> None:
    first = at.replace(microsecond=0, tzinfo=UTC)
    rows = [(first + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%SZ") + ",1" for hour in range(2)]
    load = load_from_text("time,cores\n" + "\n".join(rows) + "\n", where="load.csv")
    assert load.start_s == first.timestamp()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,cores\n0,1\n", "has one sample"),
        ("time,cores\n", "has no sample"),
        ("time,cores\n0,1\n1e300,1\n", r":3: time: must be seconds"),
        ("time,cores\n2026-02-31,1\n2026-03-04,1\n", r":2: time: must be seconds, or UTC"),
        ('{"data": {"resultType": "matrix", "result": [{"values": 1}]}}', r"must be a list of pairs"),
        ("time,cores\n0,1\n60,2\n240,3\n300,1\n", ":4: the step to this sample is 180 s"),
        ("time,cores\n0,1\n60,2\n30,3\n", ":4: time 30 s does not follow 60 s"),
        ("time,cores\n0,1\n0,2\n", ":3: time 0 s does not follow 0 s"),
        ("time,cores\n0,nan\n60,2\n", ":2: cores: must be a number from 0"),
        ("time,cores\n0,-1\n60,2\n", ":2: cores: must be a number from 0"),
        ("time,cores\n0,inf\n60,2\n", ":2: cores: must be a number from 0"),
        ("time,cores\nnoon,1\n60,2\n", ":2: time: must be seconds"),
        ("time,cores\n2026-13-01,1\n60,2\n", ":2: time: must be seconds"),
        ("time,cores\n0,1,2\n60,2\n", ":2: has 3 cells, and the head 2"),
        ("time,cores,cost\n0,1,2\n", ":1: unknown column 'cost'"),
        ("time,cores,cores\n0,1,2\n", ":1: a column is given twice"),
        ("time,cores,requests_per_s\n0,1,2\n", ":1: needs the columns"),
        ("cores\n1\n", ":1: needs the columns"),
        ("time,cores,tolerant\n0,1,2\n60,1,1\n", ":2: tolerant: is 2, more than all work"),
        ("time,requests_per_s\n0,1\n60,2\n", "give --profile or --request-ms"),
        ('{"data": {}}', "is no range result of Prometheus"),
        ('{"data": {"resultType": "vector", "result": []}}', "must be 'matrix'"),
        ('{"data": {"resultType": "matrix", "result": []}}', "must have 1 to"),
        ('{"data": {"resultType": "matrix", "result": [{"values": [[0, "NaN"], [1, "2"]]}]}}', "value: must"),
        (
            '{"data": {"resultType": "matrix", "result": [{"values": [[1, "1"], [0, "2"]]}]}}',
            "does not follow",
        ),
        (
            '{"data": {"resultType": "matrix", "result": [{"values": [[1]]}]}}',
            "values[0]: must be a pair of time and",
        ),
        ('{"status": "error", "error": "bad query"}', "has answered with an error: 'bad query'"),
        ("", "is empty"),
    ],
)
def test_bad_load_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as failed:
        load_from_text(text, where="load.csv")
    assert str(failed.value).startswith("load.csv")
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


def test_cores_take_no_cost_of_requests() -> None:
    with pytest.raises(InputError, match="is in cores"):
        load_from_text("time,cores\n0,1\n60,1\n", where="x", cores_per_request_rate=0.1)
