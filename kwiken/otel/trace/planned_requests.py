"""Latencies of the requests that ran with one plan, from traces of our own runtime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.arrays import Floats
from kwiken.otel.read import columns as c
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.requests import roles


@dataclass(frozen=True)
class PlannedRequests:
    """Requests that ran with one plan, in order of their start.

    Attributes:
        latency_ms: (n,) latencies at the gateway, milliseconds.
        weight: (n,) number of requests that each one stands for, 1 or more: 1 where every request was traced,
            else the inverse of the probability with which it was kept.
    """

    latency_ms: Floats
    weight: Floats


def requests_with_plan(forest: Forest, digest: str) -> PlannedRequests:
    """Find the requests that ran with a plan and were answered; those of the control share ran without it.

    Args:
        forest: traces.
        digest: digest of the plan.
    """
    rows = np.flatnonzero(roles(forest) == c.REQUEST)
    notes = forest.owns[forest.spans["own"][rows]]
    texts = forest.names.texts
    number = texts.index(digest) if digest in texts else -1
    answered = (forest.spans["flags"][rows] & c.ERROR) == 0
    ours = (notes["plan"] == number) & (number >= 0) & ((notes["marks"] & c.CONTROL) == 0) & answered
    rows, notes = rows[ours], notes[ours]
    order = np.argsort(forest.spans["start"][rows], kind="stable")
    spans = forest.spans[rows[order]]
    latency_ms = (spans["end"] - spans["start"]) / 1e6
    return PlannedRequests(latency_ms, 1 / notes["sample_share"][order])
