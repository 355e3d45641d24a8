"""World of the comparison of first items: its times are the published ones, and its accounts are right."""

from __future__ import annotations

import pytest

from benchmarks.in_process.bench_first_item import Turn, ratio_row, turn
from benchmarks.in_process.first_item_world import FIRST_SET, NORMAL, SECOND_SET, Published, Times

SETS = pytest.mark.parametrize("times", [FIRST_SET, SECOND_SET], ids=lambda times: times.name)


@SETS
def test_drawn_times_have_the_published_quantiles(times: Times) -> None:
    for published in (times.retrieve, times.rerank, times.first, times.between):
        for share, ms in published.quantiles:
            assert published.at(NORMAL.inv_cdf(share)) == pytest.approx(ms)
        scores = [number / 10 for number in range(-60, 61)]
        drawn = [published.at(score) for score in scores]
        assert drawn == sorted(drawn)
        assert drawn[0] >= published.shortest_ms
        assert drawn[-1] <= published.longest_ms


def test_two_quantiles_give_a_lognormal_time() -> None:
    published = Published(((0.5, 10.0), (0.99, 40.0)))
    assert published.at(2 * NORMAL.inv_cdf(0.99)) == pytest.approx(160.0)
    assert published.at(-NORMAL.inv_cdf(0.99)) == pytest.approx(2.5)


@SETS
def test_a_turn_without_copies_spends_nothing_and_runs_alike_again(times: Times) -> None:
    first, again, other = (turn(times, 0.5, None, 20, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.extra == 0.0


def test_the_plan_is_ahead_only_if_the_whole_interval_is() -> None:
    ours = [Turn(100.0, 0.0)] * 10
    ahead = ratio_row("p99", "even", ours, [Turn(101.0 + number, 0.0) for number in range(10)], judged=True)
    mixed = ratio_row(
        "p99", "even", ours, [Turn(90.0 + 4 * number, 0.0) for number in range(10)], judged=True
    )
    assert (ahead.met, mixed.met) == (True, False)
    assert mixed.ratio is not None
    assert mixed.ratio > 1
