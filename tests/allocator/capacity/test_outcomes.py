"""Correction of a search's goal by verified p99: trials that are too optimistic, or too pessimistic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kwiken.allocator.capacity import outcomes
from kwiken.allocator.capacity.search import FoundSizes
from kwiken.allocator.capacity.supply import StageSize

TARGET_MS = 110.0


def searched(goal: float, *, factor: float) -> FoundSizes:
    """Cheapest of 1 to 40 replicas whose p99 in the trials meets a goal; the trials err by a factor."""
    known = [(count, factor * (90.0 + 400.0 / count)) for count in range(1, 41)]
    count, p99 = next((one for one in known if one[1] <= goal), known[-1])
    return FoundSizes((StageSize(count, 0),), p99, float(count))


def truly(_: Any, sizes: Any, *, seed: int) -> Any:
    """Outcome of sizes in truth, which the trials miss by a factor."""
    del seed
    count = sizes[0].replicas
    return SimpleNamespace(sizes=sizes, cost=float(count), p99_ms=90.0 + 400.0 / count)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.2])
def test_a_target_in_reach_is_met_however_the_trials_err(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "checked", truly)
    met, nearest = outcomes.reached(
        None,  # type: ignore[arg-type] # only `checked` uses the trials
        lambda goal: searched(goal, factor=factor),
        TARGET_MS,
        seed=0,
    )
    assert nearest is None
    assert met is not None
    assert met.p99_ms <= TARGET_MS
    assert met.cost == 20.0


def test_trials_that_know_no_way_are_asked_for_their_least_p99_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the trials no number of replicas meets the target, and their first answer misses it in truth too."""

    def cheapest(goal: float) -> FoundSizes:
        met = searched(goal, factor=2.0)
        ten = FoundSizes((StageSize(10, 0),), 2.0 * 130.0, 10.0)
        return met if goal == 0.0 or met.p99_ms <= goal else ten

    monkeypatch.setattr(outcomes, "checked", truly)
    met, nearest = outcomes.reached(None, cheapest, TARGET_MS, seed=0)  # type: ignore[arg-type]
    assert nearest is None
    assert met is not None
    assert met.cost == 20.0


def test_the_cheapest_of_the_sizes_that_met_the_target_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A goal that is relaxed leads to sizes that cost more, as a greedy search may find them."""
    answers = iter([25, 30, 30])

    def cheapest(goal: float) -> FoundSizes:
        count = next(answers)
        return FoundSizes((StageSize(count, 0),), min(goal, 90.0 + 400.0 / count), float(count))

    monkeypatch.setattr(outcomes, "checked", truly)
    met, _ = outcomes.reached(None, cheapest, TARGET_MS, seed=0)  # type: ignore[arg-type]
    assert met is not None
    assert met.cost == 25.0


def test_the_nearest_is_returned_where_nothing_meets_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        outcomes,
        "checked",
        lambda _, sizes, seed: SimpleNamespace(sizes=sizes, cost=1.0, p99_ms=111.0 + seed),
    )
    met, nearest = outcomes.reached(
        None,  # type: ignore[arg-type] # only `checked` uses the trials
        lambda goal: searched(goal, factor=2.0),
        TARGET_MS,
        seed=0,
    )
    assert met is None
    assert nearest is not None
    assert nearest.p99_ms == 111.0


def goals_of(
    truths_ms: list[float], trials_ms: list[float], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[float], Any, Any]:
    """Goals that a search is asked for, one after another, where its answers and the truth are given."""
    goals: list[float] = []

    def cheapest(goal: float) -> FoundSizes:
        goals.append(goal)
        count = len(goals)
        return FoundSizes((StageSize(count, 0),), trials_ms[count - 1], float(10 - count))

    def checked(_: Any, sizes: Any, *, seed: int) -> Any:
        del seed
        count = sizes[0].replicas
        return SimpleNamespace(sizes=sizes, cost=float(10 - count), p99_ms=truths_ms[count - 1])

    monkeypatch.setattr(outcomes, "checked", checked)
    met, nearest = outcomes.reached(None, cheapest, 100.0, seed=0)  # type: ignore[arg-type]
    return goals, met, nearest


def test_a_goal_is_relaxed_by_a_tenth_at_most_and_five_times(monkeypatch: pytest.MonkeyPatch) -> None:
    goals, met, nearest = goals_of([50.0] * 9, [90.0] * 9, monkeypatch)
    assert goals == pytest.approx([100.0, 110.0, 121.0, 133.1, 146.41])
    assert (met.cost, nearest) == (5.0, None)
    goals, met, _ = goals_of([96.0, 98.0], [90.0, 90.0], monkeypatch)
    assert goals == pytest.approx([100.0, 100.0 / 0.96])
    assert met.cost == 8.0


@pytest.mark.parametrize(("truth_ms", "rounds"), [(97.1, 1), (96.9, 2), (97.0, 2)])
def test_a_p99_near_the_target_is_near_enough(
    truth_ms: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    goals, _, _ = goals_of([truth_ms, 99.0], [90.0, 90.0], monkeypatch)
    assert len(goals) == rounds


def test_a_goal_is_relaxed_after_sizes_that_met_the_target_and_not_after_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the trials know no way, the sizes of their least p99 count as met."""
    goals, met, nearest = goals_of([120.0, 50.0, 98.0], [95.0, 75.0, 90.0], monkeypatch)
    assert goals == pytest.approx([100.0, 95.0 / 1.2])
    assert (met.p99_ms, nearest) == (50.0, None)
    goals, met, nearest = goals_of([120.0, 50.0, 98.0], [200.0, 150.0, 160.0], monkeypatch)
    assert goals == pytest.approx([100.0, 0.0, 165.0])
    assert (met.p99_ms, nearest) == (98.0, None)


