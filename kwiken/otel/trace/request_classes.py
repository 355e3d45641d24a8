"""Classes of requests by an attribute or a route, and attributes that part slow requests from fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.model.profile.copy_dependence import Trait
from kwiken.model.profile.copy_estimates import guess_by_kind
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.otel.read.columns import NO_KIND, NO_TEXT, OTHER, Ints
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.requests import Requests, label

BY_ROOT: Final = "root"  # option value for the kinds that routes tell, instead of an attribute's name
UNTOLD: Final = "(none)"
MIN_ONE_INSTANCE: Final = 0.9  # of the spans with one value, from which it says which instance answers
MAX_NAMED_CLASSES: Final = 20  # the others share one, because a p99 of each class needs requests


def with_kinds(profile: Profile, forest: Forest, requests: Requests, kind_by: str) -> Profile:
    """Add the class of each request to a profile, and estimates of copies that follow from classes.

    Args:
        profile: profile of the requests, in their order.
        kind_by: name of the attribute that was read, or `BY_ROOT`.
    """
    if kind_by == BY_ROOT:
        kinds, names = _named(
            requests.kinds, [label(forest, op) for op in range(len(forest.names.operations))]
        )
    else:
        kinds, names = _named(_stated_class(forest, requests.rows), forest.names.kinds)
    telling = np.array([name not in {OTHER, UNTOLD} for name in names], np.bool_)
    known = np.where(telling[kinds], kinds, NO_KIND)
    stages = tuple(_guessed(stage, known, profile.started_s) for stage in profile.stages)
    return replace(profile, stages=stages, classes=kinds, class_names=names)


def _guessed(stage: StageProfile, kinds: Ints, started: NDArray[np.float64]) -> StageProfile:
    """Stage with estimates of copies' latencies by class, unless it has estimates from CPU times."""
    if stage.guesses_ms is not None or not stage.reissuable:
        return stage
    calls = np.where(stage.censored, np.nan, stage.calls_ms)
    return replace(stage, guesses_ms=guess_by_kind(calls, kinds, started))


def _stated_class(forest: Forest, rows: Ints) -> Ints:
    """(n,): class stated by the request's span, or else by the first span below it that states one."""
    owner = forest.owners(rows)
    kind = forest.spans["kind"]
    telling = np.flatnonzero((kind != NO_KIND) & (owner >= 0))
    order = telling[np.lexsort((forest.start[telling], forest.depth[telling], owner[telling]))]
    told = np.full(len(rows), NO_KIND, np.int64)
    told[owner[order[::-1]]] = kind[order[::-1]]  # the first span is written last, and so wins
    return told


def _named(numbers: Ints, names: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Classes numbered from 0, most frequent first, rare ones as one class, and their names."""
    first = {UNTOLD: NO_KIND}
    # The last element is for `NO_KIND`, which is -1.
    numbers = np.array([*(first.setdefault(name, i) for i, name in enumerate(names)), NO_KIND])[numbers]
    found, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
    given = [UNTOLD if number == NO_KIND else names[number] for number in found.tolist()]
    order = sorted(range(len(found)), key=lambda i: (-count[i], given[i]))
    own = [i for i in order if given[i] != OTHER][:MAX_NAMED_CLASSES]
    rank = np.full(len(found), len(own), np.int64)
    rank[own] = np.arange(len(own))
    rest = (OTHER,) if len(own) < len(found) else ()
    return rank[place], (*(given[i] for i in own), *rest)


def request_traits(forest: Forest, rows: Ints) -> list[Trait]:
    """Attributes that the requests' own spans, or servers' spans below them, state; two values each or more.

    Args:
        rows: (n,) rows of the requests' spans.
    """
    owner, traits = forest.owners(rows), forest.spans["traits"]
    telling = np.flatnonzero((traits != NO_TEXT) & (owner >= 0))
    # The first span is the last one, which wins where several state an attribute.
    telling = telling[np.lexsort((forest.start[telling], forest.depth[telling]))[::-1]]
    stated = list(forest.names.traits)
    used, place = np.unique(traits[telling], return_inverse=True)
    values: dict[str, dict[str, int]] = {}
    numbers: dict[str, Ints] = {}
    for at, number in enumerate(used.tolist()):
        for key, value in stated[number]:
            known = values.setdefault(key, {})
            numbers.setdefault(key, np.full(len(used), -1, np.int64))[at] = known.setdefault(
                value, len(known)
            )
    found = []
    for key, known in sorted(values.items()):
        value = numbers[key][place]
        some = value >= 0
        inner = some & (telling != rows[owner[telling]])
        if len(known) > 1 and not _says_instance(value[inner], forest.spans["instance"][telling[inner]]):
            of_request = np.full(len(rows), -1, np.int64)
            of_request[owner[telling[some]]] = value[some]
            found.append(Trait(key, tuple(known), of_request))
    return found


def _says_instance(value: Ints, instance: Ints) -> bool:
    """Whether values, (k,) with two or more spans each, mostly belong to one of several instances each."""
    pairs, spans = np.unique(np.column_stack((value, instance)), axis=0, return_counts=True)
    every, most = np.bincount(pairs[:, 0], spans), np.zeros(pairs[:, 0].max(initial=-1) + 1)
    np.maximum.at(most, pairs[:, 0], spans)
    several = len(np.unique(instance)) > 1
    return several and bool(most[every > 1].sum() >= MIN_ONE_INSTANCE * every[every > 1].sum() > 0)
