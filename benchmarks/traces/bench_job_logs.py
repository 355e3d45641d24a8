"""Benchmark of job logs: learning the jobs of a folder beside parsing the same lines as JSON."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, side_by_side
from kwiken.cli.batch.inputs.log_files import logs_at, read_job_log
from papers.worlds.queries.event_lines import event_log
from papers.worlds.queries.world import draw_query, run_query

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data"
FOLDERS = ("spark-event-logs", "hadoop-job-history")
MAX_OF_LOADS = 0.8  # of the time of json.loads over the same lines


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds = 2 if quick else 7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        simulated(folder, 3 if quick else 30)
        rows = [read("simulated queries", folder, rounds)]
    return rows + [read(f"real {part}", REAL / part, rounds) for part in FOLDERS if (REAL / part).is_dir()]


def simulated(folder: Path, queries: int) -> None:
    """Event logs of simulated queries on 20 executors, one file each."""
    for seed in range(queries):
        query = draw_query(f"query {seed}", np.random.default_rng(seed))
        lines = event_log(run_query(query, 20, 2, np.random.default_rng([seed, 1])), f"app-{seed}")
        (folder / f"log-{seed}").write_bytes(b"".join(lines))


def read(label: str, folder: Path, rounds: int) -> Row:
    """Time of reading the jobs, unpacking included, over that of json.loads on the unpacked lines."""
    by_log = [(log, unpacked(log.files)) for log in logs_at(str(folder))]
    logs = [log for log, held in by_log if held]  # those in JSON
    lines = [line for _, held in by_log for line in held]

    def ours() -> object:
        return [read_job_log(log) for log in logs]

    def loads() -> object:
        return [json.loads(line) for line in lines]

    row = side_by_side(
        f"fit {label}, {sum(map(len, lines)) / 1e6:.1f} MB unpacked, time over json.loads",
        ours,
        ("json.loads", loads),
        rounds=rounds,
        unit="s",
        scale=1.0,
    )
    ratio = row.ratio or 0.0
    return Row(
        name=row.name,
        ours=row.ours,
        unit=row.unit,
        alternative=row.alternative,
        theirs=row.theirs,
        ratio=row.ratio,
        spread=row.spread,
        met=ratio >= 1 / MAX_OF_LOADS,
        target=MAX_OF_LOADS * (row.theirs or 0.0),
    )


def unpacked(files: list[Path]) -> list[bytes]:
    """Lines of files that are JSON, unpacked."""
    import zstandard

    found = []
    for file in files:
        data = file.read_bytes()
        if data.startswith(b"\x28\xb5\x2f\xfd"):
            data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
        for line in data.split(b"\n"):
            try:
                json.loads(line)
            except ValueError:
                continue
            found.append(line)
    return found