def test_the_search_ends_when_it_finds_the_same_sizes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    goals: list[float] = []

    def cheapest(goal: float) -> FoundSizes:
        goals.append(goal)
        return FoundSizes((StageSize(2),), 90.0, 2.0)

    for truth_ms in (120.0, 50.0):
        goals.clear()
        outcome: Any = SimpleNamespace(p99_ms=truth_ms, cost=2.0)
        monkeypatch.setattr(outcomes, "checked", lambda *_, seed, outcome=outcome: outcome)
        found = outcomes.reached(None, cheapest, 100.0, seed=0)  # type: ignore[arg-type]
        assert len(goals) == 2
        assert [one is outcome for one in found] == [truth_ms <= 100.0, truth_ms > 100.0]


def test_of_sizes_that_cost_the_same_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were found for a stricter goal."""
    counts = iter(range(1, 9))

    def checked(_: Any, sizes: Any, *, seed: int) -> Any:
        del seed
        return SimpleNamespace(p99_ms=50.0 + sizes[0].replicas, cost=2.0)

    monkeypatch.setattr(outcomes, "checked", checked)
    met, _ = outcomes.reached(
        None,  # type: ignore[arg-type] # only `checked` uses the trials
        lambda goal: FoundSizes((StageSize(next(counts)),), 90.0, 2.0),
        100.0,
        seed=0,
    )
    assert met is not None
    assert met.p99_ms == 51.0


def test_sizes_whose_copies_overload_a_stage_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "verify", lambda *_, seed: None)
    found = outcomes.reached(
        None,  # type: ignore[arg-type] # only `verify` uses the trials
        lambda goal: FoundSizes((StageSize(2),), 90.0, 2.0),
        100.0,
        seed=0,
    )
    assert found == (None, None)


def test_sizes_that_just_meet_the_goal_in_the_trials_tighten_the_goal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goals, met, _ = goals_of([125.0, 98.0], [100.0, 75.0], monkeypatch)
    assert goals == pytest.approx([100.0, 80.0])
    assert met.p99_ms == 98.0
    goals, met, _ = goals_of([100.0, 98.0], [100.0, 75.0], monkeypatch)
    assert goals == [100.0]
    assert met.p99_ms == 100.0


def test_a_goal_is_tightened_by_what_the_truth_exceeds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    goals, met, nearest = goals_of([120.0, 105.0, 98.0], [95.0, 80.0, 75.0], monkeypatch)
    assert goals == pytest.approx([100.0, 95.0 / 1.2, 0.0])
    assert (met.p99_ms, nearest) == (98.0, None)
    goals, met, nearest = goals_of([120.0, 105.0, 98.0], [95.0, 79.0, 75.0], monkeypatch)
    assert goals == pytest.approx([100.0, 95.0 / 1.2, 79.0 / 1.05])
    assert met.p99_ms == 98.0
    goals, met, nearest = goals_of([120.0, 104.0, 105.0, 101.0], [200.0, 150.0, 150.0, 150.0], monkeypatch)
    assert goals == [100.0, 0.0]
    assert met is None
    assert nearest.p99_ms == 104.0
    _, _, nearest = goals_of([104.0, 104.0], [200.0, 150.0], monkeypatch)
    assert nearest.cost == 9.0  # of two that are as near the first
