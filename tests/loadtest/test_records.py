"""Records of the load generator: one line a request, bounded, and failures of the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.loadtest.results import records as records_module
from kwiken.loadtest.results.outcome import RequestOutcome
from kwiken.loadtest.results.records import Records

NAN = float("nan")


def outcome(at: float, error: str | None = None) -> RequestOutcome:
    return RequestOutcome(at, 0.25, 12.3456789, 200 if error is None else 0, error, "ab" * 16, 3)


def test_a_line_per_request(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records = Records(str(path))
    records.add(outcome(1.5), 1_700_000_000.0)
    records.add(RequestOutcome(2.0, NAN, NAN, 0, "dropped", "", 0), 1_700_000_000.0)
    records.close()
    records.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {
            "intended_s": 1_700_000_001.5,
            "start_lag_ms": 0.25,
            "latency_ms": 12.346,
            "status": 200,
            "error": None,
            "trace_id": "ab" * 16,
        },
        {
            "intended_s": 1_700_000_002.0,
            "start_lag_ms": None,
            "latency_ms": None,
            "status": 0,
            "error": "dropped",
            "trace_id": "",
        },
    ]


def test_lines_are_written_in_chunks_and_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MAX_RECORDS", 2_000)
    path = tmp_path / "records.jsonl"
    records = Records(str(path))
    sizes = []
    for index in range(2_500):
        records.add(outcome(float(index)), 0.0)
        sizes.append(path.stat().st_size)
    assert 2 <= len(set(sizes)) < 20
    records.close()
    assert (records.written, records.left_out) == (2_000, 500)
    numbers = [json.loads(line)["intended_s"] for line in path.read_text().splitlines()]
    assert numbers == [float(index) for index in range(2_000)]


@pytest.mark.parametrize("path", ["/nowhere/records", "/", "nul\0byte"])
def test_a_file_that_cannot_be_written(path: str) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        Records(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_kept_for_the_end() -> None:
    records = Records("/dev/full")
    for index in range(3_000):
        records.add(outcome(float(index)), 0.0)
    records.close()
    assert records.failure == "No space left on device"
    assert records.written == 0
    assert records.left_out == 3_000
