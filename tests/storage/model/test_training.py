"""Training: sizes of trees, transitions, and what the document refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.storage.model.document import StorageModel
from kwiken.storage.model.states import transitions_of_tree
from kwiken.storage.model.training import train
from kwiken.storage.trace.formats import trace_from_text
from papers.storage_model.validation import transitions_flat
from tests.support.data.storage.traces import log_and_hot_zone, zipf_trace


@pytest.mark.parametrize("levels", range(1, 11))
def test_transitions_of_a_hierarchy_are_linear_in_its_states(levels: int) -> None:
    assert transitions_of_tree(levels) == 5 * 4**levels - 4
    assert transitions_flat(levels) == 16**levels


def test_a_trace_has_no_more_transitions_than_the_hierarchy() -> None:
    trace = zipf_trace()
    for levels in (1, 2, 3):
        model = train(trace, levels=levels)
        assert model.states == 4**levels
        assert model.pairs <= transitions_of_tree(levels)


def test_level_one_is_level_two_without_its_second_digit() -> None:
    trace = log_and_hot_zone(threads=False)
    one, two = (train(trace, levels=levels).streams[0] for levels in (1, 2))
    assert np.reshape(two.occupancy, (4, 4)).sum(axis=1).tolist() == one.occupancy
    moves = {row[1:3]: 0 for row in one.transitions}
    for _, source, target, _, count in one.transitions:
        moves[source, target] += count
    coarse = dict.fromkeys(moves, 0)
    for level, source, target, _, count in two.transitions:
        ends = (source, target) if level == 1 else (source // 4, target // 4)
        coarse[ends] += count
    assert coarse == moves


def test_the_document_round_trips() -> None:
    model = train(zipf_trace(5000))
    text = model.to_json()
    assert StorageModel.from_json(text, where="x").to_json() == text


def changed(**fields: Any) -> str:
    document = json.loads(train(zipf_trace(3000)).to_json())
    document.update(fields)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (changed(version=1), "version"),
        (changed(extra=1), "unknown field"),
        (changed(windows=[0]), "no window"),
        (changed(order=[[0, 9, 1]]), "order"),
        (changed(gaps=[]), "gaps"),
        ("{", "JSON"),
    ],
)
def test_bad_documents_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        StorageModel.from_json(text, where="x")


@pytest.mark.parametrize(
    ("text", "reason"), [("1 0 8 8 1\n", "needs 2"), ("5 0 8 8 1\n5 0 16 8 1\n", "one time")]
)
def test_traces_that_tell_too_little_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        train(trace_from_text(text, where="x"))
