"""Results of the source that rest on its production systems alone, each with the reason."""

from __future__ import annotations

from papers.figures.rows import RequiredRow

_PACKETS = "rests on packet traces of the source's network; a host sees no packets here"
_SEARCHES = "rests on responses of the source's production searches"
_PAIRS = "rests on requests in production; `kwiken explain` prints the shares for traces of one's own"

_CLOCK = "reproductions read no clock; measured by python -m benchmarks"

NOT_REPRODUCED = (
    RequiredRow("curve", "Section 5.4.2", "time of a stage's curve, s", "about 2", f"{_CLOCK} curve"),
    RequiredRow("SumVar", "Section 5.4.2", "time of SumVar at 150 stages, s", "below 1", f"{_CLOCK} plan"),
    RequiredRow(
        "copies",
        "Section 2.1.2",
        "stages whose copies correlate below 0.1; above 0.5, %",
        "90; 1",
        _PAIRS,
    ),
    RequiredRow(
        "pairs",
        "Section 2.1.2",
        "pairs of stages that correlate below 0.1; above 0.5, %",
        "90; 9",
        _PAIRS,
    ),
    RequiredRow(
        "rates",
        "Table 5.1",
        "traffic rate, p50, p90, p99, packets a second; Mbit a second",
        "895, 2242, 2730; 0.62, 1.84, 2.3",
        f"not measured here: {_PACKETS}",
    ),
    RequiredRow(
        "time-outs",
        "Table 5.1",
        "retransmission time-out, p50, p90, p99, ms",
        "67.2, 113.3, 168.7",
        f"not measured here: {_PACKETS}",
    ),
    RequiredRow(
        "loss",
        "Table 5.1",
        "share of packets lost, requests and responses; map-reduce",
        "0.00443; 0.0004336",
        f"not measured here: {_PACKETS}",
    ),
    RequiredRow(
        "recovery",
        "Table 5.1",
        "share of losses recovered by a time-out only",
        "0.987",
        f"not measured here: {_PACKETS}",
    ),
    RequiredRow(
        "burstiness",
        "Table 5.1",
        "coefficient of variation of losses",
        "2.4536",
        f"not measured here: {_PACKETS}",
    ),
    *(
        RequiredRow(
            f"{search} at {loss}",
            "Table 5.2",
            f"cut of p95, p99 by waiting for all but {loss}, {search} search, n in the {size}s, %",
            cuts,
            f"not computed: {_SEARCHES}",
        )
        for search, size, loss, cuts in (
            ("web", "1,000", "0.1%", "4.1, 4.0"),
            ("web", "1,000", "1.0%", "43.1, 77.7"),
            ("image", "100", "0.1%", "0, 0"),
            ("image", "100", "1.0%", "42.6, 81.2"),
            ("video", "100", "0.1%", "0, 0"),
            ("video", "100", "1.0%", "31.2, 51.3"),
        )
    ),
)
