"""Every result of iBench's specification: where the reproduction shows it, or why it does not."""

from __future__ import annotations

from typing import Final

from papers.figures.rows import RequiredRow

PLACED_ONCE: Final = (
    "the scenario places once and has no time; `python -m papers.worlds` plays placement over time"
)
FRAMEWORKS: Final = "needs Hadoop or memcached over all machines as the primary work"
MACHINE: Final = "needs the source's machine with hardware counters"
SIMULATOR: Final = "needs a simulator of processors with unequal cores"

REQUIRED: Final = (
    RequiredRow("R1", "Section 5.4", "pressure from a line, permutation"),
    RequiredRow(
        "R2",
        "Section 5.4",
        "intensity and work lost by pairs of kernels",
        "small, at high load only",
        "`kwiken probe machine` measures every pair on the machine that it runs on",
    ),
    RequiredRow("R3", "Chapter 5, scheduling", "performance over least loaded, least mismatch, mean"),
    RequiredRow("R4", "Chapter 5, scheduling", "gain of utilisation, scenario 1, %", "42", PLACED_ONCE),
    RequiredRow(
        "R5", "Chapter 5, scheduling", "gain of utilisation, scenarios 2, 3, %", "35.6, 27.1", FRAMEWORKS
    ),
    RequiredRow("R6", "Chapter 5, scheduling", "makespan and number of machines", "both shrink", PLACED_ONCE),
    RequiredRow(
        "R7", "Chapter 5, provisioning", "contention of memcached before and after", "clearly lower", MACHINE
    ),
    RequiredRow(
        "R8", "Chapter 5, development", "run time and footprint after three rounds, %", "-35 and -49", MACHINE
    ),
    RequiredRow("R9", "Chapter 5, unequal cores", "loss of most mixes", "marginal", SIMULATOR),
    RequiredRow("R10", "Section 5.4", "time of a ramp"),
    RequiredRow("R11, mean", "Chapter 3, scores", "mean error, points"),
    RequiredRow("R11, below 30", "Chapter 3, scores", "mean error below 30"),
    RequiredRow("R11, below 60", "Chapter 3, scores", "mean error below 60"),
    RequiredRow("R11, above 60", "Chapter 3, scores", "mean error above 60"),
    RequiredRow(
        "R11, by source",
        "Chapter 3, scores",
        "worst and best source, %",
        "instruction cache 15.8, cache 7.8; network 1.8, disk 0.9",
        "all synthetic sources of contention are measured with the same noise",
    ),
)
