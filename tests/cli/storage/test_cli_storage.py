"""`kwiken storage`: what is told and written, one line for each bad input, and nothing left behind."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kwiken.export.block_io.trace_text import csv_text
from kwiken.storage.trace.block_trace import BlockTrace
from kwiken.storage.trace.formats import trace_from_text
from tests.support.data.public_files import public_file
from tests.support.data.storage.traces import log_and_hot_zone
from tests.support.project.commands import refused, run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "trace.csv").write_text(csv_text(log_and_hot_zone(4000)))
    result = run("storage", "fit", str(tmp_path / "trace.csv"), "-o", str(tmp_path / "model.json"))
    assert result.exit_code == 0, result.stderr
    return tmp_path


def test_a_generated_trace_is_read_again(files: Path) -> None:
    made = files / "made.csv"
    assert run("storage", "generate", str(files / "model.json"), "-o", str(made)).exit_code == 0
    again = run("storage", "fit", str(made), "--json")
    assert json.loads(again.stdout)["ios"] == 4000


def test_an_iolog_is_read_again(files: Path) -> None:
    made = files / "made.log"
    run("storage", "generate", str(files / "model.json"), "--to", "iolog", "-o", str(made))
    assert len(trace_from_text(made.read_text(), where="made")) == 4000


def test_a_judgement_names_what_holds(files: Path) -> None:
    result = run("storage", "judge", str(files / "trace.csv"), str(files / "model.json"))
    assert result.exit_code == 0, result.stderr
    assert "every second slice" in result.stdout
    assert "drift: what a model of the past misses\nthe later half" in result.stdout
    assert "4 of 4" in result.stdout
    assert "holds" in result.stdout
    assert "fio random" in result.stdout
    assert result.stdout.count("nearest (") == 4


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", "is empty"),
        ("hello\n", "no known format"),
        ("1 0 8 8 1\n", "needs 2"),
        ("5 0 8 8 1\n5 0 8 8 1\n", "one time"),
    ],
)
def test_bad_traces_are_one_line(tmp_path: Path, text: str, pattern: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    refused(run("storage", "fit", str(path)), pattern)


def test_a_model_of_something_else_is_refused(files: Path) -> None:
    refused(run("storage", "generate", str(files / "trace.csv")), "JSON")


def fio() -> str:
    found = shutil.which("fio")
    if found is None:
        pytest.skip("fio is not installed (Debian package fio)")
    return found


@pytest.mark.slow
def test_the_job_file_runs_in_fio_and_has_the_mix(files: Path) -> None:
    program = fio()
    trace = log_and_hot_zone(4000)
    job = files / "job.fio"
    assert run("storage", "generate", str(files / "model.json"), "--to", "fio", "-o", str(job)).exit_code == 0
    numbers = itertools.count()
    logged = re.sub("poisson", lambda _: f"poisson\nwrite_iolog=made-{next(numbers)}.log", job.read_text())
    job.write_text(logged)
    done = subprocess.run(
        [program, "job.fio"], cwd=files, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [trace_from_text(path.read_text(), where="made") for path in files.glob("made-*.log")]
    count = sum(map(len, logs))
    assert count == pytest.approx(4000, abs=10)
    reads, follows = (
        sum(int(getattr(each, name).sum()) for each in logs) / count for name in ("read", "sequential")
    )
    assert reads == pytest.approx(trace.read.mean(), abs=0.01)
    assert follows == pytest.approx(trace.sequential.mean(), abs=0.02)
    high = int(trace.end.max())
    shares = sum(quarters(each, high) * len(each) for each in logs) / count
    assert np.abs(shares - quarters(trace, high)).max() < 0.02


def quarters(trace: BlockTrace, high: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.bincount(np.minimum(4 * trace.start // high, 3), minlength=4) / len(trace)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["wsrch", "tpcc"])
def test_real_traces_are_nearer_than_fio(tmp_path: Path, name: str) -> None:
    trace = public_file(f"block-io/{name}-small.trace")
    model = tmp_path / "model.json"
    assert run("storage", "fit", str(trace), "-o", str(model)).exit_code == 0
    result = run("storage", "judge", str(trace), str(model), "--json")
    *slices, later = json.loads(result.stdout)
    for feature in slices[0]["features"]:
        # Of all volumes together, which are no states of the model; parts of so few I/Os differ by more.
        if feature["bound"] is not None and "quarter" not in feature["name"]:
            assert feature["error"] <= feature["bound"], feature
    for part in (*slices, later):
        distances = part["nearness"][0]["distances"]
        assert distances[0] < min(distances[1:-1]) / 2
        for feature in part["features"]:
            if feature["bound"] is not None and feature["error"] > feature["bound"]:
                # What no model of the trained part can be nearer to, and the model's own error.
                assert feature["error"] <= feature["apart"] + feature["own"], feature


NODES = """
[[classes]]
name = "hdd"
cores = 12
memory_gb = 12

