"""`kwiken place --scheduler sampled`: guarantee, advice, streams of arrivals, kills, and bad input."""

from __future__ import annotations

import fcntl
import json
import random
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.project.commands import ROOT, one_refusal, refused, run

EXAMPLE = ROOT / "examples" / "allocator"
WORKLOADS = str(EXAMPLE / "workloads.toml")
CLASSES = """
[[classes]]
name = "large"
cores = 16
memory_gb = 64
speed = 1.0
[[classes]]
name = "medium"
cores = 8
memory_gb = 32
speed = 0.8
[[classes]]
name = "small"
cores = 4
memory_gb = 16
speed = 0.6
"""
CORES = {"large": 16, "medium": 8, "small": 4}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of a cluster of 120 nodes and the example's workloads and profiles."""
    folder = tmp_path_factory.mktemp("sampled")
    nodes, profiles = folder / "nodes.toml", folder / "profiles.json"
    tables = "".join(f'[[nodes]]\nname = "{name}"\nclass = "{name}"\ncount = 40\n' for name in CORES)
    nodes.write_text(CLASSES + tables)
    assert run("classify", str(EXAMPLE / "measurements.toml"), "-o", str(profiles)).exit_code == 0
    return [str(nodes), WORKLOADS, "--profiles", str(profiles), "--scheduler", "sampled"]


def stream(files: list[str], text: str, *options: str) -> tuple[list[dict[str, object]], str, int]:
    """Answers, stderr and exit code of a stream."""
    command = [sys.executable, "-m", "kwiken", "place", *files, "--stream", *options]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, done.returncode


def arrivals(count: int, first: int = 0) -> str:
    return "".join(
        json.dumps({"arrive": f"job-{n}", "workload": "snippets"}) + "\n" for n in range(first, first + count)
    )


def test_the_guarantee_and_what_full_scans_say(files: list[str]) -> None:
    result = run("place", *files, "--guarantee", "0.8:0.001")
    assert result.exit_code in {0, 3}, result.stderr
    assert "up to 31 nodes with room are examined" in result.stderr
    assert "beside full scans" in result.stderr


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (["--guarantee", "1:0.1"], "quality must be above 0 and below 1"),
        (["--guarantee", "0.9:0"], "failure must be above 0 and below 1"),
        (["--guarantee", "half"], "must be QUALITY:FAILURE"),
        (["--guarantee", "0.99:0.001"], "needs 688 nodes to draw from, and there are 120"),
        (["--journal", "j"], "--journal is for --stream"),
        (["--stream", "--json"], "--stream answers on stdout"),
    ],
)
def test_bad_options_are_refused(files: list[str], options: list[str], pattern: str) -> None:
    refused(run("place", *files, *options), pattern)


def test_the_options_need_the_scheduler(files: list[str]) -> None:
    refused(run("place", *files[:-2], "--stream"), "need --scheduler sampled")


def test_a_stream_is_answered_line_by_line(files: list[str]) -> None:
    text = arrivals(30) + '{"depart": "job-3"}\n{"depart": "job-3"}\n' + arrivals(1, 4)
    answers, stderr, code = stream(files, text, "--agents", "10", "--scan-every", "1")
    assert code == 0, stderr
    assert [answer["job"] for answer in answers] == [f"job-{n}" for n in range(30)] + [
        "job-3",
        "job-3",
        "job-4",
    ]
    assert [answer.get("departed") for answer in answers[30:]] == [True, False, None]
    assert answers[32]["again"]
    assert answers[32]["node"] == answers[4]["node"]
    assert all(0.9 < float(str(answer["rank"])) <= 1 for answer in answers[:30])
    scan = re.search(r"a full scan takes (\S+) ms, (\S+) times a decision", stderr)
    assert scan is not None
    assert all(float(figure) >= 0 for figure in scan.groups())
    assert "0 of 30 choices" in stderr


