"""Report sections on partial answers and catch-up."""

from __future__ import annotations

import msgspec

from kwiken.apps.report.model.page import Section, Table
from kwiken.apps.report.sections.headline import summary
from kwiken.apps.report.sections.levers import other_levers
from kwiken.apps.report.sections.spend import spending
from kwiken.apps.report.sections.views import Material
from kwiken.model.plan.plan import (
    Budgets,
    CatchUpPolicy,
    Costs,
    Expected,
    Ladder,
    PartialPolicy,
    Plan,
    StagePlan,
)
from kwiken.model.service.stage import Reissue

PLAN = Plan(
    version=1,
    service="shop",
    created="2025-01-02T03:04:05Z",
    profile="sha256:0",
    budgets=Budgets(reissue=0.05, utility_loss=0.01, catch_up=0.02),
    cost=Costs(model="busy", stages={"lookup": 0.6, "rank": 0.4}),
    stages={
        "lookup": StagePlan(
            reissue=Reissue(after_ms=12.5, fraction=0.04),
            partial=PartialPolicy(cutoff_ms=80.0, wait_ms=5.0, progress=0.75, loss=0.004),
            catch_up=CatchUpPolicy(after_ms=120.0, threads=3, priority=True, reissue=True),
        ),
        "rank": StagePlan(catch_up=CatchUpPolicy(after_ms=120.0, priority=True)),
    },
    expected=Expected(
        before=Ladder(p99_ms=180),
        after=Ladder(p99_ms=90),
        spent=Budgets(reissue=0.024, utility_loss=0.004, catch_up=0.015),
    ),
)


def tables(section: Section | None) -> list[Table]:
    assert section is not None
    return [cell for row in section.rows for cell in row.parts if isinstance(cell, Table)]


def test_stop_rules_and_help_are_shown_by_stage() -> None:
    partial, late = tables(other_levers(Material(plan=PLAN)))
    assert partial.head[-1] == "utility lost"
    assert partial.body == (("lookup", "80.0 ms", "75.0% and 5.00 ms more", "0.40%"),)
    assert late.body == (
        ("lookup", "120 ms", "at once", "3", "yes"),
        ("rank", "120 ms", "\N{EN DASH}", "1", "yes"),
    )


def test_what_a_plan_does_not_do_is_not_shown() -> None:
    alone = msgspec.structs.replace(
        PLAN, stages={"lookup": StagePlan(reissue=Reissue(after_ms=12.5, fraction=0.04))}
    )
    assert other_levers(Material(plan=alone)) is None
    assert other_levers(Material()) is None


def test_each_budget_stands_beside_what_is_expected_of_it() -> None:
    (table,) = tables(spending(Material(plan=PLAN)))
    assert table.body == (
        ("reissues", "5.0%", "2.4%"),
        ("lost utility", "1.0%", "0.40%"),
        ("catch-up", "2.0%", "1.5%"),
    )


def test_the_summary_names_every_lever_with_a_cost() -> None:
    assert summary(Material(plan=PLAN))[0] == (
        "With 2.4% extra work, 1.5% more for late requests, and 0.40% of the answers' utility lost, p99 should "
        "go from 180 ms to 90.0 ms (\N{MINUS SIGN}50%)."
    )
