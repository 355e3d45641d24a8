"""Reproduction of HCloud: every part is there, small parts run, orders that fail are marked."""

from __future__ import annotations

from papers.figures.rows import Reproduction, run
from papers.hcloud.better import out_of_sample
from papers.sources import reproduction


def test_parts_and_their_jobs_grow_with_the_seeds() -> None:
    one, three = reproduction("hcloud", seeds=1), reproduction("hcloud", seeds=3)
    assert [part.name for part in one.parts] == [
        *("strategies", "high variability", "costs", "policies"),
        *(f"sweep of {kind}" for kind in ("spin-up", "load", "retention", "share")),
        *("variability", "out of sample", "beyond"),
    ]
    for few, many in zip(one.parts, three.parts, strict=True):
        assert len(many.jobs) == 3 * len(few.jobs)


def test_small_parts_run() -> None:
    whole = reproduction("hcloud", seeds=1)
    small = tuple(part for part in whole.parts if part.name in {"variability", "out of sample"})
    rows = run(Reproduction(whole.name, whole.title, small)).rows
    assert {row.figure for row in rows} == {"Figure 1", "Figure 2", "Better (d)"}
    by_metric = {row.metric: row.ours for row in rows}
    assert by_metric["order: batch: 16 cores vary least, by at most 3%, seeds of 1"] == 1


def test_a_decision_is_near_hindsight_on_loads_that_were_not_used() -> None:
    for shape in ("shop", "batch"):
        for seed in range(4):
            assert out_of_sample(shape, 1.6, seed)["decided"] <= 0.03