@pytest.mark.parametrize(
    ("end", "pattern"),
    [
        ('{"arrive": "job-2", "wor', "line 3: ends in the middle"),
        ('{"arrive": "job-2", "workload": "nobody"}\n', "line 3: workload: no workload 'nobody'"),
        ('{"arrive": "job-2", "load": 3}\n', "line 3: is no arrival"),
        ('{"arrive": "", "workload": "snippets"}\n', "line 3: must be"),
        ("[]\n", "line 3: is no arrival"),
    ],
)
def test_what_came_before_a_bad_line_is_answered(files: list[str], end: str, pattern: str) -> None:
    answers, stderr, code = stream(files, arrivals(2) + end)
    assert code == 2
    assert [answer["job"] for answer in answers] == ["job-0", "job-1"]
    one_refusal(stderr.splitlines()[-1], pattern)


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (b"a note without a last newline", "last line is no change of a journal"),
        (b'{"job":"\x80"}\n', "line 1: is no change of a journal"),
        (b'{\n "version": 1\n}', "line 1: is no change of a journal"),
        (b'{"job":"job-0","workload":"snippets","node":"large-1"}\n{"jobs"', "last line is no change"),
    ],
)
def test_a_file_that_is_no_journal_keeps_all_its_bytes(
    files: list[str], tmp_path: Path, content: bytes, pattern: str
) -> None:
    journal = tmp_path / "other.json"
    journal.write_bytes(content)
    answers, stderr, code = stream(files, arrivals(1), "--journal", str(journal))
    assert (answers, code) == ([], 2)
    one_refusal(stderr, pattern)
    assert journal.read_bytes() == content


@pytest.mark.parametrize("cut", ["{", '{"job":"job-1","wor'])
def test_a_cut_last_line_of_a_journal_is_dropped(files: list[str], tmp_path: Path, cut: str) -> None:
    journal, kept = tmp_path / "journal.jsonl", '{"job":"job-0","workload":"snippets","node":"large-1"}\n'
    journal.write_text(kept + cut)
    answers, stderr, code = stream(files, arrivals(1), "--journal", str(journal))
    assert code == 0, stderr
    assert answers == [{"job": "job-0", "node": "large-1", "again": True}]
    assert journal.read_text() == kept


def test_a_journal_belongs_to_one_stream_at_a_time(files: list[str], tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with journal.open("a+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answers, stderr, code = stream(files, arrivals(1), "--journal", str(journal))
    assert (answers, code) == ([], 2)
    one_refusal(stderr, "journal.jsonl: is the journal of a stream that runs")
    assert stream(files, arrivals(1), "--journal", str(journal))[2] == 0


def test_the_commands_of_the_page_run_on_the_example(files: list[str], tmp_path: Path) -> None:
    """The cluster of the example is small: a guarantee that needs more nodes would be refused."""
    page = (ROOT / "docs" / "allocate" / "sampling.md").read_text()
    found = [
        shlex.split(line.replace("workloads-profile.json", files[3]))[1:]
        for line in page.splitlines()
        if line.startswith("kwiken place ")
    ]
    assert len(found) == 2
    for words in found:
        named = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
        if "--stream" in named:
            rest = [word.replace("placed.jsonl", str(tmp_path / "j")) for word in named if word != "--stream"]
            assert stream(rest[1:], arrivals(1))[2] == 0, words
        else:
            result = run(*named)  # 3: the reservation of the example misses its target, as the page says
            assert result.exit_code == 3, (words, result.stderr)


@pytest.mark.slow
def test_kills_at_any_moment_sell_no_node_twice(files: list[str], tmp_path: Path) -> None:
    """The stream is killed again and again, and each time sent anew from a little before the last answer."""
    journal, rng = tmp_path / "journal.jsonl", random.Random(4)
    lines = arrivals(400).splitlines(keepends=True)
    command = [sys.executable, "-m", "kwiken", "place", *files, "--stream", "--agents", "10"]
    nodes: dict[str, object] = {}
    answered = 0
    for turn in range(6):
        child = subprocess.Popen(
            [*command, "--journal", str(journal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        last = turn == 5
        rest = lines[max(0, answered - 20) :]
        child.stdin.write("".join(rest).encode())
        child.stdin.flush()
        if last:
            child.stdin.close()
        kill_after = 10**9 if last else rng.randrange(20, 100)
        for count, line in enumerate(child.stdout, start=1):
            answer = json.loads(line)
            known = nodes.setdefault(answer["job"], answer["node"])
            assert known == answer["node"], "an answer that was given stays"
            if count >= kill_after:
                child.kill()
                break
        child.stdout.close()
        if not last:
            child.stdin.close()
        child.wait()
        answered = len(nodes)
    assert len(nodes) == 400
    kept = Counter(json.loads(line)["job"] for line in journal.read_text().splitlines())
    placed = [job for job, node in nodes.items() if node is not None]
    assert sorted(kept) == sorted(placed)
    assert set(kept.values()) == {1}
