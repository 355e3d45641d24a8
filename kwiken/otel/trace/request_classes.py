"""Kinds of requests: told by an attribute of their spans, or by their root operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.read import NO_KIND, OTHER, Ints
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.requests import Requests, label
from kwiken.profile import Profile, StageProfile, guess_by_kind

BY_ROOT: Final = "root"  # what is asked for instead of an attribute's name
UNTOLD: Final = "(none)"
MOST: Final = 20  # kinds with a name of their own; a p99 of each needs requests


def with_kinds(profile: Profile, forest: Forest, requests: Requests, kind_by: str) -> Profile:
    """The profile with the kind of each request, and what kinds tell of copies.

    Args:
        profile: of the requests, in their order.
        forest: where their spans are.
        requests: of the profile.
        kind_by: the attribute that was read, or `BY_ROOT`.
    """
    if kind_by == BY_ROOT:
        numbers = forest.spans["op"][requests.rows].astype(np.int64)
        kinds, names = _named(numbers, [label(forest, op) for op in range(len(forest.names.operations))])
    else:
        kinds, names = _named(_told(forest, requests.rows), forest.names.kinds)
    telling = np.array([name not in {OTHER, UNTOLD} for name in names], np.bool_)
    known = np.where(telling[kinds], kinds, NO_KIND)
    stages = tuple(_guessed(stage, known, profile.started_s) for stage in profile.stages)
    return replace(profile, stages=stages, classes=kinds, class_names=names)


def _guessed(stage: StageProfile, kinds: Ints, started: NDArray[np.float64]) -> StageProfile:
    """The stage with what copies would have taken by their kind, where its calls' work does not tell."""
    if stage.guesses_ms is not None or not stage.reissuable:
        return stage
    calls = np.where(stage.censored, np.nan, stage.calls_ms)
    return replace(stage, guesses_ms=guess_by_kind(calls, kinds, started))


def _told(forest: Forest, rows: Ints) -> Ints:
    """(n,): what the request's span says, or else the first one below it that says anything."""
    owner = np.full(len(forest), -1, np.int64)
    owner[rows] = np.arange(len(rows))
    owner = forest.inherited(owner)
    kind = forest.spans["kind"]
    telling = np.flatnonzero((kind != NO_KIND) & (owner >= 0))
    order = telling[np.lexsort((forest.start[telling], forest.depth[telling], owner[telling]))]
    told = np.full(len(rows), NO_KIND, np.int64)
    told[owner[order[::-1]]] = kind[order[::-1]]  # the first is written last, and stays
    return told


def _named(numbers: Ints, names: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Kinds from 0, most frequent first, the rare ones as one, and their names, each once."""
    first = {UNTOLD: NO_KIND}
    # The last place, which `NO_KIND` finds, is its own.
    numbers = np.array([*(first.setdefault(name, i) for i, name in enumerate(names)), NO_KIND])[numbers]
    found, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
    given = [UNTOLD if number == NO_KIND else names[number] for number in found.tolist()]
    order = sorted(range(len(found)), key=lambda i: (-count[i], given[i]))
    own = [i for i in order if given[i] != OTHER][:MOST]
    rank = np.full(len(found), len(own), np.int64)
    rank[own] = np.arange(len(own))
    rest = (OTHER,) if len(own) < len(found) else ()
    return rank[place], (*(given[i] for i in own), *rest)
