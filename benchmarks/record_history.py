"""Recorder of a history for `kwiken classify`: search stages and stress-ng's stressors, measured everywhere.

    python -m benchmarks.record_history [--out FILE] [--only NAME] [--source NAME] [--window S]

What is done is kept in a file beside the result, so that an interrupted recording goes on where it was.
Record on a quiet machine. A workload takes one to three minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.stress_services import OPERATIONS
from kwiken.contention import Setting, StagePlan, StageProbe
from kwiken.runtime.probes import (
    MachineProber,
    ProbeSettings,
    StageProber,
    StageTarget,
    build_kernels,
    machine_facts,
)
from kwiken.services.search.measures.queries import queries
from kwiken.workloads import Size

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 40
MEMORY_GB = 1.0
REFERENCE_CORES = 0.5  # so that two processors hold several replicas
SIZES = (0.25, 0.5, 0.75, 1.0)
COUNTS = (1, 2, 3)
SPEEDS = (1.0, 0.75, 0.5, 0.3)
SOURCES = (
    *("cpu-int", "l1d", "l2", "l3-capacity", "l3-bandwidth", "memory-bandwidth"),
    *("disk", "network"),
)
STAGES = ("parse", "spell", "lookup", "symbols", "rank", "snippets", "page")


def class_name(speed: float) -> str:
    return f"speed-{speed:g}"


def targets(scratch: Path) -> dict[str, StageTarget]:
    """What is recorded, by name."""
    requests, empty = scratch / "queries.jsonl", scratch / "empty.jsonl"
    requests.write_text("".join(json.dumps({"query": words}) + "\n" for words in queries(QUERIES, 0)))
    empty.write_text("{}\n")
    folder = ROOT / "benchmarks"  # small to copy; modules are found by the import path
    search = "kwiken.services.search:search"
    found = {f"search/{stage}": StageTarget(search, stage, requests, folder) for stage in STAGES}
    if shutil.which("stress-ng"):
        for name in OPERATIONS:
            target = f"benchmarks.stress_services:{name}"
            found[f"stress-ng/{name}"] = StageTarget(target, "stress", empty, folder)
    else:
        print("stress-ng is not installed: the search stages alone are recorded", file=sys.stderr)
    return found


def plan(sources: Sequence[str]) -> StagePlan:
    """Every setting and source."""
    cores = len(os.sched_getaffinity(0))
    base = Setting(Size(REFERENCE_CORES, MEMORY_GB), 1, class_name(1.0), 1.0)
    sizes = [size for size in SIZES if size != REFERENCE_CORES and size <= cores]
    counts = [count for count in COUNTS if count > 1 and count * REFERENCE_CORES <= cores]
    others = [
        *(Setting(Size(size, MEMORY_GB), 1, class_name(1.0), 1.0) for size in sizes),
        *(Setting(base.size, count, class_name(1.0), 1.0) for count in counts),
        *(Setting(base.size, 1, class_name(speed), speed) for speed in SPEEDS if speed != 1.0),
    ]
    return StagePlan(base, tuple(others), tuple(sources))


def row_of(found: StageProbe) -> dict[str, Any]:
    """Row of each part of the history, by the labels of its columns."""
    base = found.runs[0][0]
    row: dict[str, Any] = {"up": {}, "out": {}, "het": {}}
    for setting, performance in found.runs:
        alone = setting.replicas == 1
        if alone and setting.node_class == base.node_class:
            row["up"][f"{setting.size.cores:g}"] = performance
        if setting.size == base.size and setting.node_class == base.node_class:
            row["out"][str(setting.replicas)] = performance
        if alone and setting.size == base.size:
            row["het"][setting.node_class] = performance
    row["tolerated"] = {source: each.tolerated for source, each in found.scores.items()}
    row["caused"] = {source: each.caused for source, each in found.scores.items()}
    return row


def document(rows: dict[str, dict[str, Any]], where: str) -> str:
    """History as TOML, with the columns that every row has."""
    lines = [f"# {line}" for line in where.splitlines()]
    lines += ["version = 1", "", "[reference]", f"cores = {REFERENCE_CORES:g}", f"memory_gb = {MEMORY_GB:g}"]
    lines += [f'class = "{class_name(1.0)}"']
    heads = {"up": "sizes", "out": "replicas", "het": "classes", "tolerated": "sources", "caused": "sources"}
    for part, head in heads.items():
        labels = [
            label for label in next(iter(rows.values()))[part] if all(label in r[part] for r in rows.values())
        ]
        if part in {"up", "out"}:
            labels.sort(key=float)
        told = {
            "up": [f"{{ cores = {label}, memory_gb = {MEMORY_GB:g} }}" for label in labels],
            "out": labels,
        }.get(part, [f'"{label}"' for label in labels])
        lines += ["", f"[history.{part}]", f"{head} = [{', '.join(told)}]", f"[history.{part}.rows]"]
        for name, row in rows.items():
            values = ", ".join(f"{row[part][label]:.4g}" for label in labels)
            lines.append(f'"{name}" = [{values}]')
    return "\n".join(lines) + "\n"


def read_rows(out: Path) -> dict[str, dict[str, Any]]:
    """Rows of an earlier recording into the same file."""
    kept = out.with_suffix(".json")
    rows: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    return rows


def keep_rows(out: Path, rows: dict[str, dict[str, Any]], note: str) -> None:
    """Write the history, and beside it what a later recording goes on with."""
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    out.write_text(document(rows, note))


async def record(options: argparse.Namespace) -> None:
    """Record what is missing, and write the history after every workload."""
    rows = read_rows(options.out)
    sources = tuple(options.source or SOURCES)
    facts = machine_facts()
    prober = MachineProber(await build_kernels(), facts, ProbeSettings(memory_gb=MEMORY_GB), lambda: None)
    calibrations = {source: await prober.calibrate(source) for source in sources}
    probe = StageProber(
        prober, facts, calibrations=calibrations, window_s=options.window, advanced=lambda: None
    )
    with tempfile.TemporaryDirectory(prefix="kwiken-history-") as scratch:
        for name, target in targets(Path(scratch)).items():
            if name in rows or (options.only and name not in options.only):
                continue
            start = time.monotonic()
            rows[name] = row_of(await probe.run(target, plan(sources)))
            keep_rows(options.out, rows, options.note)
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_history", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("history.toml"))
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--source", action="append", metavar="NAME", choices=SOURCES)
    parser.add_argument("--window", type=float, default=0.2, metavar="SECONDS")
    parser.add_argument("--note", default="Recorded by `python -m benchmarks.record_history`.")
    options = parser.parse_args()
    asyncio.run(record(options))


if __name__ == "__main__":
    main()
