"""Every result of Paragon's specification: where the reproduction shows it, or why it does not."""

from __future__ import annotations

from typing import Final

from papers.figures.rows import RequiredRow

HARDWARE: Final = "a property of the source's machines and programs; the simulation has neither"
ALIKE: Final = "all synthetic sources of contention are measured with the same noise, so none is the hardest"
TIMES: Final = (
    "times belong to a machine: `python -m benchmarks --only fleet` and `place` print those of this one"
)
UNCOUNTED: Final = (
    "the search is one pass over arrays and has no time-out; the violation that it allows is not recorded"
)

REQUIRED: Final = (
    RequiredRow("H1", "Table 3.1", "best platform identified"),
    RequiredRow("H2", "Table 3.1", "chosen platform within 5%"),
    RequiredRow("H3", "Table 3.1", "ranking exactly right"),
    RequiredRow("H4", "Table 3.1", "ranking right but for one"),
    RequiredRow("H5", "Table 3.1", "half of the ranks right"),
    RequiredRow("H6", "Table 3.1", "best platform among the two measured"),
    RequiredRow("H7", "Table 3.1", "mean error of a prediction"),
    RequiredRow("H8", "Table 3.1", "mean gain over a random platform"),
    RequiredRow(
        "H9",
        "Table 3.1",
        "accuracy by which two platforms are profiled",
        "does not depend on them",
        "two random columns are drawn for each row, and errors are not kept by pair",
    ),
    RequiredRow("H10", "Section 3.2", "time of a classification, ms", "10 to 30", TIMES),
    RequiredRow("I1", "Table 3.2", "mean error, points"),
    RequiredRow("I2", "Table 3.2", "mean error below 30"),
    RequiredRow("I3", "Table 3.2", "mean error below 60"),
    RequiredRow("I4", "Table 3.2", "mean error above 60"),
    RequiredRow("I5", "Table 3.2", "applications with a mean error below 5%"),
    RequiredRow("I6", "Table 3.2", "applications with a mean error below 10%"),
    RequiredRow("I7", "Table 3.2", "applications with a mean error below 20%"),
    RequiredRow(
        "I8", "Table 3.2", "source with the highest error, %", "instruction cache 15.8, cache 7.8", ALIKE
    ),
    RequiredRow(
        "I9",
        "Table 3.2",
        "how often the source with the highest error was profiled, %",
        "11.5 to 14.6",
        ALIKE,
    ),
    RequiredRow("I10", "Table 3.2", "source with the lowest error, %", "network 1.8, storage 0.9", ALIKE),
    RequiredRow(
        "O1",
        "Figure 3.9",
        "profiling and classification, % of execution time",
        "1.2 and 0.09",
        "shares of hours of real programs; the crowded world counts looks of a minute instead (O7)",
    ),
    RequiredRow("O2", "Figure 3.9", "greedy selection, % of execution time", "below 0.1", TIMES),
    RequiredRow(
        "O3",
        "Section 3.3",
        "placements without a violation, in one source, in several, %",
        "89, 8, 3",
        UNCOUNTED,
    ),
    RequiredRow("O4", "Section 3.3", "applications whose search times out, %", "below 0.1", UNCOUNTED),
    RequiredRow("O5", "Figure 3.3", "no candidate of 64 in the best tenth"),
    RequiredRow(
        "O6",
        "Section 3.3",
        "state of a workload and of a server, bytes",
        "64 each; one server suffices",
        "`python -m benchmarks --only fleet` prints the bytes of both",
    ),
    RequiredRow("O7", "Section 3.4", "crowded-full: arrival to first second of running"),
    RequiredRow("R1", "Figure 3.4", "local-medium: QoS kept"),
    RequiredRow("R2", "Figure 3.4", "local-medium: loss below 10%"),
    RequiredRow("R3", "Figure 3.5", "local-medium: platform within 5% of the best"),
    RequiredRow("R4", "Figure 3.5", "local-medium: loss by contention below 5%"),
    RequiredRow("R5", "Figure 3.6", "local-low: mean performance"),
    RequiredRow("R6", "Figure 3.6", "local-low: makespan"),
    RequiredRow("R7", "Figure 3.6", "local-full: QoS kept"),
    RequiredRow("R8", "Figure 3.6", "local-phases: performance 45 s after a change of phase"),
    RequiredRow("R9", "Figure 3.7", "local-medium: cores allocated beyond those required"),
    RequiredRow(
        "R10",
        "Figure 3.8",
        "utilisation over that without colocation, %",
        "47",
        "no manager gives a server to one application; the cores used by each manager are shown",
    ),
    RequiredRow("R11", "Figure 3.10", "cloud-low: QoS kept"),
    RequiredRow("R12", "Figure 3.10", "cloud-high: mean performance"),
    RequiredRow("R13", "Figure 3.10", "cloud-high: QoS kept"),
    RequiredRow("R14", "Figure 3.10", "cloud-high: loss above 20%"),
    RequiredRow("R15", "Figure 3.10", "cloud-full: QoS kept"),
    RequiredRow("R16", "Figure 3.10", "cloud-full: loss below 10%"),
    RequiredRow("R17", "Section 3.5, crashes", "crowded-full: jobs given up after five kills"),
    RequiredRow("R18", "Figure 3.11", "cloud-high: platform within 5% of the best"),
    RequiredRow("R19", "Figure 3.12", "cloud-high: cores allocated beyond those required"),
    RequiredRow("R20", "Figure 3.13", "azure: QoS kept"),
    RequiredRow("R21", "Figure 3.13", "gce: mean performance"),
    RequiredRow("Figure 3.1", "Figure 3.1", "cloud-high: mean performance"),
    RequiredRow(
        "Figure 3.2", "Figure 3.2", "architecture of the manager", "", "a drawing; nothing is measured"
    ),
    RequiredRow("Figure 3.3", "Figure 3.3", "no candidate of 128 in the best tenth"),
    RequiredRow("Figure 3.4", "Figure 3.4", "local-medium: mean performance"),
    RequiredRow("Figure 3.5", "Figure 3.5", "local-medium: mean loss by contention"),
    RequiredRow("Figure 3.6", "Figure 3.6", "local-phases: performance at a change of phase"),
    RequiredRow("Figure 3.7", "Figure 3.7", "local-medium: cores allocated beyond those required"),
    RequiredRow("Figure 3.8", "Figure 3.8", "local-medium: cores used"),
    RequiredRow(
        "Figure 3.9", "Figure 3.9", "execution time of each program, by what it is spent on", "", HARDWARE
    ),
    RequiredRow("Figure 3.10", "Figure 3.10", "cloud-low: mean performance"),
    RequiredRow("Figure 3.11", "Figure 3.11", "cloud-full: loss by contention above 20%"),
    RequiredRow("Figure 3.12", "Figure 3.12", "cloud-full: cores allocated beyond those required"),
    RequiredRow("Figure 3.13", "Figure 3.13", "azure: mean performance"),
    RequiredRow("Table 3.1", "Table 3.1", "best platform identified"),
    RequiredRow("Table 3.2", "Table 3.2", "mean error, points"),
    RequiredRow(
        "Table 3.3",
        "Table 3.3",
        "cores of the local cluster",
        "178",
        "the sum of a table that worlds are given",
    ),
)
