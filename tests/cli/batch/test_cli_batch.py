"""`kwiken batch`: the example's path from logs to predictions and copies, and one line for each bad input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kwiken.cli.batch.inputs import log_files
from tests.support.data.batch.spark_lines import small_log
from tests.support.project.commands import ROOT, refused, run

EXAMPLE = ROOT / "examples" / "batch"
SMALL = b"\n".join(small_log()) + b"\n"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jobs") / "jobs.json"
    result = run("batch", "fit", str(EXAMPLE), "-o", str(path))
    assert result.exit_code == 0, result.stderr
    return path


def fitted(*logs: Path) -> dict[str, Any]:
    result = run("batch", "fit", *map(str, logs), "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_example_is_fitted_and_predicted(jobs: Path) -> None:
    result = run("batch", "fit", str(EXAMPLE))
    for told in ("nightly-report #1", "147", "no task ran", "-o FILE keeps"):
        assert told in result.stdout
    result = run(
        *("batch", "predict", str(jobs), "--executors", "2..32", "--deadline", "60s"),
    )
    assert result.exit_code == 0, result.stderr
    for told in ("2 runs, at 4, 8 executors", "by Ernest", "no longer pay", "executors end in 60.0 s"):
        assert told in result.stdout
    assert "held out" in result.stderr


def test_predictions_as_json(jobs: Path) -> None:
    result = run("batch", "predict", str(jobs), "--executors", "8", "--json")
    found = json.loads(result.stdout)
    (point,) = found["predictions"]
    assert point["completion_s"] == pytest.approx(54.2, rel=0.01)
    assert point["low_s"] < point["completion_s"] < point["high_s"]
    assert found["known_executors"] == [4, 8]
    assert found["model"] == "replay"


def test_input_and_slots_change_the_time(jobs: Path) -> None:
    def seconds(*options: str) -> float:
        result = run("batch", "predict", str(jobs), "--executors", "8", "--json", *options)
        assert result.exit_code == 0, result.stderr
        return float(json.loads(result.stdout)["predictions"][0]["completion_s"])

    base = seconds()
    assert seconds("--input", "2x") > base
    assert seconds("--input", "10GB") > base
    assert seconds("--slots", "8") < base


def test_a_deadline_that_nothing_meets_names_the_nearest(jobs: Path) -> None:
    result = run("batch", "predict", str(jobs), "--executors", "2..16", "--deadline", "1s")
    assert re.search(r"nothing ends in 1.0 s; the nearest is \d+\.\d s", result.stdout)


def test_packed_and_rolled_logs_are_one_log(tmp_path: Path) -> None:
    lines = small_log()
    (tmp_path / "a.gz").write_bytes(gzip.compress(SMALL))
    (tmp_path / "b.zstd").write_bytes(zstandard.compress(SMALL))
    rolled = tmp_path / "eventlog_v2_app"
    rolled.mkdir()
    (rolled / "events_2_app.zstd").write_bytes(zstandard.compress(b"\n".join(lines[5:])))
    (rolled / "events_1_app").write_bytes(b"\n".join(lines[:5]) + b"\n")
    (rolled / "appstatus_app").write_bytes(b"")
    found = fitted(tmp_path)
    assert [job["took_s"] for job in found["jobs"]] == [4.6] * 3
    assert found["total"]["tasks"] == 12


def test_a_packed_log_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    import random

    noise = random.Random(1)  # so that the packed file is long enough to cut
    lines = [*small_log()[:5], *(b'{"Event":"x","y":"%d"}' % noise.getrandbits(256) for _ in range(9000))]
    for name, packed in (
        ("a.zst", zstandard.compress(b"\n".join(lines))),
        ("b.gz", gzip.compress(b"\n".join(lines))),
    ):
        path = tmp_path / name
        path.write_bytes(packed[: len(packed) // 2])
        result = run("batch", "fit", str(path))
        assert result.exit_code == 0, result.stderr
        assert "does not tell the end" in result.stderr


def test_a_damaged_line_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(SMALL.replace(b'"Task Info"', b'"Task Info', 2))
    result = run("batch", "fit", str(path))
    assert result.exit_code == 0
    assert re.search(r"log:4: this line, and 1 more, of 11 cannot be read", result.stderr)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MIN_UNPACKED", 1 << 20)
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstandard.compress(SMALL + b"\n" * (1 << 24)))
    refused(run("batch", "fit", str(path)), "unpacks to more than")
    path.write_bytes(zstandard.compress(SMALL + b" " * (1 << 27)))
    refused(run("batch", "fit", str(path)), "more than")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no job in it"),
        (b"hello\n", "no job in it"),
        (b"\x28\xb5\x2f\xfdrubbish", "no job in it.*damaged"),
        (b"LZ4Block1234", "packed with lz4"),
        (b'{"Event":"SparkListenerLogStart"}\n', "no job in it.*without a job"),
    ],
)
def test_what_is_no_log_is_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    refused(run("batch", "fit", str(path)), told)


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    refused(run("batch", "fit", str(tmp_path / "none")), "no such file")
    refused(run("batch", "fit", str(tmp_path)), "holds no file")
    refused(run("batch", "fit", "/dev/null"), "regular")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--executors", "0"), "10..200"),
        (("--executors", "9..3"), "10..200"),
        (("--executors", "x"), "10..200"),
        (("--bandwidth", "1Gbps"), "--bandwidth was removed; use --cluster FILE"),
        (("--input", "0x"), "20GB"),
        (("--input", "much"), "20GB"),
        (("--deadline", "soon"), "is not a time"),
        (("--slots", "0"), "slots"),
        (("--job", "none"), "known: nightly-report"),
    ],
)
def test_bad_options_of_predict_are_one_line(jobs: Path, options: tuple[str, ...], told: str) -> None:
    refused(run("batch", "predict", str(jobs), *options), told)


def test_documents_without_times_are_refused(tmp_path: Path) -> None:
    job = {"name": "j", "engine": "spark", "stages": [{"name": "map", "n_tasks": 3, "bytes": {"read": 1762}}]}
    sizes = _written(tmp_path, json.dumps({"version": 1, "jobs": [job]}))
    refused(run("batch", "predict", str(sizes)), "no job has task times")
    refused(run("batch", "predict", str(_written(tmp_path, "{}"))), "kwiken batch fit")
    refused(run("batch", "predict", str(_two_jobs(tmp_path))), "several jobs")


def _written(folder: Path, text: str) -> Path:
    path = folder / "other.json"
    path.write_text(text)
    return path


def _two_jobs(folder: Path) -> Path:
    (folder / "two.log").write_bytes(SMALL + SMALL.replace(b'"App Name":"job"', b'"App Name":"b"'))
    out = folder / "two.json"
    assert run("batch", "fit", str(folder / "two.log"), "-o", str(out)).exit_code == 0
    return out


def test_a_folder_is_read_although_some_of_its_files_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(SMALL)
    (tmp_path / "b.lz4").write_bytes(b"LZ4Block1234")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "twice").symlink_to(tmp_path / "a.log")
    (tmp_path / "around").symlink_to(tmp_path)
    result = run("batch", "fit", str(tmp_path), str(tmp_path / "a.log"), "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["total"]["jobs"] == 1
    assert "packed with lz4" in result.stderr
    assert "there is no such file" in result.stderr
    refused(run("batch", "fit", "a" * 300), "File name too long")


def test_empty_lines_count_towards_what_a_file_may_unpack_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MIN_UNPACKED", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(SMALL + b"\n" * (1 << 20)))
    refused(run("batch", "fit", str(path)), "each line counts as at least 64 bytes")


def test_a_gzip_file_that_is_cut_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(SMALL * 50)[:-12])
    assert "cut.gz: is damaged from here on: the file is cut" in run("batch", "fit", str(path)).stderr


def test_logs_stand_in_place_of_documents(tmp_path: Path, jobs: Path) -> None:
    told = [
        json.loads(run("batch", "predict", str(path), "--executors", "6", "--json").stdout)["predictions"]
        for path in (jobs, EXAMPLE)
    ]
    assert told[0] == told[1]
    plan = _written(tmp_path, '{"version": 1, "minimise": "mean", "jobs": []}')
    refused(run("batch", "predict", str(plan)), "unknown field `minimise`")


def _document(folder: Path, **changes: Any) -> Path:
    stage = {"name": "s", "n_tasks": 1, "tasks": {"launched_ms": [0], "took_ms": [90], "executor": [0]}}
    job = {"name": "j", "engine": "spark", "took_ms": 99, "stages": [stage], "executors": [{}], **changes}
    return _written(folder, json.dumps({"version": 1, "jobs": [job]}))


def test_documents_that_would_take_all_memory_are_refused(tmp_path: Path, jobs: Path) -> None:
    many = _document(tmp_path, executors=[{"slots": 1 << 20}] * 9)
    refused(run("batch", "predict", str(many)), "9437184 slots; 1000000 is the most")
    refused(run("batch", "predict", str(_document(tmp_path, name="n" * 1001))), "name")
    refused(run("batch", "predict", str(jobs), "--input", "999999999999x"), "is the most")
    refused(run("batch", "predict", str(jobs), "--executors", "2..100000", "--slots", "99"), "too many")


def test_a_deadline_near_the_most_slots_is_searched_within_them(jobs: Path) -> None:
    words = ("--executors", "2500", "--slots", "100", "--deadline", "1s")
    assert "nothing ends" in run("batch", "predict", str(jobs), *words).stdout
