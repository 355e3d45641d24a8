"""Reproduction of ARQ: every part is there, small parts run, and orders that fail are marked."""

from __future__ import annotations

from papers.figures.rows import Reproduction, run
from papers.sources import reproduction

PARTS = [
    *(
        "closed forms",
        "low",
        "phases",
        "phases, even arrivals",
        "oversubscribed",
        "cores over time",
        "chances",
    ),
    *(
        "number of lines",
        "order inside a line",
        "1,000 servers",
        "variants, phases",
        "variants, oversubscribed",
    ),
    *("ablations, phases", "ablations, oversubscribed", "head of line", "not reproduced"),
]


def test_parts_and_their_jobs_grow_with_the_seeds() -> None:
    one, three = reproduction("arq", seeds=1), reproduction("arq", seeds=3)
    assert [part.name for part in one.parts] == PARTS
    grown = {part.name for part in one.parts if part.jobs} - {"closed forms", "cores over time"}
    for few, many in zip(one.parts, three.parts, strict=True):
        assert len(many.jobs) == len(few.jobs) * (3 if few.name in grown else 1)


def test_small_parts_run() -> None:
    whole = reproduction("arq", seeds=1)
    small = {"closed forms", "head of line", "not reproduced"}
    found = run(Reproduction(whole.name, whole.title, tuple(one for one in whole.parts if one.name in small)))
    by_metric = {row.metric: row.ours for row in found.rows}
    assert by_metric["nodes of the local cluster"] == 40
    assert by_metric["cores of the local cluster"] == 178
    assert abs(by_metric["free server in the top pool within 56 s, %"] - 60) < 1
    assert {one.figure for one in found.missing} == {"Figure 6.4"}
