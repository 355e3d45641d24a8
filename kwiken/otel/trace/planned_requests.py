"""Latencies and copies of the requests that ran with one plan, from traces of our own runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.otel.read import columns as c
from kwiken.otel.read.kw_attributes import KINDS
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.requests import roles

_REISSUE: Final = KINDS["reissue"]


@dataclass(frozen=True)
class PlannedRequests:
    """Requests that ran with one plan, in order of their start.

    Attributes:
        latency_ms: (n,) latencies at the gateway, milliseconds.
        weight: (n,) number of requests that each one stands for, 1 or more: 1 where every request was traced,
            else the inverse of the probability with which it was kept.
        copies: by stage: mean number of a request's copies that the budget for reissues paid for. Stages
            without copies are missing.
    """

    latency_ms: Floats
    weight: Floats
    copies: Mapping[str, float]


def requests_with_plan(
    forest: Forest, digest: str, *, within: Callable[[Floats], Bools] | None = None
) -> PlannedRequests:
    """Find the requests that ran with a plan and were answered; those of the control share ran without it.

    Args:
        within: tells which requests count, (n,), from their starts in seconds since 1970, (n,); None for all.
    """
    role = roles(forest)
    rows = np.flatnonzero(role == c.REQUEST)
    notes = forest.owns[forest.spans["own"][rows]]
    texts = forest.names.texts
    number = texts.index(digest) if digest in texts else -1
    answered = (forest.spans["flags"][rows] & c.ERROR) == 0
    ours = (notes["plan"] == number) & (number >= 0) & ((notes["marks"] & c.CONTROL) == 0) & answered
    if within is not None:
        ours &= within(forest.spans["start"][rows] / 1e9)
    rows, notes = rows[ours], notes[ours]
    order = np.argsort(forest.spans["start"][rows], kind="stable")
    rows, weight = rows[order], 1 / notes["sample_share"][order]
    spans = forest.spans[rows]
    latency_ms = (spans["end"] - spans["start"]) / 1e6
    return PlannedRequests(
        latency_ms, weight, _copies(forest, np.flatnonzero(role == c.ATTEMPT), rows, weight)
    )


def _copies(forest: Forest, attempts: Ints, requests: Ints, weight: Floats) -> dict[str, float]:
    """Mean number of copies by stage, of those that the budget for reissues paid for.

    Args:
        attempts: (m,) rows of all attempts.
        requests: (n,) rows of the requests.
        weight: (n,) number of requests that each one stands for.
    """
    notes = forest.owns[forest.spans["own"][attempts]]
    paid = (notes["kind"] == _REISSUE) & ((notes["marks"] & c.CATCH_UP) == 0)
    visits = forest.parent[attempts[paid]]
    visits = visits[visits >= 0]
    of = np.zeros(len(forest.spans))
    of[requests] = weight
    parents = forest.parent[visits]
    counted = np.where(parents >= 0, of[parents], 0.0)
    stages = forest.owns[forest.spans["own"][visits]]["stage"]
    total = weight.sum()
    return {
        forest.names.texts[int(stage)]: float(counted[stages == stage].sum() / total)
        for stage in np.unique(stages[counted > 0])
    }
