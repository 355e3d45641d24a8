"""Reproduction of ARQ: every part is there, small parts run, and orders that fail are marked."""

from __future__ import annotations

from papers.figures.rows import Reproduction, run
from papers.sources import reproduction

PARTS = [
    *("low", "phases", "phases, even arrivals", "oversubscribed", "cores over time", "chances"),
    *("number of lines", "order inside a line", "1,000 servers"),
    *("variants, phases", "variants, oversubscribed", "ablations, phases", "ablations, oversubscribed"),
    *("head of line", "not reproduced"),
]


def test_parts_and_their_jobs_grow_with_the_seeds() -> None:
    one, three = reproduction("arq", seeds=1), reproduction("arq", seeds=3)
    assert [part.name for part in one.parts] == PARTS
    grown = {part.name for part in one.parts if part.jobs} - {"cores over time"}
    for few, many in zip(one.parts, three.parts, strict=True):
        assert len(many.jobs) == len(few.jobs) * (3 if few.name in grown else 1)


def test_small_parts_run() -> None:
    whole = reproduction("arq", seeds=1)
    small = {"head of line", "not reproduced"}
    found = run(Reproduction(whole.name, whole.title, tuple(one for one in whole.parts if one.name in small)))
    by_metric = {row.metric: row.ours for row in found.rows}
    strict, lent = "Kueue #4809, strict head: ", "Kueue #4809, budget: "
    assert by_metric[lent + "mean wait of borrowers, s"] < by_metric[strict + "mean wait of borrowers, s"]
    assert by_metric[lent + "slots in use, %"] > by_metric[strict + "slots in use, %"]
    assert {one.figure for one in found.missing} == {"Figure 6.4"}