[[nodes]]
name = "disk"
class = "hdd"
zone = "a"
count = 4

[[nodes]]
name = "disc"
class = "hdd"
zone = "b"
count = 4
"""
DATASETS = """
[[disks]]
class = "hdd"
mb_s = 400
capacity_gb = 1200

[[datasets]]
name = "index"
gb = 300
mb_s = 12
random = 0.9
target_ms = 5
curve = [[0.0, 1.5], [0.3, 5.0], [0.4, 22.0]]
replicas = 2

[[datasets]]
name = "mail"
gb = 400
mb_s = 20
random = 0.7
parts = 2
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "datasets.toml").write_text(DATASETS)
    return tmp_path


def test_data_is_packed_and_moves_from_a_layout_are_told(cluster: Path) -> None:
    inputs = (str(cluster / "nodes.toml"), str(cluster / "datasets.toml"))
    layout = cluster / "layout.json"
    result = run("storage", "pack", *inputs, "-o", str(layout), "--json")
    found = json.loads(result.stdout)
    assert found["nodes_used"] >= found["fewest_nodes"] >= 2
    held = json.loads(layout.read_text())["nodes"]
    homes = {name: node for node, names in held.items() for name in names}
    assert homes["index/0#0"][:4] != homes["index/0#1"][:4]  # zones of their own
    scattered = {
        "version": 1,
        "nodes": {"disk-1": ["index/0#0"], "disk-2": ["mail/0#0"], "disk-3": ["mail/1#0"]},
    }
    scattered["nodes"]["disc-1"] = ["index/0#1"]  # type: ignore[index]
    layout.write_text(json.dumps(scattered))
    beside = run("storage", "pack", *inputs, "--beside", str(layout), "--interval", "86400", "--json")
    assert json.loads(beside.stdout)["moves"]


def test_the_rsync_line_of_a_move_runs_nothing_else(cluster: Path) -> None:
    sets = cluster / "datasets.toml"
    sets.write_text(DATASETS.replace('"index"', '"in;touch${IFS}x"'))
    layout = cluster / "layout.json"
    data = ["in;touch${IFS}x/0#0", "in;touch${IFS}x/0#1", "mail/0#0", "mail/1#0"]
    nodes = ["disk-1", "disc-1", "disk-2", "disk-3"]
    held = {node: [name] for node, name in zip(nodes, data, strict=True)}
    layout.write_text(json.dumps({"version": 1, "nodes": held}))
    words = (str(cluster / "nodes.toml"), str(sets), "--beside", str(layout), "--interval", "86400", "--json")
    moves = json.loads(run("storage", "pack", *words).stdout)["moves"]
    assert moves
    for move in moves:
        program, *_, source, target = shlex.split(move["rsync"])
        assert program == "rsync"
        assert source == f"{move['from']}:/data/{move['object']}/"
        assert target == f"{move['to']}:/data/{move['object']}/"
        assert shlex.quote(source) in move["rsync"]


@pytest.mark.parametrize("option", ["--demand", "--fit"])
def test_options_of_the_published_packing_say_what_to_use(cluster: Path, option: str) -> None:
    words = ("storage", "pack", str(cluster / "nodes.toml"), str(cluster / "datasets.toml"))
    refused(run(*words, option, "next"), f"{option} was removed; use ")


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("mb_s = 20", "mb_s = 4000", "mail"),
        ('class = "hdd"\nmb_s', 'class = "ssd"\nmb_s', "has none"),
        ("gb = 300", "gb = 3000", "fit on no node"),
        ("replicas = 2", "replicas = 20", "fit on no node"),
        ("random = 0.9", "random = 9", "random"),
    ],
)
def test_bad_data_sets_are_one_line(cluster: Path, old: str, new: str, pattern: str) -> None:
    (cluster / "datasets.toml").write_text(DATASETS.replace(old, new, 1))
    result = run("storage", "pack", str(cluster / "nodes.toml"), str(cluster / "datasets.toml"))
    if result.exit_code == 0:
        assert "alone and above its own limit: mail" in result.stdout
        return
    assert result.exit_code == 2
    assert pattern in result.stderr.splitlines()[-1]
