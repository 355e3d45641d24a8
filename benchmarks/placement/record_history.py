"""Recorder of a history for `kwiken classify`: search stages and stress-ng's stressors, measured everywhere.

    python -m benchmarks.placement.record_history [--out FILE] [--only NAME] [--source NAME] [--window S]

What is done is kept in a file beside the result, so that an interrupted recording goes on where it was.
Record on a quiet machine with two or more processors. A workload takes about a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.placement.stress.stress_services import STRESSORS
from kwiken.allocator.contention.crosstalk import Crosstalk
from kwiken.allocator.contention.measured_stage import StageProbe
from kwiken.allocator.contention.stage_plan import ProbePlan, ProbeSetting
from kwiken.allocator.workloads.profile import Size
from kwiken.probes.build import build_kernels
from kwiken.probes.facts import machine_facts
from kwiken.probes.machine import MachineProber, ProbeSettings
from kwiken.probes.stage import StageProber, StageTarget
from kwiken.services.search.query_mix import queries

ROOT = Path(__file__).resolve().parents[2]
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
WINDOW_S = 0.15  # whole periods of a quota, so that windows hold equal shares of time
PARTS: Final = {
    "up": "sizes",
    "out": "replicas",
    "het": "classes",
    "tolerated": "sources",
    "caused": "sources",
}
Pairs = dict[str, tuple[float, float]]  # by label of a column: value and standard deviation
Row = dict[str, Pairs]  # by part of the history


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
        for name in STRESSORS:
            target = f"benchmarks.placement.stress.stress_services:{name}"
            found[f"stress-ng/{name}"] = StageTarget(target, "stress", empty, folder)
    else:
        print("stress-ng is not installed: the search stages alone are recorded", file=sys.stderr)
    return found


def plan(sources: Sequence[str]) -> ProbePlan:
    """Every setting and source."""
    cores = len(os.sched_getaffinity(0))
    base = ProbeSetting(Size(REFERENCE_CORES, MEMORY_GB), 1, class_name(1.0), 1.0)
    sizes = [size for size in SIZES if size != REFERENCE_CORES and size <= cores]
    counts = [count for count in COUNTS if count > 1 and count * REFERENCE_CORES <= cores]
    others = [
        *(ProbeSetting(Size(size, MEMORY_GB), 1, class_name(1.0), 1.0) for size in sizes),
        *(ProbeSetting(base.size, count, class_name(1.0), 1.0) for count in counts),
        *(ProbeSetting(base.size, 1, class_name(speed), speed) for speed in SPEEDS if speed != 1.0),
    ]
    return ProbePlan(base, tuple(others), tuple(sources))


def row_of(found: StageProbe) -> Row:
    """Row of each part of the history, by the labels of its columns."""
    base = found.runs[0].setting
    row: Row = {part: {} for part in PARTS}
    for run in found.runs:
        setting, told = run.setting, (run.performance, run.deviation)
        alone = setting.replicas == 1
        if alone and setting.node_class == base.node_class:
            row["up"][f"{setting.size.cores:g}"] = told
        if setting.size == base.size and setting.node_class == base.node_class:
            row["out"][str(setting.replicas)] = told
        if alone and setting.size == base.size:
            row["het"][setting.node_class] = told
    for source, each in found.scores.items():
        row["tolerated"][source] = each.tolerated, each.tolerated_deviation
        row["caused"][source] = each.caused, each.caused_deviation
    return row


def document(rows: dict[str, Row], head: Sequence[str]) -> str:
    """History as TOML, with the columns that every row has.

    Args:
        rows: row by name of the workload.
        head: lines of the comment at its head.
    """
    lines = [*(f"# {line}" for line in head), "version = 1", ""]
    lines += ["[reference]", f"cores = {REFERENCE_CORES:g}", f"memory_gb = {MEMORY_GB:g}"]
    lines += [f'class = "{class_name(1.0)}"']
    for part, field in PARTS.items():
        first = next(iter(rows.values()))[part]
        labels = [label for label in first if all(label in row[part] for row in rows.values())]
        if part in {"up", "out"}:
            labels.sort(key=float)
        told = {
            "up": [f"{{ cores = {label}, memory_gb = {MEMORY_GB:g} }}" for label in labels],
            "out": labels,
        }.get(part, [f'"{label}"' for label in labels])
        lines += ["", f"[history.{part}]", f"{field} = [{', '.join(told)}]"]
        for place, table in enumerate(("rows", "deviations")):
            lines.append(f"[history.{part}.{table}]")
            for name, row in rows.items():
                values = ", ".join(f"{row[part][label][place]:.{4 - 2 * place}g}" for label in labels)
                lines.append(f'"{name}" = [{values}]')
    return "\n".join(lines) + "\n"


def head_of(crosstalk: Crosstalk) -> list[str]:
    """Lines that say where a history was recorded, and which sources were not kept apart there."""
    facts = machine_facts()
    threads = 1 + max(len(each) for each in facts.siblings.values())
    lines = [
        "History that `kwiken probe stage` starts a new file with: stages of kwiken's search service and",
        "stressors of stress-ng, measured everywhere. Recorded by",
        "`python -m benchmarks.placement.record_history` on a",
        f"machine with {len(facts.processors)} processors ({threads} a core), L3 of {facts.l3 >> 20} MiB.",
        "Record your own on a quiet machine.",
    ]
    pairs = [f"{first} on {second} ({loss:.0%})" for first, second, loss in crosstalk.inseparable()]
    if pairs:
        lines.append("Not kept apart there, by the loss of the second while the first presses by half:")
        lines += [f"  {pair}" for pair in pairs]
    return lines


class Recording:
    """What is recorded so far, kept in a file beside the history.

    Args:
        out: path of the history.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._kept = out.with_suffix(".json")
        self.head: list[str] = []
        self.rows: dict[str, Row] = {}
        if self._kept.exists():
            told = json.loads(self._kept.read_text())
            if not isinstance(told, dict) or told.keys() != {"head", "rows"}:
                raise SystemExit(f"{self._kept}: is of another recorder; remove the file, or give --out FILE")
            self.head, self.rows = told["head"], told["rows"]

    def keep(self) -> None:
        """Write what is recorded, and the history of it, each whole or not at all."""
        _replace(self._kept, json.dumps({"head": self.head, "rows": self.rows}, indent=1))
        if self.rows:
            _replace(self._out, document(self.rows, self.head))


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.fresh")
    fresh.write_text(text)
    fresh.replace(path)


