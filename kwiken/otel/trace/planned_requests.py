"""Latencies of the requests that ran with one plan, from traces of our own runtime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kwiken.arrays import Floats
from kwiken.otel.read import columns as c
from kwiken.otel.trace.load import read_forest
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


def read_planned(paths: Iterable[str | Path], digest: str) -> PlannedRequests:
    """Read the requests that ran with a plan and were answered; those of the control share did not.

    Args:
        paths: files, folders and addresses, as `fit_profile` takes them.
        digest: digest of the plan.

    Raises:
        InputError: as `fit_profile` for paths that cannot be read.
    """
    forest = read_forest(paths)
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
