"""Every result of Quasar's specification: where the reproduction shows it, or why it does not."""

from __future__ import annotations

from typing import Final

from papers.figures.rows import RequiredRow

FRAMEWORKS: Final = "needs Hadoop, Storm or Spark and their own schedulers; the simulation has no framework"
SERVICE: Final = "needs the source's service behind its load generator, and auto-scaling as a baseline"
STATE: Final = (
    "needs a store with terabytes of state; replicas of the simulation move whole, in a few seconds"
)
TIMES: Final = "times belong to a machine: `python -m benchmarks --only classify` prints those of this one"
DRAWING: Final = "a drawing; nothing is measured"

REQUIRED: Final = (
    RequiredRow("Table 4.2, scale-up", "Table 4.2", "scale-up, 2 entries"),
    RequiredRow("Table 4.2, scale-out", "Table 4.2", "scale-out, 2 entries"),
    RequiredRow("Table 4.2, heterogeneity", "Table 4.2", "heterogeneity, 2 entries"),
    RequiredRow("Table 4.2, interference", "Table 4.2", "interference, 2 entries"),
    RequiredRow("Table 4.3", "Table 4.3", "exhaustive classification"),
    RequiredRow("C1", "Figure 4.3", "scale-up, 1 entries"),
    RequiredRow("C2", "Figure 4.3", "scale-up, 5 entries"),
    RequiredRow("C3", "Figure 4.3", "overhead by density", "grows markedly", TIMES),
    RequiredRow(
        "C4",
        "Figure 4.4",
        "decision time of exhaustive over parallel classification",
        "often two orders of magnitude",
        TIMES,
    ),
    RequiredRow(
        "C5",
        "Section 3.6",
        "runs of a search without classification",
        "billions for a few hundred nodes",
        "a count of combinations, which the source states and nothing measures",
    ),
    RequiredRow("Q1a", "Figure 4.6", "fall of execution time, mean and maximum, %", "29 and 58", FRAMEWORKS),
    RequiredRow("Q1b", "Figure 4.6", "distance from the target, %", "5.8; Hadoop 23", FRAMEWORKS),
    RequiredRow("Q1c", "Figure 4.7", "parameters of job H8", "a table of both", FRAMEWORKS),
    RequiredRow("Q1d", "Figure 4.8", "stragglers found earlier, %", "19 and 8", FRAMEWORKS),
    RequiredRow("Q2a", "Figure 4.9", "fall of execution time, mean, %", "27", FRAMEWORKS),
    RequiredRow("Q2b", "Figure 4.9", "best-effort jobs from their peak, %", "7.8", FRAMEWORKS),
    RequiredRow("Q2c", "Figure 4.10", "processor use, mean, %", "62; frameworks 34", FRAMEWORKS),
    RequiredRow("Q2d", "Figure 4.10", "length of the experiment", "shorter", FRAMEWORKS),
    RequiredRow("Q3a", "Figure 4.11", "flat traffic: best-effort from its minimum, %", "5; 24", SERVICE),
    RequiredRow("Q3b", "Figure 4.11", "fluctuating traffic: rate below Quasar's, %", "18", SERVICE),
    RequiredRow(
        "Q3c", "Figure 4.12", "spike: servers added, and requests that miss", "2; 4 and 20%", SERVICE
    ),
    RequiredRow("Q4a", "Figure 4.13", "memcached: requests within 200 microseconds, %", "98.8; 80", STATE),
    RequiredRow("Q4b", "Figure 4.13", "Cassandra: requests within 30 ms, %", "98.6; 93", STATE),
    RequiredRow("Q4c", "Figure 4.14", "use of processor, memory and disk by quarter of a day", "", STATE),
    RequiredRow("Q5a", "Figure 4.15", "targets: mean performance, at most 1, quasar"),
    RequiredRow(
        "Q5b",
        "Figure 4.15",
        "overhead of management, % of useful time",
        "4.1; up to 9",
        "the simulation takes predictions as known; in the crowded world looks take time and nodes",
    ),
    RequiredRow("Q5c", "Figure 4.16", "targets: cores used"),
    RequiredRow("Q5d", "Figure 4.16", "targets: cores allocated"),
    RequiredRow("Q5e", "Figure 4.15", "targets: QoS kept"),
    RequiredRow("Section 6.5, proactive", "Section 3.8", "change over 30 minutes: found before"),
    RequiredRow("Section 6.5, false alarms", "Section 3.8", "false alarms"),
    RequiredRow(
        "Section 6.5, reactive",
        "Section 3.8",
        "phase changes found once they hurt, %",
        "94",
        "drawn changes exceed the threshold by their range, so the share would be that of the generator",
    ),
    RequiredRow(
        "Section 6.6, short tasks",
        "Chapter 7",
        "performance on short tasks, % of the best; by sampling",
        "82; 97",
        "`python -m papers tarcil` plays them under both",
    ),
    RequiredRow(
        "Section 6.6, preferences",
        "Chapter 8",
        "overprovisioning where users state preferences, %",
        "10 to 15",
        "users of the simulation reserve replicas and state no preferences",
    ),
    RequiredRow(
        "Figure 4.1, use",
        "Figure 4.1",
        "use of a production cluster, processor, %",
        "below 20 of 80 reserved",
        "a measurement of one company's cluster",
    ),
    RequiredRow(
        "Figure 4.1, reservations",
        "Figure 4.1",
        "reservations over the need, mean",
        "2.94",
        "the model of users is given this value",
    ),
    RequiredRow(
        "Figure 4.2",
        "Figure 4.2",
        "spread of performance by each dimension",
        "up to 10 times",
        "a measurement of real programs; the generators' ranges are in docs/allocate/fleet.md",
    ),
    RequiredRow("Figure 4.3", "Figure 4.3", "interference, 2 entries"),
    RequiredRow("Figure 4.4", "Figure 4.4", "time of profiling and of decisions by density", "", TIMES),
    RequiredRow("Figure 4.5", "Figure 4.5", "workflow of the manager", "", DRAWING),
    RequiredRow("Figure 4.15", "Figure 4.15", "targets: mean performance, at most 1, least-loaded"),
    RequiredRow("Figure 4.16", "Figure 4.16", "targets: cores used, least-loaded"),
    RequiredRow(
        "Table 4.1",
        "Table 4.1",
        "platforms A to J",
        "2 to 24 cores, 4 to 48 GB",
        "how many there are of each is not told; scenarios use rented servers (docs/allocate/fleet.md)",
    ),
)