async def record(options: argparse.Namespace) -> None:
    """Record what is missing, and write the history after every workload."""
    recording = Recording(options.out)
    sources = tuple(options.source or SOURCES)
    facts = machine_facts()
    prober = MachineProber(await build_kernels(), facts, ProbeSettings(memory_gb=MEMORY_GB), lambda: None)
    with tempfile.TemporaryDirectory(prefix="kwiken-history-") as scratch:
        missing = {
            name: target
            for name, target in targets(Path(scratch)).items()
            if name not in recording.rows and (not options.only or name in options.only)
        }
        if not missing:
            return
        calibrations = {source: await prober.calibrate(source) for source in sources}
        if not recording.head:
            recording.head = head_of(await prober.crosstalk(calibrations))
            recording.keep()
        probe = StageProber(
            prober, facts, calibrations=calibrations, window_s=options.window, advanced=lambda: None
        )
        for name, target in missing.items():
            start = time.monotonic()
            recording.rows[name] = row_of(await probe.run(target, plan(sources)))
            recording.keep()
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement.record_history", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=Path("history.toml"))
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--source", action="append", metavar="NAME", choices=SOURCES)
    parser.add_argument("--window", type=float, default=WINDOW_S, metavar="SECONDS")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as by Ctrl-C: nothing stays behind
    try:
        asyncio.run(record(options))
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the same command goes on with what is missing") from None


if __name__ == "__main__":
    main()
