"""Words and JSON of notes."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from kwiken.apps.console.notes import note_sentences, note_summaries, note_words
from kwiken.model.profile import notes as profile
from kwiken.model.profile.change_over_time import Drift
from kwiken.tail.apportion import notes as apportion
from kwiken.tail.partial import notes as partial
from kwiken.tail.planning import notes as planning
from kwiken.tail.queueing.load import notes as load

KINDS: tuple[type[planning.Note], ...] = get_args(planning.Note)
NAMES = st.sampled_from(["rank", "fetch", "post:write", "a b", "ünter", "x" * 64])
SHARES = st.floats(1e-6, 1.0)
CHANGES = st.builds(Drift, NAMES, st.floats(0.1, 1e4), SHARES, SHARES, SHARES)
LOADS = st.builds(planning.StageLoad, NAMES, SHARES, st.none() | SHARES)
# Values by type; facts that need others stand in `BY_FIELD`.
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": NAMES,
    "float": SHARES,
    "int": st.integers(1, 10**7),
    "tuple[str, ...]": st.lists(NAMES, min_size=1, max_size=9).map(tuple),
    "Mapping[str, float]": st.dictionaries(NAMES, SHARES, min_size=1),
    "tuple[Drift, ...]": st.lists(CHANGES, min_size=1, max_size=5).map(tuple),
    "tuple[StageLoad, ...]": st.lists(LOADS, min_size=1).map(tuple),
}
BY_FIELD: dict[tuple[type[planning.Note], str], st.SearchStrategy[Any]] = {}


@st.composite
def notes(draw: st.DrawFn) -> planning.Note:
    """Any note."""
    kind = draw(st.sampled_from(KINDS))
    facts = {
        field.name: draw(BY_FIELD.get((kind, field.name), BY_TYPE[str(field.type)]))
        for field in dataclasses.fields(kind)
    }
    return kind(**facts)


@given(notes())
def test_every_note_is_worded_and_told_as_json(note: planning.Note) -> None:
    words = note_words(note)
    assert words
    assert not words.endswith(".")
    assert "\n" not in words
    assert note_sentences([note]) == [f"{words[0].upper()}{words[1:]}."]
    [summary] = note_summaries([note])
    again = json.loads(json.dumps(summary))
    assert again.pop("text") == words
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", again.pop("kind"))
    assert again.keys() == {field.name for field in dataclasses.fields(note)}


def test_kinds_in_json_are_all_different() -> None:
    plain: list[planning.Note] = [
        planning.NoStageReissuable(),
        planning.NoThreadsForLate(),
        planning.NoCopiesForLate(),
        partial.NoFanOut(),
    ]
    assert [summary["kind"] for summary in note_summaries(plain)] == [
        "no_stage_reissuable",
        "no_threads_for_late",
        "no_copies_for_late",
        "no_fan_out",
    ]
    assert len({kind.__name__ for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (
            planning.NoP99Cut(120.0, 119.5),
            "this budget buys no p99 here: 120 ms without the plan, 119.5 ms expected with it",
        ),
        (
            planning.ExpectationCorrected("0123456789ab", 1234, 1.304, 1.1, 1.5, 0.81),
            (
                "the expectation is corrected by 1,234 requests that ran with plan 0123456789ab: "
                "around p99 they took 1.30 times what the simulation expects of that plan (90% interval 1.10 "
                "to 1.50), and their copies took 0.81 times the work expected"
            ),
        ),
        (planning.LargerBudgetHelps(0.08, 0.62), "a reissue budget of 0.08 should cut p99 by 62%"),
        (
            planning.LateRequestsHelped(41.25, 0.021, ("rank",), ("fetch", "rank"), 0.11),
            (
                "a request is late from 41.2 ms on (2.1% of them) and then gets copies at rank and threads at "
                "fetch, rank; on later requests that cut p99 by 11.0%"
            ),
        ),
        (
            planning.CopiesRefused(
                (planning.StageLoad("rank", 0.7, 0.42), planning.StageLoad("fetch", 0.6, None))
            ),
            (
                "no copies where replicas are so busy that copies make the tail worse: "
                "rank (70% busy, copies hurt from 42%), fetch (60% busy)"
            ),
        ),
        (
            planning.CopiesHurtAtHigherLoad((planning.StageLoad("rank", 0.3, 0.42),)),
            "copies help at this load and would hurt at a higher one: rank (30% busy, from 42%)",
        ),
        (
            profile.IdempotenceUnknown(("post:write",)),
            (
                "traces do not record which calls may run twice; exclude stages that write by "
                "--once STAGE. Copies go to: post:write"
            ),
        ),
        (
            profile.StagesChanged(tuple(Drift(name, 9.5, 0.05, 0.1, 0.001) for name in "abcde")),
            (
                "the service changed while it was traced (a: 5.0% of the calls took longer than 9.5 ms in the "
                "earlier half, 10.0% in the later; b: 5.0% of the calls took longer than 9.5 ms in the earlier "
                "half, 10.0% in the later; c: 5.0% of the calls took longer than 9.5 ms in the earlier half, "
                "10.0% in the later; and 2 more stages): trace it again, or fit with --half-life"
            ),
        ),
        (
            apportion.GainsUncertain({"rank": 0.25}),
            "few slow requests were seen, so gains count in part; certain share of the gain: rank 25%",
        ),
        (
            partial.FewShards("wide", 8, 0.001),
            (
                "wide: with 8 shards a loss of 0.10% lets 1 request in 125 go on without one of them; a rule "
                "that waits for a share of the shards cannot use that, so the cut-off and the wait decide"
            ),
        ),
        (
            load.LeversNotSimulated(tuple("abcdefgh")),
            (
                "only reissues are simulated; partial answers and catch-up are left out: a, b, c, d, e, f and 2 "
                "more"
            ),
        ),
    ],
)
def test_words(note: planning.Note, words: str) -> None:
    assert note_words(note) == words


def test_json_has_the_facts_beside_the_words() -> None:
    refused = planning.CopiesRefused((planning.StageLoad("rank", 0.7, None),))
    [summary] = note_summaries([refused])
    assert json.loads(json.dumps(summary)) == {
        "kind": "copies_refused",
        "stages": [{"stage": "rank", "utilisation": 0.7, "hurts_from": None}],
        "text": note_words(refused),
    }
